//! The configured MCP servers: from `<workspace>/.cursor/mcp.json` (§9.2), or from the list that
//! an ACP client sends with a session (§9.6).

use std::{collections::BTreeMap, path::Path};

use serde::Deserialize;
use serde_json::Value;

use crate::{blobs::id_of, protobuf::hex};

/// A server and how to reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct McpServerConfig {
    pub(super) name: String,
    pub(super) target: McpTarget,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum McpTarget {
    Http { url: String, headers: Vec<(String, String)> },
    Command { command: String, args: Vec<String>, env: Vec<(String, String)> },
}

impl McpServerConfig {
    pub(in super::super) fn name(&self) -> &str {
        &self.name
    }

    /// The key of its approval in a folder. Any change of the entry makes another one.
    pub(in super::super) fn approval_key(&self, folder: &Path) -> String {
        let entry = format!("{} {:?}", folder.display(), self.target);
        let hash = hex(id_of(entry.as_bytes()).get(..8).unwrap_or_default());
        format!("{}-{hash}", self.name)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct McpFile {
    #[serde(rename = "mcpServers")]
    servers: BTreeMap<String, McpFileEntry>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct McpFileEntry {
    url: Option<String>,
    headers: BTreeMap<String, String>,
    command: Option<String>,
    args: Vec<String>,
    env: BTreeMap<String, String>,
}

/// The servers of a workspace; empty without the file.
///
/// # Errors
/// The file exists and is not valid.
pub(in super::super) fn from_workspace(workspace: &Path) -> Result<Vec<McpServerConfig>, String> {
    let path = workspace.join(".cursor").join("mcp.json");
    let Ok(text) = std::fs::read_to_string(&path) else { return Ok(Vec::new()) };
    let bad = |what: String| format!("{}: {what}", path.display());
    let file: McpFile = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
    file.servers
        .into_iter()
        .map(|(name, entry)| {
            let target = match (entry.url, entry.command) {
                (Some(url), _) => {
                    McpTarget::Http { url, headers: entry.headers.into_iter().collect() }
                }
                (None, Some(command)) => {
                    let env = entry.env.into_iter().collect();
                    McpTarget::Command { command, args: entry.args, env }
                }
                (None, None) => return Err(bad(format!("{name} has neither url nor command"))),
            };
            Ok(McpServerConfig { name, target })
        })
        .collect()
}

/// The servers in `session/new`: `type` is `http` or `sse`, or missing for a command;
/// headers and environment are lists of name and value.
pub(in super::super) fn from_acp(list: &Value) -> Vec<McpServerConfig> {
    let pairs = |value: Option<&Value>| -> Vec<(String, String)> {
        let text = |pair: &Value, name: &str| pair.get(name)?.as_str().map(str::to_owned);
        let list = value.and_then(Value::as_array).into_iter().flatten();
        list.filter_map(|pair| Some((text(pair, "name")?, text(pair, "value")?))).collect()
    };
    let server = |entry: &Value| {
        let text = |name: &str| entry.get(name)?.as_str().map(str::to_owned);
        let target = match (text("url"), text("command")) {
            (Some(url), _) => McpTarget::Http { url, headers: pairs(entry.get("headers")) },
            (None, Some(command)) => {
                let words = entry.get("args").and_then(Value::as_array).into_iter().flatten();
                let args = words.filter_map(|word| word.as_str().map(str::to_owned)).collect();
                McpTarget::Command { command, args, env: pairs(entry.get("env")) }
            }
            (None, None) => return None,
        };
        Some(McpServerConfig { name: text("name")?, target })
    };
    list.as_array().into_iter().flatten().filter_map(server).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{McpServerConfig, McpTarget, from_acp};

    #[test]
    fn acp_servers_have_lists_of_pairs() {
        let servers = from_acp(&json!([
            { "type": "http", "name": "a", "url": "http://127.0.0.1:1/x",
              "headers": [{ "name": "authorization", "value": "Bearer y" }] },
            { "name": "b", "command": "srv", "args": ["-v"], "env": [] },
            { "name": "c" },
        ]));
        let a = McpTarget::Http {
            url: "http://127.0.0.1:1/x".to_owned(),
            headers: vec![("authorization".to_owned(), "Bearer y".to_owned())],
        };
        let b = McpTarget::Command {
            command: "srv".to_owned(),
            args: vec!["-v".to_owned()],
            env: Vec::new(),
        };
        assert_eq!(
            servers,
            [
                McpServerConfig { name: "a".to_owned(), target: a },
                McpServerConfig { name: "b".to_owned(), target: b },
            ]
        );
    }
}
