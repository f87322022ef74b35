//! The agent's side of JSON-RPC: answers, notifications, and requests of its own.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};

use super::super::{
    output::{OutputHalt, OutputLines},
    print::AgentStop,
    toolbox::PermissionRequest,
};
use super::RpcResult;

#[derive(Debug)]
pub(super) struct Rpc {
    lines: Mutex<OutputLines>,
    waiting: Mutex<HashMap<u64, oneshot::Sender<Value>>>,
    ids: AtomicU64,
    /// Why serving ends, once it does.
    halt: watch::Sender<Option<AgentStop>>,
}

impl Rpc {
    pub(super) fn new(lines: OutputLines) -> Self {
        let (halt, _) = watch::channel(None);
        let (lines, waiting) = (Mutex::new(lines), Mutex::default());
        Self { lines, waiting, ids: AtomicU64::new(0), halt }
    }

    /// Waits until serving has to end.
    pub(super) async fn halted(&self) -> AgentStop {
        let mut halt = self.halt.subscribe();
        // The sender is in `self`, so the channel is open.
        let _ = halt.wait_for(Option::is_some).await;
        self.halt.send_replace(None).unwrap_or(AgentStop::Halt(OutputHalt::Gone))
    }

    /// Ends serving.
    pub(super) fn end(&self, why: AgentStop) {
        self.halt.send_replace(Some(why));
    }

    pub(super) fn answer(&self, id: &Value, answer: RpcResult) {
        self.send(&match answer {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err(failure) => json!({ "jsonrpc": "2.0", "id": id, "error": {
                "code": failure.code, "message": failure.message,
            } }),
        });
    }

    pub(super) fn update(&self, session: &str, update: &Value) {
        let params = json!({ "sessionId": session, "update": update });
        self.send(&json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }));
    }

    /// Takes the answer to one of our requests.
    pub(super) fn answered(&self, id: &Value, message: Value) {
        let waiting = id.as_u64().and_then(|id| self.waiting.lock().remove(&id));
        if let Some(waiting) = waiting {
            // The task that asked may have been cancelled.
            let _ = waiting.send(message);
        }
    }

    /// Asks the client and waits; `None` if there is no result.
    async fn request(&self, method: &str, params: &Value) -> Option<Value> {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        self.waiting.lock().insert(id, answer);
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        answered.await.ok()?.get_mut("result").map(Value::take)
    }

    fn send(&self, message: &Value) {
        if let Err(halt) = self.lines.lock().object(message) {
            self.end(AgentStop::Halt(halt));
        }
    }
}

/// Asks the client of a session for permission.
#[derive(Clone, Debug)]
pub(in super::super) struct PermissionAsker {
    pub(super) rpc: Arc<Rpc>,
    pub(super) session: String,
}

impl PermissionAsker {
    /// Whether the client allows this. Without an answer it does not.
    pub(in super::super) async fn ask(&self, wanted: &PermissionRequest) -> bool {
        let option = |id: &str, kind: &str, name: &str| json!({ "optionId": id, "kind": kind, "name": name });
        let params = json!({
            "sessionId": self.session,
            "toolCall": {
                "toolCallId": wanted.call_id, "title": wanted.object, "kind": wanted.kind,
                "status": "pending", "rawInput": wanted.raw_input,
            },
            "options": [
                option("allow-once", "allow_once", "Allow once"),
                option("allow-always", "allow_always", "Allow always"),
                option("reject-once", "reject_once", "Reject"),
            ],
        });
        let answer = self.rpc.request("session/request_permission", &params).await;
        let outcome = answer.as_ref().and_then(|answer| answer.get("outcome"));
        let word = |name: &str| outcome.and_then(|outcome| outcome.get(name)?.as_str());
        word("outcome") == Some("selected")
            && word("optionId").is_some_and(|option| option.starts_with("allow"))
    }
}
