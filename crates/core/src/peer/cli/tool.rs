//! The child's tool calls, each as one line.

use serde_json::value::RawValue;

use super::{
    event::{Fields, fields, text_of},
    plain::one_line,
};
use crate::peer::child::SERVER_NAME;

/// How many characters of the arguments, or of an error, are shown.
const SHOWN: usize = 200;
/// The same for the name of a tool that is in no table.
const NAME: usize = 64;

/// Names of older and of newer builds, and the name that is shown. Beside them: which
/// arguments are shown, in this order.
const TOOLS: &[(&[&str], &str, &[&str])] = &[
    (&["shell", "bash"], "bash", &["command"]),
    (&["read", "readFile"], "read", PATH),
    (&["write", "writeFile"], "write", PATH),
    (&["edit", "editFile"], "edit", PATH),
    (&["delete", "deleteFile"], "delete", PATH),
    (&["ls", "listDir"], "ls", PATH),
    (&["glob"], "glob", &["globPattern", "pattern", "targetDirectory"]),
    (&["grep"], "grep", &["pattern", "path"]),
    (&["semSearch"], "search", &["query"]),
    (&["webFetch"], "fetch", &["url"]),
    (&["webSearch"], "websearch", &["searchTerm", "query"]),
    (&["readLints"], "lints", &[]),
    (&["updateTodos"], "todos", &[]),
    (&["task"], "task", &["description"]),
];

const PATH: &[&str] = &["path", "filePath", "file_path"];

/// How a name begins when it is one of ours and nothing else says so.
const HOSTED_PREFIXES: [&str; 4] = ["", "user-", "mcp_", "mcp__"];

/// What can be shown of a call.
pub(super) struct CliCall<'a> {
    name: String,
    /// The names of the arguments that are shown.
    keys: &'static [&'static str],
    /// It is one of the client's tools, hosted for the child.
    pub(super) hosted: bool,
    arguments: CallArguments<'a>,
    result: Option<Fields<'a>>,
}

enum CallArguments<'a> {
    None,
    Raw(&'a RawValue),
    /// JSON within a string.
    Text(String),
}

impl<'a> CliCall<'a> {
    pub(super) fn read(raw: &'a RawValue) -> Option<Self> {
        let kinds = fields(raw)?;
        let (kind, body) = kinds.iter().find_map(|(key, body)| {
            let kind = if key == "function" { "" } else { key.strip_suffix("ToolCall")? };
            Some((lower_first(kind), *body))
        })?;
        let body = fields(body).unwrap_or_default();
        let text = |key: &str| body.get(key).copied().and_then(text_of);
        let result = body.get("result").copied().and_then(fields);
        if kind.is_empty() {
            let name = text("name")?;
            let arguments = match (body.get("arguments"), text("arguments")) {
                (_, Some(text)) => CallArguments::Text(text),
                (Some(raw), None) => CallArguments::Raw(raw),
                (None, None) => CallArguments::None,
            };
            let hosted = is_hosted_name(&name);
            let plain = lower_first(name.strip_suffix("ToolCall").unwrap_or(&name));
            return Some(Self { hosted, result, ..Self::named(&plain, arguments) });
        }
        let arguments = body.get("args").map_or(CallArguments::None, |raw| CallArguments::Raw(raw));
        if kind == "mcp" {
            return Some(Self { result, ..Self::mcp(&arguments) });
        }
        Some(Self { result, ..Self::named(&kind, arguments) })
    }

    /// What it is about to do.
    pub(super) fn line(&self) -> String {
        let arguments = self.arguments.shown(self.keys);
        let arguments = one_line(&arguments, SHOWN);
        format!("[{}] {arguments}", self.name).trim_end().to_owned()
    }

    /// What went wrong, if it did.
    pub(super) fn failure(&self) -> Option<String> {
        let result = self.result.as_ref()?;
        let bad = ["error", "failure", "rejected"].iter().find_map(|key| {
            let body = result.get(*key).copied()?;
            (body.get() != "null").then_some((*key, body))
        });
        let (word, body) = match bad {
            Some((key, body)) => (if key == "rejected" { "rejected" } else { "failed" }, body),
            // MCP tools that fail are a success of the call.
            None => ("failed", result.get("success").copied().filter(|body| is_mcp_error(body))?),
        };
        let why = one_line(&reason(body), SHOWN);
        let colon = if why.is_empty() { "" } else { ": " };
        Some(format!("[{}] {word}{colon}{why}", self.name))
    }

