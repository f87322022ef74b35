//! The tools that a run may use, as the header names them, and other choices that a failure can
//! change.

use std::sync::Arc;

use ibeam_proto::fields::MESSAGES;

use super::{forms::ModelFacts, request::RunSpec};

/// Without the second one a run in which tools are offered by a meta tool is refused.
pub(super) const CLIENT_TOOLS: [&str; 2] = ["mcp_tool_call", "get_mcp_tools_tool_call"];

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

/// How the fields of this run were changed after failures. It is remembered for the model once a
/// changed run has answered: a failure alone proves nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct UnprovenFields {
    max_mode: bool,
    one_model_field: bool,
    tools: Vec<String>,
}

impl UnprovenFields {
    fn is_empty(&self) -> bool {
        !self.max_mode && !self.one_model_field && self.tools.is_empty()
    }

    fn add_to(self, facts: &mut ModelFacts) {
        facts.max_mode |= self.max_mode;
        facts.one_model_field |= self.one_model_field;
        for tool in self.tools.into_iter().filter(|tool| is_known(tool)) {
            facts.allow_tool(tool);
        }
    }
}

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
        } else if around.facts.empty_list_ignored {
            // There are none of these, so nothing is left.
            names.extend(CLIENT_TOOLS);
        }
        names.join(",")
    }

    /// Allows the tool that the service misses. Returns whether that is new.
    pub(super) fn allow_tool(&mut self, words: &str) -> bool {
        let Some(tool) = missing_tool(words) else { return false };
        if self.more_tools.contains(&tool) {
            return false;
        }
        self.unproven.tools.push(tool.clone());
        self.more_tools.push(tool);
        true
    }

    /// The run answers, so the changes of its fields were right.
    pub(super) fn learn_fields(&mut self) {
        if !self.unproven.is_empty() {
            let proven = std::mem::take(&mut self.unproven);
            self.memory.update(&self.model.id, |facts| proven.add_to(facts));
        }
    }

    /// It was the history that failed, so nothing is learned about how the model is named.
    pub(super) fn acquit_fields(&mut self) {
        self.unproven.one_model_field = false;
    }

    /// Returns whether the model was not in its maximum mode yet.
    pub(super) fn use_max_mode(&mut self) -> bool {
        let is_new = !std::mem::replace(&mut self.model.max_mode, true);
        self.unproven.max_mode |= is_new;
        is_new
    }

    /// Names the model in the newer field alone. Only its parameters can be at odds with the
    /// older one. Gives whether that changes anything.
    pub(super) fn use_one_model_field(&mut self) -> bool {
        if self.model.parameters.is_empty() || self.one_model_field {
            return false;
        }
        (self.one_model_field, self.unproven.one_model_field) = (true, true);
        true
    }

    /// Sends the schemas of tools as JSON text alone. Gives whether that changes anything.
    pub(super) fn use_schema_text(&mut self) -> bool {
        let Some(around) = self.around.with_schema_text() else { return false };
        self.around = Arc::new(around);
        true
    }
}

/// Whether this is a tool of the schema. Another one may help this run, but is not remembered.
fn is_known(tool: &str) -> bool {
    let calls = MESSAGES.iter().find(|message| message.name == "agent.v1.ToolCall");
    tool.ends_with("_tool_call")
        && calls.is_some_and(|calls| calls.fields.iter().any(|field| field.name == tool))
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
