//! Recognises a conversation by what its client sends. A fingerprint of the past is
//! made from the client's view alone, and is the same whether it is made from the
//! events that went out or from the items that come back one request later.

mod chain;
mod marker;
mod setup;

pub use self::{
    chain::{Fingerprint, HistoryChain},
    marker::take_marker,
    setup::setup,
};
use crate::model::{Item, Role};

/// The index where the new part of a conversation begins: after the last item of the
/// assistant.
#[must_use]
pub fn split(items: &[Item]) -> usize {
    items.iter().rposition(is_assistants).map_or(0, |last| last + 1)
}

fn is_assistants(item: &Item) -> bool {
    match item {
        Item::Message(message) => message.role == Role::Assistant,
        Item::ToolCall(_) | Item::Reasoning(_) => true,
        Item::ToolResult(_) => false,
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
