//! The controls of an answer that no backend applies: stop sequences, a token limit, JSON. A leg's
//! events go in, and what its readers see comes out, in every dialect.
//!
//! Feed it with [`Controls::on_event`]; after each call, pass on [`Controls::pop`] until it
//! gives `None`, and then do what the [`ControlVerdict`] says.

mod json;
mod meter;
mod request;
mod stop;

use std::collections::VecDeque;

#[doc(hidden)]
pub use self::json::schema::probe::JsonSchema;
pub use self::request::{ReadFormat, prepare, prepare_with};
use self::{
    json::{ANSWER_BYTES, Json},
    meter::{Measured, Meter},
    stop::{Stopped, Stops},
};
use crate::{
    error::{ErrorCode, TurnError},
    model::{FinishReason, TurnEvent, Usage, UsageSource},
};

/// What is to be done about the turn.
#[derive(Clone, Debug, PartialEq)]
pub enum ControlVerdict {
    /// Nothing.
    Go,
    /// The answer is over, whatever else the backend has to say.
    End(FinishReason),
    /// It cannot become what was asked for.
    Fail(TurnError),
    /// The complete answer does not have the requested format. The model may be asked again
    /// with this text, once; if that is not possible, it is this failure.
    Again(String, TurnError),
}

/// The controls of one leg.
#[derive(Debug)]
pub struct Controls {
    json: Option<Json>,
    stops: Option<Stops>,
    meter: Option<Meter>,
    limit: Option<u64>,
    /// The client does not see reasoning, so that does not count towards its limit.
    hides_reasoning: bool,
    /// The reply is not streamed: JSON goes out once it was checked.
    whole: bool,
    /// Words that are not JSON may come before a call.
    tools: bool,

    out: VecDeque<TurnEvent>,
    /// JSON that was not checked to its end.
    unchecked: String,
    /// What went out so far is followed by something that is wrong.
    broken: bool,
    /// Text that is not JSON and may yet turn out to belong to a call.
    words: String,
    started: bool,
    speaks: Option<TextKind>,
    /// A call has begun. What was begun is completed, so nothing ends the answer any more.
    called: bool,
    /// What would have ended it; no text goes out since.
    muted: Option<FinishReason>,
    /// Tokens of this run, and of the one before it.
    usage: Option<Usage>,
    before: Option<Usage>,
    asked_again: bool,
}

/// Which text is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TextKind {
    Text,
    Reasoning,
}

impl Controls {
    /// Whether this event means work that is not to be done in passing: the tokenizer has
    /// to be loaded, or much to be counted or checked.
    #[must_use]
    pub fn is_slow(&self, event: &TurnEvent) -> bool {
        let slow = |more| self.meter.as_ref().is_some_and(|meter| meter.is_slow(more));
        match event {
            TurnEvent::Reasoning(_) if self.hides_reasoning => slow(0),
            TurnEvent::Text(text) | TurnEvent::Reasoning(text) => slow(text.len()),
            TurnEvent::ToolCallBegin { .. } => slow(1),
            TurnEvent::Finished(_) => self.json.is_some() || slow(0),
            TurnEvent::Started
            | TurnEvent::ToolCallArgs { .. }
            | TurnEvent::ToolCallEnd { .. }
            | TurnEvent::Usage(_)
            | TurnEvent::Failed(_) => false,
        }
    }

    /// Whether this event means that the whole answer is held against its format, which a
    /// schema can make much work.
    #[must_use]
    pub fn is_check(&self, event: &TurnEvent) -> bool {
        self.json.is_some() && matches!(event, TurnEvent::Finished(_))
    }

    pub fn on_event(&mut self, event: TurnEvent) -> ControlVerdict {
        match event {
            TurnEvent::Started => {
                // Of an answer that is asked for again, this is not the beginning.
                if !std::mem::replace(&mut self.started, true) {
                    self.out.push_back(TurnEvent::Started);
                }
                ControlVerdict::Go
            }
            TurnEvent::Text(text) => self.text(text),
            TurnEvent::Reasoning(text) => self.say(TextKind::Reasoning, text),
            TurnEvent::ToolCallBegin { .. } => self.call(event),
            TurnEvent::ToolCallArgs { .. } => {
                if let (Some(meter), TurnEvent::ToolCallArgs { delta, .. }) =
                    (&mut self.meter, &event)
                {
                    meter.note(delta);
                }
                self.pass(event)
            }
            TurnEvent::ToolCallEnd { .. } => self.pass(event),
            TurnEvent::Usage(usage) if self.holds_back() => {
                self.usage = Some(usage);
                ControlVerdict::Go
            }
            TurnEvent::Usage(_) => self.pass(event),
            TurnEvent::Finished(reason) => self.finish(reason),
            TurnEvent::Failed(_) => {
                // What was kept back was said, too.
                let _ = self.settle();
                self.pass(event)
            }
        }
    }

