//! A conversation as one text: a child gets everything at once, and its prompt knows
//! no roles. What was said before stands in tagged blocks, and the question comes last.

use super::Prompt;
use crate::{
    model::{Item, Role, ToolCall, TurnRequest},
    peer::{
        blocks::{BlockLimits, BlockWriter, block, escaped},
        conversation::{GO_ON, USE_RESULTS, instructions, offered, said},
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
    /// What was said since then, in the blocks of a prompt.
    pub(super) before: String,
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
    let mut writer = begin(scope, limits);
    let resumes = scope.resume.is_some();
    let mut items = scope.items(request);
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
    add_items(&mut writer, items, scope);
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

/// The blocks for what a run was sent and what was seen of its answer.
pub(super) fn sent(
    request: &TurnRequest,
    scope: &PromptScope,
    seen: &str,
    limits: BlockLimits,
) -> String {
    // An image would have to be kept, too.
    let mut writer = begin(scope, BlockLimits { images: false, ..limits });
    add_items(&mut writer, scope.items(request), scope);
    if let Some(text) = &scope.text {
        writer.push(block("user", "", &escaped(text)));
    }
    if let Some(item) = said(seen, 0) {
        writer.item(&item);
    }
    writer.into_blocks()
}

impl PromptScope {
    /// The items that are sent.
    fn items<'a>(&self, request: &'a TurnRequest) -> &'a [Item] {
        let covers = if self.resume.is_some() { self.covers } else { 0 };
        request.items.get(covers..).unwrap_or_default()
    }
}

/// A writer with what was said before.
fn begin(scope: &PromptScope, limits: BlockLimits) -> BlockWriter {
    let mut writer = BlockWriter::new(limits);
    if !scope.before.is_empty() {
        writer.push(scope.before.clone());
    }
    writer
}

/// Writes what the run does not know yet, up to these items.
fn add_items(writer: &mut BlockWriter, items: &[Item], scope: &PromptScope) {
    let is_among = |call: &ToolCall| {
        items.iter().any(|item| matches!(item, Item::ToolCall(other) if other.id == call.id))
    };
    for call in scope.calls.iter().filter(|call| !is_among(call)) {
        writer.call(call);
    }
    let said = scope.said.iter().filter(|_| scope.resume.is_none());
    for item in items.iter().chain(said) {
        writer.item(item);
    }
}

#[cfg(test)]
#[path = "prompt_tests.rs"]
mod tests;
