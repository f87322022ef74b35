//! Client tools: what they are, the calls of the model, the results of the client.

use serde_json::value::RawValue;

use super::request::Part;

/// A tool that the client offers and executes itself.
#[derive(Clone, Debug)]
pub struct Tool {
    pub name: String,
    pub description: String,
    /// JSON Schema of the arguments, as the client wrote it. `None`: takes nothing.
    pub schema: Option<Box<RawValue>>,
}

/// Whether the model may, must or must not call tools.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum ToolChoice {
    #[default]
    Auto,
    None,
    Required,
    Named(String),
}

/// A call the model made earlier, as the client sends it back in its history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    pub id: String,
    pub name: String,
    /// The arguments as JSON text.
    pub arguments: String,
}

/// The result of the client's tool.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ToolResult {
    pub call_id: String,
    pub content: Vec<Part>,
    pub is_error: bool,
}

impl ToolResult {
    /// The textual parts, joined by newlines.
    #[must_use]
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self.content.iter().filter_map(Part::text).collect();
        texts.join("\n")
    }
}
