//! One request of a client, whatever API it came through.

use bytes::Bytes;

use super::mode::RunModes;
use super::tool::{Tool, ToolCall, ToolChoice, ToolResult};

/// What a client asks for: the whole conversation, and how to answer it.
#[derive(Clone, Debug)]
pub struct TurnRequest {
    /// The model name exactly as the client wrote it; replies echo it.
    pub model: String,
    /// System and developer texts, in order.
    pub system: Vec<String>,
    /// The conversation without its system texts, oldest first.
    pub items: Vec<Item>,
    pub tools: Vec<Tool>,
    pub tool_choice: ToolChoice,
    pub parallel_tool_calls: bool,
    pub sampling: Sampling,
    pub dialect: Dialect,
    pub hints: Hints,
}

/// One element of the conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    Message(Message),
    ToolCall(ToolCall),
    ToolResult(ToolResult),
    Reasoning(Reasoning),
}

impl Item {
    /// The parts of a message or of a result.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        match self {
            Self::Message(message) => &message.parts,
            Self::ToolResult(result) => &result.content,
            Self::ToolCall(_) | Self::Reasoning(_) => &[],
        }
    }
}

/// The speaker. System texts are not items, they are in [`TurnRequest::system`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    User,
    Assistant,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Message {
    pub role: Role,
    pub parts: Vec<Part>,
}

/// One piece of a message, or of what a tool gave back.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    Text(String),
    Image(Image),
}

impl Part {
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Image(_) => None,
        }
    }

    #[must_use]
    pub fn image(&self) -> Option<&Image> {
        match self {
            Self::Image(image) => Some(image),
            Self::Text(_) => None,
        }
    }

    /// How much of the client's bytes it holds.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Image(image) => image.bytes().len(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Image {
    pub source: ImageSource,
}

impl Image {
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        let ImageSource::Inline { data, .. } = &self.source;
        data
    }
}

/// Where the bytes of an image are. Only inline bytes reach a backend: the gateway
/// fetches nothing that a request names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ImageSource {
    Inline { mime: String, data: Bytes },
}

/// Reasoning of an earlier answer, as the client sends it back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reasoning {
    pub text: String,
}

/// How hard the model should think.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effort {
    None,
    Minimal,
    Low,
    Medium,
    High,
    Xhigh,
    Max,
}

impl Effort {
    pub const ALL: [Self; 7] =
        [Self::None, Self::Minimal, Self::Low, Self::Medium, Self::High, Self::Xhigh, Self::Max];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Xhigh => "xhigh",
            Self::Max => "max",
        }
    }

    /// Reads the words clients and model slugs use, `extra-high` included.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        if word == "extra-high" {
            return Some(Self::Xhigh);
        }
        Self::ALL.into_iter().find(|effort| effort.as_str() == word)
    }
}

/// The controls a client may set on the answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sampling {
    pub effort: Option<Effort>,
    pub max_tokens: Option<u64>,
    pub stop: Vec<String>,
    pub format: AnswerFormat,
    pub params: ParamHandling,
}

impl Sampling {
    /// Whether the client may see something else than what the backend said.
    #[must_use]
    pub fn is_controlled(&self) -> bool {
        self.max_tokens.is_some() || !self.stop.is_empty() || self.format != AnswerFormat::Text
    }
}

/// The shape that the text of the answer must have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AnswerFormat {
    #[default]
    Text,
    /// Any JSON object.
    Json,
    Schema(Schema),
}

/// A JSON Schema, as the client wrote it, and the client's name for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    pub name: String,
    pub text: String,
}

/// What becomes of the parameters that the client set to something other than their
/// default. A response header lists them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParamHandling {
    /// The backend knows them.
    pub native: Vec<&'static str>,
    /// The gateway sees to them.
    pub emulated: Vec<&'static str>,
    /// Neither does anything with them.
    pub ignored: Vec<&'static str>,
}

impl ParamHandling {
    /// Lists these as native where they are listed as ignored: this backend does them.
    pub fn serve(&mut self, names: &[&'static str]) {
        for &name in names {
            if let Some(at) = self.ignored.iter().position(|ignored| *ignored == name) {
                self.ignored.remove(at);
                self.native.push(name);
            }
        }
    }
}

/// Which API the answer goes out through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Chat,
    Completions,
    Responses,
    Messages,
}

/// Things beside the conversation, from the body of the request or its headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    pub stream: bool,
    /// Chat: send the usage chunk.
    pub include_usage: bool,
    /// The client is not shown what the model thinks.
    pub hides_reasoning: bool,
    /// A name for the conversation that the client keeps, from a system message or a
    /// header.
    pub session: Option<String>,
    /// The client's own name for its user; never sent upstream.
    pub user: Option<String>,
    /// The folder that the conversation is about, from a header.
    pub workspace: Option<String>,
    /// From the model's name, a header or the settings.
    pub modes: RunModes,
}
