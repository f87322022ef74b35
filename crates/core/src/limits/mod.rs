//! Who may run a turn now, who waits, and in which order.
//!
//! Two kinds of requests ask for a place. New turns share `total` places, and no owner
//! has more of them than its limit. Requests that bring tool results go on with work that
//! was let in before: they go first, may use `reserve` places more, and no owner's limit
//! holds them up. Within a kind, owners take turns, and each owner's requests keep their
//! order.
//!
//! *Invariant:* a place is never free while somebody waits who could have it.

mod line;

use std::collections::{BTreeMap, VecDeque};

use self::line::Line;

/// How many there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Turns that run at once.
    pub total: usize,
    /// Further ones, only for requests with tool results.
    pub reserve: usize,
    /// Requests of one kind that wait.
    pub waiting: usize,
}

/// One who asks. Everything with the same number shares one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(pub u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    New,
    /// Brings results that a turn waits for.
    Results,
}

/// A place in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    owner: Owner,
    number: u64,
}

impl Ticket {
    #[must_use]
    pub fn owner(self) -> Owner {
        self.owner
    }
}

/// What comes of asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Run. [`Gate::leave`] when done.
    Enter,
    /// Wait for the verdict on this ticket.
    Wait(Ticket),
    /// The queue is full.
    Refused,
}

/// What comes of waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As [`Answer::Enter`].
    Enter,
    /// Somebody else needed the place in the queue more.
    Dropped,
}

/// What keeps a new turn out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// All places are taken.
    Total,
    /// The owner has as many as it may.
    Owner,
}

/// The state of it all.
#[derive(Debug)]
pub struct Gate {
    rules: Rules,
    running: usize,
    /// Those with none are not in it.
    running_by: BTreeMap<Owner, usize>,
    new: Line,
    results: Line,
    verdicts: VecDeque<(Ticket, Verdict)>,
    tickets: u64,
}

impl Gate {
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            running: 0,
            running_by: BTreeMap::new(),
            new: Line::default(),
            results: Line::default(),
            verdicts: VecDeque::new(),
            tickets: 0,
        }
    }

    /// Asks for a place. `limit`: how many turns this owner may run.
    pub fn ask(&mut self, owner: Owner, limit: usize, kind: Kind) -> Answer {
        if self.try_enter(owner, limit, kind) {
            return Answer::Enter;
        }
        let line = match kind {
            Kind::New => &mut self.new,
            Kind::Results => &mut self.results,
        };
        if line.len() >= self.rules.waiting {
            // One owner's crowd does not keep the others out.
            match line.shorten(owner) {
                Some(dropped) => self.verdicts.push_back((dropped, Verdict::Dropped)),
                None => return Answer::Refused,
            }
        }
        self.tickets += 1;
        let ticket = Ticket { owner, number: self.tickets };
        line.push(ticket, limit);
        Answer::Wait(ticket)
    }

    /// Takes a place if there is one.
    pub fn try_enter(&mut self, owner: Owner, limit: usize, kind: Kind) -> bool {
        let fits = match kind {
            // By the invariant, whoever waits could not have the place.
            Kind::New => self.why(owner, limit).is_none(),
            Kind::Results => self.running < self.with_reserve(),
        };
        if fits {
            self.enter(owner);
        }
        fits
    }

    /// Counts a turn that runs anyway, be there a place or not.
    pub fn enter(&mut self, owner: Owner) {
        self.running += 1;
        *self.running_by.entry(owner).or_default() += 1;
    }

    /// A turn that had a place is over, or waits for its client's tools.
    pub fn leave(&mut self, owner: Owner) {
        self.running = self.running.saturating_sub(1);
        if let Some(running) = self.running_by.get_mut(&owner) {
            *running = running.saturating_sub(1);
            if *running == 0 {
                self.running_by.remove(&owner);
            }
        }
        self.admit();
    }

    /// Gives a ticket back. False: it is not in the queue any more, its verdict is out.
    pub fn give_up(&mut self, ticket: Ticket) -> bool {
        self.new.remove(ticket) || self.results.remove(ticket)
    }

    /// The next verdict to deliver.
    pub fn poll_verdict(&mut self) -> Option<(Ticket, Verdict)> {
        self.verdicts.pop_front()
    }

    /// What keeps a new turn of this owner out, if anything.
    #[must_use]
    pub fn why(&self, owner: Owner, limit: usize) -> Option<Why> {
        if self.running >= self.rules.total {
            Some(Why::Total)
        } else if self.running_by(owner) >= limit {
            Some(Why::Owner)
        } else {
            None
        }
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

    fn running_by(&self, owner: Owner) -> usize {
        self.running_by.get(&owner).copied().unwrap_or_default()
    }

    fn with_reserve(&self) -> usize {
        self.rules.total.saturating_add(self.rules.reserve)
    }

    /// Lets in whoever can come in now.
    fn admit(&mut self) {
        loop {
            let next = if self.running < self.with_reserve()
                && let Some(ticket) = self.results.pop(|_, _| true)
            {
                ticket
            } else if self.running < self.rules.total
                && let Some(ticket) = {
                    let running_by = &self.running_by;
                    self.new.pop(|owner, limit| {
                        running_by.get(&owner).copied().unwrap_or_default() < limit
                    })
                }
            {
                ticket
            } else {
                return;
            };
            self.enter(next.owner);
            self.verdicts.push_back((next, Verdict::Enter));
        }
    }
}

#[cfg(test)]
#[path = "limits_tests.rs"]
mod tests;
