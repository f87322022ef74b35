//! Messages of the prompt, and the tools that are offered with it.

use serde_json::Value;

use super::tokens;

/// The prefix of tool results that are written as user messages.
const RESULT: &str = "[Tool Result]";

/// A message of the prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HistoryMessage {
    pub(crate) role: String,
    pub(crate) text: String,
    /// Of a result: the tool's name, when it is known.
    pub(crate) tool: Option<String>,
    /// Of a result: the tool failed.
    pub(crate) failed: bool,
    /// Of the assistant: tools were called.
    pub(crate) calls: bool,
}

/// A tool the client offers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct OfferedTool {
    pub(crate) name: String,
    pub(crate) tool_name: String,
    pub(crate) provider: String,
    pub(crate) description: String,
    pub(crate) schema: Value,
}

impl OfferedTool {
    /// Its size in a prompt, with the format around it.
    pub(crate) fn tokens(&self) -> u64 {
        let schema = self.schema.to_string();
        [&self.name, &self.description, &schema].into_iter().map(|text| tokens(text)).sum::<u64>()
            + 20
    }
}

impl HistoryMessage {
    /// The contents of a JSON message: one entry, or one for each tool result in it.
    pub(crate) fn all(message: &Value) -> Vec<Self> {
        let role = message.get("role").and_then(Value::as_str).unwrap_or_default();
        let of = |text: String| Self { role: role.to_owned(), text, ..Self::default() };
        let parts = match message.get("content") {
            Some(Value::String(text)) => return vec![of(text.clone())],
            Some(Value::Array(parts)) => parts,
            _ => return vec![of(String::new())],
        };
        let kind =
            |part: &Value, kind: &str| part.get("type").and_then(Value::as_str) == Some(kind);
        let results: Vec<_> = parts.iter().filter(|part| kind(part, "tool-result")).collect();
        if role == "tool" && !results.is_empty() {
            let flag = |part: &Value, name: &str| part.get(name) == Some(&Value::Bool(true));
            return results
                .into_iter()
                .map(|part| Self {
                    tool: part.get("toolName").and_then(Value::as_str).map(str::to_owned),
                    failed: flag(part, "isError") || flag(part, "is_error"),
                    ..of(part_text(part).unwrap_or_default())
                })
                .collect();
        }
        let calls = parts.iter().any(|part| kind(part, "tool-call"));
        let text = parts.iter().filter_map(part_text).collect::<Vec<_>>().join("\n");
        vec![Self { calls, ..of(text) }]
    }

    /// Whether this is a tool result; some clients send those as user messages.
    pub(crate) fn is_result(&self) -> bool {
        self.role == "tool" || self.text.starts_with(RESULT)
    }

    /// The result itself.
    pub(crate) fn result(&self) -> &str {
        self.text.trim_start_matches(RESULT).trim()
    }
}

fn part_text(part: &Value) -> Option<String> {
    let text = |name: &str| part.get(name).and_then(Value::as_str).map(str::to_owned);
    match part.get("type")?.as_str()? {
        "text" => text("text"),
        "image" => {
            let mime = text("mimeType").or_else(|| text("mediaType"));
            Some(format!("[image {}]", mime.unwrap_or_default()))
        }
        "tool-call" => {
            let args = part.get("args").or_else(|| part.get("input")).unwrap_or(&Value::Null);
            Some(format!("[called {} with {args}]", text("toolName")?))
        }
        "tool-result" => text("result")
            .or_else(|| part.get("output")?.get("value")?.as_str().map(str::to_owned))
            .or_else(|| part.get("output").or_else(|| part.get("result")).map(Value::to_string)),
        _ => None,
    }
}
