//! Finds offered tools by purpose, and makes arguments that fit their schemas.

use serde_json::{Map, Value, json};

use crate::prompt::OfferedTool;

/// Parts of names that give a tool another purpose.
const OTHER: &[&str] = &["todo", "notebook", "web_search", "tool_search", "memory"];

/// What a tool is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToolPurpose {
    Shell,
    Read,
    Write,
    Edit,
    /// Takes a patch as one string.
    Patch,
    List,
    Glob,
    Grep,
    Fetch,
}

impl ToolPurpose {
    /// Names under which coding clients offer such a tool, the likeliest first.
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Shell => &[
                "bash",
                "shell",
                "run_terminal_cmd",
                "run_terminal_command",
                "exec_command",
                "execute_command",
                "run_command",
                "run_shell_command",
                "local_shell",
                "terminal",
                "developer__shell",
            ],
            Self::Read => {
                &["read", "read_file", "readfile", "view", "view_file", "open_file", "cat"]
            }
            Self::Write => &[
                "write",
                "write_file",
                "writefile",
                "write_to_file",
                "create_file",
                "create_new_file",
                "create",
            ],
            Self::Edit => &["edit", "edit_file", "str_replace", "search_replace", "replace"],
            Self::Patch => &["apply_patch"],
            Self::List => &["list", "ls", "list_dir", "list_directory", "list_files", "builtin_ls"],
            Self::Glob => &["glob", "find", "glob_file_search", "file_search", "find_files"],
            Self::Grep => &["grep", "search", "grep_search", "search_files", "ripgrep"],
            Self::Fetch => &["webfetch", "web_fetch", "fetch", "fetch_url", "fetch_url_content"],
        }
    }

    /// Whether a tool of this name has this purpose.
    pub(crate) fn is(self, name: &str) -> bool {
        self.names().contains(&plain(name).as_str())
    }

    /// The offered tool with this purpose.
    pub(crate) fn find(self, tools: &[OfferedTool]) -> Option<&OfferedTool> {
        let exact = self
            .names()
            .iter()
            .find_map(|name| tools.iter().find(|tool| plain(&tool.tool_name) == *name));
        // Some clients put a server name in front.
        exact.or_else(|| {
            self.names().iter().find_map(|name| {
                tools.iter().find(|tool| {
                    let full = plain(&tool.tool_name);
                    // `todo_write` does not write files, `web_search` does not search folders.
                    !OTHER.iter().any(|other| full.contains(other))
                        && full
                            .strip_suffix(name)
                            .is_some_and(|head| head.ends_with(['_', '.', '/']))
                })
            })
        })
    }
}

/// A tool's name as a model understands it: `read_tool` is for reading.
pub(super) fn plain(name: &str) -> String {
    let name = name.to_lowercase().replace('-', "_");
    name.strip_suffix("_tool").unwrap_or(&name).to_owned()
}

/// Puts values under the property names that a schema uses for them, and fills in everything
/// else that it requires.
///
/// `wants` holds each value with its possible names, the likeliest first.
pub(crate) fn fit(schema: &Value, wants: &[(&[&str], Value)]) -> Map<String, Value> {
    let empty = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    let mut args = Map::new();
    for (names, value) in wants {
        let plain = |name: &str| name.to_lowercase().replace('_', "");
        let found = names
            .iter()
            .find_map(|name| properties.keys().find(|key| plain(key) == plain(name)))
            .cloned()
            .or_else(|| {
                names.first().map(|name| (*name).to_owned()).filter(|_| properties.is_empty())
            });
        if let Some(key) = found {
            let shaped = shape(properties.get(&key), value);
            args.entry(key).or_insert(shaped);
        }
    }
    let required = schema.get("required").and_then(Value::as_array);
    for name in required.into_iter().flatten().filter_map(Value::as_str) {
        if !args.contains_key(name) {
            args.insert(name.to_owned(), sample(properties.get(name), name));
        }
    }
    args
}

/// Turns a command into a list of words where the schema wants one.
fn shape(property: Option<&Value>, value: &Value) -> Value {
    let kind = property.and_then(|p| p.get("type")).and_then(Value::as_str);
    match (kind, value) {
        (Some("array"), Value::String(command)) => json!(["bash", "-lc", command]),
        _ => value.clone(),
    }
}

/// A valid value for a property that the user did not mention.
fn sample(property: Option<&Value>, name: &str) -> Value {
    let get = |key: &str| property.and_then(|p| p.get(key));
    if let Some(value) = get("default").or_else(|| get("const")) {
        return value.clone();
    }
    if let Some(first) = get("enum").and_then(Value::as_array).and_then(|list| list.first()) {
        return first.clone();
    }
    let kind = match get("type") {
        Some(Value::String(kind)) => kind.as_str(),
        Some(Value::Array(kinds)) => kinds.first().and_then(Value::as_str).unwrap_or("string"),
        _ => "string",
    };
    match kind {
        "boolean" => json!(false),
        "integer" | "number" => get("minimum").cloned().unwrap_or_else(|| json!(1)),
        "array" => json!([]),
        "object" => Value::Object(fit(property.unwrap_or(&Value::Null), &[])),
        "null" => Value::Null,
        _ => json!(match name {
            "description" | "explanation" | "reason" => "As the user asked",
            "path" | "file_path" | "filePath" | "dir" | "directory" => ".",
            _ => "x",
        }),
    }
}

#[cfg(test)]
#[path = "tool_fit_tests.rs"]
mod tests;
