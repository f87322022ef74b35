//! The messages of a chat request, in order, to system texts and items.

use super::types::{self, CalledFunction};
use crate::{
    error::TurnError,
    model::{Image, Item, Message, Part, Reasoning, Role, ToolCall, ToolContent, ToolResult},
    wire::{
        file::{self, InlineFile},
        freeform,
        image::from_data_url,
        json::{invalid, unsupported},
        lenient::{MaybeText, Object, TextOr, WordOr},
        surrogates::replace_lone_in,
    },
};

/// What the messages come to.
#[derive(Debug, Default)]
pub(super) struct ChatConversation {
    pub(super) system: Vec<String>,
    pub(super) items: Vec<Item>,
}

/// One element of a content list, once it is understood.
enum ChatPiece {
    Text(String),
    Thinking(String),
    Image(Image),
}

impl ChatConversation {
    /// Adds the message at `messages[index]`.
    pub(super) fn push(
        &mut self,
        index: usize,
        message: types::ChatMessage<'_>,
    ) -> Result<(), TurnError> {
        let at = |field: &str| format!("messages[{index}].{field}");
        match message.role.as_deref() {
            Some("system" | "developer") => self.push_system(index, message.content),
            Some("user") => self.push_user(index, message.content),
            Some("assistant") => self.push_assistant(index, message),
            Some("tool") => self.push_tool(index, message),
            Some("function") => Err(unsupported(
                at("role"),
                "messages of role `function` are not supported; \
                 use `tools`, and answer calls with role `tool`",
            )),
            Some(other) => Err(invalid(
                at("role"),
                format!(
                    "unknown role `{}`; use system, developer, user, assistant or tool",
                    other.chars().take(64).collect::<String>()
                ),
            )),
            None => Err(invalid(at("role"), "every message needs a `role`".to_owned())),
        }
    }

    fn push_system(
        &mut self,
        index: usize,
        content: Option<TextOr<Object<types::ChatPart>>>,
    ) -> Result<(), TurnError> {
        let mut text = String::new();
        for (place, piece) in pieces(index, content)?.into_iter().enumerate() {
            match piece {
                ChatPiece::Text(piece) => {
                    if !text.is_empty() {
                        text.push('\n');
                    }
                    text.push_str(&piece);
                }
                ChatPiece::Thinking(_) => {}
                ChatPiece::Image(_) => return Err(misplaced_image(index, place)),
            }
        }
        if !text.is_empty() {
            self.system.push(text);
        }
        Ok(())
    }

    fn push_user(
        &mut self,
        index: usize,
        content: Option<TextOr<Object<types::ChatPart>>>,
    ) -> Result<(), TurnError> {
        if content.is_none() {
            return Err(invalid(
                format!("messages[{index}].content"),
                "a user message needs `content`".to_owned(),
            ));
        }
        let parts: Vec<Part> = pieces(index, content)?
            .into_iter()
            .filter_map(|piece| match piece {
                ChatPiece::Text(text) => Some(Part::Text(text)),
                ChatPiece::Image(image) => Some(Part::Image(image)),
                ChatPiece::Thinking(_) => None,
            })
            .collect();
        self.items.push(Item::Message(Message { role: Role::User, parts }));
        Ok(())
    }

    fn push_assistant(
        &mut self,
        index: usize,
        message: types::ChatMessage<'_>,
    ) -> Result<(), TurnError> {
        if message.function_call.is_some() {
            return Err(unsupported(
                format!("messages[{index}].function_call"),
                "`function_call` is not supported; use `tool_calls`",
            ));
        }
        if message.audio.is_some() {
            return Err(unsupported(format!("messages[{index}].audio"), "audio is not supported"));
        }
        let mut reasoning: String = [message.reasoning_content, message.reasoning]
            .into_iter()
            .find_map(|field| {
                field.and_then(|MaybeText(text)| text).filter(|text| !text.is_empty())
            })
            .unwrap_or_default();
        let mut parts = Vec::new();
        for (place, piece) in pieces(index, message.content)?.into_iter().enumerate() {
            match piece {
                ChatPiece::Text(text) if text.is_empty() => {}
                ChatPiece::Text(text) => parts.push(Part::Text(text)),
                ChatPiece::Thinking(text) => reasoning.push_str(&text),
                ChatPiece::Image(_) => return Err(misplaced_image(index, place)),
            }
        }
        let refusal = message.refusal.and_then(|MaybeText(text)| text);
        if let Some(refusal) = refusal.filter(|text| parts.is_empty() && !text.is_empty()) {
            parts.push(Part::Text(refusal));
        }
        if !reasoning.is_empty() {
            self.items.push(Item::Reasoning(Reasoning { text: reasoning }));
        }
        if !parts.is_empty() {
            self.items.push(Item::Message(Message { role: Role::Assistant, parts }));
        }
        for (place, Object(call)) in message.tool_calls.into_iter().flatten().enumerate() {
            let call = tool_call(&format!("messages[{index}].tool_calls[{place}]"), call)?;
            self.items.push(Item::ToolCall(call));
        }
        Ok(())
    }

    fn push_tool(
        &mut self,
        index: usize,
        message: types::ChatMessage<'_>,
    ) -> Result<(), TurnError> {
        let Some(call_id) = message.tool_call_id.filter(|id| !id.is_empty()) else {
            return Err(invalid(
                format!("messages[{index}].tool_call_id"),
                "a tool message needs the `tool_call_id` of the call it answers".to_owned(),
            ));
        };
        let content = pieces(index, message.content)?
            .into_iter()
            .filter_map(|piece| match piece {
                ChatPiece::Text(text) => Some(ToolContent::Text(text)),
                ChatPiece::Image(image) => Some(ToolContent::Image(image)),
                ChatPiece::Thinking(_) => None,
            })
            .collect();
        self.items.push(Item::ToolResult(ToolResult { call_id, content, is_error: false }));
        Ok(())
    }
}

