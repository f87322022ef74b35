//! Messages of the prompt, and the tools that are offered with it.

use std::collections::HashMap;

use serde_json::Value;

use super::{server_entries, tokens};

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
    /// The contents of a JSON message: one entry, or one for each tool result in it. `names` has
    /// the tools of calls by their ids.
    pub(crate) fn all(message: &Value, names: &CalledNames) -> Vec<Self> {
        let role = message.get("role").and_then(Value::as_str).unwrap_or_default();
        let of = |text: String| {
            let text = match role {
                "user" => server_entries::without_query_tags(&text).to_owned(),
                _ => text,
            };
            Self { role: role.to_owned(), text, ..Self::default() }
        };
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
                    tool: names.of(part),
                    failed: flag(part, "isError") || flag(part, "is_error"),
                    ..of(part_text(part).unwrap_or_default())
                })
                .collect();
        }
        let calls = parts.iter().any(|part| kind(part, "tool-call"));
        let text = parts.iter().filter_map(part_text).collect::<Vec<_>>().join("\n");
        vec![Self { calls, ..of(text) }]
    }

    /// Reads the outcome of a result from its text only.
    pub(crate) fn judge_by_text(&mut self) {
        self.failed = self.is_result() && says_failed(self.result());
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

/// The client's tools that calls in the history name, by the ids of the calls.
#[derive(Debug, Default)]
pub(crate) struct CalledNames(HashMap<String, String>);

impl CalledNames {
    pub(crate) fn new<'a>(messages: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut names = HashMap::new();
        for message in messages {
            let parts = message.get("content").and_then(Value::as_array);
            for part in parts.into_iter().flatten() {
                let text = |name: &str| part.get(name).and_then(Value::as_str);
                let (Some("tool-call"), Some(id), Some(name)) =
                    (text("type"), text("toolCallId"), text("toolName"))
                else {
                    continue;
                };
                let inner = part.get("args").and_then(|args| args.get("toolName")?.as_str());
                let name = inner.filter(|_| is_meta_call(name)).unwrap_or(name);
                names.insert(id.to_owned(), name.to_owned());
            }
        }
        Self(names)
    }

    /// The tool of a result.
    fn of(&self, part: &Value) -> Option<String> {
        let text = |name: &str| part.get(name).and_then(Value::as_str);
        let called = text("toolCallId").and_then(|id| self.0.get(id)).cloned();
        called.or_else(|| text("toolName").map(str::to_owned))
    }
}

/// Whether this is a name of the meta tool that calls another tool.
pub(crate) fn is_meta_call(name: &str) -> bool {
    matches!(name, "CallDynamicTool" | "CallMcpTool")
}

/// Whether the text of a result says that the tool failed.
fn says_failed(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default().to_lowercase();
    first.trim_start_matches('[').starts_with("error") || first.contains("failed")
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