    /// The events for the readers; token counts are those of the present run.
    pub fn pop(&mut self) -> Option<TurnEvent> {
        self.out.pop_front()
    }

    /// Whether the model was asked a second time, so that the backend remembers an answer
    /// that the client never saw.
    #[must_use]
    pub fn asked_again(&self) -> bool {
        self.asked_again
    }

    /// Whether the tokens of the run that just ended are unknown.
    #[must_use]
    pub fn lacks_usage(&self) -> bool {
        self.before.is_none()
    }

    /// The tokens of the run that just ended, as far as they are known.
    pub fn add_usage(&mut self, usage: Usage) {
        self.before = Some(usage);
    }

    /// An estimate for the present run becomes one for the whole answer: it has what an
    /// earlier run took, and no more than the client allowed.
    #[must_use]
    pub fn whole_usage(&self, usage: Usage, reason: FinishReason) -> Usage {
        let mut usage = usage;
        if reason == FinishReason::Length
            && usage.source == UsageSource::Estimate
            && let Some(limit) = self.limit
        {
            let hidden = if self.hides_reasoning { usage.reasoning } else { 0 };
            usage.output = usage.output.min(limit.saturating_add(hidden));
            usage.reasoning = usage.reasoning.min(usage.output);
        }
        self.summed(usage)
    }

    /// The tokens of the present run with those of an earlier one, which only readers get to
    /// see: the turn counts each run by itself.
    #[must_use]
    pub fn summed(&self, usage: Usage) -> Usage {
        self.before.map_or(usage, |before| before.plus(usage))
    }

    /// What was said so far came before a call that the client gets to know nothing of: it
    /// is not part of an answer that has to be JSON.
    pub fn set_aside(&mut self) {
        if let Some(json) = &mut self.json {
            json.reset();
            self.unchecked.clear();
            self.words.clear();
            self.broken = false;
        }
    }

    // === text ===

    fn text(&mut self, text: String) -> ControlVerdict {
        let Some(json) = self.json.as_mut().filter(|_| !self.called) else {
            return self.plain(text);
        };
        if self.broken {
            return self.wordy(text);
        }
        let part = json.push(&text);
        let broken = json.is_broken();
        let mut rest = String::new();
        let verdict = if part.len() == text.len() {
            self.plain(text)
        } else {
            text.get(part.end..).unwrap_or_default().clone_into(&mut rest);
            self.plain(text.get(part).unwrap_or_default().to_owned())
        };
        // What ends before the violation is not concerned by it.
        if !broken || verdict != ControlVerdict::Go {
            return verdict;
        }
        let verdict = self.settle();
        if verdict != ControlVerdict::Go {
            return verdict;
        }
        self.broken = true;
        if self.whole || self.tools { self.wordy(rest) } else { self.unfit() }
    }

    /// Takes text that is not JSON. It is kept until a call shows that it need not be, but
    /// has no more room than any other.
    fn wordy(&mut self, text: String) -> ControlVerdict {
        if !self.tools {
            return ControlVerdict::Go;
        }
        let verdict = self.plain(text);
        if verdict == ControlVerdict::Go && self.words.len() > ANSWER_BYTES {
            return self.unfit();
        }
        verdict
    }

    fn plain(&mut self, text: String) -> ControlVerdict {
        if self.muted.is_some() {
            return ControlVerdict::Go;
        }
        let (give, hit) = match &mut self.stops {
            None => (text, None),
            Some(stops) => {
                let Stopped { give, hit } = stops.push(text);
                (give, hit)
            }
        };
        let verdict = self.say(TextKind::Text, give);
        let (ControlVerdict::Go, Some(place)) = (&verdict, hit) else { return verdict };
        if self.close() {
            self.end(FinishReason::Length)
        } else {
            self.end(FinishReason::StopSequence(place))
        }
    }

    /// Lets a text through as far as there is room for it.
    fn say(&mut self, voice: TextKind, text: String) -> ControlVerdict {
        if self.muted.is_some() || text.is_empty() {
            return ControlVerdict::Go;
        }
        if self.speaks != Some(voice) && self.close() {
            return self.end(FinishReason::Length);
        }
        self.speaks = Some(voice);
        let free = voice == TextKind::Reasoning && self.hides_reasoning;
        let Some(meter) = self.meter.as_mut().filter(|_| !free) else {
            self.tell(voice, text);
            return ControlVerdict::Go;
        };
        let Measured { give, over } = meter.push(text);
        self.tell(voice, give);
        if over { self.end(FinishReason::Length) } else { ControlVerdict::Go }
    }

    /// The text is complete. Returns whether it was too long.
    fn close(&mut self) -> bool {
        let Some(meter) = &mut self.meter else { return false };
        let Measured { give, over } = meter.close();
        if let Some(voice) = self.speaks {
            self.tell(voice, give);
        }
        over
    }

