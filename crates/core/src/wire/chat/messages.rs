//! The messages of a chat request, in order, to system texts and items.

use super::types::{self, CalledFunction, ChatPart};
use crate::{
    error::TurnError,
    model::{Item, Message, Part, Reasoning, Role, ToolCall, ToolResult},
    wire::{
        file::{self, InlineFile},
        freeform,
        image::from_data_url,
        json::{brief, invalid, required, unsupported},
        lenient::{MaybeText, Object, TextOr, WordOr},
        scan::DeferredJson,
        surrogates::replace_lone_in,
    },
};

/// What the messages come to.
#[derive(Debug, Default)]
pub(super) struct ChatConversation {
    pub(super) system: Vec<String>,
    pub(super) items: Vec<Item>,
    /// The arguments of the calls that are strings.
    arguments: DeferredJson,
}

/// One element of a content list, once it is understood.
enum ChatPiece {
    Part(Part),
    Thinking(String),
}

impl ChatPiece {
    fn text(text: String) -> Self {
        Self::Part(Part::Text(text))
    }

    fn part(self) -> Option<Part> {
        match self {
            Self::Part(part) => Some(part),
            Self::Thinking(_) => None,
        }
    }
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
                    brief(other)
                ),
            )),
            None => Err(invalid(at("role"), "every message needs a `role`")),
        }
    }

    fn push_system(
        &mut self,
        index: usize,
        content: Option<TextOr<Object<ChatPart>>>,
    ) -> Result<(), TurnError> {
        let mut text = String::new();
        for (place, piece) in pieces(index, content)?.into_iter().enumerate() {
            match piece {
                ChatPiece::Part(Part::Text(piece)) => {
                    if !text.is_empty() {
                        text.push('\n');
                    }
                    text.push_str(&piece);
                }
                ChatPiece::Thinking(_) => {}
                ChatPiece::Part(Part::Image(_)) => return Err(misplaced_image(index, place)),
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
        content: Option<TextOr<Object<ChatPart>>>,
    ) -> Result<(), TurnError> {
        if content.is_none() {
            return Err(invalid(
                format!("messages[{index}].content"),
                "a user message needs `content`",
            ));
        }
        let parts = pieces(index, content)?.into_iter().filter_map(ChatPiece::part).collect();
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
                ChatPiece::Part(Part::Text(text)) if text.is_empty() => {}
                ChatPiece::Part(Part::Image(_)) => return Err(misplaced_image(index, place)),
                ChatPiece::Part(part) => parts.push(part),
                ChatPiece::Thinking(text) => reasoning.push_str(&text),
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
            let path = format!("messages[{index}].tool_calls[{place}]");
            let call = tool_call(&path, call, &mut self.arguments)?;
            self.items.push(Item::ToolCall(call));
        }
        Ok(())
    }

    fn push_tool(
        &mut self,
        index: usize,
        message: types::ChatMessage<'_>,
    ) -> Result<(), TurnError> {
        let call_id = required(
            message.tool_call_id,
            &format!("messages[{index}]"),
            "tool_call_id",
            "a tool message needs the `tool_call_id` of the call it answers",
        )?;
        let pieces = pieces(index, message.content)?;
        let content = pieces.into_iter().filter_map(ChatPiece::part).collect();
        self.items.push(Item::ToolResult(ToolResult { call_id, content, is_error: false }));
        Ok(())
    }
}

fn pieces(
    index: usize,
    content: Option<TextOr<Object<ChatPart>>>,
) -> Result<Vec<ChatPiece>, TurnError> {
    match content {
        None => Ok(Vec::new()),
        Some(TextOr::Text(text)) => Ok(vec![ChatPiece::text(text)]),
        Some(TextOr::List(parts)) => parts
            .into_iter()
            .enumerate()
            .map(|(place, Object(part))| piece(index, place, part))
            .collect(),
    }
}

