//! The system prompt and the messages of a request, in order, to system texts and items.

use serde_json::value::RawValue;

use super::types::{self, ContentBlock};
use crate::{
    error::TurnError,
    model::{Item, Message, Part, Reasoning, Role, ToolCall, ToolResult},
    wire::{
        json::{brief, invalid, is_set, required},
        lenient::{MaybeText, Object, TextOr},
    },
};

/// Claude Code's accounting, which it puts before its prompt. It changes from version to
/// version and says nothing to a model.
const BILLING: &str = "x-anthropic-billing-header:";

pub(super) type BlockContent<'a> = TextOr<Object<ContentBlock<'a>>>;

/// What the messages come to.
#[derive(Debug, Default)]
pub(super) struct MessagesConversation {
    pub(super) system: Vec<String>,
    pub(super) items: Vec<Item>,
    /// Tools that were defined on the way, with their paths.
    pub(super) tools: Vec<(String, types::MessagesTool)>,
    /// Parameters inside the messages that no backend honours.
    pub(super) ignored: Vec<&'static str>,
}

impl MessagesConversation {
    /// Takes the system prompt.
    pub(super) fn system(&mut self, given: Option<BlockContent<'_>>) -> Result<(), TurnError> {
        for text in self.plain("system", given)? {
            if !text.trim_start().starts_with(BILLING) {
                self.system.push(text);
            }
        }
        Ok(())
    }

    /// Adds the message at `messages[index]`.
    pub(super) fn push(
        &mut self,
        index: usize,
        message: types::InputMessage<'_>,
    ) -> Result<(), TurnError> {
        let path = format!("messages[{index}].content");
        if is_set(message.output_config, &["{}"]) {
            self.ignore("messages.output_config");
        }
        match message.role.as_deref() {
            Some("user") => self.push_user(&path, message.content),
            Some("assistant") => self.push_assistant(&path, message.content),
            Some("system") => self.push_system(&path, message.content),
            Some(other) => Err(invalid(
                format!("messages[{index}].role"),
                format!("unknown role `{}`; use user, assistant or system", brief(other)),
            )),
            None => Err(invalid(format!("messages[{index}].role"), "every message needs a `role`")),
        }
    }

    /// Instructions that begin the conversation belong to the system prompt. Later ones
    /// hold from their place on, and the prompt must stay what it was: they are sent where
    /// they stand.
    fn push_system(
        &mut self,
        path: &str,
        content: Option<BlockContent<'_>>,
    ) -> Result<(), TurnError> {
        let texts = self.plain(path, content)?;
        if self.items.is_empty() {
            self.system.extend(texts);
            return Ok(());
        }
        if texts.is_empty() {
            return Ok(());
        }
        let text = format!("<system_message>\n{}\n</system_message>", texts.join("\n"));
        self.say(Role::User, text);
        Ok(())
    }

