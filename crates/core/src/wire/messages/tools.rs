//! The tools of a request, and which of them the model must call.

use serde_json::value::RawValue;

use super::types;
use crate::{
    error::TurnError,
    model::{ParamHandling, Tool, ToolChoice},
    wire::{
        json::{check_tools, invalid, required},
        lenient::Object,
    },
};

/// Tools that Anthropic's servers would run: what their types begin with, and the name under
/// which they are listed as ignored.
const SERVER: [(&str, &str); 3] = [
    ("web_search_", "tools.web_search"),
    ("web_fetch_", "tools.web_fetch"),
    ("code_execution_", "tools.code_execution"),
];

/// The error of a tool without a name.
const NAMELESS: &str = "a tool needs a `name`";

/// What the `tools` of a request come to.
#[derive(Debug, Default)]
pub(super) struct OfferedTools {
    pub(super) tools: Vec<Tool>,
    /// The names of tools that are not offered to the model.
    left_out: Vec<String>,
}

/// A tool whose schema clients do not send, because the models were taught it. The client
/// runs it like any other.
struct Published {
    /// What its types begin with; a date follows.
    prefix: &'static str,
    description: &'static str,
    schema: fn(kind: &str) -> &'static str,
}

const PUBLISHED: [Published; 3] = [
    Published {
        prefix: "bash_",
        description: "Runs a command in a bash session that keeps its state from call to call.",
        schema: |_| BASH,
    },
    Published {
        prefix: "text_editor_",
        description: "Looks at, creates and edits text files.",
        schema: |kind| match kind {
            "text_editor_20241022" | "text_editor_20250124" => EDITOR_WITH_UNDO,
            _ => EDITOR,
        },
    },
    Published {
        prefix: "memory_",
        description: "Keeps notes in files under /memories that outlast the conversation.",
        schema: |_| MEMORY,
    },
];

const BASH: &str = r#"{"type":"object","properties":{"command":{"type":"string","description":"The command to run; required unless `restart` is set."},"restart":{"type":"boolean","description":"Restarts the session."}}}"#;

const EDITOR: &str = r#"{"type":"object","properties":{"command":{"type":"string","enum":["view","create","str_replace","insert"]},"path":{"type":"string","description":"The file, or for `view` also a folder."},"view_range":{"type":"array","items":{"type":"integer"},"minItems":2,"maxItems":2,"description":"For `view`: first and last line, counted from 1; -1 is the end."},"file_text":{"type":"string","description":"For `create`: the content."},"old_str":{"type":"string","description":"For `str_replace`: what is replaced, exactly as it stands in the file."},"new_str":{"type":"string","description":"For `str_replace`: what takes its place."},"insert_line":{"type":"integer","description":"For `insert`: the line after which, 0 for the start."},"insert_text":{"type":"string","description":"For `insert`: the text."}},"required":["command","path"]}"#;

const EDITOR_WITH_UNDO: &str = r#"{"type":"object","properties":{"command":{"type":"string","enum":["view","create","str_replace","insert","undo_edit"]},"path":{"type":"string","description":"The file, or for `view` also a folder."},"view_range":{"type":"array","items":{"type":"integer"},"minItems":2,"maxItems":2,"description":"For `view`: first and last line, counted from 1; -1 is the end."},"file_text":{"type":"string","description":"For `create`: the content."},"old_str":{"type":"string","description":"For `str_replace`: what is replaced, exactly as it stands in the file."},"new_str":{"type":"string","description":"For `str_replace`: what takes its place; for `insert`: the text."},"insert_line":{"type":"integer","description":"For `insert`: the line after which, 0 for the start."}},"required":["command","path"]}"#;

const MEMORY: &str = r#"{"type":"object","properties":{"command":{"type":"string","enum":["view","create","str_replace","insert","delete","rename"]},"path":{"type":"string","description":"The file or folder; every command but `rename` needs it."},"view_range":{"type":"array","items":{"type":"integer"},"minItems":2,"maxItems":2,"description":"For `view`: first and last line."},"file_text":{"type":"string","description":"For `create`: the content."},"old_str":{"type":"string","description":"For `str_replace`: what is replaced."},"new_str":{"type":"string","description":"For `str_replace`: what takes its place."},"insert_line":{"type":"integer","description":"For `insert`: the line after which."},"insert_text":{"type":"string","description":"For `insert`: the text."},"old_path":{"type":"string","description":"For `rename`."},"new_path":{"type":"string","description":"For `rename`."}},"required":["command"]}"#;

