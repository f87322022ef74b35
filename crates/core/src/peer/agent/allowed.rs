//! The tools that a run may use, as the header names them, and other choices that a failure can
//! change.

use std::sync::Arc;

use super::request::RunSpec;

/// Without the second one a run in which tools are offered by a meta tool is refused.
const CLIENT_TOOLS: [&str; 2] = ["mcp_tool_call", "get_mcp_tools_tool_call"];

/// Cursor's own tools that the client's can stand in for.
const NATIVE_TOOLS: [&str; 8] = [
    "shell_tool_call",
    "read_tool_call",
    "edit_tool_call",
    "delete_tool_call",
    "ls_tool_call",
    "glob_tool_call",
    "grep_tool_call",
    "fetch_tool_call",
];

/// A name of a tool is not longer.
const LONGEST: usize = 64;

impl RunSpec {
    /// The header's value: a list, empty if the client offers no tools.
    pub(super) fn allowed_tools(&self) -> String {
        let around = &self.around;
        let mut names: Vec<&str> = Vec::new();
        if !around.toolbox.is_empty() {
            names.extend(CLIENT_TOOLS);
        }
        if !around.equipment.is_empty() {
            names.extend(NATIVE_TOOLS);
        }
        if around.permissions.web_search {
            names.push("web_search_tool_call");
        }
        if around.permissions.web_fetch {
            names.push("web_fetch_tool_call");
        }
        if !names.is_empty() {
            names.extend(self.more_tools.iter().map(String::as_str));
        }
        names.join(",")
    }

    /// Allows the tool that the service misses. Gives whether that is news.
    pub(super) fn allow_tool(&mut self, words: &str) -> bool {
        let Some(tool) = missing_tool(words) else { return false };
        if self.more_tools.contains(&tool) {
            return false;
        }
        self.memory.allow_tool(&self.model.id, &tool);
        self.more_tools.push(tool);
        true
    }

    /// Gives whether the model was not in its maximum mode yet.
    pub(super) fn use_max_mode(&mut self) -> bool {
        self.memory.note_max_mode(&self.model.id);
        !std::mem::replace(&mut self.model.max_mode, true)
    }

    /// Names the model in the newer field alone. Only its parameters can be at odds with the
    /// older one. Gives whether that changes anything.
    pub(super) fn use_one_model_field(&mut self) -> bool {
        if self.model.parameters.is_empty() || self.one_model_field {
            return false;
        }
        self.memory.note_one_model_field(&self.model.id);
        self.one_model_field = true;
        true
    }

    /// Sends the schemas of tools as JSON text alone. Gives whether that changes anything.
    pub(super) fn use_schema_text(&mut self) -> bool {
        let Some(around) = self.around.with_schema_text() else { return false };
        self.around = Arc::new(around);
        true
    }
}

/// The header's name for the tool in "Required tool X not found in allTools".
fn missing_tool(words: &str) -> Option<String> {
    let (before, _) = words.split_once(" not found in allTools")?;
    let name = before.rsplit(' ').next()?.to_lowercase();
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let is_name = (1..=LONGEST).contains(&name.len()) && name.chars().all(legal);
    is_name.then(|| format!("{name}_tool_call"))
}

#[cfg(test)]
#[path = "allowed_tests.rs"]
mod tests;