fn piece(index: usize, place: usize, part: ChatPart) -> Result<ChatPiece, TurnError> {
    let at = |field: &str| format!("messages[{index}].content[{place}].{field}");
    match part.r#type.as_deref() {
        Some("text" | "input_text" | "output_text") => match part.text {
            Some(text) => Ok(ChatPiece::text(text)),
            None => Err(invalid(at("text"), "a text part needs `text`")),
        },
        Some("image_url" | "input_image") => {
            let (url, param) = match part.image_url {
                Some(WordOr::Word(url)) => (Some(url), at("image_url")),
                Some(WordOr::Object(image)) => (image.url, at("image_url.url")),
                None => (None, at("image_url")),
            };
            match url {
                Some(url) => {
                    from_data_url(&url, &param).map(|image| ChatPiece::Part(Part::Image(image)))
                }
                None => Err(invalid(param, "an image part needs `image_url.url`")),
            }
        }
        Some("refusal") => Ok(ChatPiece::text(part.refusal.unwrap_or_default())),
        Some("thinking" | "reasoning") => {
            let text = part.thinking.and_then(|MaybeText(text)| text).or(part.text);
            Ok(ChatPiece::Thinking(text.unwrap_or_default()))
        }
        Some("file") => {
            let Some(Object(given)) = part.file else {
                return Err(invalid(at("file"), "a file part needs its `file`"));
            };
            file_piece(&given, &at("file"))
        }
        Some("input_file") => {
            let ChatPart { file_id, file_data, filename, .. } = part;
            let given = types::ChatFile { file_id, file_data, filename };
            file_piece(&given, &format!("messages[{index}].content[{place}]"))
        }
        Some(kind @ ("input_audio" | "audio" | "video_url")) => Err(unsupported(
            at("type"),
            format!("content of type `{kind}` is not supported; send text, images or files"),
        )),
        Some(other) => Err(invalid(
            at("type"),
            format!("unknown content type `{}`; use text, image_url or file", brief(other)),
        )),
        None => Err(invalid(at("type"), "every content part needs a `type`")),
    }
}

fn file_piece(given: &types::ChatFile, path: &str) -> Result<ChatPiece, TurnError> {
    let file = InlineFile {
        data: given.file_data.as_deref(),
        name: given.filename.as_deref(),
        has_id: given.file_id.is_some(),
        has_url: false,
    };
    file::read(&file, path).map(ChatPiece::Part)
}

fn tool_call(
    path: &str,
    call: types::ChatToolCall<'_>,
    texts: &mut DeferredJson,
) -> Result<ToolCall, TurnError> {
    let id = required(call.id, path, "id", "a tool call needs its `id`")?;
    match call.r#type.as_deref() {
        None | Some("function" | "") => {}
        Some("custom") => {
            let custom = call.custom.map(|Object(custom)| custom).unwrap_or_default();
            let name = required(
                custom.name,
                path,
                "custom.name",
                "a tool call needs the `name` of its tool",
            )?;
            let arguments = freeform::arguments(&custom.input.unwrap_or_default());
            return Ok(ToolCall { id, name, arguments });
        }
        Some(kind) => {
            return Err(unsupported(
                format!("{path}.type"),
                format!(
                    "tool calls of type `{}` are not supported; use `function` or `custom`",
                    brief(kind)
                ),
            ));
        }
    }
    let CalledFunction { name, arguments } = call.function.map(|Object(f)| f).unwrap_or_default();
    let name =
        required(name, path, "function.name", "a tool call needs the `name` of its function")?;
    let arguments = match arguments.map(serde_json::value::RawValue::get) {
        None => "{}".to_owned(),
        Some(raw) if raw.starts_with('"') => {
            let path = format!("{path}.function.arguments");
            let Ok(text) = serde_json::from_str(raw) else {
                return Err(invalid(path, "the arguments are not a valid string"));
            };
            let text = replace_lone_in(text);
            texts.add(&text, &path)?;
            text
        }
        Some(raw) => raw.to_owned(),
    };
    Ok(ToolCall { id, name, arguments })
}

fn misplaced_image(index: usize, place: usize) -> TurnError {
    invalid(
        format!("messages[{index}].content[{place}]"),
        "images belong in user and tool messages only",
    )
}

#[cfg(test)]
#[path = "messages_tests.rs"]
mod tests;
