//! The turns that take visits, and those of them that are parked, in the order in which they
//! are evicted.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use ibeam_core::{model::ids::SessionId, models::ModelPick};
use tokio::sync::mpsc;

use super::visit::{ParkedEnding, Visit};
use crate::store::Scope;

/// How much may be parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParkedLimits {
    pub count: usize,
    pub bytes: usize,
}

impl Default for ParkedLimits {
    fn default() -> Self {
        Self { count: 10_000, bytes: 512 << 20 }
    }
}

/// What a request must have in common with a turn to resume it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TurnIdentity {
    pub(crate) scope: Scope,
    pub(crate) setup: [u8; 32],
    pub(crate) model: ModelPick,
}

/// A turn that can be visited.
#[derive(Clone, Debug)]
pub(crate) struct LiveTurn {
    pub(crate) identity: Arc<TurnIdentity>,
    pub(crate) mailbox: mpsc::Sender<Visit>,
}

#[derive(Debug, Default)]
pub(super) struct TurnTable {
    limits: ParkedLimits,
    turns: HashMap<SessionId, TurnRow>,
    /// Least recently parked first.
    order: BTreeMap<u64, SessionId>,
    conversations: HashMap<(Scope, Box<str>), SessionId>,
    bytes: usize,
    next: u64,
}

#[derive(Debug)]
struct TurnRow {
    live: LiveTurn,
    parked: Option<ParkedTurn>,
}

#[derive(Debug)]
struct ParkedTurn {
    order: u64,
    bytes: usize,
    conversation: (Scope, Box<str>),
    calls: ParkedCalls,
}

/// The numbers of the calls of a parked turn.
#[derive(Debug)]
pub(super) struct ParkedCalls {
    pub(super) awaiting: Vec<u32>,
    /// The highest one ever.
    pub(super) highest: u32,
}

impl TurnTable {
    pub(super) fn new(limits: ParkedLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// How many are parked, and what they hold.
    pub(super) fn parked(&self) -> (usize, usize) {
        (self.order.len(), self.bytes)
    }

    pub(super) fn enter(&mut self, session: SessionId, live: LiveTurn) {
        self.turns.insert(session, TurnRow { live, parked: None });
    }

    pub(super) fn leave(&mut self, session: SessionId) {
        self.unpark(session);
        self.turns.remove(&session);
    }

    /// Others may be evicted for it.
    pub(super) fn park(
        &mut self,
        session: SessionId,
        bytes: usize,
        conversation: &str,
        calls: ParkedCalls,
    ) {
        self.unpark(session);
        self.next += 1;
        let order = self.next;
        if let Some(row) = self.turns.get_mut(&session) {
            let conversation = (row.live.identity.scope, conversation.into());
            self.conversations.insert(conversation.clone(), session);
            row.parked = Some(ParkedTurn { order, bytes, conversation, calls });
            self.order.insert(order, session);
            self.bytes += bytes;
        }
        self.make_room();
    }

    /// The size of a parked turn has changed.
    pub(super) fn reweigh(&mut self, session: SessionId, bytes: usize) {
        let row = self.turns.get_mut(&session);
        if let Some(parked) = row.and_then(|row| row.parked.as_mut()) {
            let before = std::mem::replace(&mut parked.bytes, bytes);
            self.bytes = self.bytes.saturating_sub(before) + bytes;
            self.make_room();
        }
    }

    /// Evicts the turns that were parked first, until the limits hold.
    fn make_room(&mut self) {
        while self.order.len() > self.limits.count || self.bytes > self.limits.bytes {
            if !self.evict_oldest(None) {
                break;
            }
        }
    }

    /// Evicts the turn that was parked first, of one scope or of all. False: none can be evicted.
    pub(super) fn evict_oldest(&mut self, scope: Option<Scope>) -> bool {
        let evicted = self.order.values().find(|oldest| {
            let end = Visit::End { why: ParkedEnding::Evicted, done: None };
            // A full mailbox belongs to a turn that is about to resume. Until it does, it
            // counts.
            self.turns.get(oldest).is_some_and(|row| {
                scope.is_none_or(|scope| row.live.identity.scope == scope)
                    && row.live.mailbox.try_send(end).is_ok()
            })
        });
        let Some(evicted) = evicted.copied() else { return false };
        self.unpark(evicted);
        true
    }

    pub(super) fn unpark(&mut self, session: SessionId) {
        let row = self.turns.get_mut(&session);
        if let Some(parked) = row.and_then(|row| row.parked.take()) {
            self.order.remove(&parked.order);
            self.bytes = self.bytes.saturating_sub(parked.bytes);
            if self.conversations.get(&parked.conversation) == Some(&session) {
                self.conversations.remove(&parked.conversation);
            }
        }
    }

    pub(super) fn find(&self, session: SessionId, scope: Scope) -> Option<LiveTurn> {
        let row = self.turns.get(&session)?;
        (row.live.identity.scope == scope).then(|| row.live.clone())
    }

    pub(super) fn highest_call(&self, session: SessionId, scope: Scope) -> Option<u32> {
        let row = self.turns.get(&session).filter(|row| row.live.identity.scope == scope)?;
        row.parked.as_ref().map(|parked| parked.calls.highest)
    }

    pub(super) fn waiting_for(
        &self,
        scope: Scope,
        calls: impl Iterator<Item = (SessionId, u32)>,
    ) -> Vec<LiveTurn> {
        let mut found = BTreeMap::new();
        for (session, call) in calls {
            if let Some(row) = self.turns.get(&session)
                && row.live.identity.scope == scope
                && row.parked.as_ref().is_some_and(|parked| parked.calls.awaiting.contains(&call))
            {
                found.insert(session, row.live.clone());
            }
        }
        found.into_values().collect()
    }

    pub(super) fn parked_as(&self, scope: Scope, conversation: &str) -> Option<LiveTurn> {
        let session = self.conversations.get(&(scope, conversation.into()))?;
        self.find(*session, scope)
    }
}

#[cfg(test)]
#[path = "parked_tests.rs"]
mod tests;
