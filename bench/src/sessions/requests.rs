//! Requests of the size that coding agents send: a long system prompt, a dozen tools
//! with schemas, results and answers of a page or so.

use serde_json::{Value, json};

/// The system prompt.
const SYSTEM_BYTES: usize = 8 * 1024;
/// What the client answers to one tool call.
pub(crate) const RESULT_BYTES: usize = 2 * 1024;
/// One message of the user.
pub(crate) const QUESTION_BYTES: usize = 512;
/// The fixed part of an answer; the simulator's own words come on top.
pub(crate) const ANSWER_BYTES: usize = 1536;
/// The description of one parameter: with this the dozen tools take about 10 kB.
const DESCRIPTION_BYTES: usize = 160;

/// No word in it is one that the simulator's assistant acts on.
const FILLER: &str =
    "lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor ";

/// Tools under their usual names, with the parameters they usually take.
const TOOLS: [(&str, &[&str]); 12] = [
    ("bash", &["command", "description"]),
    ("read", &["file_path", "offset"]),
    ("write", &["file_path", "content"]),
    ("edit", &["file_path", "old_string", "new_string"]),
    ("list", &["path"]),
    ("glob", &["pattern", "path"]),
    ("grep", &["pattern", "path", "include"]),
    ("webfetch", &["url", "format"]),
    ("todo_write", &["todos"]),
    ("todo_read", &["filter"]),
    ("task", &["description", "prompt"]),
    ("lookup", &["key"]),
];

/// What every request of a conversation carries besides its messages.
pub(crate) struct ClientSetup {
    pub(crate) system: String,
    pub(crate) tools: Vec<Value>,
}

impl ClientSetup {
    /// A coding agent's: a long prompt and a dozen tools.
    pub(crate) fn agent() -> Self {
        Self { system: system(), tools: TOOLS.iter().map(tool).collect() }
    }

    /// A chat's: the same prompt, no tools.
    pub(crate) fn chat() -> Self {
        Self { system: system(), tools: Vec::new() }
    }

    /// One sentence and one tool: what is left is the cost of a session itself.
    pub(crate) fn small() -> Self {
        Self {
            system: "Look up what you are asked for.".to_owned(),
            tools: TOOLS.last().map(tool).into_iter().collect(),
        }
    }

    /// Bytes of JSON, without any message.
    pub(crate) fn bytes(&self) -> usize {
        self.system.len() + self.tools.iter().map(|tool| tool.to_string().len()).sum::<usize>()
    }
}

fn system() -> String {
    padded("You are a careful assistant for programmers.", SYSTEM_BYTES)
}

fn tool((name, parameters): &(&str, &[&str])) -> Value {
    let properties: serde_json::Map<String, Value> = parameters
        .iter()
        .map(|parameter| {
            let description = padded(&format!("The {parameter}:"), DESCRIPTION_BYTES);
            ((*parameter).to_owned(), json!({ "type": "string", "description": description }))
        })
        .collect();
    json!({ "type": "function", "function": {
        "name": name,
        "description": padded(&format!("The tool {name}:"), 2 * DESCRIPTION_BYTES),
        "parameters": {
            "type": "object",
            "properties": properties,
            "required": parameters.get(..1),
            "additionalProperties": false,
        },
    } })
}

/// The text, filled up to this number of bytes.
pub(crate) fn padded(text: &str, bytes: usize) -> String {
    let mut out = format!("{text} ");
    out.extend(FILLER.chars().cycle().take(bytes.saturating_sub(out.len())));
    out
}

#[cfg(test)]
#[path = "requests_tests.rs"]
mod tests;
