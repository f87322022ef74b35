//! Generated protobuf messages. The sources are in `proto/`; `cargo xtask codegen`
//! writes `src/generated/`, which is committed so that a build needs no compiler
//! for protobuf. Nothing here is edited by hand, hence no lints.
#![allow(warnings, clippy::all, clippy::pedantic)]

pub use bytes::Bytes;
use bytes::BytesMut;
pub use prost::{DecodeError, Message};

mod bounds;

pub use bounds::MAX_FIELDS;

/// `agent.v1`: the stream messages and everything inside them.
pub mod agent {
    include!("generated/agent.v1.rs");
}

/// `aiserver.v1`: the HTTP/1.1 companion, the rich model list, error details.
pub mod aiserver {
    include!("generated/aiserver.v1.rs");
}

/// Which field numbers the schema knows, for the drift alarm in `core::codec::pbwalk`.
pub mod fields {
    /// One message type: its full name and its fields, sorted by number.
    #[derive(Debug)]
    pub struct MessageInfo {
        pub name: &'static str,
        pub fields: &'static [FieldInfo],
    }

    /// One field: number, and the index in [`MESSAGES`] when it holds a message.
    #[derive(Debug)]
    pub struct FieldInfo {
        pub number: u32,
        pub name: &'static str,
        pub message: Option<usize>,
    }

    include!("generated/fields.rs");
}

/// Reads and writes a message. prost's own trait is generic over its buffers, so each crate that
/// used it compiled the whole schema again; these methods are compiled here, once.
pub trait Wire: Sized {
    /// # Errors
    /// The bytes are not a message, or one of more than [`MAX_FIELDS`] fields.
    fn from_wire(bytes: Bytes) -> Result<Self, WireError>;

    fn to_wire(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(self.wire_len());
        self.write_wire(&mut out);
        out.freeze()
    }

    fn write_wire(&self, out: &mut BytesMut);

    /// How many bytes [`Wire::write_wire`] writes.
    fn wire_len(&self) -> usize;
}

/// Why bytes were not decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WireError {
    Malformed(DecodeError),
    TooManyFields,
}

impl std::fmt::Display for WireError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Malformed(error) => error.fmt(f),
            Self::TooManyFields => write!(f, "the message has more than {MAX_FIELDS} fields"),
        }
    }
}

impl std::error::Error for WireError {}

/// The messages that stand alone somewhere: on a stream, in a blob, in an answer.
macro_rules! wire {
    ($($package:ident::$message:ident),* $(,)?) => {
        $(impl Wire for $package::$message {
            fn from_wire(bytes: Bytes) -> Result<Self, WireError> {
                let name = concat!(stringify!($package), ".v1.", stringify!($message));
                if !bounds::fits(name, &bytes) {
                    return Err(WireError::TooManyFields);
                }
                <Self as Message>::decode(bytes).map_err(WireError::Malformed)
            }

            fn write_wire(&self, out: &mut BytesMut) {
                // A `BytesMut` grows, so this cannot run out of room.
                let _ = <Self as Message>::encode(self, out);
            }

            fn wire_len(&self) -> usize {
                <Self as Message>::encoded_len(self)
            }
        })*
    };
}

wire! {
    agent::AgentClientMessage,
    agent::AgentRunRequest,
    agent::AgentServerMessage,
    agent::ConversationStateStructure,
    agent::ConversationStep,
    agent::ConversationTurnStructure,
    agent::FetchArgs,
    agent::GetDefaultModelForCliResponse,
    agent::GetServerConfigResponse,
    agent::GetUsableModelsRequest,
    agent::GetUsableModelsResponse,
    agent::GrepArgs,
    agent::InteractionResponse,
    agent::LsArgs,
    agent::McpArgs,
    agent::NameAgentRequest,
    agent::NameAgentResponse,
    agent::ReadArgs,
    agent::RequestContextArgs,
    agent::ShellArgs,
    agent::UserMessage,
    agent::WriteArgs,
    aiserver::AvailableModelsRequest,
    aiserver::AvailableModelsResponse,
    aiserver::BidiAppendRequest,
    aiserver::BidiAppendResponse,
    aiserver::BidiRequestId,
    aiserver::ErrorDetails,
}
