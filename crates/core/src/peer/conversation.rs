//! Rules about conversations that every wire follows when it writes one.

use std::borrow::Cow;

use crate::model::{Item, Message, Part, Role, Tool, ToolChoice, TurnRequest};

/// What a call without a result is answered with.
pub(crate) const NO_RESULT: &str = "The client sent no result for this call.";

/// What is asked when the conversation ends with an answer.
pub(crate) const GO_ON: &str = "Continue from exactly where you stopped. Repeat nothing.";

/// What is asked where the conversation ends with results.
pub(crate) const USE_RESULTS: &str = "Go on with the results above. Do not repeat the calls.";

/// The tools that the model may call.
pub(crate) fn offered(request: &TurnRequest) -> Cow<'_, [Tool]> {
    match &request.tool_choice {
        ToolChoice::None => Cow::Borrowed(&[]),
        ToolChoice::Auto | ToolChoice::Required => Cow::Borrowed(&request.tools),
        ToolChoice::Named(name) => {
            request.tools.iter().filter(|tool| tool.name == *name).cloned().collect()
        }
    }
}

/// The instructions, and the question if there is nothing but instructions: then it is
/// the last of them.
pub(crate) fn instructions(request: &TurnRequest) -> (&[String], Option<&str>) {
    match request.system.split_last() {
        Some((question, before)) if request.items.is_empty() => (before, Some(question)),
        _ => (&request.system, None),
    }
}

/// The rest of `words` after the first `known` bytes, as a message.
pub(crate) fn said(words: &str, known: usize) -> Option<Item> {
    let rest = words.get(known..).filter(|rest| !rest.trim().is_empty())?;
    let parts = vec![Part::Text(rest.to_owned())];
    Some(Item::Message(Message { role: Role::Assistant, parts }))
}
