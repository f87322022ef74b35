//! Time: when a turn wants to be woken, and what it does then.

use super::{TapeEntry, Turn, TurnState, view};
use crate::{
    error::{ErrorCode, TurnError},
    model::Millis,
    peer::Peer,
};

impl<P: Peer> Turn<P> {
    /// When [`Self::on_timeout`] is due at the latest.
    #[must_use]
    pub fn poll_deadline(&self) -> Option<Millis> {
        let whole = self.started + self.settings.clocks.whole_turn;
        let peer = || {
            let view = view(self.state, &self.answer, &self.calls, self.request.as_deref());
            self.peer.deadline(&view, &self.settings.clocks)
        };
        match self.state {
            // There is room again for the answers to what was heard before.
            TurnState::Streaming | TurnState::AwaitingTools
                if self.held && self.commands.is_empty() =>
            {
                Some(Millis(0))
            }
            TurnState::Done => None,
            // No client waits for an answer: only the link itself can time out.
            TurnState::AwaitingTools => peer(),
            TurnState::Backoff { until } => Some(whole.min(until)),
            TurnState::Opening => Some(whole),
            TurnState::Streaming => {
                let due = [peer(), self.batch_until()];
                Some(due.into_iter().flatten().fold(whole, Millis::min))
            }
        }
    }

    pub fn on_timeout(&mut self, now: Millis) {
        if let Some(tape) = &mut self.tape {
            tape.note_at(now, TapeEntry::Timeout);
        }
        let parked = self.state == TurnState::AwaitingTools;
        let running = !parked && self.state != TurnState::Done;
        if running && now >= self.started + self.settings.clocks.whole_turn {
            let text = "The turn took longer than `clocks.turn` allows.";
            self.fail(TurnError::new(ErrorCode::Timeout, text));
            return;
        }
        match self.state {
            TurnState::Backoff { until } if now >= until => self.try_again(),
            TurnState::Streaming if self.batch_until().is_some_and(|at| now >= at) => {
                self.flush_batch();
            }
            TurnState::Streaming | TurnState::AwaitingTools => {
                let view = view(self.state, &self.answer, &self.calls, self.request.as_deref());
                self.peer.on_timeout(&view, &self.settings.clocks, now);
                self.pump(now);
            }
            TurnState::Backoff { .. } | TurnState::Opening | TurnState::Done => {}
        }
    }

    /// Whether the caller reads the link; while it does not, silence proves nothing about
    /// the backend.
    pub fn set_reading(&mut self, reading: bool, now: Millis) {
        if let Some(tape) = &mut self.tape {
            tape.reading(now, reading);
        }
        if self.is_open() {
            self.peer.set_reading(reading, now);
        }
    }
}
