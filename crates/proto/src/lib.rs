//! Generated protobuf messages. The sources are in `proto/`; `cargo xtask codegen`
//! writes `src/generated/`, which is committed so that a build needs no compiler
//! for protobuf. Nothing here is edited by hand, hence no lints.
#![allow(warnings, clippy::all, clippy::pedantic)]

pub use bytes::Bytes;
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
