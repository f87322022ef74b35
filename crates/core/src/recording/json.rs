//! JSON in a recording: its structure and the words of the protocols stay, its texts do not.

use serde_json::{Map, Number, Value};

use super::{
    mask::{Mask, TextStream},
    vocabulary,
};
use crate::models::{AUTO_NAME, AUTO_WIRE_ID, Family};

/// What a JSON value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JsonKind {
    /// A line of Cursor's CLI.
    Line,
    /// A line to it, or a stored entry of a prompt.
    Entry,
    /// The arguments of a call, or anything else that only the model and the client understand.
    Content,
    /// The schema of a tool.
    Schema,
}

/// Numbers of a schema that count.
const COUNTS: [&str; 4] = ["minLength", "maxLength", "minItems", "maxItems"];

/// Deeper values are replaced by null.
const DEPTH: usize = 64;

impl Mask {
    /// JSON text; a text that is none stays one.
    pub(super) fn json_text(&mut self, text: &str, kind: JsonKind) -> String {
        if self.keeps_texts() {
            return self.whole(text);
        }
        match serde_json::from_str(text) {
            Ok(value @ (Value::Object(_) | Value::Array(_))) => self.json(value, kind).to_string(),
            Ok(_) | Err(_) => self.whole(text),
        }
    }

    pub(super) fn json(&mut self, value: Value, kind: JsonKind) -> Value {
        let (repeats, complains) = (repeats(&value), complains(&value));
        let is_echo = value.get("type").and_then(Value::as_str) == Some("user");
        let place = JsonPlace { kind, key: "", depth: DEPTH, repeats, complains, is_echo };
        self.json_at(value, place)
    }

    fn json_at(&mut self, value: Value, at: JsonPlace<'_>) -> Value {
        let Some(depth) = at.depth.checked_sub(1) else { return Value::Null };
        match value {
            Value::Object(fields) => {
                let fields = fields.into_iter().map(|(key, value)| {
                    let kind = if is_content(&key) { JsonKind::Content } else { at.kind };
                    let inner = JsonPlace { kind, key: &key, depth, ..at };
                    let masked = if at.kind == JsonKind::Schema && at.key == "properties" {
                        // Not a word of the schema, whatever it is called.
                        self.json_at(value, JsonPlace { key: "", ..inner })
                    } else {
                        self.json_at(value, inner)
                    };
                    (self.key(&key), masked)
                });
                Value::Object(fields.collect::<Map<_, _>>())
            }
            Value::Array(items) => items
                .into_iter()
                .map(|item| self.json_at(item, JsonPlace { depth, ..at }))
                .collect(),
            Value::String(text) => Value::String(self.json_string(&text, at)),
            Value::Number(number) => Value::Number(self.json_number(number, at)),
            Value::Bool(_) | Value::Null => value,
        }
    }

    /// The name of a field. What it is called may be a part of the content.
    fn key(&self, key: &str) -> String {
        if self.keeps_texts() || vocabulary::is_key(key) { key.to_owned() } else { self.name(key) }
    }

    fn json_string(&mut self, text: &str, at: JsonPlace<'_>) -> String {
        if matches!(at.key, "toolName" | "tool_name") {
            return self.name(text);
        }
        match at.kind {
            JsonKind::Content => return self.content_text(text, at.key),
            JsonKind::Schema => return self.schema_word(text, at.key),
            JsonKind::Line | JsonKind::Entry => {}
        }
        match at.key {
            "text" | "result" | "code" if at.complains => self.error(text),
            "text" | "thinking" if at.kind == JsonKind::Line && !at.is_echo => {
                let stream = match at.key {
                    "thinking" => TextStream::Thoughts,
                    _ => TextStream::Answer,
                };
                self.spoken(stream, text, at.repeats)
            }
            "text" | "thinking" | "result" | "content" => self.said(text),
            "id" | "session" | "session_id" | "sessionId" | "call_id" | "toolCallId"
            | "tool_call_id" | "request_id" | "model_call_id" | "optionId" => {
                if vocabulary::is_word(text) { text.to_owned() } else { self.id(text) }
            }
            "model" | "modelId" | "modelName" | "currentModelId" => self.model(text),
            "value" | "currentValue" if is_model(text) => self.model(text),
            "name" => {
                if vocabulary::is_word(text) {
                    text.to_owned()
                } else {
                    self.name(text)
                }
            }
            "error" | "message" | "details" | "reason" if at.complains => self.error(text),
            "type" | "role" | "subtype" | "sessionUpdate" | "status" | "kind" | "method"
            | "stopReason" | "jsonrpc" | "outcome" | "configId" | "category" | "methodId"
            | "mimeType" | "mime_type" | "namespace" | "providerIdentifier" | "permissionMode"
            | "__type" | "modeId" | "currentModeId" | "title" => self.word(text),
            _ => self.whole(text),
        }
    }

    /// Only what says whose tool is called stays.
    fn content_text(&self, text: &str, key: &str) -> String {
        match key {
            "providerIdentifier" | "namespace" | "server" => self.word(text),
            "name" if !vocabulary::tool_prefix(text).is_empty() => self.name(text),
            _ => self.whole(text),
        }
    }

    fn schema_word(&mut self, text: &str, key: &str) -> String {
        match key {
            "type" => self.word(text),
            "required" => self.key(text),
            _ => self.whole(text),
        }
    }

    fn json_number(&self, number: Number, at: JsonPlace<'_>) -> Number {
        let known = match at.kind {
            JsonKind::Content => false,
            JsonKind::Schema => COUNTS.contains(&at.key),
            JsonKind::Line | JsonKind::Entry => vocabulary::is_key(at.key),
        };
        if self.keeps_texts() || known {
            return number;
        }
        let masked = self.number(number.as_f64().unwrap_or(0.0));
        // A whole number stays one.
        #[expect(clippy::cast_possible_truncation, reason = "at most 15 digits")]
        let whole = Number::from(masked as i64);
        if number.is_f64() { Number::from_f64(masked).unwrap_or(whole) } else { whole }
    }
}

/// Where a value stands.
#[derive(Clone, Copy, Debug)]
struct JsonPlace<'a> {
    kind: JsonKind,
    /// The name of the field that it is in.
    key: &'a str,
    depth: usize,
    /// The line repeats a text that came in pieces.
    repeats: bool,
    /// The line is about a failure.
    complains: bool,
    /// The line repeats the prompt.
    is_echo: bool,
}

/// Fields that hold what only the model and the client understand.
fn is_content(key: &str) -> bool {
    matches!(key, "args" | "arguments" | "rawInput" | "rawOutput" | "input" | "inputSchema")
}

/// Whether a line of the CLI may have the whole of what came in pieces: it then lacks the mark of a
/// piece.
fn repeats(line: &Value) -> bool {
    let kind = line.get("type").and_then(Value::as_str);
    let is_piece = line.get("timestamp_ms").is_some() && line.get("model_call_id").is_none();
    match kind {
        Some("assistant") => !is_piece,
        Some("thinking") => line.get("subtype").and_then(Value::as_str) == Some("completed"),
        _ => false,
    }
}

fn complains(line: &Value) -> bool {
    let says = |key: &str, word: &str| line.get(key).and_then(Value::as_str) == Some(word);
    let is_error = line.get("is_error") == Some(&Value::Bool(true)) || says("type", "error");
    // The answer to a request that failed.
    is_error || (line.get("jsonrpc").is_some() && line.get("error").is_some())
}

/// Whether an option's value is the name of a model.
fn is_model(value: &str) -> bool {
    [AUTO_NAME, AUTO_WIRE_ID].contains(&value) || Family::of(value) != Family::Other
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
