//! How a leg ends, and the tokens that its client gets before.

use super::{Counting, Leg, LegOutput, LegRecord};
use crate::{
    model::{FinishReason, TurnEvent, Usage},
    peer::Peer,
    turn::{TurnState, Uncounted, client_left},
};

impl<P: Peer> Leg<P> {
    /// The client is gone: tells the backend to stop. `keep`: the conversation is saved as its
    /// client saw it, and can continue from there. (Once calls went out, what was saved with them
    /// is newer.)
    pub fn cancel(&mut self, keep: bool) {
        let works = match self.turn.state() {
            TurnState::Backoff { .. } | TurnState::Opening | TurnState::Streaming => true,
            TurnState::AwaitingTools | TurnState::Done => false,
        };
        let present = self.present.as_ref().filter(|leg| keep && works && !leg.saved && !leg.ended);
        let Some(shown) = present.and_then(|present| present.record.text()) else {
            return self.turn.cancel();
        };
        self.turn.cut(Some(shown));
        self.output.push_back(LegOutput::Save);
        self.fail(client_left());
    }

    pub(super) fn estimate(&mut self, counting: Counting) {
        self.counting = Some(counting);
        self.output.push_back(LegOutput::Estimate);
    }

    /// What is to be counted. Of a large prompt that has all texts.
    #[must_use]
    pub fn uncounted(&mut self) -> Uncounted {
        self.turn.uncounted()
    }

    /// The tokens that were to be counted.
    pub fn on_estimate(&mut self, counted: Usage) {
        match self.counting.take() {
            Some(Counting::Work) => self.work(counted),
            Some(Counting::Finish(reason)) => {
                self.turn.note_usage(&counted);
                self.end_with_usage(reason, counted);
            }
            Some(Counting::EndEarly(reason, running)) => {
                self.end_with_usage(reason, running.unwrap_or_default().at_least(counted));
            }
            Some(Counting::AskAgain(text, error)) => {
                self.turn.note_usage(&counted);
                let present = self.present.as_mut();
                if let Some(controls) = present.and_then(|present| present.controls.as_mut()) {
                    controls.add_usage(counted);
                }
                self.ask_again(&text, error);
            }
            None => {}
        }
    }

    /// An event past the controls. Between legs the turn keeps what it hears.
    pub(super) fn take(&mut self, event: TurnEvent) {
        let Some(present) = &mut self.present else { return };
        match event {
            TurnEvent::Finished(reason) if present.usage_told => self.end(reason),
            TurnEvent::Finished(reason) => self.estimate(Counting::Finish(reason)),
            TurnEvent::Failed(error) => self.fail(error),
            TurnEvent::Usage(usage) => {
                present.usage_told = true;
                let controls = present.controls.as_ref();
                let summed = controls.map_or(usage, |controls| controls.summed(usage));
                let sample = self.turn.sample(&usage);
                self.output.extend(sample.map(LegOutput::Learn));
                self.turn.note_usage(&usage);
                self.show(TurnEvent::Usage(summed));
            }
            TurnEvent::ToolCallBegin { .. } => {
                if !std::mem::replace(&mut present.saved, true) {
                    self.output.push_back(LegOutput::Save);
                }
                self.show(event);
            }
            TurnEvent::Started
            | TurnEvent::Text(_)
            | TurnEvent::Reasoning(_)
            | TurnEvent::ToolCallArgs { .. }
            | TurnEvent::ToolCallEnd { .. } => self.show(event),
        }
    }

    pub(super) fn end_with_usage(&mut self, reason: FinishReason, usage: Usage) {
        let Some(present) = &mut self.present else { return };
        present.usage_told = true;
        let controls = present.controls.as_ref();
        let usage = controls.map_or(usage, |controls| controls.whole_usage(usage, reason));
        self.show(TurnEvent::Usage(usage));
        self.end(reason);
    }

    pub(super) fn end(&mut self, reason: FinishReason) {
        let Some(present) = &mut self.present else { return };
        present.ended = true;
        let asked_again = present.controls.as_ref().is_some_and(|all| all.asked_again());
        if asked_again && !self.turn.is_cut() {
            self.turn.show_only(present.record.text());
        }
        self.output.push_back(LegOutput::Save);
        self.show(TurnEvent::Finished(reason));
    }

    /// Ends the leg whose last event came out of [`Self::poll`], and gives its record.
    pub fn finish(&mut self) -> Option<LegRecord> {
        self.present.take().map(|present| present.record)
    }

    fn show(&mut self, event: TurnEvent) {
        // Tokens are those of all parts of the leg.
        let before = self.bridged.as_ref().and_then(|bridged| bridged.before);
        let event = match (event, before) {
            (TurnEvent::Usage(usage), Some(before)) => TurnEvent::Usage(before.plus(usage)),
            (event, _) => event,
        };
        self.output.push_back(LegOutput::Event(event));
    }
}
