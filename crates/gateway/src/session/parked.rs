//! Who is there to be visited, and which of them are parked, in the order in which
//! they would have to make room.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use ibeam_core::{agent::ModelPick, model::ids::SessionId};
use tokio::sync::mpsc;

use super::visit::Visit;
use crate::store::Scope;

/// How much may be parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub count: usize,
    pub bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { count: 10_000, bytes: 512 << 20 }
    }
}

/// What a request must agree in to go on with a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) scope: Scope,
    pub(crate) setup: [u8; 32],
    pub(crate) model: ModelPick,
}

/// A turn that can be visited.
#[derive(Clone, Debug)]
pub(crate) struct Live {
    pub(crate) identity: Arc<Identity>,
    pub(crate) mailbox: mpsc::Sender<Visit>,
}

#[derive(Debug, Default)]
pub(super) struct Table {
    limits: Limits,
    turns: HashMap<SessionId, Row>,
    /// Least recently parked first.
    order: BTreeMap<u64, SessionId>,
    conversations: HashMap<(Scope, Box<str>), SessionId>,
    bytes: usize,
    next: u64,
}

#[derive(Debug)]
struct Row {
    live: Live,
    parked: Option<Parked>,
}

#[derive(Debug)]
struct Parked {
    order: u64,
    bytes: usize,
    conversation: (Scope, Box<str>),
    awaiting: Vec<u32>,
}

impl Table {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// How many are parked, and what they hold.
    pub(super) fn parked(&self) -> (usize, usize) {
        (self.order.len(), self.bytes)
    }

    pub(super) fn enter(&mut self, session: SessionId, live: Live) {
        self.turns.insert(session, Row { live, parked: None });
    }

    pub(super) fn leave(&mut self, session: SessionId) {
        self.unpark(session);
        self.turns.remove(&session);
    }

    /// Gives those who have to go.
    pub(super) fn park(
        &mut self,
        session: SessionId,
        bytes: usize,
        conversation: &str,
        awaiting: Vec<u32>,
    ) -> Vec<mpsc::Sender<Visit>> {
        self.unpark(session);
        self.next += 1;
        let order = self.next;
        if let Some(row) = self.turns.get_mut(&session) {
            let conversation = (row.live.identity.scope, conversation.into());
            self.conversations.insert(conversation.clone(), session);
            row.parked = Some(Parked { order, bytes, conversation, awaiting });
            self.order.insert(order, session);
            self.bytes += bytes;
        }
        let mut victims = Vec::new();
        while self.order.len() > self.limits.count || self.bytes > self.limits.bytes {
            let Some(oldest) = self.order.values().next().copied() else { break };
            self.unpark(oldest);
            victims.extend(self.turns.get(&oldest).map(|row| row.live.mailbox.clone()));
        }
        victims
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

    pub(super) fn find(&self, session: SessionId, scope: Scope) -> Option<Live> {
        let row = self.turns.get(&session)?;
        (row.live.identity.scope == scope).then(|| row.live.clone())
    }

    pub(super) fn waiting_for(
        &self,
        scope: Scope,
        calls: impl Iterator<Item = (SessionId, u32)>,
    ) -> Vec<Live> {
        let mut found = BTreeMap::new();
        for (session, call) in calls {
            if let Some(row) = self.turns.get(&session)
                && row.live.identity.scope == scope
                && row.parked.as_ref().is_some_and(|parked| parked.awaiting.contains(&call))
            {
                found.insert(session, row.live.clone());
            }
        }
        found.into_values().collect()
    }

    pub(super) fn parked_as(&self, scope: Scope, conversation: &str) -> Option<Live> {
        let session = self.conversations.get(&(scope, conversation.into()))?;
        self.find(*session, scope)
    }

    pub(super) fn all_parked(&self) -> Vec<mpsc::Sender<Visit>> {
        let rows = self.order.values().filter_map(|session| self.turns.get(session));
        rows.map(|row| row.live.mailbox.clone()).collect()
    }
}

#[cfg(test)]
#[path = "parked_tests.rs"]
mod tests;
