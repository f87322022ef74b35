//! A small MCP client that can list and call tools, over HTTP on this machine or over the pipes
//! of a child process. It shares no code with the gateway, so that a mistake in one shows in the
//! other.

mod config;
mod http;
mod stdio;

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use ibeam_proto::agent::McpSuccess;
use serde_json::{Map, Value, json};

pub(super) use self::config::{McpServerConfig, from_acp, from_workspace};
use self::{http::McpHttp, stdio::McpStdio};
use super::toolbox::{self, McpTool};

/// The newest version this client speaks.
const VERSION: &str = "2025-06-18";
/// The timeout for initialisation and the list of tools; calls have none.
const PATIENCE: Duration = Duration::from_secs(30);
/// Pages of a list of tools that are read at most.
const PAGES_CAP: usize = 64;
/// The largest message that is read from a server.
const MESSAGE_CAP: usize = 64 * 1024 * 1024;

/// An initialised connection to a server.
#[derive(Debug)]
pub(super) struct McpConnection {
    name: String,
    wire: McpTransport,
    /// The number of requests so far, for their ids.
    ids: AtomicU64,
}

#[derive(Debug)]
enum McpTransport {
    Http(McpHttp),
    Stdio(McpStdio),
}

impl McpConnection {
    /// Connects, initialises, and lists the tools.
    ///
    /// # Errors
    /// As text for stderr.
    pub(super) async fn open(config: &McpServerConfig) -> Result<(Self, Vec<McpTool>), String> {
        let name = config.name.clone();
        let greeting = async {
            let wire = match &config.target {
                config::McpTarget::Http { url, headers } => {
                    McpTransport::Http(McpHttp::new(url, headers)?)
                }
                config::McpTarget::Command { command, args, env } => {
                    McpTransport::Stdio(McpStdio::start(command, args, env)?)
                }
            };
            let mut server = Self { name: name.clone(), wire, ids: AtomicU64::new(0) };
            server.greet().await?;
            let offers = server.list().await?;
            Ok((server, offers))
        };
        let outcome: Result<_, String> = tokio::time::timeout(PATIENCE, greeting)
            .await
            .unwrap_or_else(|_| Err("no answer in time".to_owned()));
        outcome.map_err(|error| format!("MCP server {name}: {error}"))
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    async fn greet(&mut self) -> Result<(), String> {
        let hello = json!({
            "protocolVersion": VERSION,
            "capabilities": {},
            "clientInfo": { "name": "cursor", "version": super::VERSION },
        });
        let answer = self.ask("initialize", hello).await?;
        if let (McpTransport::Http(http), Some(version)) =
            (&mut self.wire, answer.get("protocolVersion").and_then(Value::as_str))
        {
            http.agree(version);
        }
        self.notify("notifications/initialized", json!({})).await
    }

    async fn list(&self) -> Result<Vec<McpTool>, String> {
        let mut offers = Vec::new();
        let mut cursor = None;
        for _ in 0..PAGES_CAP {
            let params =
                cursor.map_or_else(|| json!({}), |cursor: Value| json!({ "cursor": cursor }));
            let page = self.ask("tools/list", params).await?;
            let tools = page.get("tools").and_then(Value::as_array);
            offers.extend(tools.into_iter().flatten().map(|tool| self.offer(tool)));
            cursor = page.get("nextCursor").filter(|next| next.is_string()).cloned();
            if cursor.is_none() {
                break;
            }
        }
        Ok(offers)
    }

    fn offer(&self, tool: &Value) -> McpTool {
        let text = |name: &str| tool.get(name).and_then(Value::as_str).unwrap_or_default();
        McpTool {
            server: self.name.clone(),
            name: text("name").to_owned(),
            description: text("description").to_owned(),
            schema: tool.get("inputSchema").cloned().unwrap_or_else(|| json!({})),
        }
    }

    /// Calls a tool and waits for its result, up to the timeout if there is one.
    ///
    /// # Errors
    /// The server's own error, or an error of the connection.
    pub(super) async fn call(
        &self,
        tool: &str,
        args: &Map<String, Value>,
        limit: Option<Duration>,
    ) -> Result<McpSuccess, String> {
        let id = self.next_id();
        let params = json!({ "name": tool, "arguments": args, "_meta": { "progressToken": id } });
        let call = self.send(id, "tools/call", params);
        let result = match limit {
            None => call.await?,
            Some(limit) => match tokio::time::timeout(limit, call).await {
                Ok(result) => result?,
                Err(_) => {
                    let params = json!({ "requestId": id, "reason": "Request timed out" });
                    // If this fails too, the server is gone.
                    let _ = self.notify("notifications/cancelled", params).await;
                    return Err("MCP error -32001: Request timed out".to_owned());
                }
            },
        };
        Ok(toolbox::success(&result))
    }

    /// Ends the session, where the transport has one.
    pub(super) async fn close(&self) {
        if let McpTransport::Http(http) = &self.wire {
            http.close().await;
        }
    }

    fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed) + 1
    }

    async fn ask(&self, method: &str, params: Value) -> Result<Value, String> {
        self.send(self.next_id(), method, params).await
    }

    async fn send(&self, id: u64, method: &str, params: Value) -> Result<Value, String> {
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let answer = match &self.wire {
            McpTransport::Http(http) => http.ask(id, &message).await?,
            McpTransport::Stdio(stdio) => stdio.ask(id, &message).await?,
        };
        result_of(answer)
    }

    async fn notify(&self, method: &str, params: Value) -> Result<(), String> {
        let message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        match &self.wire {
            McpTransport::Http(http) => http.notify(&message).await,
            McpTransport::Stdio(stdio) => stdio.write(&message).await,
        }
    }
}

/// The result inside an answer.
fn result_of(mut answer: Value) -> Result<Value, String> {
    if let Some(error) = answer.get("error") {
        let code = error.get("code").and_then(Value::as_i64).unwrap_or_default();
        let message = error.get("message").and_then(Value::as_str).unwrap_or_default();
        return Err(format!("MCP error {code}: {message}"));
    }
    answer.get_mut("result").map(Value::take).ok_or_else(|| "an answer without a result".to_owned())
}

/// Whether this is the answer to the request with this id.
fn answers(message: &Value, id: u64) -> bool {
    message.get("id").and_then(Value::as_u64) == Some(id) && message.get("method").is_none()
}
