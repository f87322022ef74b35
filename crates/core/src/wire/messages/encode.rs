//! Turn events to the event stream of a message.
//!
//! A stream is: `message_start`; for each block `content_block_start`, its deltas,
//! `content_block_stop`; `message_delta` with the reason and the usage; `message_stop`.
//! A `ping` may stand between any two of them. A failed turn ends with an `error` event
//! instead, wherever it is, and nothing follows that.

use bytes::{BufMut as _, BytesMut};
use serde::Serialize;

use super::{
    blocks::{BlockStep, Blocks},
    error::AnthropicErrorBody,
    thinking::Thinking,
    types::{BlockDelta, MessageEnding, MessageEvent, MessageReply, MessagesUsage},
};
use crate::{
    error::TurnError,
    model::{FinishReason, TurnEvent, Usage},
    wire::{Encode, cut_off, json::put_json},
};

/// Encodes one turn. It takes every event in order, and appends the bytes to the caller's buffer.
#[derive(Debug)]
pub struct MessagesEncoder {
    id: String,
    model: String,
    stop: Vec<String>,
    blocks: Blocks,
    /// Of the block that is open, or comes next.
    index: usize,
    /// Tokens of the prompt, until the backend's count is known.
    input_estimate: u64,
    usage: Option<Usage>,
    stage: MessageStage,
}

/// How far the stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessageStage {
    /// Nothing is written yet: `message_start` comes first.
    Fresh,
    Open,
    /// The ending is written, well or badly.
    Ended,
}

impl MessagesEncoder {
    /// `model` is the name the client asked for, `stop` its stop sequences.
    #[must_use]
    pub fn new(id: String, model: String, thinking: Thinking, stop: Vec<String>) -> Self {
        Self {
            id,
            model,
            stop,
            blocks: Blocks::new(thinking),
            index: 0,
            input_estimate: 0,
            usage: None,
            stage: MessageStage::Fresh,
        }
    }

    /// How many tokens the prompt has, roughly. Clients show it while the answer is written.
    #[must_use]
    pub fn with_input_estimate(mut self, tokens: u64) -> Self {
        self.input_estimate = tokens;
        self
    }

    /// What is known of the usage: without a count of the backend, only the estimate.
    fn usage(&self) -> MessagesUsage {
        let estimate = || Usage { input: self.input_estimate, ..Usage::default() };
        self.usage.unwrap_or_else(estimate).into()
    }

    /// `message_delta` has the counts that hold.
    fn open(&mut self, out: &mut BytesMut) {
        if self.stage == MessageStage::Fresh {
            self.stage = MessageStage::Open;
            let message = MessageReply {
                id: &self.id,
                kind: "message",
                role: "assistant",
                model: &self.model,
                content: &[],
                stop_reason: None,
                stop_sequence: None,
                usage: self.usage(),
            };
            put(&MessageEvent::MessageStart { message: &message }, out);
        }
    }

    fn finish(&mut self, reason: FinishReason, out: &mut BytesMut) {
        self.blocks.finish(&mut writer(&mut self.index, out));
        let (stop_reason, stop_sequence) = reason_words(reason, &self.stop);
        let delta = MessageEnding { stop_reason, stop_sequence };
        put(&MessageEvent::MessageDelta { delta, usage: self.usage() }, out);
        put(&MessageEvent::MessageStop, out);
        self.stage = MessageStage::Ended;
    }

    fn fail(&mut self, error: &TurnError, out: &mut BytesMut) {
        frame("error", &AnthropicErrorBody::new(error, None), out);
        self.stage = MessageStage::Ended;
    }
}

impl Encode for MessagesEncoder {
    fn on_event(&mut self, event: &TurnEvent, out: &mut BytesMut) {
        if self.stage == MessageStage::Ended {
            return;
        }
        if let TurnEvent::Failed(error) = event {
            return self.fail(error, out);
        }
        self.open(out);
        match event {
            TurnEvent::Started | TurnEvent::Failed(_) => {}
            TurnEvent::Text(text) => self.blocks.text(text, &mut writer(&mut self.index, out)),
            TurnEvent::Reasoning(text) => {
                self.blocks.reasoning(text, &mut writer(&mut self.index, out));
            }
            TurnEvent::ToolCallBegin { id, name } => {
                self.blocks.begin(id, name, &mut writer(&mut self.index, out));
            }
            TurnEvent::ToolCallArgs { id, delta } => {
                self.blocks.input(id, delta, &mut writer(&mut self.index, out));
            }
            TurnEvent::ToolCallEnd { id } => {
                self.blocks.end(id, &mut writer(&mut self.index, out));
            }
            TurnEvent::Usage(usage) => self.usage = Some(*usage),
            TurnEvent::Finished(reason) => self.finish(*reason, out),
        }
    }

    fn on_cut(&mut self, out: &mut BytesMut) {
        if self.stage != MessageStage::Ended {
            self.fail(&cut_off(), out);
        }
    }

    fn on_silence(&mut self, out: &mut BytesMut) {
        if self.stage != MessageStage::Ended {
            // Clients look for it first.
            self.open(out);
            put(&MessageEvent::Ping, out);
        }
    }

    fn is_ended(&self) -> bool {
        self.stage == MessageStage::Ended
    }
}

/// Writes steps as events, and counts the blocks.
fn writer<'a>(index: &'a mut usize, out: &'a mut BytesMut) -> impl FnMut(BlockStep<'_>) + 'a {
    |step| {
        let at = *index;
        let event = match step {
            BlockStep::Start(head) => {
                MessageEvent::ContentBlockStart { index: at, content_block: head }
            }
            BlockStep::Delta(delta) => return put_delta(at, delta, out),
            BlockStep::Stop => {
                *index += 1;
                MessageEvent::ContentBlockStop { index: at }
            }
        };
        put(&event, out);
    }
}

/// Nearly every event of a stream is one of these, so they are put together from constants.
fn put_delta(index: usize, delta: BlockDelta<'_>, out: &mut BytesMut) {
    let (kind, more): (&[u8], _) = match delta {
        BlockDelta::Text(more) => (br#","delta":{"type":"text_delta","text":"#, more),
        BlockDelta::Thinking(more) => (br#","delta":{"type":"thinking_delta","thinking":"#, more),
        BlockDelta::Signature(more) => {
            (br#","delta":{"type":"signature_delta","signature":"#, more)
        }
        BlockDelta::Input(more) => {
            (br#","delta":{"type":"input_json_delta","partial_json":"#, more)
        }
    };
    out.put_slice(
        b"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":",
    );
    put_json(out, &index);
    out.put_slice(kind);
    put_json(out, &more);
    out.put_slice(b"}}\n\n");
}

fn put(event: &MessageEvent<'_>, out: &mut BytesMut) {
    frame(event.name(), event, out);
}

fn frame(name: &str, data: &impl Serialize, out: &mut BytesMut) {
    out.put_slice(b"event: ");
    out.put_slice(name.as_bytes());
    out.put_slice(b"\ndata: ");
    put_json(out, data);
    out.put_slice(b"\n\n");
}

/// `stop_reason`, and the sequence that was met.
pub(super) fn reason_words(reason: FinishReason, stop: &[String]) -> (&'static str, Option<&str>) {
    match reason {
        FinishReason::Stop => ("end_turn", None),
        FinishReason::StopSequence(at) => ("stop_sequence", stop.get(at).map(String::as_str)),
        FinishReason::Length => ("max_tokens", None),
        FinishReason::ToolCalls => ("tool_use", None),
    }
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
