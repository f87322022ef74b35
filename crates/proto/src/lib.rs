//! Generated protobuf messages. The sources are in `proto/`; `cargo xtask codegen`
//! writes `src/generated/`, which is committed so that a build needs no compiler
//! for protobuf. Nothing here is edited by hand, hence no lints.
#![allow(warnings, clippy::all, clippy::pedantic)]

pub use bytes::Bytes;
use bytes::BytesMut;
pub use prost::{DecodeError, Message};

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
    /// The bytes are not a message.
    fn from_wire(bytes: Bytes) -> Result<Self, DecodeError>;

    fn to_wire(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(self.wire_len());
        self.write_wire(&mut out);
        out.freeze()
    }

    fn write_wire(&self, out: &mut BytesMut);

    /// How many bytes [`Wire::write_wire`] writes.
    fn wire_len(&self) -> usize;
}

/// The messages that stand alone somewhere: on a stream, in a blob, in an answer.
macro_rules! wire {
    ($($message:ty),* $(,)?) => {
        $(impl Wire for $message {
            fn from_wire(bytes: Bytes) -> Result<Self, DecodeError> {
                <Self as Message>::decode(bytes)
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
