//! A client's request in a recording.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};

use super::{json::JsonKind, mask::Mask};
use crate::model::{
    AgentMode, AnswerFormat, Dialect, Effort, Hints, Image, ImageSource, Item, Message, Part,
    Reasoning, Role, RunModes, Sampling, Schema, Tool, ToolCall, ToolChoice, ToolResult,
    TurnRequest,
};

/// Larger images are not made again from their size.
pub(super) const LARGEST_IMAGE: usize = 64 << 20;

/// What each entry takes besides its texts.
const ENTRY: usize = 64;

/// What the machine reads of a request.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct RequestRecord {
    pub dialect: String,
    pub model: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub system: Vec<String>,
    /// So many items are those of the request before this one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub same_items: usize,
    pub items: Vec<ItemRecord>,
    /// System prompt and tools are those of the request before this one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub same_setup: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolRecord>,
    pub tool_choice: ToolChoiceRecord,
    pub parallel_tool_calls: bool,
    pub sampling: SamplingRecord,
    pub hints: HintsRecord,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "item", rename_all = "snake_case")]
pub enum ItemRecord {
    User { parts: Vec<PartRecord> },
    Assistant { parts: Vec<PartRecord> },
    ToolCall { id: String, name: String, arguments: String },
    ToolResult { call_id: String, parts: Vec<PartRecord>, is_error: bool },
    Reasoning { text: String },
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PartRecord {
    Text(String),
    Image {
        mime: String,
        bytes: usize,
        /// In base64; only with texts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<String>,
    },
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ToolRecord {
    pub name: String,
    pub description: String,
    /// JSON text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoiceRecord {
    Auto,
    None,
    Required,
    Named(String),
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct SamplingRecord {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// How many stop sequences there are.
    #[serde(skip_serializing_if = "is_zero")]
    pub stops: usize,
    /// `json`, or `schema`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct HintsRecord {
    pub stream: bool,
    pub include_usage: bool,
    pub hides_reasoning: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<bool>,
}

impl RequestRecord {
    pub(super) fn of(request: &TurnRequest, mask: &mut Mask) -> Self {
        let sampling = &request.sampling;
        let format = match &sampling.format {
            AnswerFormat::Text => None,
            AnswerFormat::Json => Some("json".to_owned()),
            AnswerFormat::Schema(_) => Some("schema".to_owned()),
        };
        Self {
            dialect: dialect_name(request.dialect).to_owned(),
            model: mask.model(&request.model),
            system: request.system.iter().map(|text| mask.whole(text)).collect(),
            same_items: 0,
            items: request.items.iter().map(|item| ItemRecord::of(item, mask)).collect(),
            same_setup: false,
            tools: request.tools.iter().map(|tool| ToolRecord::of(tool, mask)).collect(),
            tool_choice: match &request.tool_choice {
                ToolChoice::Auto => ToolChoiceRecord::Auto,
                ToolChoice::None => ToolChoiceRecord::None,
                ToolChoice::Required => ToolChoiceRecord::Required,
                ToolChoice::Named(name) => ToolChoiceRecord::Named(mask.name(name)),
            },
            parallel_tool_calls: request.parallel_tool_calls,
            sampling: SamplingRecord {
                effort: sampling.effort.map(|effort| effort.as_str().to_owned()),
                max_tokens: sampling.max_tokens,
                stops: sampling.stop.len(),
                format,
            },
            hints: HintsRecord {
                stream: request.hints.stream,
                include_usage: request.hints.include_usage,
                hides_reasoning: request.hints.hides_reasoning,
                session: request.hints.session.as_deref().map(|name| mask.whole(name)),
                workspace: request.hints.workspace.as_deref().map(|path| mask.whole(path)),
                mode: request.hints.modes.mode.map(|mode| mode.name().to_owned()),
                max: request.hints.modes.max,
            },
        }
    }

    /// Leaves out what the request before this one has, too.
    pub(super) fn shorten(&mut self, before: &Self) {
        let same = self.items.iter().zip(&before.items).take_while(|(one, other)| one == other);
        self.same_items = same.count();
        self.items.drain(..self.same_items);
        if self.system == before.system && self.tools == before.tools {
            self.same_setup = true;
            self.system.clear();
            self.tools.clear();
        }
    }

    /// The reverse of [`Self::shorten`]. Nothing of the request before it is copied.
    pub(super) fn complete(&mut self, mut before: Self) {
        before.items.truncate(std::mem::take(&mut self.same_items));
        before.items.append(&mut self.items);
        self.items = before.items;
        if std::mem::take(&mut self.same_setup) {
            self.system = before.system;
            self.tools = before.tools;
        }
    }

    /// About how much memory it takes.
    pub(super) fn size(&self) -> usize {
        let part = |part: &PartRecord| match part {
            PartRecord::Text(text) => ENTRY + text.len(),
            PartRecord::Image { mime, bytes, data } => {
                let made = data.as_ref().map_or((*bytes).min(LARGEST_IMAGE), String::len);
                ENTRY + mime.len() + made
            }
        };
        let item = |item: &ItemRecord| match item {
            ItemRecord::User { parts }
            | ItemRecord::Assistant { parts }
            | ItemRecord::ToolResult { parts, .. } => ENTRY + parts.iter().map(part).sum::<usize>(),
            ItemRecord::ToolCall { id, name, arguments } => {
                ENTRY + id.len() + name.len() + arguments.len()
            }
            ItemRecord::Reasoning { text } => ENTRY + text.len(),
        };
        let tool = |tool: &ToolRecord| {
            let schema = tool.schema.as_ref().map_or(0, String::len);
            ENTRY + tool.name.len() + tool.description.len() + schema
        };
        let system = self.system.iter().map(|text| ENTRY + text.len()).sum::<usize>();
        let items = self.items.iter().map(item).sum::<usize>();
        system + items + self.tools.iter().map(tool).sum::<usize>()
    }

    /// The request, as the machine reads it.
    #[must_use]
    pub fn request(&self) -> TurnRequest {
        TurnRequest {
            model: self.model.clone(),
            system: self.system.clone(),
            items: self.items.iter().map(ItemRecord::item).collect(),
            tools: self.tools.iter().map(ToolRecord::tool).collect(),
            tool_choice: match &self.tool_choice {
                ToolChoiceRecord::Auto => ToolChoice::Auto,
                ToolChoiceRecord::None => ToolChoice::None,
                ToolChoiceRecord::Required => ToolChoice::Required,
                ToolChoiceRecord::Named(name) => ToolChoice::Named(name.clone()),
            },
            parallel_tool_calls: self.parallel_tool_calls,
            sampling: Sampling {
                effort: self.sampling.effort.as_deref().and_then(Effort::parse),
                max_tokens: self.sampling.max_tokens,
                // Only whether there are any concerns the machine.
                stop: vec!["stop".to_owned(); self.sampling.stops.min(MOST_STOPS)],
                format: match self.sampling.format.as_deref() {
                    None => AnswerFormat::Text,
                    Some("schema") => {
                        let (name, text) = ("schema".to_owned(), "{}".to_owned());
                        AnswerFormat::Schema(Schema { name, text })
                    }
                    Some(_) => AnswerFormat::Json,
                },
                ..Sampling::default()
            },
            dialect: dialect_of(&self.dialect),
            hints: Hints {
                stream: self.hints.stream,
                include_usage: self.hints.include_usage,
                hides_reasoning: self.hints.hides_reasoning,
                session: self.hints.session.clone(),
                user: None,
                workspace: self.hints.workspace.clone(),
                modes: RunModes {
                    mode: self.hints.mode.as_deref().and_then(AgentMode::from_name),
                    max: self.hints.max,
                },
            },
        }
    }
}

const MOST_STOPS: usize = 64;

impl ItemRecord {
    pub(super) fn of(item: &Item, mask: &mut Mask) -> Self {
        match item {
            Item::Message(Message { role, parts }) => {
                let text: fn(&mut Mask, &str) -> String = match role {
                    Role::User => |mask, text| mask.whole(text),
                    Role::Assistant => Mask::history,
                };
                let parts = parts.iter().map(|part| PartRecord::of(part, mask, text)).collect();
                match role {
                    Role::User => Self::User { parts },
                    Role::Assistant => Self::Assistant { parts },
                }
            }
            Item::ToolCall(call) => Self::ToolCall {
                id: mask.id(&call.id),
                name: mask.name(&call.name),
                arguments: mask.json_text(&call.arguments, JsonKind::Content),
            },
            Item::ToolResult(result) => Self::ToolResult {
                call_id: mask.id(&result.call_id),
                parts: PartRecord::of_result(&result.content, mask),
                is_error: result.is_error,
            },
            Item::Reasoning(reasoning) => Self::Reasoning { text: mask.history(&reasoning.text) },
        }
    }

    pub(super) fn item(&self) -> Item {
        let message = |role, parts: &[PartRecord]| {
            Item::Message(Message { role, parts: PartRecord::parts(parts) })
        };
        match self {
            Self::User { parts } => message(Role::User, parts),
            Self::Assistant { parts } => message(Role::Assistant, parts),
            Self::ToolCall { id, name, arguments } => Item::ToolCall(ToolCall {
                id: id.clone(),
                name: name.clone(),
                arguments: arguments.clone(),
            }),
            Self::ToolResult { call_id, parts, is_error } => Item::ToolResult(ToolResult {
                call_id: call_id.clone(),
                content: PartRecord::parts(parts),
                is_error: *is_error,
            }),
            Self::Reasoning { text } => Item::Reasoning(Reasoning { text: text.clone() }),
        }
    }
}

impl PartRecord {
    fn of(part: &Part, mask: &mut Mask, text: fn(&mut Mask, &str) -> String) -> Self {
        match part {
            Part::Text(plain) => Self::Text(text(mask, plain)),
            Part::Image(Image { source: ImageSource::Inline { mime, data } }) => Self::Image {
                mime: mask.word(mime),
                bytes: data.len(),
                data: mask.keeps_texts().then(|| STANDARD.encode(data)),
            },
        }
    }

    /// The parts of a tool's result.
    pub(super) fn of_result(parts: &[Part], mask: &mut Mask) -> Vec<Self> {
        let text: fn(&mut Mask, &str) -> String = |mask, text| mask.result(text);
        parts.iter().map(|part| Self::of(part, mask, text)).collect()
    }

    pub(super) fn parts(parts: &[Self]) -> Vec<Part> {
        let part = |part: &Self| match part {
            Self::Text(text) => Part::Text(text.clone()),
            Self::Image { mime, bytes, data } => {
                let data = data.as_ref().and_then(|data| STANDARD.decode(data).ok());
                let data = data.unwrap_or_else(|| vec![b'x'; (*bytes).min(LARGEST_IMAGE)]);
                let (mime, data) = (mime.clone(), data.into());
                Part::Image(Image { source: ImageSource::Inline { mime, data } })
            }
        };
        parts.iter().map(part).collect()
    }
}

impl ToolRecord {
    pub(super) fn of(tool: &Tool, mask: &mut Mask) -> Self {
        Self {
            name: mask.name(&tool.name),
            description: mask.whole(&tool.description),
            schema: tool.schema.as_ref().map(|raw| mask.json_text(raw.get(), JsonKind::Schema)),
        }
    }

    pub(super) fn tool(&self) -> Tool {
        let schema = self.schema.clone().map(serde_json::value::RawValue::from_string);
        Tool {
            name: self.name.clone(),
            description: self.description.clone(),
            schema: schema.and_then(Result::ok),
        }
    }
}

fn dialect_name(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Chat => "chat",
        Dialect::Completions => "completions",
        Dialect::Responses => "responses",
        Dialect::Messages => "messages",
    }
}

fn dialect_of(name: &str) -> Dialect {
    match name {
        "completions" => Dialect::Completions,
        "responses" => Dialect::Responses,
        "messages" => Dialect::Messages,
        _ => Dialect::Chat,
    }
}
