//! Places for turns: the gate of [`ibeam_core::limits`], with those who wait for it.

mod permits;

use std::{collections::HashMap, sync::Arc, time::Duration};

use ibeam_core::limits::{Answer, Gate, Kind, Owner, Quota, Rules, Ticket, Verdict, Why};
use parking_lot::Mutex;
use tokio::{sync::oneshot, time::timeout};

pub(crate) use self::permits::{Permits, owner};

/// Hands out places for turns that generate with a reader attached. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Turns(Arc<Mutex<TurnsState>>);

#[derive(Debug)]
struct TurnsState {
    gate: Gate,
    /// The gate bounds how many there are.
    waiting: HashMap<Ticket, oneshot::Sender<Place>>,
}

/// Who asks for a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seeker {
    pub(crate) owner: Owner,
    pub(crate) quota: Quota,
}

/// One turn's place among those that run. It can be given back and taken again, as a turn
/// loses its reader and finds another; dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Place {
    turns: Turns,
    owner: Owner,
    held: bool,
}

impl Turns {
    pub(crate) fn new(rules: Rules) -> Self {
        let state = TurnsState { gate: Gate::new(rules), waiting: HashMap::new() };
        Self(Arc::new(Mutex::new(state)))
    }

    /// Places for new turns that are free.
    pub(crate) fn free(&self) -> usize {
        self.0.lock().gate.free()
    }

    /// A place for a new turn, if there is one.
    pub(crate) fn try_enter(&self, seeker: Seeker) -> Option<Place> {
        let entered = self.0.lock().gate.try_enter(seeker.owner, seeker.quota, Kind::New);
        entered.then(|| self.place(seeker.owner))
    }

    /// A place, waiting for one if need be.
    ///
    /// # Errors
    /// The queue is full, or the patience was over. Says what was short.
    pub(crate) async fn enter(
        &self,
        seeker: Seeker,
        kind: Kind,
        patience: Duration,
    ) -> Result<Place, Why> {
        let place = timeout(patience, self.queue(seeker, kind)).await.ok().flatten();
        place.ok_or_else(|| {
            let why = self.0.lock().gate.why(seeker.owner, seeker.quota, kind);
            why.unwrap_or(Why::Total)
        })
    }

    /// A place, however long that takes. None: the queue is full.
    async fn queue(&self, seeker: Seeker, kind: Kind) -> Option<Place> {
        let (sender, verdict) = oneshot::channel();
        let answer = self.change(|state| {
            let answer = state.gate.ask(seeker.owner, seeker.quota, kind);
            if let Answer::Wait(ticket) = answer {
                state.waiting.insert(ticket, sender);
            }
            answer
        });
        match answer {
            Answer::Enter => Some(self.place(seeker.owner)),
            Answer::Refused => None,
            Answer::Wait(ticket) => {
                let _queued = Queued { turns: self, ticket };
                verdict.await.ok()
            }
        }
    }

    fn place(&self, owner: Owner) -> Place {
        Place { turns: self.clone(), owner, held: true }
    }

    /// Changes the state, then tells those whom the change concerns.
    fn change<T>(&self, change: impl FnOnce(&mut TurnsState) -> T) -> T {
        let mut told = Vec::new();
        let outcome = {
            let mut state = self.0.lock();
            let outcome = change(&mut state);
            while let Some((ticket, verdict)) = state.gate.poll_verdict() {
                told.push((ticket, verdict, state.waiting.remove(&ticket)));
            }
            outcome
        };
        for (ticket, verdict, waiting) in told {
            if verdict == Verdict::Enter {
                let place = self.place(ticket.owner());
                // Whoever gave up a moment ago leaves the place to the next.
                if let Some(waiting) = waiting {
                    let _ = waiting.send(place);
                }
            }
        }
        outcome
    }
}

impl Place {
    /// The turn runs on, or waits, without a reader.
    pub(crate) fn give_back(&mut self) {
        if std::mem::take(&mut self.held) {
            self.turns.change(|state| state.gate.leave(self.owner));
        }
    }

    /// The turn has a reader again. It runs anyway; at worst it is one too many for a
    /// moment.
    pub(crate) fn take_again(&mut self) {
        if !std::mem::replace(&mut self.held, true) {
            self.turns.0.lock().gate.enter(self.owner);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// Leaves the queue with whoever waited, however the waiting ended.
struct Queued<'a> {
    turns: &'a Turns,
    ticket: Ticket,
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        let mut state = self.turns.0.lock();
        if state.gate.give_up(self.ticket) {
            state.waiting.remove(&self.ticket);
        }
    }
}

#[cfg(test)]
#[path = "limits_tests.rs"]
mod tests;
