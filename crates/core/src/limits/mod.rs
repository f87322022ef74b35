//! Which requests may run a turn now, which wait, and in which order.
//!
//! Two kinds of requests ask for a place. New turns share `total` places, and no owner
//! has more of them than its limit. Requests that bring tool results go on with work that
//! was let in before: they go first, may use `reserve` places more, and no owner's limit
//! holds them up. Within a kind, owners take turns, and each owner's requests keep their
//! order.
//!
//! Where there is more than one owner, each leaves room for the others: see [`has_room`].
//!
//! *Invariant:* a slot is never free while a request waits that could have it.

mod queue;

use std::collections::{BTreeMap, VecDeque};

use self::queue::OwnerQueue;

/// How many there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateRules {
    /// How many turns may run at once.
    pub total: usize,
    /// Further ones, only for requests with tool results.
    pub reserve: usize,
    /// Requests of one kind that wait.
    pub waiting: usize,
}

/// The owner of requests. Everything with the same number shares one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotOwner(pub u64);

/// How much one owner may run at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// New turns are held to this many.
    pub limit: usize,
    /// Up to this many it need not leave room for others: `usize::MAX` for the only owner,
    /// the number that an administrator gave it, or 0.
    pub assured: usize,
}

impl Quota {
    /// The quota of the only owner.
    #[must_use]
    pub const fn alone(limit: usize) -> Self {
        Self { limit, assured: usize::MAX }
    }

    /// The quota of one owner among several.
    #[must_use]
    pub const fn shared(limit: usize) -> Self {
        Self { limit, assured: 0 }
    }
}

/// For each slot that an owner leaves free, beyond one, it may hold this many.
const HELD_FOR_EACH_FREE: usize = 3;

/// Whether an owner that holds `held` slots of something may take one of the `free` ones.
///
/// One who holds none may take any. One who holds some leaves at least one, and holds at
/// most three for each further one that it leaves. So the next owner finds a slot,
/// however many others are at their limit: one owner gets at most three quarters, two get
/// two fifths each, and the more there are, the less stays unused.
#[must_use]
pub const fn has_room(held: usize, free: usize, assured: usize) -> bool {
    let further = free.saturating_sub(1);
    free > 0 && (held == 0 || held < assured || held < further.saturating_mul(HELD_FOR_EACH_FREE))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotRequest {
    New,
    /// Brings results that a turn waits for.
    Results,
}

/// A place in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    owner: SlotOwner,
    number: u64,
}

impl Ticket {
    #[must_use]
    pub fn owner(self) -> SlotOwner {
        self.owner
    }
}

/// What comes of asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateAnswer {
    /// Run. [`SlotGate::leave`] when done.
    Enter,
    /// Wait for the verdict on this ticket.
    Wait(Ticket),
    /// The queue is full.
    Refused,
}

/// What comes of waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TicketVerdict {
    /// As [`GateAnswer::Enter`].
    Enter,
    /// Another owner had a better claim to the place in the queue.
    Dropped,
}

/// What keeps a new turn out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// All places are taken.
    Total,
    /// The owner has as many as it may.
    Owner,
    /// The free slots are left for other owners.
    Share,
}

/// The state of the gate.
#[derive(Debug)]
pub struct SlotGate {
    rules: GateRules,
    running: usize,
    /// Those with none are not in it.
    running_by: BTreeMap<SlotOwner, usize>,
    new: OwnerQueue,
    results: OwnerQueue,
    verdicts: VecDeque<(Ticket, TicketVerdict)>,
    tickets: u64,
}

impl SlotGate {
    #[must_use]
    pub fn new(rules: GateRules) -> Self {
        Self {
            rules,
            running: 0,
            running_by: BTreeMap::new(),
            new: OwnerQueue::default(),
            results: OwnerQueue::default(),
            verdicts: VecDeque::new(),
            tickets: 0,
        }
    }

    /// Asks for a place.
    pub fn ask(&mut self, owner: SlotOwner, quota: Quota, kind: SlotRequest) -> GateAnswer {
        if self.try_enter(owner, quota, kind) {
            return GateAnswer::Enter;
        }
        let queue = match kind {
            SlotRequest::New => &mut self.new,
            SlotRequest::Results => &mut self.results,
        };
        if queue.len() >= self.rules.waiting {
            // One owner's crowd does not keep the others out.
            match queue.shorten(owner) {
                Some(dropped) => self.verdicts.push_back((dropped, TicketVerdict::Dropped)),
                None => return GateAnswer::Refused,
            }
        }
        self.tickets += 1;
        let ticket = Ticket { owner, number: self.tickets };
        queue.push(ticket, quota);
        GateAnswer::Wait(ticket)
    }

