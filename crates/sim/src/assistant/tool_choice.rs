//! Which of the client's tools does what the user wants, and with which arguments.

use serde_json::{Map, Value, json};

use super::{
    intent::Intent,
    patch_tool, script_tool,
    tool_fit::{ToolPurpose, fit, plain},
};
use crate::prompt::{HistoryMessage, OfferedTool};

const SHELL_NAMES: &[&str] = &["command", "cmd", "script", "code", "input"];
const PATH_NAMES: &[&str] =
    &["file_path", "path", "target_file", "filename", "file", "absolute_path", "filepath"];
const DIR_NAMES: &[&str] =
    &["path", "dir_path", "target_directory", "directory", "relative_workspace_path", "dirpath"];
const TEXT_NAMES: &[&str] = &["content", "contents", "file_text", "text", "new_content"];
const OLD_NAMES: &[&str] = &["old_string", "oldText", "old_str", "old_text", "search"];
const NEW_NAMES: &[&str] = &["new_string", "newText", "new_str", "new_text", "replace"];
const PATTERN_NAMES: &[&str] = &["pattern", "query", "regex", "glob_pattern", "search"];
const URL_NAMES: &[&str] = &["url", "uri", "link"];
const NOTE_NAMES: &[&str] = &["description", "explanation"];

/// The tool for an intent, with its arguments. `seen` are the results so far.
pub(crate) fn call(
    tools: &[OfferedTool],
    intent: &Intent,
    seen: &[HistoryMessage],
) -> Option<(OfferedTool, Map<String, Value>)> {
    if let Intent::Named { tool, args, words } = intent {
        let exact = tools.iter().find(|t| t.tool_name == *tool || t.name == *tool);
        let close = || tools.iter().find(|t| plain(&t.tool_name) == plain(tool));
        let found = exact.or_else(close)?;
        let mut full = fit(&found.schema, &[]);
        if args.is_empty() {
            say_into(&found.schema, words, &mut full);
        }
        full.extend(args.clone());
        return Some((found.clone(), full));
    }
    let (purpose, wants) = needs(intent);
    if let Some(tool) = purpose.find(tools) {
        return Some((tool.clone(), fit(&tool.schema, &wants)));
    }
    if let Some((tool, args)) = patch_tool::call(tools, intent, seen) {
        return Some((tool.clone(), args));
    }
    by_shell(tools, intent).or_else(|| script_tool::call(tools, intent, seen))
}

/// The shell tool, which can do most things.
fn by_shell(tools: &[OfferedTool], intent: &Intent) -> Option<(OfferedTool, Map<String, Value>)> {
    let (tool, command) = (ToolPurpose::Shell.find(tools)?, intent.as_command()?);
    let wants = [(SHELL_NAMES, json!(command)), (NOTE_NAMES, json!("As the user asked"))];
    Some((tool.clone(), fit(&tool.schema, &wants)))
}

/// The purpose of the tool that an intent needs, and the argument values with their usual names.
fn needs(intent: &Intent) -> (ToolPurpose, Vec<(&'static [&'static str], Value)>) {
    match intent {
        Intent::Shell(command) => (
            ToolPurpose::Shell,
            vec![(SHELL_NAMES, json!(command)), (NOTE_NAMES, json!("As the user asked"))],
        ),
        Intent::Read(path) => (ToolPurpose::Read, vec![(PATH_NAMES, json!(path))]),
        Intent::Write { path, text } => {
            (ToolPurpose::Write, vec![(PATH_NAMES, json!(path)), (TEXT_NAMES, json!(text))])
        }
        Intent::Edit { path, old, new } => (
            ToolPurpose::Edit,
            vec![
                (PATH_NAMES, json!(path)),
                (OLD_NAMES, json!(old)),
                (NEW_NAMES, json!(new)),
                (&["replace_all"], json!(true)),
                (&["edits"], json!([{ "oldText": old, "newText": new }])),
            ],
        ),
        Intent::List(path) => (ToolPurpose::List, vec![(DIR_NAMES, json!(path))]),
        Intent::Glob(pattern) => (ToolPurpose::Glob, vec![(PATTERN_NAMES, json!(pattern))]),
        Intent::Grep(pattern) => (ToolPurpose::Grep, vec![(PATTERN_NAMES, json!(pattern))]),
        Intent::Fetch(url) => (ToolPurpose::Fetch, vec![(URL_NAMES, json!(url))]),
        Intent::Named { .. } => (ToolPurpose::Shell, Vec::new()),
    }
}

/// Words without an argument name become the first string that the schema requires.
fn say_into(schema: &Value, words: &[String], args: &mut Map<String, Value>) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
    let said: Vec<&str> =
        words.iter().map(String::as_str).filter(|word| !properties.contains_key(*word)).collect();
    let is_text = |name: &&str| {
        properties.get(*name).and_then(|property| property.get("type")?.as_str()) == Some("string")
    };
    let required = schema.get("required").and_then(Value::as_array);
    let names = required.into_iter().flatten().filter_map(Value::as_str);
    let first = names.chain(properties.keys().map(String::as_str)).find(is_text);
    if let Some(name) = first.filter(|_| !said.is_empty()) {
        args.insert(name.to_owned(), Value::String(said.join(" ")));
    }
}
