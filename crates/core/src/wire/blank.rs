//! Requests whose last word is empty. The backend fails on them without saying why.

use crate::{
    error::TurnError,
    model::{Item, Message, Part, Role},
    wire::json::invalid,
};

/// Refuses a conversation whose last turn of the user has nothing but white space in it; `param`
/// names the message.
///
/// # Errors
/// `InvalidValue` with the field.
pub(in crate::wire) fn check(
    items: &[Item],
    param: impl FnOnce() -> String,
) -> Result<(), TurnError> {
    if !is_blank(items) {
        return Ok(());
    }
    let text = "the message is empty or nothing but white space; send some text";
    Err(invalid(param(), text))
}

fn is_blank(items: &[Item]) -> bool {
    let mut messages = 0;
    for item in items.iter().rev() {
        match item {
            Item::Message(Message { role: Role::User, parts }) => {
                let blank =
                    |part: &Part| matches!(part, Part::Text(text) if text.trim().is_empty());
                if !parts.iter().all(blank) {
                    return false;
                }
                messages += 1;
            }
            Item::ToolResult(_) => return false,
            Item::Message(Message { role: Role::Assistant, .. })
            | Item::ToolCall(_)
            | Item::Reasoning(_) => break,
        }
    }
    messages > 0
}

#[cfg(test)]
#[path = "blank_tests.rs"]
mod tests;
