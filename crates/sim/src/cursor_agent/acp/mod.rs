//! `acp`: many turns in one process, controlled by JSON-RPC over stdin and stdout (§9.6).

mod objects;
mod prompt;
mod rpc;
mod session;

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{sync::mpsc, task::JoinSet};

use self::{rpc::Rpc, session::AcpSession};
use super::{
    args::{CliArgs, CliMode},
    context::FakeAgent,
    messages,
    output::OutputLines,
    print::AgentStop,
};
use crate::models;

pub(super) use self::rpc::PermissionAsker;

/// A JSON-RPC error.
#[derive(Debug)]
struct RpcFailure {
    code: i64,
    message: String,
}

impl RpcFailure {
    const PARSE: i64 = -32700;
    const UNKNOWN_METHOD: i64 = -32601;
    const BAD_PARAMS: i64 = -32602;
    const SERVER: i64 = -32000;
    const SIGNED_OUT: i64 = -32001;
    const NO_SESSION: i64 = -32002;

    fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

impl From<std::io::Error> for RpcFailure {
    fn from(error: std::io::Error) -> Self {
        Self::new(Self::SERVER, error.to_string())
    }
}

type RpcResult = Result<Value, RpcFailure>;

/// The ACP agent.
#[derive(Debug)]
struct AcpAgent {
    fake: FakeAgent,
    rpc: Arc<Rpc>,
    model: Option<String>,
    force: bool,
    signed_in: bool,
    sessions: Mutex<HashMap<String, Arc<AcpSession>>>,
}

/// Serves until the input ends.
pub(super) async fn serve(
    fake: FakeAgent,
    args: &CliArgs,
    mut input: mpsc::Receiver<Vec<u8>>,
    lines: OutputLines,
) -> Result<(), AgentStop> {
    if let Some(model) = args.model.as_deref().filter(|m| models::display_name(m).is_none()) {
        return Err(messages::bad_model(model).into());
    }
    let agent = Arc::new(AcpAgent {
        rpc: Arc::new(Rpc::new(lines)),
        model: args.model.clone(),
        force: args.force,
        signed_in: fake.signed_in(args.api_key.as_deref()),
        sessions: Mutex::default(),
        fake,
    });
    let mut work = JoinSet::new();
    loop {
        tokio::select! {
            line = input.recv() => match line {
                Some(line) => agent.on_line(&line, &mut work),
                None => return Ok(()),
            },
            halt = agent.rpc.halted() => return Err(halt),
            Some(_) = work.join_next() => {}
        }
    }
}

impl AcpAgent {
    fn on_line(self: &Arc<Self>, line: &[u8], work: &mut JoinSet<()>) {
        if line.trim_ascii().is_empty() {
            return;
        }
        let Ok(message) = serde_json::from_slice::<Value>(line) else {
            let failure = RpcFailure::new(RpcFailure::PARSE, "Parse error");
            return self.rpc.answer(&Value::Null, Err(failure));
        };
        let method = message.get("method").and_then(Value::as_str).map(str::to_owned);
        let id = message.get("id").cloned();
        match (method, id) {
            (Some(method), Some(id)) => {
                let agent = Arc::clone(self);
                let params = message.get("params").cloned().unwrap_or_default();
                work.spawn(async move {
                    if let Some(answer) = Box::pin(agent.request(&method, &params)).await {
                        agent.rpc.answer(&id, answer);
                    }
                });
            }
            (Some(method), None) => self.on_notification(&method, message.get("params")),
            (None, Some(id)) => self.rpc.answered(&id, message),
            (None, None) => {}
        }
    }

    fn on_notification(&self, method: &str, params: Option<&Value>) {
        if method == "session/cancel"
            && let Ok(session) = self.session(params.unwrap_or(&Value::Null))
        {
            session.cancel();
        }
    }

    /// `None`: the request is never answered.
    async fn request(&self, method: &str, params: &Value) -> Option<RpcResult> {
        Some(match method {
            "initialize" => Ok(objects::initialized(params, self.fake.behaviour.acp_initialize)),
            "authenticate" => self.check().map(|()| json!({})),
            "session/new" => self.open(params).await,
            "session/load" => self.load(params).await,
            "session/list" => Ok(objects::listed(&self.fake.home.chats())),
            "session/set_mode" => self.set_mode(params),
            "session/set_model" => self.set_model(params, "modelId").map(|_| json!({})),
            "session/set_config_option" => self.set_option(params),
            "session/prompt" => return self.prompt(params).await,
            "cursor/list_available_models" => Ok(objects::available()),
            _ => {
                let words = format!("\"Method not found\": {method}");
                Err(RpcFailure::new(RpcFailure::UNKNOWN_METHOD, words))
            }
        })
    }

    fn check(&self) -> Result<(), RpcFailure> {
        let words = "Authentication required: not logged in. Run 'cursor-agent login'.";
        if self.signed_in { Ok(()) } else { Err(RpcFailure::new(RpcFailure::SIGNED_OUT, words)) }
    }

    /// The session of a request.
    fn session(&self, params: &Value) -> Result<Arc<AcpSession>, RpcFailure> {
        let id = text(params, "sessionId")?;
        let found = self.sessions.lock().get(id).map(Arc::clone);
        found.ok_or_else(|| {
            RpcFailure::new(RpcFailure::NO_SESSION, format!("Session {id} not found"))
        })
    }

    fn set_mode(&self, params: &Value) -> RpcResult {
        let session = self.session(params)?;
        let mode = text(params, "modeId")?;
        let bad = || RpcFailure::new(RpcFailure::BAD_PARAMS, format!("unknown mode {mode}"));
        session.set_mode(CliMode::of(mode).ok_or_else(bad)?);
        let update = json!({ "sessionUpdate": "current_mode_update", "currentModeId": mode });
        self.rpc.update(session.id(), &update);
        Ok(json!({}))
    }

    fn set_option(&self, params: &Value) -> RpcResult {
        let session = match text(params, "configId")? {
            "model" => self.set_model(params, "value")?,
            "mode" => {
                let session = self.session(params)?;
                let mode = text(params, "value")?;
                let bad =
                    || RpcFailure::new(RpcFailure::BAD_PARAMS, format!("unknown mode {mode}"));
                session.set_mode(CliMode::of(mode).ok_or_else(bad)?);
                session
            }
            other => {
                let words = format!("unknown config option {other}");
                return Err(RpcFailure::new(RpcFailure::BAD_PARAMS, words));
            }
        };
        Ok(json!({ "configOptions": session.options() }))
    }

    fn set_model(&self, params: &Value, key: &str) -> Result<Arc<AcpSession>, RpcFailure> {
        let session = self.session(params)?;
        let model = text(params, key)?;
        if models::display_name(model).is_none() {
            return Err(RpcFailure::new(RpcFailure::BAD_PARAMS, messages::bad_model(model)));
        }
        session.set_model(model);
        Ok(session)
    }
}

fn text<'a>(params: &'a Value, name: &str) -> Result<&'a str, RpcFailure> {
    let missing = || RpcFailure::new(RpcFailure::BAD_PARAMS, format!("{name} is missing"));
    params.get(name).and_then(Value::as_str).ok_or_else(missing)
}
