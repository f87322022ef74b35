//! Turn events to `chat.completion.chunk` frames.
//!
//! A stream is: one chunk with the role; content, reasoning and tool-call deltas in
//! the order the events came; one chunk with `finish_reason`; the usage chunk if it
//! was asked for; `[DONE]`. A failed turn ends with an error frame instead, and
//! `[DONE]` does not follow it: that word says "complete", SDKs raise at the error
//! frame without reading on, and a client that skips unknown frames must not take a
//! broken answer for a whole one.

use bytes::{BufMut as _, BytesMut};
use serde::Serialize;

use super::types::{Delta, ErrorBody, FunctionDelta, ToolCallDelta, UsageBody};
use crate::{
    error::TurnError,
    model::{FinishReason, TurnEvent, Usage, ids::CallId},
    wire::{Encode, SseFrame, cut_off, json::put_json},
};

/// Encodes one turn. Give it every event, in order; it appends the bytes to the
/// caller's buffer.
#[derive(Debug)]
pub struct Encoder {
    /// Everything of a chunk up to its `choices`.
    envelope: Box<[u8]>,
    include_usage: bool,
    stage: Stage,
    usage: Option<Usage>,
    /// The calls so far; the place of one is its `index`.
    calls: Vec<Call>,
}

#[derive(Debug)]
struct Call {
    id: CallId,
    has_arguments: bool,
}

/// How far the stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing is written yet: the role comes first.
    Fresh,
    Open,
    /// The ending is written, well or badly.
    Ended,
}

#[derive(Serialize)]
struct Envelope<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
}

const ONE_CHOICE: &[u8] = br#","choices":[{"index":0,"delta":"#;
const NO_REASON: &[u8] = b",\"finish_reason\":null}]}\n\n";

impl Encoder {
    /// `created` is in Unix seconds; `model` is the name the client asked for.
    #[must_use]
    pub fn new(id: &str, created: u64, model: &str, include_usage: bool) -> Self {
        let mut envelope = BytesMut::with_capacity(128);
        envelope.put_slice(b"data: ");
        put_json(&mut envelope, &Envelope { id, object: "chat.completion.chunk", created, model });
        // The closing brace: `choices` and what follows go in front of it.
        envelope.truncate(envelope.len().saturating_sub(1));
        Self {
            envelope: envelope.to_vec().into_boxed_slice(),
            include_usage,
            stage: Stage::Fresh,
            usage: None,
            calls: Vec::new(),
        }
    }

    fn arguments(&mut self, id: &CallId, delta: &str, out: &mut BytesMut) {
        // From the back: the newest call is the one that grows.
        let call = self.calls.iter_mut().enumerate().rev().find(|(_, call)| call.id == *id);
        if let Some((index, call)) = call.filter(|_| !delta.is_empty()) {
            call.has_arguments = true;
            let call = ToolCallDelta {
                index,
                id: None,
                kind: None,
                function: FunctionDelta { name: None, arguments: delta },
            };
            self.delta(Delta { tool_calls: Some([call]), ..Delta::default() }, out);
        }
    }

    fn open(&mut self, out: &mut BytesMut) {
        if self.stage == Stage::Fresh {
            self.stage = Stage::Open;
            let role = Delta { role: Some("assistant"), content: Some(""), ..Delta::default() };
            self.chunk(role, out);
        }
    }

    fn delta(&mut self, delta: Delta<'_>, out: &mut BytesMut) {
        self.open(out);
        self.chunk(delta, out);
    }

    fn chunk(&self, delta: Delta<'_>, out: &mut BytesMut) {
        out.put_slice(&self.envelope);
        out.put_slice(ONE_CHOICE);
        put_json(out, &delta);
        out.put_slice(NO_REASON);
    }

    fn finish(&mut self, reason: FinishReason, out: &mut BytesMut) {
        self.open(out);
        out.put_slice(&self.envelope);
        out.put_slice(ONE_CHOICE);
        out.put_slice(b"{},\"finish_reason\":\"");
        out.put_slice(reason_word(reason).as_bytes());
        out.put_slice(b"\"}]}\n\n");
        if let Some(usage) = self.usage.filter(|_| self.include_usage) {
            out.put_slice(&self.envelope);
            out.put_slice(br#","choices":[],"usage":"#);
            put_json(out, &UsageBody::from(usage));
            out.put_slice(b"}\n\n");
        }
        SseFrame { event: None, data: "[DONE]" }.write(out);
        self.stage = Stage::Ended;
    }

    fn fail(&mut self, error: &TurnError, out: &mut BytesMut) {
        out.put_slice(b"data: ");
        put_json(out, &ErrorBody::from(error));
        out.put_slice(b"\n\n");
        self.stage = Stage::Ended;
    }
}

impl Encode for Encoder {
    fn on_event(&mut self, event: &TurnEvent, out: &mut BytesMut) {
        if self.stage == Stage::Ended {
            return;
        }
        match event {
            TurnEvent::Started => self.open(out),
            TurnEvent::Text(text) => {
                if !text.is_empty() {
                    self.delta(Delta { content: Some(text), ..Delta::default() }, out);
                }
            }
            TurnEvent::Reasoning(text) => {
                if !text.is_empty() {
                    self.delta(Delta { reasoning_content: Some(text), ..Delta::default() }, out);
                }
            }
            TurnEvent::ToolCallBegin { id, name } => {
                let index = self.calls.len();
                self.calls.push(Call { id: id.clone(), has_arguments: false });
                let call = ToolCallDelta {
                    index,
                    id: Some(id.as_str()),
                    kind: Some("function"),
                    function: FunctionDelta { name: Some(name), arguments: "" },
                };
                self.delta(Delta { tool_calls: Some([call]), ..Delta::default() }, out);
            }
            TurnEvent::ToolCallArgs { id, delta } => self.arguments(id, delta, out),
            // A call of a tool that takes nothing: clients parse the arguments, and
            // the empty string is no JSON.
            TurnEvent::ToolCallEnd { id } => {
                let call = self.calls.iter().rev().find(|call| call.id == *id);
                if call.is_some_and(|call| !call.has_arguments) {
                    self.arguments(id, "{}", out);
                }
            }
            // Goes out after `finish_reason`, where clients expect it.
            TurnEvent::Usage(usage) => self.usage = Some(*usage),
            TurnEvent::Finished(reason) => self.finish(*reason, out),
            TurnEvent::Failed(error) => self.fail(error, out),
        }
    }

    fn on_cut(&mut self, out: &mut BytesMut) {
        if self.stage != Stage::Ended {
            self.fail(&cut_off(), out);
        }
    }

    fn is_ended(&self) -> bool {
        self.stage == Stage::Ended
    }
}

pub(super) fn reason_word(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::Stop | FinishReason::StopSequence(_) => "stop",
        FinishReason::Length => "length",
        FinishReason::ToolCalls => "tool_calls",
    }
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
