//! The answer as it grows: events for the client, and what is needed to end it
//! well (text that only exists in blobs, token counts).

use std::collections::VecDeque;

use ibeam_proto::agent::{ConversationTokenDetails, TurnEndedUpdate};

use crate::{
    error::TurnError,
    guard::{Piece, ThinkTags},
    model::{FinishReason, TerminalGuard, TurnEvent, Usage, UsageSource, ids::CallId},
};

#[derive(Debug, Default)]
pub(super) struct Answer {
    events: VecDeque<TurnEvent>,
    guard: TerminalGuard,
    tags: ThinkTags,
    /// Scratch for the tag splitter, kept to spare an allocation per delta.
    pieces: Vec<Piece>,
    started: bool,
    text: bool,
    reasoning: bool,
    calls: bool,
    /// The newest assistant message seen in a blob.
    blob_text: Option<String>,
    /// Everything the model produced, for counting when the backend does not.
    said: String,
    /// How many pieces the client could see.
    visible: u64,
    counts: Counts,
}

/// The backend's counters, as far as they came.
#[derive(Debug, Default)]
struct Counts {
    output: u64,
    context: Option<ConversationTokenDetails>,
    ended: Option<TurnEndedUpdate>,
}

impl Answer {
    pub(super) fn pop(&mut self) -> Option<TurnEvent> {
        self.events.pop_front()
    }

    pub(super) fn ended(&self) -> bool {
        self.guard.ended()
    }

    /// Whether the client was given anything it can see.
    pub(super) fn delivered(&self) -> bool {
        self.text || self.reasoning || self.calls
    }

    /// Whether there is an answer to give, streamed or stored.
    pub(super) fn has_answer(&self) -> bool {
        self.text || self.blob_text.is_some()
    }

    pub(super) fn has_calls(&self) -> bool {
        self.calls
    }

    /// Grows with everything the client sees.
    pub(super) fn visible(&self) -> u64 {
        self.visible
    }

    /// The backend spoke; only the first time counts.
    pub(super) fn started(&mut self) {
        if !self.started {
            self.started = true;
            self.push(TurnEvent::Started);
        }
    }

    pub(super) fn text(&mut self, delta: String) {
        let mut pieces = std::mem::take(&mut self.pieces);
        self.tags.push(delta, &mut pieces);
        self.push_pieces(&mut pieces);
        self.pieces = pieces;
    }

    pub(super) fn reasoning(&mut self, delta: String) {
        if !delta.is_empty() {
            self.flush_tags();
            self.push_pieces(&mut vec![Piece::Reasoning(delta)]);
        }
    }

    pub(super) fn tool_call(&mut self, id: CallId, name: String, arguments: String) {
        self.flush_tags();
        self.calls = true;
        self.visible += 1;
        self.said.push_str(&name);
        self.said.push_str(&arguments);
        self.push(TurnEvent::ToolCallBegin { id: id.clone(), name });
        self.push(TurnEvent::ToolCallArgs { id: id.clone(), delta: arguments });
        self.push(TurnEvent::ToolCallEnd { id });
    }

    pub(super) fn blob_text(&mut self, text: String) {
        self.blob_text = Some(text);
    }

    pub(super) fn output_tokens(&mut self, tokens: i32) {
        self.counts.output += u64::try_from(tokens).unwrap_or(0);
    }

    pub(super) fn context_tokens(&mut self, details: ConversationTokenDetails) {
        self.counts.context = Some(details);
    }

    pub(super) fn turn_ended(&mut self, usage: TurnEndedUpdate) {
        self.counts.ended = Some(usage);
    }

    /// Whether a clean end now would be an empty answer.
    pub(super) fn is_empty(&self) -> bool {
        !self.delivered() && self.blob_text.is_none()
    }

    pub(super) fn finish(&mut self, reason: FinishReason) {
        self.flush_tags();
        if !self.text
            && !self.calls
            && let Some(text) = self.blob_text.take()
        {
            self.text(text);
            self.flush_tags();
        }
        if let Some(usage) = self.counts.usage() {
            self.push(TurnEvent::Usage(usage));
        }
        self.push(TurnEvent::Finished(reason));
    }

    pub(super) fn fail(&mut self, error: TurnError) {
        // What was held back as a possible tag was text after all.
        self.flush_tags();
        self.push(TurnEvent::Failed(error));
    }

    /// What to count when the backend did not.
    pub(super) fn said(&self) -> &str {
        &self.said
    }

    /// The backend's own count of the output, if it gave one.
    pub(super) fn counted_output(&self) -> Option<u64> {
        (self.counts.output > 0).then_some(self.counts.output)
    }

    fn flush_tags(&mut self) {
        let mut pieces = std::mem::take(&mut self.pieces);
        self.tags.finish(&mut pieces);
        self.push_pieces(&mut pieces);
        self.pieces = pieces;
    }

    fn push_pieces(&mut self, pieces: &mut Vec<Piece>) {
        for piece in pieces.drain(..) {
            self.visible += 1;
            let (Piece::Text(text) | Piece::Reasoning(text)) = &piece;
            self.said.push_str(text);
            match piece {
                Piece::Text(text) => {
                    self.text = true;
                    self.push(TurnEvent::Text(text));
                }
                Piece::Reasoning(text) => {
                    self.reasoning = true;
                    self.push(TurnEvent::Reasoning(text));
                }
            }
        }
    }

    fn push(&mut self, event: TurnEvent) {
        let legal = self.guard.check(&event);
        debug_assert_eq!(legal, Ok(()), "{event:?}");
        // A release build keeps the promise of one ending rather than the event.
        if legal.is_ok() {
            self.events.push_back(event);
        }
    }
}

impl Counts {
    /// The numbers of the ended turn count; before that, the running counters.
    fn usage(&self) -> Option<Usage> {
        if let Some(ended) = &self.ended
            && (ended.input_tokens.is_some() || ended.output_tokens.is_some())
        {
            return Some(Usage {
                input: ended.input_tokens.unwrap_or(0),
                output: ended.output_tokens.unwrap_or(self.output),
                cache_read: ended.cache_read_tokens.unwrap_or(0),
                cache_write: ended.cache_write_tokens.unwrap_or(0),
                reasoning: ended.reasoning_tokens.unwrap_or(0),
                source: UsageSource::Backend,
            });
        }
        let context = self.context?;
        if self.output == 0 {
            return None;
        }
        Some(Usage {
            input: u64::from(context.used_tokens).saturating_sub(self.output),
            output: self.output,
            source: UsageSource::BackendPartial,
            ..Usage::default()
        })
    }
}
