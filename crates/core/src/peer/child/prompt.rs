//! A conversation as one text: a child gets everything at once, and its prompt knows
//! no roles. What was said before stands in tagged blocks, and the question comes last.

use std::{borrow::Cow, fmt::Write as _};

use super::{Prompt, cap::cap};
use crate::{
    model::{Image, Item, Message, Part, Role, ToolCall, ToolResult, TurnRequest},
    peer::conversation::{GO_ON, instructions, offered, said},
};

/// Our own tags. Texts of the conversation cannot open or close one.
const TAGS: [&str; 6] = ["system", "conversation", "user", "assistant", "tool_call", "tool_result"];

const TOOLS: &str = "The user's tools are those of the MCP server `ibeam`. Call them for whatever \
                     has to be read, run or changed for the user.";

/// Where the conversation ends with results.
const USE_RESULTS: &str = "Go on with the results above.";

const HIDDEN_IMAGE: &str = "[an image that cannot be shown here]";

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

/// What may be in a prompt.
#[derive(Clone, Copy, Debug)]
pub(super) struct PromptLimits {
    pub(super) result_bytes: usize,
    /// The child can look at images.
    pub(super) images: bool,
}

pub(super) fn write(request: &TurnRequest, scope: &PromptScope, rules: PromptLimits) -> Prompt {
    let mut writer = PromptWriter::new(rules, scope);
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
    writer.items(items, scope);
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
    if !writer.blocks.is_empty() {
        let blocks = writer.blocks.join("\n");
        sections.push(format!("<conversation>\n{blocks}\n</conversation>"));
    }
    sections.push(match (last, question) {
        (Some(message), _) => writer.plain(message),
        (None, Some(question)) => question.to_owned(),
        (None, None) if ends_with_results => USE_RESULTS.to_owned(),
        (None, None) => GO_ON.to_owned(),
    });
    Prompt { text: sections.join("\n\n"), images: writer.images }
}

/// The blocks for what a run was told and what was seen of its answer.
pub(super) fn told(
    request: &TurnRequest,
    scope: &PromptScope,
    seen: &str,
    rules: PromptLimits,
) -> String {
    // An image would have to be kept, too.
    let mut writer = PromptWriter::new(PromptLimits { images: false, ..rules }, scope);
    writer.items(scope.items(request), scope);
    if let Some(text) = &scope.text {
        writer.blocks.push(block("user", "", &escaped(text)));
    }
    if let Some(item) = said(seen, 0) {
        writer.item(&item);
    }
    writer.blocks.join("\n")
}

impl PromptScope {
    /// The items that are told.
    fn items<'a>(&self, request: &'a TurnRequest) -> &'a [Item] {
        let covers = if self.resume.is_some() { self.covers } else { 0 };
        request.items.get(covers..).unwrap_or_default()
    }
}

struct PromptWriter {
    rules: PromptLimits,
    images: Vec<Image>,
    blocks: Vec<String>,
}

impl PromptWriter {
    fn new(rules: PromptLimits, scope: &PromptScope) -> Self {
        let before = Some(scope.before.clone()).filter(|before| !before.is_empty());
        Self { rules, images: Vec::new(), blocks: before.into_iter().collect() }
    }

    /// What the run does not know yet, up to these items.
    fn items(&mut self, items: &[Item], scope: &PromptScope) {
        let told = |call: &ToolCall| {
            items.iter().any(|item| matches!(item, Item::ToolCall(told) if told.id == call.id))
        };
        for call in scope.calls.iter().filter(|call| !told(call)) {
            self.call(call);
        }
        let said = scope.said.iter().filter(|_| scope.resume.is_none());
        for item in items.iter().chain(said) {
            self.item(item);
        }
    }

    fn item(&mut self, item: &Item) {
        match item {
            Item::Message(message) => {
                let text = self.plain(message);
                let tag = match message.role {
                    Role::User => "user",
                    Role::Assistant => "assistant",
                };
                self.blocks.push(block(tag, "", &escaped(&text)));
            }
            Item::ToolCall(call) => self.call(call),
            Item::ToolResult(result) => self.result(result),
            // Its reasoning is not sent again.
            Item::Reasoning(_) => {}
        }
    }

    fn call(&mut self, call: &ToolCall) {
        let named = format!(r#" id="{}" name="{}""#, quoted(&call.id), quoted(&call.name));
        let arguments = escaped(&call.arguments);
        self.blocks.push(format!("<tool_call{named}>{arguments}</tool_call>"));
    }

    fn result(&mut self, result: &ToolResult) {
        let mut named = format!(r#" id="{}""#, quoted(&result.call_id));
        if result.is_error {
            named.push_str(r#" is_error="true""#);
        }
        let content = cap(&result.content, self.rules.result_bytes);
        let texts = content.iter().map(|part| match part {
            Part::Text(text) => Cow::Borrowed(text.as_str()),
            Part::Image(image) => Cow::Owned(self.image(image)),
        });
        let text = texts.collect::<Vec<_>>().join("\n");
        self.blocks.push(format!("<tool_result{named}>{}</tool_result>", escaped(&text)));
    }

    /// A message without its role.
    fn plain(&mut self, message: &Message) -> String {
        let parts = message.parts.iter().map(|part| match part {
            Part::Text(text) => Cow::Borrowed(text.as_str()),
            Part::Image(image) => Cow::Owned(self.image(image)),
        });
        parts.collect::<Vec<_>>().join("\n")
    }

    /// Puts an image beside the text, and gives what stands in its place.
    fn image(&mut self, image: &Image) -> String {
        if !self.rules.images {
            return HIDDEN_IMAGE.to_owned();
        }
        self.images.push(image.clone());
        format!("[image {}]", self.images.len())
    }
}

fn block(tag: &str, named: &str, text: &str) -> String {
    format!("<{tag}{named}>\n{text}\n</{tag}>")
}

/// Text in which no tag of ours begins: a backslash stands behind the bracket.
fn escaped(text: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut from = 0;
    for (at, _) in text.match_indices('<') {
        let rest = text.get(at + 1..).unwrap_or_default();
        if begins_tag(rest.strip_prefix('/').unwrap_or(rest)) {
            out.push_str(text.get(from..=at).unwrap_or_default());
            out.push('\\');
            from = at + 1;
        }
    }
    if from == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(text.get(from..).unwrap_or_default());
    Cow::Owned(out)
}

fn begins_tag(rest: &str) -> bool {
    let rest = rest.trim_start();
    TAGS.iter().any(|tag| rest.get(..tag.len()).is_some_and(|word| word.eq_ignore_ascii_case(tag)))
}

/// For an attribute.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '<' | '>' | '&' => {
                // A `String` grows: no error is possible.
                let _ = write!(out, "&#{};", u32::from(c));
            }
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
#[path = "prompt_tests.rs"]
mod tests;
