//! `session/prompt`: a turn, reported by updates while it runs.

use base64::Engine as _;
use serde_json::{Value, json};

use super::super::{
    context::UserInput,
    messages,
    print::AgentStop,
    switches::FakeSwitch,
    turn::{FakeTurnEvent, PromptImage},
};
use super::{AcpAgent, RpcFailure, RpcResult, objects};

impl AcpAgent {
    /// `None`: the request is never answered.
    pub(super) async fn prompt(&self, params: &Value) -> Option<RpcResult> {
        let switches = &self.fake.switches;
        let session = match self.check().and_then(|()| self.session(params)) {
            Ok(session) => session,
            Err(failure) => return Some(Err(failure)),
        };
        let (chat, mode, cancel) = session.begin();
        if switches.has(&FakeSwitch::UsageLimit) {
            return Some(Err(RpcFailure::new(RpcFailure::SERVER, messages::USAGE_LIMIT)));
        }
        if let Some(words) = switches.exit() {
            self.rpc.end(AgentStop::Words(words.to_owned()));
            return None;
        }
        if switches.has(&FakeSwitch::Hang) {
            cancel.cancelled().await;
            return Some(cancelled());
        }
        let said = UserInput { mode: mode.number(), ..said(params) };
        let (mut turn, mut log) = match self.fake.turn(chat, said, session.tools()).await {
            Ok(begun) => begun,
            Err(error) => return Some(Err(error.into())),
        };
        loop {
            let event = tokio::select! {
                biased;
                () = cancel.cancelled() => return Some(cancelled()),
                event = turn.next() => event?,
            };
            log.note(&event);
            for update in updates(&event, switches.has(&FakeSwitch::NoThinking)) {
                self.rpc.update(session.id(), &update);
            }
            match event {
                FakeTurnEvent::Ended(_) => break,
                FakeTurnEvent::Failed(words) => {
                    return Some(Err(RpcFailure::new(RpcFailure::SERVER, words)));
                }
                _ => {}
            }
        }
        let chat = log.into_chat();
        let kept = self.fake.home.keep(&chat);
        session.keep(chat);
        if switches.has(&FakeSwitch::NoResult) {
            return None;
        }
        let answer = json!({ "stopReason": "end_turn" });
        Some(kept.map(|()| answer).map_err(RpcFailure::from))
    }
}

fn cancelled() -> RpcResult {
    Ok(json!({ "stopReason": "cancelled" }))
}

fn updates(event: &FakeTurnEvent, silent: bool) -> Vec<Value> {
    match event {
        FakeTurnEvent::Text(text) => vec![objects::chunk("agent_message_chunk", text)],
        FakeTurnEvent::Thought(text) if !silent => {
            vec![objects::chunk("agent_thought_chunk", text)]
        }
        FakeTurnEvent::Started(act) => {
            let begun = json!({
                "sessionUpdate": "tool_call_update", "toolCallId": act.call_id,
                "status": "in_progress",
            });
            vec![objects::call(act), begun]
        }
        FakeTurnEvent::Completed(act) => vec![objects::call_done(act)],
        _ => Vec::new(),
    }
}

/// The texts and images of a prompt.
fn said(params: &Value) -> UserInput {
    let mut said = UserInput::default();
    let mut texts = Vec::new();
    for part in params.get("prompt").and_then(Value::as_array).into_iter().flatten() {
        let word = |name: &str| part.get(name).and_then(Value::as_str).unwrap_or_default();
        match word("type") {
            "text" => texts.push(word("text")),
            "image" => {
                let data = base64::engine::general_purpose::STANDARD.decode(word("data"));
                let data = data.unwrap_or_default().into();
                said.images.push(PromptImage { mime: word("mimeType").to_owned(), data });
            }
            _ => {}
        }
    }
    said.text = texts.join("\n");
    said
}
