//! Anthropic's Messages: bytes to a [`TurnRequest`], events to an event stream or to one
//! message.
//!
//! [`TurnRequest`]: crate::model::TurnRequest

mod aggregate;
mod blocks;
mod content;
mod decode;
mod encode;
mod error;
mod pieces;
#[cfg(test)]
mod testing;
mod thinking;
mod tools;
mod types;

pub use aggregate::MessagesCollector;
pub use decode::{MessagesRequest, decode, decode_count, fuzz};
pub use encode::MessagesEncoder;
pub use error::AnthropicErrorBody;
pub use thinking::Thinking;

/// The `id` of a reply, from random bytes.
#[must_use]
pub fn message_id(random: [u8; 16]) -> String {
    format!("msg_{}", crate::model::ids::hex(&random))
}
