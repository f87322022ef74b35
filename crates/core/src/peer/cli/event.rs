//! The lines of `stream-json`. A field of a wrong type counts as one that is not there, so
//! that no build of the CLI can spoil the rest of an event.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny, Visitor},
};
use serde_json::value::RawValue;

use super::recap::TextMark;
use crate::peer::child::ReportedTokens;

/// One line. Which of the fields are there depends on `kind`.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct CliEvent<'a> {
    #[serde(rename = "type", deserialize_with = "lenient")]
    kind: Option<LossyText>,
    #[serde(deserialize_with = "lenient")]
    subtype: Option<LossyText>,
    #[serde(deserialize_with = "lenient")]
    session_id: Option<LossyText>,
    #[serde(deserialize_with = "lenient")]
    text: Option<LossyText>,
    #[serde(borrow, deserialize_with = "lenient")]
    message: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "lenient")]
    pub(super) tool_call: Option<&'a RawValue>,
    #[serde(deserialize_with = "lenient")]
    is_error: Option<bool>,
    #[serde(deserialize_with = "lenient")]
    result: Option<LossyText>,
    #[serde(borrow, deserialize_with = "lenient")]
    error: Option<&'a RawValue>,
    #[serde(deserialize_with = "lenient")]
    pub(super) usage: Option<ReportedTokens>,
    timestamp_ms: Option<IgnoredAny>,
    #[serde(deserialize_with = "lenient")]
    model_call_id: Option<LossyText>,
}

/// One part of what a message holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum MessagePart {
    Text(String),
    Thought(String),
    Unknown,
}

impl<'a> CliEvent<'a> {
    /// `None`: the line is not an event.
    pub(super) fn read(line: &'a str) -> Option<Self> {
        // Serde's derive alone would also read it from an array.
        let event: Self = line.starts_with('{').then(|| serde_json::from_str(line).ok())??;
        event.kind.is_some().then_some(event)
    }

    pub(super) fn kind(&self) -> &str {
        self.kind.as_ref().map_or("", LossyText::as_str)
    }

    pub(super) fn subtype(&self) -> &str {
        self.subtype.as_ref().map_or("", LossyText::as_str)
    }

    /// The conversation's name. It is given back to the child as an argument, so it is
    /// taken only if it cannot be anything else.
    pub(super) fn session(&self) -> Option<&str> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
        self.session_id
            .as_ref()
            .map(LossyText::as_str)
            .filter(|name| !name.is_empty() && name.len() <= 256 && !name.starts_with('-'))
            .filter(|name| name.chars().all(is_part))
    }

    pub(super) fn text(&self) -> Option<&str> {
        self.text.as_ref().map(LossyText::as_str)
    }

    /// The text of a `result`.
    pub(super) fn result(&self) -> &str {
        self.result.as_ref().map_or("", LossyText::as_str)
    }

    pub(super) fn is_error(&self) -> bool {
        self.is_error == Some(true) || self.subtype().starts_with("error")
    }

    pub(super) fn mark(&self) -> TextMark {
        let call = self.model_call_id.as_ref().is_some_and(|id| !id.as_str().is_empty());
        match (self.timestamp_ms.is_some(), call) {
            (true, false) => TextMark::Delta,
            (true, true) => TextMark::Flush,
            (false, _) => TextMark::Bare,
        }
    }

    /// What the message holds: a text, or a list of parts.
    pub(super) fn parts(&self) -> Vec<MessagePart> {
        let message = self.message.and_then(fields).unwrap_or_default();
        let Some(content) = message.get("content").copied() else { return Vec::new() };
        if let Some(LossyText(text)) = parse(content) {
            return vec![MessagePart::Text(text)];
        }
        let blocks: Vec<&RawValue> = parse(content).unwrap_or_default();
        blocks.into_iter().map(MessagePart::read).collect()
    }

    /// What an error says, line by line: its text, its details, its code.
    pub(super) fn complaint(&self) -> String {
        let mut lines: Vec<String> = Vec::new();
        let mut add = |text: Option<String>| lines.extend(text.filter(|text| !text.is_empty()));
        if let Some(error) = self.error {
            add(text_of(error));
            if let Some(fields) = fields(error) {
                for key in ["message", "details", "code"] {
                    add(fields.get(key).copied().and_then(text_of));
                }
            }
        }
        add(self.message.and_then(text_of));
        add(self.text().map(str::to_owned));
        add(self.result.as_ref().map(|LossyText(text)| text.clone()));
        lines.join("\n")
    }
}

impl MessagePart {
    fn read(block: &RawValue) -> Self {
        let Some(block) = fields(block) else { return Self::Unknown };
        let text = |key: &str| block.get(key).copied().and_then(text_of);
        let kind = text("type");
        match kind.as_deref() {
            Some("text") | None => text("text").map_or(Self::Unknown, Self::Text),
            Some("thinking") => {
                text("thinking").or_else(|| text("text")).map_or(Self::Unknown, Self::Thought)
            }
            Some(_) => Self::Unknown,
        }
    }
}

/// The fields of an object, none of them read.
pub(super) type Fields<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

pub(super) fn fields(raw: &RawValue) -> Option<Fields<'_>> {
    parse(raw)
}

pub(super) fn text_of(raw: &RawValue) -> Option<String> {
    parse(raw).map(|LossyText(text)| text)
}

fn parse<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Option<T> {
    serde_json::from_str(raw.get()).ok()
}

fn lenient<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    <&'de RawValue>::deserialize(deserializer).map(parse)
}

/// A string, which in JavaScript may have half of a character in it. That half is lost,
/// the rest is not.
#[derive(Debug)]
struct LossyText(String);

impl LossyText {
    fn as_str(&self) -> &str {
        &self.0
    }
}

struct TextVisitor;

impl Visitor<'_> for TextVisitor {
    type Value = LossyText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<LossyText, E> {
        Ok(LossyText(String::from_utf8_lossy(bytes).into_owned()))
    }
}

impl<'de> Deserialize<'de> for LossyText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(TextVisitor)
    }
}
