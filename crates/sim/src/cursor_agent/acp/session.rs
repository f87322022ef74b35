//! A conversation under ACP: how it is opened, and its settings.

use std::{path::Path, sync::Arc};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::super::{
    args::CliMode,
    mcp::{self, McpServerConfig},
    permissions::CliPermissions,
    state_dir::StoredChat,
    switches::FakeSwitch,
    toolbox::FakeTools,
};
use super::{AcpAgent, PermissionAsker, RpcFailure, RpcResult, objects, text};
use crate::prompt::blocks;

#[derive(Debug)]
pub(super) struct AcpSession {
    id: String,
    tools: Arc<FakeTools>,
    state: Mutex<AcpSessionState>,
}

#[derive(Debug)]
struct AcpSessionState {
    chat: StoredChat,
    mode: CliMode,
    cancel: CancellationToken,
}

impl AcpSession {
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn tools(&self) -> Arc<FakeTools> {
        Arc::clone(&self.tools)
    }

    /// Begins a turn: the conversation so far, the mode, and the token to cancel it.
    pub(super) fn begin(&self) -> (StoredChat, CliMode, CancellationToken) {
        let mut state = self.state.lock();
        state.cancel = CancellationToken::new();
        (state.chat.clone(), state.mode, state.cancel.clone())
    }

    pub(super) fn keep(&self, chat: StoredChat) {
        self.state.lock().chat = chat;
    }

    pub(super) fn cancel(&self) {
        self.state.lock().cancel.cancel();
    }

    pub(super) fn set_mode(&self, mode: CliMode) {
        self.state.lock().mode = mode;
    }

    pub(super) fn set_model(&self, model: &str) {
        model.clone_into(&mut self.state.lock().chat.model);
    }

    pub(super) fn options(&self) -> Value {
        let state = self.state.lock();
        objects::options(&state.chat.model, state.mode)
    }

    /// The description of a session in the answer that opens it.
    fn described(&self) -> Value {
        let state = self.state.lock();
        objects::session(&state.chat.model, state.mode)
    }
}

impl AcpAgent {
    pub(super) async fn open(&self, params: &Value) -> RpcResult {
        self.check()?;
        let id = self.fake.home.new_id()?;
        let model = self.model.clone().unwrap_or_else(|| "default[]".to_owned());
        let chat = StoredChat { id, model, ..StoredChat::default() };
        let session = self.set_up(chat, params).await?;
        let mut answer = session.described();
        if let Some(table) = answer.as_object_mut() {
            table.insert("sessionId".to_owned(), json!(session.id()));
        }
        Ok(answer)
    }

    /// Replays the conversation, then answers.
    pub(super) async fn load(&self, params: &Value) -> RpcResult {
        self.check()?;
        let id = text(params, "sessionId")?;
        let lost = || RpcFailure::new(RpcFailure::NO_SESSION, format!("Session {id} not found"));
        let chat = self.fake.home.chat(id).ok_or_else(lost)?;
        let past = chat.messages.clone();
        let session = self.set_up(chat, params).await?;
        for update in past.iter().flat_map(replayed) {
            self.rpc.update(session.id(), &update);
        }
        Ok(session.described())
    }

    async fn set_up(
        &self,
        mut chat: StoredChat,
        params: &Value,
    ) -> Result<Arc<AcpSession>, RpcFailure> {
        let cwd = text(params, "cwd")?;
        cwd.clone_into(&mut chat.cwd);
        if chat.model.is_empty() {
            chat.model = "default[]".to_owned();
        }
        let bad = |words: String| RpcFailure::new(RpcFailure::SERVER, words);
        let servers = self.servers(Path::new(cwd), params).map_err(bad)?;
        let (open, failed) = self.fake.connect(&servers).await;
        for words in failed {
            super::super::warn(&self.fake, &words);
        }
        let asker = PermissionAsker { rpc: Arc::clone(&self.rpc), session: chat.id.clone() };
        let mut tools = FakeTools {
            permissions: CliPermissions::read(Path::new(cwd)).map_err(bad)?,
            force: self.force,
            asker: Some(asker),
            ask_mcp: self.fake.switches.has(&FakeSwitch::AskMcp),
            timeout: self.fake.switches.mcp_timeout(),
            ..FakeTools::default()
        };
        tools.add_servers(open);
        self.fake.home.keep(&chat)?;
        let id = chat.id.clone();
        let state =
            AcpSessionState { chat, mode: CliMode::Agent, cancel: CancellationToken::new() };
        let session = Arc::new(AcpSession {
            id: id.clone(),
            tools: Arc::new(tools),
            state: Mutex::new(state),
        });
        self.sessions.lock().insert(id, Arc::clone(&session));
        Ok(session)
    }

    /// The servers of the folder and, except in early builds, of the request, which takes
    /// precedence.
    fn servers(&self, cwd: &Path, params: &Value) -> Result<Vec<McpServerConfig>, String> {
        let mut servers = mcp::from_workspace(cwd)?;
        if !self.fake.switches.has(&FakeSwitch::AcpIgnoresMcp) {
            let given = mcp::from_acp(params.get("mcpServers").unwrap_or(&Value::Null));
            servers.retain(|server| !given.iter().any(|other| other.name() == server.name()));
            servers.extend(given);
        }
        Ok(servers)
    }
}

/// The updates that replay a message.
fn replayed(message: &Value) -> Vec<Value> {
    let kind = match blocks::role(message) {
        "user" => "user_message_chunk",
        "assistant" => "agent_message_chunk",
        _ => return Vec::new(),
    };
    let parts = message.get("content").and_then(Value::as_array).into_iter().flatten();
    parts
        .filter_map(|part| {
            let word = |name: &str| part.get(name).and_then(Value::as_str);
            match word("type")? {
                "text" => Some(objects::chunk(kind, word("text")?)),
                "tool-call" => Some(json!({
                    "sessionUpdate": "tool_call", "toolCallId": word("toolCallId")?,
                    "title": word("toolName")?, "kind": "other", "status": "completed",
                    "rawInput": part.get("args"),
                })),
                _ => None,
            }
        })
        .collect()
}
