//! The answer as it grows: events for the client, and what is needed to end it
//! well (text that only exists in blobs, token counts). A turn that waits for tool
//! results gives one answer per request; each is a leg.

use std::collections::VecDeque;

mod counts;

use self::counts::TokenCounts;
use crate::{
    error::TurnError,
    guard::{ThinkPiece, ThinkTags},
    model::{FinishReason, TerminalGuard, TurnEvent, Usage, UsageSource, ids::CallId},
    peer::RunTokens,
    tokens::Sample,
};

#[derive(Debug, Default)]
pub(crate) struct TurnAnswer {
    events: VecDeque<TurnEvent>,
    guard: TerminalGuard,
    tags: ThinkTags,
    /// Scratch for the tag splitter, kept to spare an allocation per delta.
    pieces: Vec<ThinkPiece>,
    started: bool,
    text: bool,
    calls: bool,
    /// The newest assistant message seen in a blob.
    blob_text: Option<String>,
    /// The text of this leg, as far as it is kept.
    words: String,
    /// What else the model produced, for counting when the backend does not: the calls, and
    /// the thoughts.
    said: String,
    thoughts: String,
    /// There was more of them than is kept.
    longer: bool,
    /// How many pieces the client could see, over all legs.
    visible: u64,
    /// The same when this leg began.
    visible_before: u64,
    /// Text is kept back until a tool is called.
    held: Option<String>,
    /// The leg's ending was taken: what comes now belongs to the next one.
    taken: bool,
    /// Bytes of events that were not taken since the leg ended.
    waiting: usize,
    /// What earlier legs said. The backend stores it later, and then it is not an answer
    /// that only exists there.
    earlier: String,
    /// The leg that just ended, for counting.
    last: Option<Produced>,
    counts: TokenCounts,
}

/// What the model produced in one leg.
#[derive(Debug)]
pub(crate) struct Produced {
    pub(crate) answer: String,
    pub(crate) thoughts: String,
    /// The backend's own count of all of it, if it gave one.
    pub(crate) output: Option<u64>,
}

/// How much is kept of what one leg says. No model says that much; of a backend that does,
/// the conversation is not known again, and our own count of it is too low.
const KEPT: usize = 8 << 20;

/// The longest text of one event. It is written out six times as long where all of it is control
/// characters, and a client that reads slowly takes one event after the other.
const EVENT_TEXT: usize = 64 * 1024;

/// How much of what earlier legs said is remembered.
const EARLIER: usize = 64 << 10;

impl TurnAnswer {
    /// The next event of this leg; none after its ending.
    pub(crate) fn pop(&mut self) -> Option<TurnEvent> {
        if self.taken {
            return None;
        }
        let event = self.events.pop_front()?;
        self.taken = event.is_terminal();
        Some(event)
    }

    /// From here on everything belongs to the next leg.
    pub(crate) fn end_leg(&mut self) {
        if self.earlier.len() + self.words.len() > EARLIER {
            self.earlier.clear();
        }
        self.earlier.push_str(&self.words);
        let last = self.all_produced();
        *self = Self {
            last: Some(last),
            events: std::mem::take(&mut self.events),
            earlier: std::mem::take(&mut self.earlier),
            visible: self.visible,
            visible_before: self.visible,
            taken: self.taken,
            counts: self.counts.next_leg(),
            ..Self::default()
        };
    }

    /// The next leg has a reader for its events.
    pub(crate) fn begin_leg(&mut self) {
        self.taken = false;
        self.waiting = 0;
        self.last = None;
    }

    /// Keeps text back until a tool is called.
    pub(crate) fn hold(&mut self) {
        self.held.get_or_insert_default();
    }

    /// Forgets the text that was kept back.
    pub(crate) fn forget_held(&mut self) {
        if let Some(held) = &mut self.held {
            held.clear();
        }
        self.blob_text = None;
    }

    /// Another run answers in the place of one whose client saw nothing of it.
    pub(crate) fn start_over(&mut self) {
        self.forget_held();
        self.tags = ThinkTags::default();
        self.new_run();
    }

    /// About how many bytes the answer takes.
    pub(crate) fn memory(&self) -> usize {
        let said = self.said.len() + self.thoughts.len();
        self.words.len() + said + self.earlier.len() + self.waiting
    }

