//! Turn events to `text_completion` frames: one for each piece of text, one with the
//! `finish_reason`, the usage if it was asked for, `[DONE]`. What the model thinks has no
//! place in this dialect. A failed turn ends with an error frame, as in chat.

use bytes::{BufMut as _, BytesMut};
use serde::Serialize;

use super::{reason_word, types::CompletionChoice};
use crate::{
    error::TurnError,
    model::{FinishReason, TurnEvent, Usage},
    wire::{
        Encode, SseFrame,
        chat::{ChatUsage, OpenAiErrorBody},
        cut_off,
        json::put_json,
    },
};

/// Encodes one turn.
#[derive(Debug)]
pub struct CompletionEncoder {
    /// Everything of a chunk up to its `choices`.
    envelope: Box<[u8]>,
    include_usage: bool,
    usage: Option<Usage>,
    ended: bool,
}

#[derive(Serialize)]
struct Envelope<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
}

impl CompletionEncoder {
    /// `created` is in Unix seconds; `model` is the name the client asked for.
    #[must_use]
    pub fn new(id: &str, created: u64, model: &str, include_usage: bool) -> Self {
        let mut envelope = BytesMut::with_capacity(128);
        envelope.put_slice(b"data: ");
        put_json(&mut envelope, &Envelope { id, object: "text_completion", created, model });
        // The closing brace: `choices` and what follows go in front of it.
        envelope.truncate(envelope.len().saturating_sub(1));
        let envelope = envelope.to_vec().into_boxed_slice();
        Self { envelope, include_usage, usage: None, ended: false }
    }

    fn chunk(&self, text: &str, finish_reason: Option<&'static str>, out: &mut BytesMut) {
        out.put_slice(&self.envelope);
        out.put_slice(b",\"choices\":[");
        put_json(out, &CompletionChoice { text, index: 0, logprobs: None, finish_reason });
        out.put_slice(b"]}\n\n");
    }

    fn finish(&mut self, reason: FinishReason, out: &mut BytesMut) {
        self.chunk("", Some(reason_word(reason)), out);
        if let Some(usage) = self.usage.filter(|_| self.include_usage) {
            out.put_slice(&self.envelope);
            out.put_slice(br#","choices":[],"usage":"#);
            put_json(out, &ChatUsage::from(usage));
            out.put_slice(b"}\n\n");
        }
        SseFrame { event: None, data: "[DONE]" }.write(out);
        self.ended = true;
    }

    fn fail(&mut self, error: &TurnError, out: &mut BytesMut) {
        out.put_slice(b"data: ");
        put_json(out, &OpenAiErrorBody::from(error));
        out.put_slice(b"\n\n");
        self.ended = true;
    }
}

impl Encode for CompletionEncoder {
    fn on_event(&mut self, event: &TurnEvent, out: &mut BytesMut) {
        if self.ended {
            return;
        }
        match event {
            TurnEvent::Text(text) => {
                if !text.is_empty() {
                    self.chunk(text, None, out);
                }
            }
            TurnEvent::Usage(usage) => self.usage = Some(*usage),
            TurnEvent::Finished(reason) => self.finish(*reason, out),
            TurnEvent::Failed(error) => self.fail(error, out),
            TurnEvent::Started
            | TurnEvent::Reasoning(_)
            | TurnEvent::ToolCallBegin { .. }
            | TurnEvent::ToolCallArgs { .. }
            | TurnEvent::ToolCallEnd { .. } => {}
        }
    }

    fn on_cut(&mut self, out: &mut BytesMut) {
        if !self.ended {
            self.fail(&cut_off(), out);
        }
    }

    fn is_ended(&self) -> bool {
        self.ended
    }
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
