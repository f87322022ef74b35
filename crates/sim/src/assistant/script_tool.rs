//! Tools inside a tool: some clients offer one that runs a script, and list in its description
//! the functions that the script may call.

use serde_json::{Map, Value, json};

use super::{intent::Intent, tool_choice, tool_fit::fit};
use crate::prompt::{HistoryMessage, OfferedTool};

/// How such a description declares a function.
const DECLARED: &str = "declare const tools: { ";
/// Names of the argument that takes the script.
const SCRIPT_NAMES: &[&str] = &["input", "code", "script", "source"];
/// The argument of a function that takes a string rather than an object.
const PLAIN: &str = "input";

/// The offered tool with a script that carries out the intent.
pub(crate) fn call(
    tools: &[OfferedTool],
    intent: &Intent,
    seen: &[HistoryMessage],
) -> Option<(OfferedTool, Map<String, Value>)> {
    tools.iter().find_map(|tool| {
        let functions = functions(&tool.description);
        if functions.is_empty() {
            return None;
        }
        let (function, args) = tool_choice::call(&functions, intent, seen)?;
        let script = script(&function, args);
        Some((tool.clone(), fit(&tool.schema, &[(SCRIPT_NAMES, json!(script))])))
    })
}

/// A script that calls the function and prints its output.
fn script(function: &OfferedTool, mut args: Map<String, Value>) -> String {
    let plain = function.schema.get("type").and_then(Value::as_str) == Some("string");
    let text = if plain { args.remove(PLAIN) } else { None };
    let (name, input) = (&function.tool_name, text.unwrap_or(Value::Object(args)));
    format!("const result = await tools.{name}({input});\ntext(result?.output ?? result);\n")
}

/// The functions that a description declares.
fn functions(description: &str) -> Vec<OfferedTool> {
    description.split(DECLARED).skip(1).filter_map(function).collect()
}

/// One declaration: `name(input: string)…`, or `name(args: {` and a line for each argument.
fn function(declaration: &str) -> Option<OfferedTool> {
    let (name, rest) = declaration.split_once('(')?;
    let tool = |kind: &str, properties: Map<String, Value>, required: &[&str]| OfferedTool {
        name: name.to_owned(),
        tool_name: name.to_owned(),
        schema: json!({ "type": kind, "properties": properties, "required": required }),
        ..OfferedTool::default()
    };
    if rest.starts_with("input: string)") {
        let only = Map::from_iter([(PLAIN.to_owned(), json!({ "type": "string" }))]);
        return Some(tool("string", only, &[PLAIN]));
    }
    let (fields, _) = rest.strip_prefix("args: {")?.split_once("})")?;
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for line in fields.lines().map(str::trim).filter(|line| !line.starts_with("//")) {
        let Some((field, kind)) = line.split_once(": ") else { continue };
        let optional = field.strip_suffix('?');
        if optional.is_none() {
            required.push(field);
        }
        let kind = match kind.trim_end_matches(';') {
            "number" => "number",
            "boolean" => "boolean",
            list if list.starts_with("Array<") => "array",
            table if table.starts_with('{') => "object",
            _ => "string",
        };
        properties.insert(optional.unwrap_or(field).to_owned(), json!({ "type": kind }));
    }
    Some(tool("object", properties, &required))
}

#[cfg(test)]
#[path = "script_tool_tests.rs"]
mod tests;