    fn push_user(
        &mut self,
        path: &str,
        content: Option<BlockContent<'_>>,
    ) -> Result<(), TurnError> {
        let mut results = Vec::new();
        let mut parts = Vec::new();
        match content {
            None => {}
            Some(TextOr::Text(text)) => parts.push(Part::Text(text)),
            Some(TextOr::List(blocks)) => {
                for (place, Object(block)) in blocks.into_iter().enumerate() {
                    let path = format!("{path}[{place}]");
                    if block.r#type.as_deref() == Some("tool_result") {
                        results.push(Item::ToolResult(self.tool_result(&path, block)?));
                        continue;
                    }
                    parts.append(&mut self.pieces(&path, block)?);
                }
            }
        }
        parts.retain(|part| !matches!(part, Part::Text(text) if text.is_empty()));
        if parts.is_empty() && results.is_empty() {
            return Err(invalid(path.to_owned(), "a user message must not be empty"));
        }
        // Results answer what was said before; the rest of the message comes after them.
        self.items.append(&mut results);
        if !parts.is_empty() {
            self.items.push(Item::Message(Message { role: Role::User, parts }));
        }
        Ok(())
    }

    fn push_assistant(
        &mut self,
        path: &str,
        content: Option<BlockContent<'_>>,
    ) -> Result<(), TurnError> {
        let blocks = match content {
            None => return Ok(()),
            Some(TextOr::Text(text)) => {
                if !text.is_empty() {
                    self.say(Role::Assistant, text);
                }
                return Ok(());
            }
            Some(TextOr::List(blocks)) => blocks,
        };
        for (place, Object(block)) in blocks.into_iter().enumerate() {
            let path = format!("{path}[{place}]");
            match block.r#type.as_deref() {
                Some("text") => {
                    let text = text(&path, "text", block.text)?;
                    if !text.is_empty() {
                        self.say(Role::Assistant, text);
                    }
                }
                Some("thinking") => {
                    let text = block.thinking.and_then(|MaybeText(text)| text);
                    if let Some(text) = text.filter(|text| !text.is_empty()) {
                        self.items.push(Item::Reasoning(Reasoning { text }));
                    }
                }
                // Only its maker can read it.
                Some("redacted_thinking") => {}
                Some("tool_use") => {
                    self.items.push(Item::ToolCall(tool_call(&path, block)?));
                }
                Some("image" | "document" | "tool_result") => {
                    return Err(invalid(
                        format!("{path}.type"),
                        "images, documents and tool results belong in user messages",
                    ));
                }
                // Traces of tools that another provider ran, and whatever comes next.
                Some(_) => self.ignore("messages.content.type"),
                None => return Err(untyped(&path)),
            }
        }
        Ok(())
    }

    /// Adds to the last message, if it is of this role, or starts a new one.
    fn say(&mut self, role: Role, text: String) {
        let part = Part::Text(text);
        match self.items.last_mut() {
            Some(Item::Message(last)) if last.role == role => last.parts.push(part),
            _ => self.items.push(Item::Message(Message { role, parts: vec![part] })),
        }
    }

    fn tool_result(
        &mut self,
        path: &str,
        block: ContentBlock<'_>,
    ) -> Result<ToolResult, TurnError> {
        let call_id = required(
            block.tool_use_id,
            path,
            "tool_use_id",
            "a tool result needs the `tool_use_id` of the call it answers",
        )?;
        let mut content = Vec::new();
        match block.content {
            None => {}
            Some(TextOr::Text(text)) => content.push(Part::Text(text)),
            Some(TextOr::List(blocks)) => {
                for (place, Object(block)) in blocks.into_iter().enumerate() {
                    let path = format!("{path}.content[{place}]");
                    content.append(&mut self.pieces(&path, block)?);
                }
            }
        }
        Ok(ToolResult { call_id, content, is_error: block.is_error.unwrap_or(false) })
    }

    /// The texts of a place that takes nothing else. Blocks about something other
    /// than text are left out and listed.
    fn plain(
        &mut self,
        path: &str,
        content: Option<BlockContent<'_>>,
    ) -> Result<Vec<String>, TurnError> {
        let mut texts = Vec::new();
        match content {
            None => {}
            Some(TextOr::Text(text)) => texts.push(text),
            Some(TextOr::List(blocks)) => {
                for (place, Object(block)) in blocks.into_iter().enumerate() {
                    let path = format!("{path}[{place}]");
                    match block.r#type.as_deref() {
                        Some("text") => texts.push(text(&path, "text", block.text)?),
                        Some("image" | "document" | "tool_result" | "tool_use") => {
                            return Err(invalid(
                                format!("{path}.type"),
                                "instructions can only be text",
                            ));
                        }
                        Some("tool_addition" | "tool_removal") => self.tool_change(&path, block),
                        Some(_) => self.ignore("messages.content.type"),
                        None => return Err(untyped(&path)),
                    }
                }
            }
        }
        texts.retain(|text| !text.trim().is_empty());
        Ok(texts)
    }

    /// Tools of the request are offered from the start, so that only one that is defined
    /// right here has to be added. None is taken away: the conversation would have to be
    /// sent again, and the client answers for a call of a tool that it no longer has.
    pub(super) fn tool_change(&mut self, path: &str, block: ContentBlock<'_>) {
        let definition = block.tool.and_then(|Object(tool)| tool.definition);
        match (block.r#type.as_deref(), definition) {
            (Some("tool_addition"), Some(Object(tool))) => {
                self.tools.push((format!("{path}.tool.definition"), tool));
            }
            (Some("tool_addition"), None) => {}
            _ => self.ignore("tool_removal"),
        }
    }

    pub(super) fn ignore(&mut self, name: &'static str) {
        if !self.ignored.contains(&name) {
            self.ignored.push(name);
        }
    }
}

/// The text in this field of a block.
pub(super) fn text(path: &str, field: &str, text: Option<String>) -> Result<String, TurnError> {
    text.ok_or_else(|| invalid(format!("{path}.{field}"), format!("the block needs its `{field}`")))
}

fn tool_call(path: &str, block: ContentBlock<'_>) -> Result<ToolCall, TurnError> {
    let id = required(block.id, path, "id", "a tool call needs its `id`")?;
    let name = required(block.name, path, "name", "a tool call needs the `name` of its tool")?;
    let arguments = match block.input.map(RawValue::get) {
        None => "{}".to_owned(),
        Some(input) if input.starts_with('{') => input.to_owned(),
        Some(_) => {
            let text = "the `input` of a tool call must be an object";
            return Err(invalid(format!("{path}.input"), text));
        }
    };
    Ok(ToolCall { id, name, arguments })
}

pub(super) fn untyped(path: &str) -> TurnError {
    invalid(format!("{path}.type"), "every content block needs a `type`")
}

#[cfg(test)]
#[path = "content_tests.rs"]
mod tests;
