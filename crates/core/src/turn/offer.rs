//! The tools that a request offers, and what its results bring to a parked turn.

use crate::{
    guard::LoopGuard,
    model::{Item, Message, Part, Role, ToolChoice, TurnRequest},
};

/// This many refused requests in one leg are a loop of their own.
pub(crate) const STUBBORN: u32 = 64;

/// The question after an answer that lacks the required call.
pub(crate) const CALL_NOW: &str = "Call the tool now. Do not answer with text.";

/// Which of its tools a request offers to the model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Offer {
    #[default]
    All,
    None,
    One(String),
}

impl Offer {
    pub(crate) fn of(request: &TurnRequest) -> Self {
        match &request.tool_choice {
            ToolChoice::Auto | ToolChoice::Required => Self::All,
            ToolChoice::None => Self::None,
            ToolChoice::Named(name) => Self::One(name.clone()),
        }
    }
}

/// Whether `tool_choice` requires a call.
pub(crate) fn must_call(request: &TurnRequest) -> bool {
    matches!(request.tool_choice, ToolChoice::Required | ToolChoice::Named(_))
}

/// A stream that waits for results accepts nothing else, so a message of the user is sent with one
/// of them.
pub(crate) fn beside(messages: &[&Message]) -> Vec<Part> {
    let mut content = Vec::new();
    for part in messages.iter().flat_map(|message| &message.parts) {
        content.push(match part {
            Part::Text(text) => Part::Text(format!("<user_message>\n{text}\n</user_message>")),
            Part::Image(image) => Part::Image(image.clone()),
        });
    }
    content
}

/// What the new items of a request contain for a turn that waits for results.
pub(crate) struct Brought<'a> {
    /// There is an awaited result.
    pub(crate) any: bool,
    /// The user's messages next to the results.
    pub(crate) messages: Vec<&'a Message>,
}

impl<'a> Brought<'a> {
    pub(crate) fn new(items: &'a [Item], awaits: impl Fn(&str) -> bool) -> Self {
        let mut brought = Self { any: false, messages: Vec::new() };
        for item in items {
            match item {
                Item::ToolResult(result) => brought.any |= awaits(&result.call_id),
                // Messages before the results belong to the time before the calls.
                Item::Message(message) if brought.any && message.role == Role::User => {
                    brought.messages.push(message);
                }
                _ => {}
            }
        }
        brought
    }
}

/// Counts the new results, and adds a note to repeated ones that have room for it.
pub(crate) fn note_loops(
    loops: &mut LoopGuard,
    request: &mut TurnRequest,
    new: usize,
    has_room: impl Fn(&str) -> bool,
) {
    let mut user = false;
    for item in request.items.get_mut(new..).unwrap_or_default() {
        match item {
            Item::ToolResult(result) => {
                let note = loops.on_result(&result.call_id, result);
                if has_room(&result.call_id) {
                    result.content.extend(note.map(Part::Text));
                }
            }
            Item::Message(_) => user = true,
            Item::ToolCall(_) | Item::Reasoning(_) => {}
        }
    }
    if user {
        loops.on_user_message();
    }
}
