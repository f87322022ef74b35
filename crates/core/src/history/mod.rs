//! stub
use crate::model::{Item, Role};
#[must_use]
pub fn split(items: &[Item]) -> usize {
    items
        .iter()
        .rposition(|item| match item {
            Item::Message(m) => m.role == Role::Assistant,
            Item::ToolCall(_) | Item::Reasoning(_) => true,
            Item::ToolResult(_) => false,
        })
        .map_or(0, |at| at + 1)
}