fn pieces(
    index: usize,
    content: Option<TextOr<Object<types::ChatPart>>>,
) -> Result<Vec<ChatPiece>, TurnError> {
    match content {
        None => Ok(Vec::new()),
        Some(TextOr::Text(text)) => Ok(vec![ChatPiece::Text(text)]),
        Some(TextOr::List(parts)) => parts
            .into_iter()
            .enumerate()
            .map(|(place, Object(part))| piece(index, place, part))
            .collect(),
    }
}

fn piece(index: usize, place: usize, part: types::ChatPart) -> Result<ChatPiece, TurnError> {
    let at = |field: &str| format!("messages[{index}].content[{place}].{field}");
    match part.r#type.as_deref() {
        Some("text" | "input_text" | "output_text") => match part.text {
            Some(text) => Ok(ChatPiece::Text(text)),
            None => Err(invalid(at("text"), "a text part needs `text`".to_owned())),
        },
        Some("image_url" | "input_image") => {
            let (url, param) = match part.image_url {
                Some(WordOr::Word(url)) => (Some(url), at("image_url")),
                Some(WordOr::Object(image)) => (image.url, at("image_url.url")),
                None => (None, at("image_url")),
            };
            match url {
                Some(url) => from_data_url(&url, &param).map(ChatPiece::Image),
                None => Err(invalid(param, "an image part needs `image_url.url`".to_owned())),
            }
        }
        Some("refusal") => Ok(ChatPiece::Text(part.refusal.unwrap_or_default())),
        Some("thinking" | "reasoning") => {
            let text = part.thinking.and_then(|MaybeText(text)| text).or(part.text);
            Ok(ChatPiece::Thinking(text.unwrap_or_default()))
        }
        Some("file") => {
            let Some(Object(given)) = part.file else {
                return Err(invalid(at("file"), "a file part needs its `file`".to_owned()));
            };
            file_piece(&given, &at("file"))
        }
        Some("input_file") => {
            let given = types::ChatFile {
                file_id: part.file_id,
                file_data: part.file_data,
                filename: part.filename,
            };
            file_piece(&given, &format!("messages[{index}].content[{place}]"))
        }
        Some(kind @ ("input_audio" | "audio" | "video_url")) => Err(unsupported(
            at("type"),
            format!("content of type `{kind}` is not supported; send text, images or files"),
        )),
        Some(other) => Err(invalid(
            at("type"),
            format!(
                "unknown content type `{}`; use text, image_url or file",
                other.chars().take(64).collect::<String>()
            ),
        )),
        None => Err(invalid(at("type"), "every content part needs a `type`".to_owned())),
    }
}

fn file_piece(given: &types::ChatFile, path: &str) -> Result<ChatPiece, TurnError> {
    let file = InlineFile {
        data: given.file_data.as_deref(),
        name: given.filename.as_deref(),
        has_id: given.file_id.is_some(),
        has_url: false,
    };
    Ok(match file::read(&file, path)? {
        file::Content::Text(text) => ChatPiece::Text(text),
        file::Content::Image(image) => ChatPiece::Image(image),
    })
}

fn tool_call(path: &str, call: types::ChatToolCall<'_>) -> Result<ToolCall, TurnError> {
    let Some(id) = call.id.filter(|id| !id.is_empty()) else {
        return Err(invalid(format!("{path}.id"), "a tool call needs its `id`".to_owned()));
    };
    match call.r#type.as_deref() {
        None | Some("function" | "") => {}
        Some("custom") => {
            let custom = call.custom.map(|Object(custom)| custom).unwrap_or_default();
            let Some(name) = custom.name.filter(|name| !name.is_empty()) else {
                let text = "a tool call needs the `name` of its tool";
                return Err(invalid(format!("{path}.custom.name"), text.to_owned()));
            };
            let arguments = freeform::arguments(&custom.input.unwrap_or_default());
            return Ok(ToolCall { id, name, arguments });
        }
        Some(kind) => {
            return Err(unsupported(
                format!("{path}.type"),
                format!(
                    "tool calls of type `{}` are not supported; use `function` or `custom`",
                    kind.chars().take(64).collect::<String>()
                ),
            ));
        }
    }
    let CalledFunction { name, arguments } = call.function.map(|Object(f)| f).unwrap_or_default();
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        return Err(invalid(
            format!("{path}.function.name"),
            "a tool call needs the `name` of its function".to_owned(),
        ));
    };
    let arguments = match arguments.map(serde_json::value::RawValue::get) {
        None => "{}".to_owned(),
        Some(raw) if raw.starts_with('"') => {
            serde_json::from_str(raw).map(replace_lone_in).map_err(|_| {
                invalid(
                    format!("{path}.function.arguments"),
                    "the arguments are not a valid string".to_owned(),
                )
            })?
        }
        Some(raw) => raw.to_owned(),
    };
    Ok(ToolCall { id, name, arguments })
}

fn misplaced_image(index: usize, place: usize) -> TurnError {
    invalid(
        format!("messages[{index}].content[{place}]"),
        "images belong in user and tool messages only".to_owned(),
    )
}

#[cfg(test)]
#[path = "messages_tests.rs"]
mod tests;