    /// What waits for the next leg's client, in bytes.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    pub(crate) fn ended(&self) -> bool {
        self.guard.ended()
    }

    /// Whether the client of this leg was given anything it can see.
    pub(crate) fn delivered(&self) -> bool {
        self.visible > self.visible_before
    }

    /// The text of this leg so far.
    pub(crate) fn words(&self) -> &str {
        &self.words
    }

    /// Whether there is an answer, streamed or stored.
    pub(crate) fn has_answer(&self) -> bool {
        self.text || self.blob_text.is_some() || self.holds_text()
    }

    pub(crate) fn has_calls(&self) -> bool {
        self.calls
    }

    /// Grows with everything the client sees, from leg to leg.
    pub(crate) fn visible(&self) -> u64 {
        self.visible
    }

    /// The backend spoke; only the first time counts.
    pub(crate) fn started(&mut self) {
        if !self.started {
            self.started = true;
            self.push(TurnEvent::Started);
        }
    }

    pub(crate) fn text(&mut self, delta: String) {
        let mut pieces = std::mem::take(&mut self.pieces);
        self.tags.push(delta, &mut pieces);
        self.push_pieces(&mut pieces);
        self.pieces = pieces;
    }

    pub(crate) fn reasoning(&mut self, delta: String) {
        if !delta.is_empty() {
            self.flush_tags();
            self.push_piece(ThinkPiece::Reasoning(delta));
        }
    }

    /// Something that the backend did by itself: a line of its own among the thoughts.
    pub(crate) fn did(&mut self, line: &str) {
        let whole = self.thoughts.is_empty() || self.thoughts.ends_with('\n');
        let before = if whole { "" } else { "\n" };
        self.reasoning(format!("{before}{line}\n"));
    }

    pub(crate) fn call_begin(&mut self, id: CallId, name: String) {
        self.release();
        self.flush_tags();
        self.calls = true;
        self.visible += 1;
        self.longer |= !keep(&mut self.said, &name);
        self.push(TurnEvent::ToolCallBegin { id, name });
    }

    pub(crate) fn call_args(&mut self, id: &CallId, delta: String) {
        if !delta.is_empty() {
            self.longer |= !keep(&mut self.said, &delta);
            self.push_split(delta, |delta| TurnEvent::ToolCallArgs { id: id.clone(), delta });
        }
    }

    pub(crate) fn call_end(&mut self, id: CallId) {
        self.push(TurnEvent::ToolCallEnd { id });
    }

    /// Releases the text that was held back.
    fn release(&mut self) {
        if let Some(text) = self.held.take()
            && !text.is_empty()
        {
            self.text(text);
        }
    }

    pub(crate) fn blob_text(&mut self, text: String) {
        if !self.earlier.contains(text.trim()) {
            self.blob_text = Some(text);
        }
    }

    pub(crate) fn output_tokens(&mut self, tokens: i32) {
        self.counts.output_tokens(tokens);
    }

    /// Sets the number of tokens in the context.
    pub(crate) fn context_tokens(&mut self, used: u64) {
        self.counts.context_tokens(used);
    }

    /// The numbers of the whole run.
    pub(crate) fn run_ended(&mut self, totals: RunTokens) {
        self.counts.run_ended(totals);
    }

    /// The backend starts from the beginning, and so do its counters.
    pub(crate) fn new_run(&mut self) {
        self.counts = TokenCounts::default();
    }

    /// Notes the output tokens that were reported for the leg that just ended.
    pub(crate) fn note_output(&mut self, tokens: u64, reasoning: u64) {
        self.counts.note_reported(tokens, reasoning);
    }

    /// What the leg teaches about the tokens of its model, if anything: a text that is all
    /// of what the backend counted.
    pub(crate) fn sample(&self, usage: &Usage) -> Option<Sample> {
        if self.calls || !self.text || self.longer {
            return None;
        }
        let thoughts = !self.thoughts.is_empty();
        // Thoughts are shown in part or in other words, so only their number can be left out.
        let usable = match usage.source {
            UsageSource::Backend => !thoughts || usage.reasoning > 0,
            UsageSource::BackendPartial => !thoughts,
            UsageSource::Estimate => false,
        };
        usable.then(|| Sample {
            text: self.words.clone(),
            reported: usage.output.saturating_sub(usage.reasoning),
        })
    }

    /// Whether a clean end now would be an empty answer.
    pub(crate) fn is_empty(&self) -> bool {
        !self.delivered() && self.blob_text.is_none() && !self.holds_text()
    }

    fn holds_text(&self) -> bool {
        self.held.as_ref().is_some_and(|held| !held.is_empty())
    }

    pub(crate) fn finish(&mut self, reason: FinishReason) {
        self.release();
        self.flush_tags();
        if !self.text
            && !self.calls
            && let Some(text) = self.blob_text.take()
        {
            self.text(text);
            self.flush_tags();
        }
        if let Some(usage) = self.usage() {
            self.push(TurnEvent::Usage(usage));
        }
        self.push(TurnEvent::Finished(reason));
    }

    pub(crate) fn fail(&mut self, error: TurnError) {
        self.held = None;
        // What was held back as a possible tag was text after all.
        self.flush_tags();
        self.push(TurnEvent::Failed(error));
    }

    /// The leg is over where it is, and the rest is discarded. Returns the tokens that the backend
    /// counted. Its running counters may be behind, so what the client saw is there to be counted
    /// as well.
    pub(crate) fn cut(&mut self, shown: Option<String>) -> Option<Usage> {
        let (mut counted, mut unseen) = (None, 0);
        for event in self.events.drain(..) {
            match event {
                TurnEvent::Usage(usage) => counted = Some(usage),
                TurnEvent::Reasoning(text) => unseen += text.len(),
                _ => {}
            }
        }
        self.taken = true;
        let seen = self.thoughts.len().saturating_sub(unseen);
        self.last = Some(Produced {
            answer: shown.unwrap_or_else(|| self.words.clone()),
            thoughts: self.thoughts.get(..seen).unwrap_or_default().to_owned(),
            output: None,
        });
        counted.or_else(|| self.usage()).or_else(|| {
            let output = self.counts.output()?;
            Some(Usage { output, source: UsageSource::BackendPartial, ..Usage::default() })
        })
    }

    /// What the model produced in the leg that ends.
    pub(crate) fn produced(&mut self) -> Produced {
        self.last.take().unwrap_or_else(|| self.all_produced())
    }

    /// The leg that just ended need not be counted.
    pub(crate) fn forget_produced(&mut self) {
        self.last = None;
    }

    fn all_produced(&self) -> Produced {
        Produced {
            answer: format!("{}{}", self.said, self.words),
            thoughts: self.thoughts.clone(),
            output: self.counts.output(),
        }
    }

    fn usage(&self) -> Option<Usage> {
        let thoughts = self.thoughts.len();
        self.counts.usage(thoughts, thoughts + self.said.len() + self.words.len())
    }

    fn flush_tags(&mut self) {
        let mut pieces = std::mem::take(&mut self.pieces);
        self.tags.finish(&mut pieces);
        self.push_pieces(&mut pieces);
        self.pieces = pieces;
    }

    fn push_pieces(&mut self, pieces: &mut Vec<ThinkPiece>) {
        for piece in pieces.drain(..) {
            self.push_piece(piece);
        }
    }

    fn push_piece(&mut self, piece: ThinkPiece) {
        if let (ThinkPiece::Text(text), Some(held)) = (&piece, &mut self.held) {
            held.push_str(text);
            return;
        }
        self.visible += 1;
        match piece {
            ThinkPiece::Text(text) => {
                self.text = true;
                self.longer |= !keep(&mut self.words, &text);
                self.push_split(text, TurnEvent::Text);
            }
            ThinkPiece::Reasoning(text) => {
                self.longer |= !keep(&mut self.thoughts, &text);
                self.push_split(text, TurnEvent::Reasoning);
            }
        }
    }

    /// Pushes a text as events of at most [`EVENT_TEXT`] bytes.
    fn push_split(&mut self, text: String, event: impl Fn(String) -> TurnEvent) {
        if text.len() <= EVENT_TEXT {
            return self.push(event(text));
        }
        let mut rest = text.as_str();
        while let Some((piece, after)) = rest.split_at_checked(rest.floor_char_boundary(EVENT_TEXT))
            && !piece.is_empty()
        {
            self.push(event(piece.to_owned()));
            rest = after;
        }
    }

    fn push(&mut self, event: TurnEvent) {
        let legal = self.guard.check(&event);
        debug_assert_eq!(legal, Ok(()), "{event:?}");
        // A release build keeps the promise of one ending rather than the event.
        if legal.is_ok() {
            if self.taken {
                self.waiting += event_bytes(&event);
            }
            self.events.push_back(event);
        }
    }
}

/// Adds what there is room for. False: that was not all of it.
fn keep(all: &mut String, more: &str) -> bool {
    let room = more.floor_char_boundary(KEPT.saturating_sub(all.len()));
    all.push_str(more.get(..room).unwrap_or_default());
    room == more.len()
}

fn event_bytes(event: &TurnEvent) -> usize {
    let text = match event {
        TurnEvent::Text(text) | TurnEvent::Reasoning(text) => text.len(),
        TurnEvent::ToolCallArgs { delta, .. } => delta.len(),
        _ => 0,
    };
    text + size_of::<TurnEvent>()
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
