//! Turn events to `chat.completion.chunk` frames.
//!
//! A stream is: one chunk with the role; content, reasoning and tool-call deltas in
//! the order the events came; one chunk with `finish_reason`; the usage chunk if it
//! was asked for; `[DONE]`. A failed turn ends with an error frame instead, and
//! `[DONE]` does not follow it: that word says "complete", SDKs raise at the error
//! frame without reading on, and a client that skips unknown frames must not take a
//! broken answer for a whole one.

use bytes::{BufMut as _, BytesMut};

use super::types::{CallDelta, ChatDelta, CustomDelta, FunctionDelta, ToolCallDelta};
use crate::{
    error::TurnError,
    model::{FinishReason, TurnEvent, Usage, ids::CallId},
    wire::{
        Encode,
        chunk::{ChunkHead, put_error},
        cut_off,
        freeform::Freeform,
        json::put_json,
    },
};

/// Encodes one turn. It takes every event in order, and appends the bytes to the caller's buffer.
#[derive(Debug)]
pub struct ChatEncoder {
    head: ChunkHead,
    include_usage: bool,
    stage: ChatStage,
    usage: Option<Usage>,
    /// The names of custom tools.
    custom: Vec<String>,
    /// The calls so far; the place of one is its `index`.
    calls: Vec<StreamedCall>,
}

#[derive(Debug)]
struct StreamedCall {
    id: CallId,
    kind: StreamedCallKind,
}

#[derive(Debug)]
enum StreamedCallKind {
    Function {
        has_arguments: bool,
    },
    /// Reads the raw text out of the arguments; none once they are complete.
    Custom(Option<Freeform>),
}

/// How far the stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChatStage {
    /// Nothing is written yet: the role comes first.
    Fresh,
    Open,
    /// The ending is written, well or badly.
    Ended,
}

const ONE_CHOICE: &[u8] = br#","choices":[{"index":0,"delta":"#;
const NO_REASON: &[u8] = b",\"finish_reason\":null}]}\n\n";

impl ChatEncoder {
    /// `created` is in Unix seconds; `model` is the name the client asked for.
    #[must_use]
    pub fn new(id: &str, created: u64, model: &str, include_usage: bool) -> Self {
        Self {
            head: ChunkHead::new(id, "chat.completion.chunk", created, model),
            include_usage,
            stage: ChatStage::Fresh,
            usage: None,
            custom: Vec::new(),
            calls: Vec::new(),
        }
    }

    /// The tools with these names are custom: their calls have raw text in the place of arguments.
    #[must_use]
    pub fn with_custom(mut self, names: Vec<String>) -> Self {
        self.custom = names;
        self
    }

    fn begin(&mut self, id: &CallId, name: &str, out: &mut BytesMut) {
        let index = self.calls.len();
        let (word, kind, body) = if self.custom.iter().any(|custom| custom == name) {
            let body = CallDelta::Custom(CustomDelta { name: Some(name), input: "" });
            ("custom", StreamedCallKind::Custom(Some(Freeform::default())), body)
        } else {
            let body = CallDelta::Function(FunctionDelta { name: Some(name), arguments: "" });
            ("function", StreamedCallKind::Function { has_arguments: false }, body)
        };
        self.calls.push(StreamedCall { id: id.clone(), kind });
        let call = ToolCallDelta { index, id: Some(id.as_str()), kind: Some(word), body };
        self.delta(ChatDelta { tool_calls: Some([call]), ..ChatDelta::default() }, out);
    }

    fn arguments(&mut self, id: &CallId, delta: &str, out: &mut BytesMut) {
        // From the back: the newest call is the one that grows.
        let call = self.calls.iter_mut().enumerate().rev().find(|(_, call)| call.id == *id);
        let Some((index, call)) = call.filter(|_| !delta.is_empty()) else { return };
        match &mut call.kind {
            StreamedCallKind::Function { has_arguments } => {
                *has_arguments = true;
                let body = CallDelta::Function(FunctionDelta { name: None, arguments: delta });
                self.call_delta(index, body, out);
            }
            StreamedCallKind::Custom(reader) => {
                let mut input = String::new();
                if let Some(reader) = reader {
                    reader.push(delta, &mut input);
                }
                self.input(index, &input, out);
            }
        }
    }

