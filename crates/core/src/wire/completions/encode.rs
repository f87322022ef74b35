//! Turn events to `text_completion` frames: one for each piece of text, one with the
//! `finish_reason`, the usage if it was asked for, `[DONE]`. What the model thinks has no
//! place in this dialect. A failed turn ends with an error frame, as in chat.

use bytes::{BufMut as _, BytesMut};

use super::{reason_word, types::CompletionChoice};
use crate::{
    error::TurnError,
    model::{FinishReason, TurnEvent, Usage},
    wire::{
        Encode,
        chunk::{ChunkHead, put_error},
        cut_off,
        json::put_json,
    },
};

/// Encodes one turn.
#[derive(Debug)]
pub struct CompletionEncoder {
    head: ChunkHead,
    include_usage: bool,
    usage: Option<Usage>,
    ended: bool,
}

impl CompletionEncoder {
    /// `created` is in Unix seconds; `model` is the name the client asked for.
    #[must_use]
    pub fn new(id: &str, created: u64, model: &str, include_usage: bool) -> Self {
        let head = ChunkHead::new(id, "text_completion", created, model);
        Self { head, include_usage, usage: None, ended: false }
    }

    fn chunk(&self, text: &str, finish_reason: Option<&'static str>, out: &mut BytesMut) {
        self.head.put(out);
        out.put_slice(b",\"choices\":[");
        put_json(out, &CompletionChoice { text, index: 0, logprobs: None, finish_reason });
        out.put_slice(b"]}\n\n");
    }

    fn finish(&mut self, reason: FinishReason, out: &mut BytesMut) {
        self.chunk("", Some(reason_word(reason)), out);
        self.head.put_end(self.usage.filter(|_| self.include_usage), out);
        self.ended = true;
    }

    fn fail(&mut self, error: &TurnError, out: &mut BytesMut) {
        put_error(error, out);
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
