//! A conversation as one text, for where the backend knows no roles: what was said before stands
//! in tagged blocks.

use std::{borrow::Cow, fmt::Write as _};

use super::cap::cap;
use crate::model::{Image, Item, Message, Part, Role, ToolCall, ToolResult};

/// Our own tags. Texts of the conversation cannot open or close one.
const TAGS: [&str; 6] = ["system", "conversation", "user", "assistant", "tool_call", "tool_result"];

pub(crate) const HIDDEN_IMAGE: &str = "[an image that cannot be shown here]";

/// What may be in the text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockLimits {
    pub(crate) result_bytes: usize,
    /// The model can look at images.
    pub(crate) images: bool,
}

/// Writes the blocks, and collects the images that belong to them.
#[derive(Debug)]
pub(crate) struct BlockWriter {
    limits: BlockLimits,
    images: Vec<Image>,
    blocks: Vec<String>,
}

impl BlockWriter {
    pub(crate) fn new(limits: BlockLimits) -> Self {
        Self { limits, images: Vec::new(), blocks: Vec::new() }
    }

    /// The blocks so far as a conversation, `None` without any, and the images of all texts.
    pub(crate) fn finish(self) -> (Option<String>, Vec<Image>) {
        let blocks = self.blocks.join("\n");
        let conversation = format!("<conversation>\n{blocks}\n</conversation>");
        ((!self.blocks.is_empty()).then_some(conversation), self.images)
    }

    pub(crate) fn into_blocks(self) -> String {
        self.blocks.join("\n")
    }

    /// Adds blocks as they are.
    pub(crate) fn push(&mut self, blocks: String) {
        self.blocks.push(blocks);
    }

    pub(crate) fn item(&mut self, item: &Item) {
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

    pub(crate) fn call(&mut self, call: &ToolCall) {
        let named = format!(r#" id="{}" name="{}""#, quoted(&call.id), quoted(&call.name));
        let arguments = escaped(&call.arguments);
        self.blocks.push(format!("<tool_call{named}>{arguments}</tool_call>"));
    }

    fn result(&mut self, result: &ToolResult) {
        let mut named = format!(r#" id="{}""#, quoted(&result.call_id));
        if result.is_error {
            named.push_str(r#" is_error="true""#);
        }
        let content = cap(&result.content, self.limits.result_bytes);
        let texts = content.iter().map(|part| match part {
            Part::Text(text) => Cow::Borrowed(text.as_str()),
            Part::Image(image) => Cow::Owned(self.image(image)),
        });
        let text = texts.collect::<Vec<_>>().join("\n");
        self.blocks.push(format!("<tool_result{named}>{}</tool_result>", escaped(&text)));
    }

    /// A message without its role.
    pub(crate) fn plain(&mut self, message: &Message) -> String {
        let parts = message.parts.iter().map(|part| match part {
            Part::Text(text) => Cow::Borrowed(text.as_str()),
            Part::Image(image) => Cow::Owned(self.image(image)),
        });
        parts.collect::<Vec<_>>().join("\n")
    }

    /// Puts an image beside the text, and gives what stands in its place.
    fn image(&mut self, image: &Image) -> String {
        if !self.limits.images {
            return HIDDEN_IMAGE.to_owned();
        }
        self.images.push(image.clone());
        format!("[image {}]", self.images.len())
    }
}

pub(crate) fn block(tag: &str, named: &str, text: &str) -> String {
    format!("<{tag}{named}>\n{text}\n</{tag}>")
}

/// Text in which no tag of ours begins: a backslash stands behind the bracket.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
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
