//! Finds the leg of an earlier request when its client retries: a running leg can be attached
//! to, a finished one can be replayed for a while.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};

use ibeam_core::leg::LegRecord;

use super::visit::Visit;

/// What is kept for replays, of all legs together.
const REPLAY_BYTES: usize = 32 << 20;
const REPLAY_COUNT: usize = 4096;

/// A hash of what a leg is found by.
pub(crate) type LegKey = [u8; 32];

/// What a leg is found by: any of the keys, with the same `body` where that matters.
#[derive(Clone, Debug, Default)]
pub(crate) struct LegKeys {
    pub(crate) keys: Vec<LegKey>,
    pub(crate) body: LegKey,
}

#[derive(Clone, Debug)]
pub(crate) struct LegIndex {
    inner: Arc<Mutex<LegTable>>,
    keep: Duration,
}

#[derive(Debug, Default)]
struct LegTable {
    by_key: HashMap<LegKey, u64>,
    legs: HashMap<u64, IndexedLeg>,
    /// Finished legs, oldest first, and when each is forgotten.
    finished: VecDeque<(Instant, u64)>,
    bytes: usize,
    next: u64,
}

#[derive(Debug)]
struct IndexedLeg {
    keys: LegKeys,
    state: LegState,
}

#[derive(Debug)]
enum LegState {
    /// Its request is on its way to a turn. The sender is there while others wait for that, and
    /// is dropped when the wait is over.
    Coming(Option<watch::Sender<()>>),
    Running {
        mailbox: mpsc::Sender<Visit>,
        number: u32,
    },
    Finished(Arc<LegRecord>),
}

/// The leg of an earlier request.
#[derive(Clone, Debug)]
pub(crate) enum FoundLeg {
    /// It is about to run. Nothing is ever sent: the sender is dropped when it runs, or will not.
    Coming(watch::Receiver<()>),
    Running {
        mailbox: mpsc::Sender<Visit>,
        number: u32,
    },
    Finished(Arc<LegRecord>),
}

/// Looks for a leg by one of its keys, if need be only with this body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LegQuery {
    pub(crate) key: LegKey,
    pub(crate) body: Option<LegKey>,
}

/// A leg's entry in the index. Dropped without an ending, the leg is removed: a failure is
/// not replayed.
#[derive(Debug)]
pub(crate) struct LegEntry {
    index: LegIndex,
    id: u64,
    ended: bool,
}

impl LegIndex {
    /// `keep`: how long a finished leg can be replayed.
    pub(crate) fn new(keep: Duration) -> Self {
        Self { inner: Arc::default(), keep }
    }

    /// Adds a leg that is about to begin; it takes over keys that others had.
    pub(crate) fn reserve(&self, keys: LegKeys) -> LegEntry {
        let id = self.inner.lock().reserve(keys);
        LegEntry { index: self.clone(), id, ended: false }
    }

    /// The first leg that a query finds. If there is none, the leg is added atomically: of two
    /// equal requests that come together, one finds the other.
    pub(crate) fn find_or_reserve(
        &self,
        queries: &[LegQuery],
        keys: &LegKeys,
    ) -> Result<FoundLeg, LegEntry> {
        let mut inner = self.inner.lock();
        inner.forget_until(Instant::now());
        if let Some(found) = queries.iter().find_map(|query| inner.find(query)) {
            return Ok(found);
        }
        let id = inner.reserve(keys.clone());
        Err(LegEntry { index: self.clone(), id, ended: false })
    }
}

impl LegTable {
    fn reserve(&mut self, keys: LegKeys) -> u64 {
        self.next += 1;
        let id = self.next;
        for key in &keys.keys {
            self.by_key.insert(*key, id);
        }
        self.legs.insert(id, IndexedLeg { keys, state: LegState::Coming(None) });
        id
    }

    fn find(&mut self, query: &LegQuery) -> Option<FoundLeg> {
        let leg = self.by_key.get(&query.key).and_then(|id| self.legs.get_mut(id))?;
        if query.body.is_some_and(|body| body != leg.keys.body) {
            return None;
        }
        Some(match &mut leg.state {
            LegState::Coming(waited) => {
                let sender = waited.get_or_insert_with(|| watch::channel(()).0);
                FoundLeg::Coming(sender.subscribe())
            }
            LegState::Running { mailbox, number } => {
                FoundLeg::Running { mailbox: mailbox.clone(), number: *number }
            }
            LegState::Finished(record) => FoundLeg::Finished(Arc::clone(record)),
        })
    }

    fn forget_until(&mut self, now: Instant) {
        while let Some((until, id)) = self.finished.front().copied() {
            if until > now && self.bytes <= REPLAY_BYTES && self.finished.len() <= REPLAY_COUNT {
                return;
            }
            self.finished.pop_front();
            self.forget(id);
        }
    }

    fn forget(&mut self, id: u64) {
        let Some(leg) = self.legs.remove(&id) else { return };
        if let LegState::Finished(record) = &leg.state {
            self.bytes = self.bytes.saturating_sub(record.bytes());
        }
        for key in &leg.keys.keys {
            if self.by_key.get(key) == Some(&id) {
                self.by_key.remove(key);
            }
        }
    }
}

impl LegEntry {
    /// The leg runs. Visits to it go to this mailbox.
    pub(super) fn begin(&self, mailbox: mpsc::Sender<Visit>, number: u32) {
        if let Some(leg) = self.index.inner.lock().legs.get_mut(&self.id) {
            leg.state = LegState::Running { mailbox, number };
        }
    }

    /// The leg's reader left and may retry: among equal requests, it wants the answer of this one.
    pub(super) fn reclaim(&self) {
        let mut inner = self.index.inner.lock();
        let Some(keys) = inner.legs.get(&self.id).map(|leg| leg.keys.clone()) else { return };
        for key in keys.keys {
            let owner = inner.by_key.get(&key).and_then(|id| inner.legs.get(id));
            if owner.is_none_or(|owner| owner.keys.body == keys.body) {
                inner.by_key.insert(key, self.id);
            }
        }
    }

    /// The leg finished well.
    pub(super) fn finish(mut self, record: LegRecord) {
        let keep = self.index.keep;
        if record.events().is_none() || keep.is_zero() {
            return;
        }
        self.ended = true;
        let record = Arc::new(record.compact());
        let mut inner = self.index.inner.lock();
        let now = Instant::now();
        inner.bytes += record.bytes();
        inner.finished.push_back((now + keep, self.id));
        if let Some(leg) = inner.legs.get_mut(&self.id) {
            leg.state = LegState::Finished(record);
        }
        inner.forget_until(now);
    }
}

impl Drop for LegEntry {
    fn drop(&mut self) {
        if !self.ended {
            self.index.inner.lock().forget(self.id);
        }
    }
}

#[cfg(test)]
#[path = "leg_index_tests.rs"]
mod tests;