    fn tell(&mut self, voice: TextKind, text: String) {
        if text.is_empty() {
            return;
        }
        match voice {
            TextKind::Text if self.broken && !self.called => self.words.push_str(&text),
            TextKind::Text if self.holds_back() => self.unchecked.push_str(&text),
            TextKind::Text => self.out.push_back(TurnEvent::Text(text)),
            TextKind::Reasoning => self.out.push_back(TurnEvent::Reasoning(text)),
        }
    }

    /// Whether text waits for the check of the whole.
    fn holds_back(&self) -> bool {
        self.json.is_some() && self.whole && !self.called
    }

    fn pass(&mut self, event: TurnEvent) -> ControlVerdict {
        self.out.push_back(event);
        ControlVerdict::Go
    }

    // === calls and endings ===

    fn call(&mut self, event: TurnEvent) -> ControlVerdict {
        if !self.called {
            let verdict = self.settle();
            if verdict != ControlVerdict::Go {
                return verdict;
            }
            if self.meter.as_mut().is_some_and(Meter::is_spent) {
                return self.end(FinishReason::Length);
            }
            // Words before a call need not be JSON.
            self.called = true;
            let unchecked = std::mem::take(&mut self.unchecked);
            self.tell(TextKind::Text, unchecked);
            let words = std::mem::take(&mut self.words);
            self.tell(TextKind::Text, words);
            if let Some(usage) = self.usage.take() {
                self.out.push_back(TurnEvent::Usage(usage));
            }
        }
        let _ = self.settle();
        self.speaks = None;
        if let (Some(meter), TurnEvent::ToolCallBegin { name, .. }) = (&mut self.meter, &event) {
            meter.note(name);
        }
        self.pass(event)
    }

    /// Releases what was held back, as far as there is room for it.
    fn settle(&mut self) -> ControlVerdict {
        let held = self.stops.as_mut().map(Stops::release).unwrap_or_default();
        let verdict = self.say(TextKind::Text, held);
        if verdict == ControlVerdict::Go && self.muted.is_none() && self.close() {
            return self.end(FinishReason::Length);
        }
        verdict
    }

    /// The answer is as long as it may be.
    fn end(&mut self, reason: FinishReason) -> ControlVerdict {
        if self.called {
            self.muted.get_or_insert(reason);
            return ControlVerdict::Go;
        }
        if self.broken {
            return self.unfit();
        }
        let unchecked = std::mem::take(&mut self.unchecked);
        if !unchecked.is_empty() {
            self.out.push_back(TurnEvent::Text(unchecked));
        }
        if let Some(usage) = self.usage.take() {
            self.out.push_back(TurnEvent::Usage(usage));
        }
        ControlVerdict::End(reason)
    }

    fn finish(&mut self, reason: FinishReason) -> ControlVerdict {
        let verdict = self.settle();
        if verdict != ControlVerdict::Go {
            return verdict;
        }
        let answers = !self.called && reason == FinishReason::Stop;
        if let Some(json) = self.json.as_mut().filter(|_| answers)
            && let Err(why) = json.finish()
        {
            return self.unmet(&why);
        }
        let unchecked = std::mem::take(&mut self.unchecked);
        if !unchecked.is_empty() {
            self.out.push_back(TurnEvent::Text(unchecked));
        }
        if let Some(usage) = self.usage.take() {
            self.out.push_back(TurnEvent::Usage(usage));
        }
        let reason = match reason {
            FinishReason::Stop => self.muted.unwrap_or(reason),
            FinishReason::StopSequence(_) | FinishReason::Length | FinishReason::ToolCalls => {
                reason
            }
        };
        self.pass(TurnEvent::Finished(reason))
    }

    /// The answer is broken in the middle.
    fn unfit(&mut self) -> ControlVerdict {
        let why = self.json.as_mut().and_then(|json| json.finish().err()).unwrap_or_default();
        ControlVerdict::Fail(unmet(&why))
    }

    /// The whole answer is not what it should be.
    fn unmet(&mut self, why: &str) -> ControlVerdict {
        let error = unmet(why);
        if !self.whole || self.asked_again {
            return ControlVerdict::Fail(error);
        }
        self.asked_again = true;
        self.before = self.usage.take();
        self.unchecked.clear();
        self.broken = false;
        self.words.clear();
        self.speaks = None;
        if let Some(json) = &mut self.json {
            json.reset();
        }
        if let Some(meter) = &mut self.meter {
            meter.reset();
        }
        let text = format!(
            "Your last answer cannot be used: {why}. Answer again, with nothing but the corrected \
             JSON."
        );
        ControlVerdict::Again(text, error)
    }
}

fn unmet(why: &str) -> TurnError {
    let text = format!("The model did not return the JSON that was requested: {why}.");
    TurnError::new(ErrorCode::FormatUnmet, text)
}

#[cfg(test)]
#[path = "controls_tests.rs"]
mod tests;