    fn end(&mut self, id: &CallId, out: &mut BytesMut) {
        let call = self.calls.iter_mut().enumerate().rev().find(|(_, call)| call.id == *id);
        let Some((index, call)) = call else { return };
        match &mut call.kind {
            StreamedCallKind::Function { has_arguments: true } => {}
            // A call of a tool that takes nothing: clients parse the arguments, and the empty
            // string is not JSON.
            StreamedCallKind::Function { has_arguments: false } => self.arguments(id, "{}", out),
            StreamedCallKind::Custom(reader) => {
                let mut input = String::new();
                if let Some(reader) = reader.take() {
                    reader.finish(&mut input);
                }
                self.input(index, &input, out);
            }
        }
    }

    /// A further piece of the input of a custom tool.
    fn input(&mut self, index: usize, input: &str, out: &mut BytesMut) {
        if !input.is_empty() {
            self.call_delta(index, CallDelta::Custom(CustomDelta { name: None, input }), out);
        }
    }

    fn call_delta(&mut self, index: usize, body: CallDelta<'_>, out: &mut BytesMut) {
        let call = ToolCallDelta { index, id: None, kind: None, body };
        self.delta(ChatDelta { tool_calls: Some([call]), ..ChatDelta::default() }, out);
    }

    fn open(&mut self, out: &mut BytesMut) {
        if self.stage == ChatStage::Fresh {
            self.stage = ChatStage::Open;
            let role =
                ChatDelta { role: Some("assistant"), content: Some(""), ..ChatDelta::default() };
            self.chunk(role, out);
        }
    }

    fn delta(&mut self, delta: ChatDelta<'_>, out: &mut BytesMut) {
        self.open(out);
        self.chunk(delta, out);
    }

    fn chunk(&self, delta: ChatDelta<'_>, out: &mut BytesMut) {
        self.head.put(out);
        out.put_slice(ONE_CHOICE);
        put_json(out, &delta);
        out.put_slice(NO_REASON);
    }

    fn finish(&mut self, reason: FinishReason, out: &mut BytesMut) {
        self.open(out);
        self.head.put(out);
        out.put_slice(ONE_CHOICE);
        out.put_slice(b"{},\"finish_reason\":\"");
        out.put_slice(reason_word(reason).as_bytes());
        out.put_slice(b"\"}]}\n\n");
        self.head.put_end(self.usage.filter(|_| self.include_usage), out);
        self.stage = ChatStage::Ended;
    }

    fn fail(&mut self, error: &TurnError, out: &mut BytesMut) {
        put_error(error, out);
        self.stage = ChatStage::Ended;
    }
}

impl Encode for ChatEncoder {
    fn on_event(&mut self, event: &TurnEvent, out: &mut BytesMut) {
        if self.stage == ChatStage::Ended {
            return;
        }
        match event {
            TurnEvent::Started => self.open(out),
            TurnEvent::Text(text) => {
                if !text.is_empty() {
                    self.delta(ChatDelta { content: Some(text), ..ChatDelta::default() }, out);
                }
            }
            TurnEvent::Reasoning(text) => {
                if !text.is_empty() {
                    self.delta(
                        ChatDelta { reasoning_content: Some(text), ..ChatDelta::default() },
                        out,
                    );
                }
            }
            TurnEvent::ToolCallBegin { id, name } => self.begin(id, name, out),
            TurnEvent::ToolCallArgs { id, delta } => self.arguments(id, delta, out),
            TurnEvent::ToolCallEnd { id } => self.end(id, out),
            // Goes out after `finish_reason`, where clients expect it.
            TurnEvent::Usage(usage) => self.usage = Some(*usage),
            TurnEvent::Finished(reason) => self.finish(*reason, out),
            TurnEvent::Failed(error) => self.fail(error, out),
        }
    }

    fn on_cut(&mut self, out: &mut BytesMut) {
        if self.stage != ChatStage::Ended {
            self.fail(&cut_off(), out);
        }
    }

    fn is_ended(&self) -> bool {
        self.stage == ChatStage::Ended
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
