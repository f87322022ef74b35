//! A conversation as one text: a child gets everything at once, and its prompt knows
//! no roles. What was said before stands in tagged blocks, and the question comes last.

use super::Prompt;
use crate::{
    model::{Item, Role, ToolCall, TurnRequest},
    peer::{
        blocks::{BlockLimits, BlockWriter, block, escaped},
        conversation::{GO_ON, USE_RESULTS, instructions, offered},
    },
};

const TOOLS: &str = "The user's tools are those of the MCP server `ibeam`. Call them for whatever \
                     has to be read, run or changed for the user.";

/// What the prompt of a run has of a request.
#[derive(Clone, Debug, Default)]
pub(super) struct PromptScope {
    /// The session that the child resumes.
    pub(super) resume: Option<String>,
    /// How many items of the request it knows then.
    pub(super) covers: usize,
    /// Calls that it may not know, before the new items.
    pub(super) calls: Vec<ToolCall>,
    /// It was given another system prompt or other tools then.
    pub(super) new_setup: bool,
    /// What it answered to the request; only sent if it does not know.
    pub(super) said: Option<Item>,
    /// What is asked for beyond the request.
    pub(super) text: Option<String>,
}

pub(super) fn write(request: &TurnRequest, scope: &PromptScope, limits: BlockLimits) -> Prompt {
    let mut writer = BlockWriter::new(limits);
    let resumes = scope.resume.is_some();
    let covers = if resumes { scope.covers } else { 0 };
    let mut items = request.items.get(covers..).unwrap_or_default();
    let (system, mut question) = instructions(request);
    let mut last = None;
    if scope.text.is_some() {
        question = scope.text.as_deref();
    } else if let Some((Item::Message(message), before)) = items.split_last()
        && message.role == Role::User
    {
        last = Some(message);
        items = before;
    }
    let told = |call: &ToolCall| {
        items.iter().any(|item| matches!(item, Item::ToolCall(told) if told.id == call.id))
    };
    for call in scope.calls.iter().filter(|call| !told(call)) {
        writer.call(call);
    }
    let said = scope.said.iter().filter(|_| !resumes);
    for item in items.iter().chain(said) {
        writer.item(item);
    }
    let ends_with_results = matches!(items.last(), Some(Item::ToolResult(_)));

    let mut sections = Vec::new();
    if !resumes || scope.new_setup {
        if !system.is_empty() {
            sections.push(block("system", "", &escaped(&system.join("\n\n"))));
        }
        if !offered(request).is_empty() {
            sections.push(TOOLS.to_owned());
        }
    }
    let question = match (last, question) {
        (Some(message), _) => writer.plain(message),
        (None, Some(question)) => question.to_owned(),
        (None, None) if ends_with_results => USE_RESULTS.to_owned(),
        (None, None) => GO_ON.to_owned(),
    };
    let (conversation, images) = writer.finish();
    sections.extend(conversation);
    sections.push(question);
    Prompt { text: sections.join("\n\n"), images }
}

#[cfg(test)]
#[path = "prompt_tests.rs"]
mod tests;
