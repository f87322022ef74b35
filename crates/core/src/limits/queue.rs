//! A queue in which owners take turns.

use std::collections::{BTreeMap, VecDeque};

use super::{Quota, SlotOwner, Ticket};

#[derive(Debug, Default)]
pub(super) struct OwnerQueue {
    by: BTreeMap<SlotOwner, OwnerTickets>,
    /// Everyone in `by`, the one whose turn it is first.
    order: VecDeque<SlotOwner>,
    len: usize,
}

#[derive(Debug)]
struct OwnerTickets {
    /// As the owner's newest request has it: limits can be changed.
    quota: Quota,
    /// In the order of their numbers. Never empty.
    tickets: VecDeque<Ticket>,
}

impl OwnerQueue {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn push(&mut self, ticket: Ticket, quota: Quota) {
        let waiting = self.by.entry(ticket.owner).or_insert_with(|| {
            self.order.push_back(ticket.owner);
            OwnerTickets { quota, tickets: VecDeque::new() }
        });
        waiting.quota = quota;
        waiting.tickets.push_back(ticket);
        self.len += 1;
    }

    /// The next ticket of the first owner in turn whose quota allows another.
    pub(super) fn pop(&mut self, may: impl Fn(SlotOwner, Quota) -> bool) -> Option<Ticket> {
        let (by, order) = (&self.by, &self.order);
        let at = order
            .iter()
            .position(|owner| by.get(owner).is_some_and(|waiting| may(*owner, waiting.quota)))?;
        let owner = self.order.remove(at)?;
        let waiting = self.by.get_mut(&owner)?;
        let ticket = waiting.tickets.pop_front()?;
        self.len -= 1;
        if waiting.tickets.is_empty() {
            self.by.remove(&owner);
        } else {
            self.order.push_back(owner);
        }
        Some(ticket)
    }

    pub(super) fn remove(&mut self, ticket: Ticket) -> bool {
        let Some(waiting) = self.by.get_mut(&ticket.owner) else { return false };
        let Ok(at) = waiting.tickets.binary_search(&ticket) else { return false };
        waiting.tickets.remove(at);
        self.len -= 1;
        self.forget_if_empty(ticket.owner);
        true
    }

    /// Makes room for one more of `owner`: drops the newest ticket of the owner that has the
    /// most, if that owner still has more than `owner` then.
    pub(super) fn shorten(&mut self, owner: SlotOwner) -> Option<Ticket> {
        let own = self.by.get(&owner).map_or(0, |waiting| waiting.tickets.len());
        let (longest, waiting) =
            self.by.iter_mut().max_by_key(|(_, waiting)| waiting.tickets.len())?;
        if waiting.tickets.len() <= own + 1 {
            return None;
        }
        let (longest, dropped) = (*longest, waiting.tickets.pop_back()?);
        self.len -= 1;
        self.forget_if_empty(longest);
        Some(dropped)
    }

    fn forget_if_empty(&mut self, owner: SlotOwner) {
        if self.by.get(&owner).is_some_and(|waiting| waiting.tickets.is_empty()) {
            self.by.remove(&owner);
            self.order.retain(|other| *other != owner);
        }
    }
}
