//! Time: when a turn wants to be woken, and what it does then.

use super::{Link, Phase, Run, Turn};
use crate::{
    child::{Failure, Remedy},
    error::{ErrorCode, TurnError},
    model::Millis,
};

impl Turn {
    /// When [`Self::on_timeout`] is due at the latest.
    #[must_use]
    pub fn poll_deadline(&self) -> Option<Millis> {
        let whole = self.started + self.settings.clocks.whole_turn;
        match &self.link {
            Link::Done => None,
            // A child that waits says nothing.
            Link::Open(_) if self.awaiting => None,
            Link::Waiting { until } => Some(whole.min(*until)),
            Link::Opening => Some(whole),
            Link::Open(run) => {
                let due = [self.silent_until(run), self.batch_until(run)];
                Some(due.into_iter().flatten().fold(whole, Millis::min))
            }
        }
    }

    pub fn on_timeout(&mut self, now: Millis) {
        let clocks = self.settings.clocks;
        let running = matches!(self.phase(), Phase::Opening | Phase::Streaming);
        if running && now >= self.started + clocks.whole_turn {
            let text = "The turn took longer than `clocks.turn` allows.";
            self.fail(TurnError::new(ErrorCode::Timeout, text));
            return;
        }
        let due = |at: Option<Millis>| at.is_some_and(|at| now >= at);
        match &self.link {
            Link::Waiting { until } if now >= *until => self.open(),
            Link::Open(run) if !self.awaiting => {
                if due(self.batch_until(run)) {
                    self.flush_batch();
                } else if due(self.silent_until(run)) {
                    self.on_silence(run.spoke, now);
                }
            }
            Link::Waiting { .. } | Link::Opening | Link::Open(_) | Link::Done => {}
        }
    }

    /// Whether the caller reads; while it does not, silence proves nothing about the child.
    pub fn set_reading(&mut self, reading: bool, now: Millis) {
        if let Link::Open(run) = &mut self.link
            && run.reading != reading
        {
            run.reading = reading;
            run.last_heard = now;
        }
    }

    /// How long the child may be silent. One that never said a word does not run; one that
    /// did may think for a while.
    fn silent_until(&self, run: &Run) -> Option<Millis> {
        let clocks = &self.settings.clocks;
        let patience = if run.spoke { clocks.heartbeat_only } else { clocks.no_frame };
        run.reading.then(|| run.last_heard + patience)
    }

    fn on_silence(&mut self, spoke: bool, now: Millis) {
        let clocks = &self.settings.clocks;
        if spoke {
            let text = "Cursor's CLI sent nothing for longer than `clocks.heartbeats_only` allows.";
            self.fail(TurnError::new(ErrorCode::Timeout, text));
        } else {
            let text = format!("Cursor's CLI sent nothing for {} s.", clocks.no_frame.as_secs());
            let error = TurnError::new(ErrorCode::Timeout, text).unreachable();
            self.recover(Failure { error, remedy: Remedy::Retry }, now);
        }
    }
}