/// Decodes `tools`, and those that came later, each with its path. Server tools and unknown kinds
/// are left out and listed: clients offer them by habit, and a refusal would lock them out.
pub(super) fn decode(
    given: Vec<Object<types::MessagesTool>>,
    later: Vec<(String, types::MessagesTool)>,
    params: &mut ParamHandling,
) -> Result<OfferedTools, TurnError> {
    check_tools(given.len() + later.len())?;
    let mut tools: Vec<Tool> = Vec::with_capacity(given.len() + later.len());
    let mut left_out = Vec::new();
    let given = given.into_iter().enumerate();
    let given = given.map(|(index, Object(tool))| (format!("tools[{index}]"), tool));
    for (path, tool) in given.chain(later) {
        let kind = tool.r#type.as_deref().unwrap_or("custom");
        if kind == "custom" {
            let tool = custom(&path, tool)?;
            // The newest of a name counts.
            tools.retain(|old| old.name != tool.name);
            tools.push(tool);
        } else if let Some(known) = PUBLISHED.iter().find(|known| kind.starts_with(known.prefix)) {
            let schema = (known.schema)(kind).to_owned();
            tools.push(Tool {
                name: required(tool.name, &path, "name", NAMELESS)?,
                description: known.description.to_owned(),
                schema: RawValue::from_string(schema).ok(),
            });
        } else {
            let server = SERVER.iter().find(|(prefix, _)| kind.starts_with(prefix));
            let listed = server.map_or("tools.type", |(_, listed)| *listed);
            if !params.ignored.contains(&listed) {
                params.ignored.push(listed);
            }
            left_out.extend(tool.name);
        }
    }
    if !tools.is_empty() {
        params.native.push("tools");
    }
    Ok(OfferedTools { tools, left_out })
}

fn custom(path: &str, tool: types::MessagesTool) -> Result<Tool, TurnError> {
    let name = required(tool.name, path, "name", NAMELESS)?;
    if tool.input_schema.as_ref().is_some_and(|schema| !schema.get().starts_with('{')) {
        return Err(invalid(
            format!("{path}.input_schema"),
            "the input of a tool must be described by a JSON Schema object",
        ));
    }
    let description = tool.description.unwrap_or_default();
    Ok(Tool { name, description, schema: tool.input_schema })
}

/// Decodes `tool_choice`; the second is whether calls may come in parallel. A choice that only
/// tools could meet that were dropped is dropped with them.
pub(super) fn choice(
    given: Option<Object<types::MessagesToolChoice>>,
    OfferedTools { tools, left_out }: &OfferedTools,
    params: &mut ParamHandling,
) -> Result<(ToolChoice, bool), TurnError> {
    let Some(Object(given)) = given else { return Ok((ToolChoice::Auto, true)) };
    let parallel = !given.disable_parallel_tool_use.unwrap_or(false);
    let has = |name: &String| tools.iter().any(|tool| tool.name == *name);
    let unmet = match given.r#type.as_deref() {
        Some("any") => tools.is_empty() && !left_out.is_empty(),
        Some("tool") => {
            given.name.as_ref().is_some_and(|name| !has(name) && left_out.contains(name))
        }
        _ => false,
    };
    if unmet {
        params.ignored.push("tool_choice");
        return Ok((ToolChoice::Auto, parallel));
    }
    params.native.push("tool_choice");
    let choice = match given.r#type.as_deref() {
        Some("auto") => ToolChoice::Auto,
        Some("none") => ToolChoice::None,
        Some("any") if tools.is_empty() => {
            return Err(invalid(
                "tool_choice",
                "`tool_choice` requires a tool, but `tools` is empty",
            ));
        }
        Some("any") => ToolChoice::Required,
        Some("tool") => match given.name {
            Some(name) if has(&name) => ToolChoice::Named(name),
            _ => {
                return Err(invalid("tool_choice.name", "`tool_choice` must name one of `tools`"));
            }
        },
        _ => {
            return Err(invalid(
                "tool_choice.type",
                "`tool_choice.type` must be auto, any, tool or none",
            ));
        }
    };
    Ok((choice, parallel))
}

#[cfg(test)]
#[path = "tools_tests.rs"]
mod tests;