    fn named(kind: &str, arguments: CallArguments<'a>) -> Self {
        let known = TOOLS.iter().find(|(names, ..)| names.contains(&kind));
        let (name, keys) = known.map_or_else(
            || (one_line(kind, NAME), &[][..]),
            |(_, name, keys)| ((*name).to_owned(), *keys),
        );
        Self { name, keys, hosted: false, arguments, result: None }
    }

    /// A tool of some MCP server: of ours, or of one that the user gave to the CLI.
    fn mcp(arguments: &CallArguments<'a>) -> Self {
        let body = arguments.fields().unwrap_or_default();
        let text = |key: &str| body.get(key).copied().and_then(text_of);
        let server = text("providerIdentifier").filter(|server| !server.is_empty());
        let name = text("name").unwrap_or_default();
        let tool = text("toolName").filter(|tool| !tool.is_empty());
        let hosted = match &server {
            Some(server) => server == SERVER_NAME,
            None => is_hosted_name(&name),
        };
        let name = match (server, tool) {
            (Some(server), Some(tool)) => format!("{server}.{tool}"),
            (None, Some(tool)) => tool,
            (_, None) => name,
        };
        let inner = body.get("args").map_or(CallArguments::None, |raw| CallArguments::Raw(raw));
        let name = one_line(&format!("mcp {name}"), NAME);
        Self { name, keys: &[], hosted, arguments: inner, result: None }
    }
}

impl<'a> CallArguments<'a> {
    fn fields(&self) -> Option<Fields<'a>> {
        match self {
            Self::Raw(raw) => fields(raw),
            Self::None | Self::Text(_) => None,
        }
    }

    /// The arguments of these names, or all of them as they are written.
    fn shown(&self, keys: &[&str]) -> String {
        let chosen = |all: &Fields<'_>| {
            let values = keys.iter().filter_map(|key| all.get(*key).copied().and_then(text_of));
            values.filter(|value| !value.is_empty()).collect::<Vec<String>>().join(" ")
        };
        let (fields, text) = match self {
            Self::None => return String::new(),
            Self::Raw(raw) => (fields(raw), raw.get()),
            Self::Text(text) => (serde_json::from_str(text).ok(), text.as_str()),
        };
        let chosen = fields.as_ref().map(chosen).unwrap_or_default();
        let nothing = matches!(text.trim(), "{}" | "null");
        if !chosen.is_empty() || nothing { chosen } else { text.to_owned() }
    }
}

/// Why a call failed, in the words of its result.
fn reason(body: &RawValue) -> String {
    if let Some(text) = text_of(body) {
        return text;
    }
    let Some(fields) = fields(body) else { return body.get().to_owned() };
    let said = ["message", "errorMessage", "error", "reason", "stderr"]
        .iter()
        .filter_map(|key| fields.get(*key).copied().and_then(text_of))
        .find(|text| !text.trim().is_empty());
    let code = fields.get("exitCode").map(|code| format!("exit code {}", code.get()));
    match (code, said) {
        (Some(code), Some(said)) => format!("{code}: {said}"),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) if fields.is_empty() => String::new(),
        (None, None) => body.get().to_owned(),
    }
}

fn is_mcp_error(body: &RawValue) -> bool {
    fields(body).is_some_and(|body| body.get("isError").is_some_and(|flag| flag.get() == "true"))
}

fn is_hosted_name(name: &str) -> bool {
    HOSTED_PREFIXES.iter().any(|prefix| {
        let rest = name.strip_prefix(prefix).and_then(|rest| rest.strip_prefix(SERVER_NAME));
        rest.is_some_and(|rest| rest.starts_with(['-', '_', '.', ':', '/']))
    })
}

/// Older builds write the first letter large.
fn lower_first(name: &str) -> String {
    let mut chars = name.chars();
    chars
        .next()
        .map_or_else(String::new, |first| first.to_ascii_lowercase().to_string() + chars.as_str())
}

#[cfg(test)]
#[path = "tool_tests.rs"]
mod tests;
