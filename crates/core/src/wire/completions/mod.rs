//! OpenAI's old Completions, for programs that never changed over: a prompt becomes the one
//! message of a chat turn, and its text the completion.
//!
//! The models are chat models: they answer the prompt, they do not continue it.

mod aggregate;
mod decode;
mod encode;
mod types;

pub use aggregate::CompletionCollector;
pub use decode::{decode, fuzz};
pub use encode::CompletionEncoder;

use crate::model::FinishReason;

/// The `id` of a reply, from random bytes.
#[must_use]
pub fn completion_id(random: [u8; 16]) -> String {
    format!("cmpl-{}", crate::model::ids::hex(&random))
}

/// Nothing in this dialect can call a tool: a turn that ends so has simply ended.
fn reason_word(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::Stop | FinishReason::StopSequence(_) | FinishReason::ToolCalls => "stop",
        FinishReason::Length => "length",
    }
}
