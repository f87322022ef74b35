//! Permits for the turn slots: the gate of [`ibeam_core::limits`], and the requests that wait at it.

mod permits;

use std::{collections::HashMap, sync::Arc, time::Duration};

use ibeam_core::limits::{
    GateAnswer, GateRules, Quota, SlotGate, SlotOwner, SlotRequest, Ticket, TicketVerdict, Why,
};
use parking_lot::Mutex;
use tokio::{sync::oneshot, time::timeout};

pub(crate) use self::permits::{Permits, owner};

/// The slots for turns that generate with a reader attached. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct TurnSlots(Arc<Mutex<TurnSlotsState>>);

#[derive(Debug)]
struct TurnSlotsState {
    gate: SlotGate,
    /// The gate limits how many there are.
    waiting: HashMap<Ticket, oneshot::Sender<Permit>>,
}

/// The owner that a permit counts against, and how many it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PermitClaim {
    pub(crate) owner: SlotOwner,
    pub(crate) quota: Quota,
}

/// One turn's slot. It can be released and acquired again, as a turn loses its reader and finds
/// another; dropping the permit releases it.
#[derive(Debug)]
pub(crate) struct Permit {
    slots: TurnSlots,
    owner: SlotOwner,
    held: bool,
}

impl TurnSlots {
    pub(crate) fn new(rules: GateRules) -> Self {
        let state = TurnSlotsState { gate: SlotGate::new(rules), waiting: HashMap::new() };
        Self(Arc::new(Mutex::new(state)))
    }

    /// Free slots for new turns.
    pub(crate) fn free(&self) -> usize {
        self.0.lock().gate.free()
    }

    /// A permit for a new turn, if a slot is free.
    pub(crate) fn try_acquire(&self, claim: PermitClaim) -> Option<Permit> {
        let entered = self.0.lock().gate.try_enter(claim.owner, claim.quota, SlotRequest::New);
        entered.then(|| self.permit(claim.owner))
    }

    /// A permit, once a slot is free.
    ///
    /// # Errors
    /// The queue is full, or no slot was free in time. Says what was short.
    pub(crate) async fn acquire(
        &self,
        claim: PermitClaim,
        kind: SlotRequest,
        patience: Duration,
    ) -> Result<Permit, Why> {
        let permit = timeout(patience, self.queue(claim, kind)).await.ok().flatten();
        permit.ok_or_else(|| {
            let why = self.0.lock().gate.why(claim.owner, claim.quota, kind);
            why.unwrap_or(Why::Total)
        })
    }

    /// What keeps a new turn of that owner out.
    pub(crate) fn why(&self, claim: PermitClaim) -> Option<Why> {
        self.0.lock().gate.why(claim.owner, claim.quota, SlotRequest::New)
    }

    /// A permit, however long that takes. None: the queue is full.
    pub(crate) async fn queue(&self, claim: PermitClaim, kind: SlotRequest) -> Option<Permit> {
        let (sender, verdict) = oneshot::channel();
        let answer = self.change(|state| {
            let answer = state.gate.ask(claim.owner, claim.quota, kind);
            if let GateAnswer::Wait(ticket) = answer {
                state.waiting.insert(ticket, sender);
            }
            answer
        });
        match answer {
            GateAnswer::Enter => Some(self.permit(claim.owner)),
            GateAnswer::Refused => None,
            GateAnswer::Wait(ticket) => {
                let _queued = QueuedClaim { slots: self, ticket };
                verdict.await.ok()
            }
        }
    }

    fn permit(&self, owner: SlotOwner) -> Permit {
        Permit { slots: self.clone(), owner, held: true }
    }

    /// Changes the state, then gives permits to the requests that may enter.
    fn change<T>(&self, change: impl FnOnce(&mut TurnSlotsState) -> T) -> T {
        let mut verdicts = Vec::new();
        let outcome = {
            let mut state = self.0.lock();
            let outcome = change(&mut state);
            while let Some((ticket, verdict)) = state.gate.poll_verdict() {
                verdicts.push((ticket, verdict, state.waiting.remove(&ticket)));
            }
            outcome
        };
        for (ticket, verdict, waiting) in verdicts {
            if verdict == TicketVerdict::Enter {
                let permit = self.permit(ticket.owner());
                // A request that gave up a moment ago drops the permit, for the next one.
                if let Some(waiting) = waiting {
                    let _ = waiting.send(permit);
                }
            }
        }
        outcome
    }
}

impl Permit {
    /// The turn runs on, or waits, without a reader.
    pub(crate) fn release(&mut self) {
        if std::mem::take(&mut self.held) {
            self.slots.change(|state| state.gate.leave(self.owner));
        }
    }

    /// Gives the slot to another owner, if that may have it.
    pub(crate) fn give_to(&mut self, claim: PermitClaim) -> bool {
        let given = self.held
            && self
                .slots
                .change(|state| state.gate.hand_over(self.owner, claim.owner, claim.quota));
        if given {
            self.owner = claim.owner;
        }
        given
    }

    /// The turn has a reader again. It runs anyway; at worst it is one too many for a
    /// moment.
    pub(crate) fn reacquire(&mut self) {
        if !std::mem::replace(&mut self.held, true) {
            self.slots.0.lock().gate.enter(self.owner);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.release();
    }
}

/// Leaves the queue when dropped, however the waiting ended.
struct QueuedClaim<'a> {
    slots: &'a TurnSlots,
    ticket: Ticket,
}

impl Drop for QueuedClaim<'_> {
    fn drop(&mut self) {
        let mut state = self.slots.0.lock();
        if state.gate.give_up(self.ticket) {
            state.waiting.remove(&self.ticket);
        }
    }
}

#[cfg(test)]
#[path = "limits_tests.rs"]
mod tests;