    /// Takes a place if there is one.
    pub fn try_enter(&mut self, owner: SlotOwner, quota: Quota, kind: SlotRequest) -> bool {
        // By the invariant, no waiting request could use the place.
        let fits = self.why(owner, quota, kind).is_none();
        if fits {
            self.enter(owner);
        }
        fits
    }

    /// Counts a turn that runs anyway, be there a place or not.
    pub fn enter(&mut self, owner: SlotOwner) {
        self.running += 1;
        *self.running_by.entry(owner).or_default() += 1;
    }

    /// A turn that had a place is over, or waits for its client's tools.
    pub fn leave(&mut self, owner: SlotOwner) {
        self.running = self.running.saturating_sub(1);
        if let Some(running) = self.running_by.get_mut(&owner) {
            *running = running.saturating_sub(1);
            if *running == 0 {
                self.running_by.remove(&owner);
            }
        }
        self.admit();
    }

    /// Gives a slot to another owner, if that may have it. All slots of `from` count as free:
    /// it holds them for the others.
    pub fn hand_over(&mut self, from: SlotOwner, to: SlotOwner, quota: Quota) -> bool {
        let held = |owner| self.running_by.get(&owner).copied().unwrap_or_default();
        let free = self.free().saturating_add(held(from));
        let held = if from == to { 0 } else { held(to) };
        if why(held, free, quota, SlotRequest::New).is_some() {
            return false;
        }
        self.enter(to);
        // The shares of both owners have changed.
        self.leave(from);
        true
    }

    /// Returns a ticket. False: it is no longer in the queue, because it was decided.
    pub fn give_up(&mut self, ticket: Ticket) -> bool {
        self.new.remove(ticket) || self.results.remove(ticket)
    }

    /// The next verdict to deliver.
    pub fn poll_verdict(&mut self) -> Option<(Ticket, TicketVerdict)> {
        self.verdicts.pop_front()
    }

    /// What keeps a request of this owner out, if anything.
    #[must_use]
    pub fn why(&self, owner: SlotOwner, quota: Quota, kind: SlotRequest) -> Option<Why> {
        let held = self.running_by.get(&owner).copied().unwrap_or_default();
        why(held, self.free_for(kind), quota, kind)
    }

    /// Places for new turns that are free.
    #[must_use]
    pub fn free(&self) -> usize {
        self.rules.total.saturating_sub(self.running)
    }

    /// How many wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.new.len() + self.results.len()
    }

    fn free_for(&self, kind: SlotRequest) -> usize {
        let slots = match kind {
            SlotRequest::New => self.rules.total,
            SlotRequest::Results => self.rules.total.saturating_add(self.rules.reserve),
        };
        slots.saturating_sub(self.running)
    }

    /// Admits the requests that can run now.
    fn admit(&mut self) {
        while let Some(next) = self.pop(SlotRequest::Results).or_else(|| self.pop(SlotRequest::New))
        {
            self.enter(next.owner);
            self.verdicts.push_back((next, TicketVerdict::Enter));
        }
    }

    /// The next request of this kind that can run.
    fn pop(&mut self, kind: SlotRequest) -> Option<Ticket> {
        let (free, running_by) = (self.free_for(kind), &self.running_by);
        let queue = match kind {
            SlotRequest::New => &mut self.new,
            SlotRequest::Results => &mut self.results,
        };
        if free == 0 {
            return None;
        }
        queue.pop(|owner, quota| {
            let held = running_by.get(&owner).copied().unwrap_or_default();
            why(held, free, quota, kind).is_none()
        })
    }
}

/// Why an owner that holds `held` slots gets none of the `free` ones.
fn why(held: usize, free: usize, quota: Quota, kind: SlotRequest) -> Option<Why> {
    if free == 0 {
        Some(Why::Total)
    } else if kind == SlotRequest::New && held >= quota.limit {
        Some(Why::Owner)
    } else if !has_room(held, free, quota.assured) {
        Some(Why::Share)
    } else {
        None
    }
}

#[cfg(test)]
#[path = "limits_tests.rs"]
mod tests;
