//! A client's side of one conversation, streamed.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context as _, bail};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use super::requests::ClientSetup;
use crate::http::Http;

/// An answer that takes longer has hung.
const ANSWER_LIMIT: Duration = Duration::from_secs(120);

/// A conversation over one connection.
pub(crate) struct Dialogue {
    http: Http,
    setup: Arc<ClientSetup>,
    headers: Vec<(&'static str, String)>,
    /// The conversation so far, without the system prompt.
    pub(crate) messages: Vec<Value>,
    /// Bytes of all request bodies so far.
    pub(crate) sent: u64,
}

/// What came back.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct DialogueAnswer {
    pub(crate) text: String,
    pub(crate) calls: Vec<DialogueCall>,
    finish: Option<String>,
}

/// A tool call, put together from its pieces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DialogueCall {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
}

impl Dialogue {
    pub(crate) async fn open(
        gateway: SocketAddr,
        setup: &Arc<ClientSetup>,
    ) -> anyhow::Result<Self> {
        let http = Http::open(gateway).await?;
        Ok(Self {
            http,
            setup: Arc::clone(setup),
            headers: Vec::new(),
            messages: Vec::new(),
            sent: 0,
        })
    }

    /// Asks with this key.
    pub(crate) fn key(&mut self, key: &str) {
        self.headers.push(("authorization", format!("Bearer {key}")));
    }

    /// Names the conversation.
    pub(crate) fn name(&mut self, session: &str) {
        self.headers.push(("x-session-id", session.to_owned()));
    }

    pub(crate) fn user(&mut self, text: &str) {
        self.messages.push(json!({ "role": "user", "content": text }));
    }

    pub(crate) fn result(&mut self, call: &str, text: &str) {
        self.messages.push(json!({ "role": "tool", "tool_call_id": call, "content": text }));
    }

    /// Puts an answer into the history, as clients do.
    pub(crate) fn keep(&mut self, answer: &DialogueAnswer) {
        self.messages.push(answer.message());
    }

    /// Sends all messages and reads the answer to its end.
    pub(crate) async fn ask(&mut self) -> anyhow::Result<DialogueAnswer> {
        tokio::time::timeout(ANSWER_LIMIT, self.exchange()).await.context("hung")?
    }

    async fn exchange(&mut self) -> anyhow::Result<DialogueAnswer> {
        let system = json!({ "role": "system", "content": self.setup.system });
        let messages: Vec<&Value> = std::iter::once(&system).chain(&self.messages).collect();
        let mut body = json!({ "model": "auto", "stream": true, "messages": messages });
        if let (Some(table), false) = (body.as_object_mut(), self.setup.tools.is_empty()) {
            table.insert("tools".to_owned(), json!(self.setup.tools));
        }
        let body = body.to_string();
        self.sent += body.len() as u64;
        let response = self.http.post("/v1/chat/completions", &self.headers, body).await?;
        let body = response.into_body().collect().await?.to_bytes();
        DialogueAnswer::parse(std::str::from_utf8(&body)?)
    }
}

impl DialogueAnswer {
    /// Reads a whole stream of chunks.
    fn parse(stream: &str) -> anyhow::Result<Self> {
        let mut answer = Self::default();
        for data in stream.lines().filter_map(|line| line.strip_prefix("data:")) {
            let data = data.trim();
            if data == "[DONE]" {
                return match answer.finish {
                    Some(_) => Ok(answer),
                    None => bail!("done without a reason to finish"),
                };
            }
            let chunk: Value = serde_json::from_str(data).context("a chunk")?;
            if let Some(error) = chunk.get("error") {
                bail!("{error}");
            }
            answer.take(&chunk);
        }
        bail!("the stream ended without `[DONE]`")
    }

    fn take(&mut self, chunk: &Value) {
        let Some(choice) = chunk.pointer("/choices/0") else { return };
        let text = |value: &Value, at: &str| {
            value.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        self.text.push_str(&text(choice, "/delta/content"));
        for piece in
            choice.pointer("/delta/tool_calls").and_then(Value::as_array).into_iter().flatten()
        {
            let index = piece.get("index").and_then(Value::as_u64).unwrap_or(0);
            let index = usize::try_from(index).unwrap_or(0);
            if self.calls.len() <= index {
                self.calls.resize(index + 1, DialogueCall::default());
            }
            let Some(call) = self.calls.get_mut(index) else { continue };
            call.id.push_str(&text(piece, "/id"));
            call.name.push_str(&text(piece, "/function/name"));
            call.arguments.push_str(&text(piece, "/function/arguments"));
        }
        if let Some(reason) = choice.get("finish_reason").and_then(Value::as_str) {
            self.finish = Some(reason.to_owned());
        }
    }

    fn message(&self) -> Value {
        let content = (!self.text.is_empty()).then_some(&self.text);
        if self.calls.is_empty() {
            return json!({ "role": "assistant", "content": content });
        }
        let calls: Vec<Value> = self.calls.iter().map(DialogueCall::message).collect();
        json!({ "role": "assistant", "content": content, "tool_calls": calls })
    }

    /// The one call of an answer that should have one.
    pub(crate) fn only_call(&self) -> anyhow::Result<&DialogueCall> {
        match &self.calls[..] {
            [call] => Ok(call),
            calls => bail!("{} tool calls instead of one: {}", calls.len(), self.text),
        }
    }
}

impl DialogueCall {
    fn message(&self) -> Value {
        json!({
            "id": self.id,
            "type": "function",
            "function": { "name": self.name, "arguments": self.arguments },
        })
    }
}

#[cfg(test)]
#[path = "dialogue_tests.rs"]
mod tests;
