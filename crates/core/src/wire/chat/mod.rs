//! OpenAI's Chat Completions: bytes to a [`TurnRequest`], events to chunks or to
//! one completion.
//!
//! [`TurnRequest`]: crate::model::TurnRequest

mod aggregate;
mod choice;
mod controls;
mod decode;
mod encode;
mod messages;
mod types;

#[cfg(test)]
mod custom_tests;
#[cfg(test)]
mod testing;

pub use aggregate::ChatCollector;
pub use decode::{ChatRequest, decode, decode_request, fuzz};
pub use encode::ChatEncoder;
pub use types::{ChatCompletion, OpenAiError, OpenAiErrorBody};
pub(in crate::wire) use types::{ChatUsage, StreamOptions};

/// The `id` of a reply, from random bytes.
#[must_use]
pub fn completion_id(random: [u8; 16]) -> String {
    format!("chatcmpl-{}", crate::model::ids::hex(&random))
}
