//! Legs by what a client may name them with when it asks a second time: those that
//! run can be attached to, those that finished are told again for a while.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::mpsc, time::Instant};

use super::{record::Record, visit::Visit};

/// How much is kept to be told again, of all legs together.
const REPLAY_BYTES: usize = 32 << 20;
const REPLAY_COUNT: usize = 4096;

/// A hash of what names a leg.
pub(crate) type Key = [u8; 32];

/// The names of a leg. A request that brings one of them, and the same `body` where
/// that matters, means this leg.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    pub(crate) keys: Vec<Key>,
    pub(crate) body: Key,
}

#[derive(Clone, Debug)]
pub(crate) struct Legs {
    inner: Arc<Mutex<Inner>>,
    keep: Duration,
}

#[derive(Debug, Default)]
struct Inner {
    by_key: HashMap<Key, u64>,
    legs: HashMap<u64, Leg>,
    /// Finished legs, oldest first, and when each is forgotten.
    finished: VecDeque<(Instant, u64)>,
    bytes: usize,
    next: u64,
}

#[derive(Debug)]
struct Leg {
    names: Names,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    Running { mailbox: mpsc::Sender<Visit>, number: u32 },
    Finished(Arc<Record>),
}

/// A leg that somebody asked for before.
#[derive(Clone, Debug)]
pub(crate) enum Found {
    Running { mailbox: mpsc::Sender<Visit>, number: u32 },
    Finished(Arc<Record>),
}

/// A running leg's place. Dropped without an ending, the leg is forgotten: what failed
/// is not told again.
#[derive(Debug)]
pub(super) struct Ticket {
    legs: Legs,
    id: u64,
    ended: bool,
}

impl Legs {
    /// `keep`: how long a finished leg can be told again.
    pub(crate) fn new(keep: Duration) -> Self {
        Self { inner: Arc::default(), keep }
    }

    /// A leg begins; it takes over names that others had.
    pub(super) fn begin(&self, names: Names, mailbox: mpsc::Sender<Visit>, number: u32) -> Ticket {
        let mut inner = self.inner.lock();
        inner.next += 1;
        let id = inner.next;
        for key in &names.keys {
            inner.by_key.insert(*key, id);
        }
        inner.legs.insert(id, Leg { names, state: State::Running { mailbox, number } });
        Ticket { legs: self.clone(), id, ended: false }
    }

    /// The leg of that name. `body`: and only if it was asked for with this body.
    pub(crate) fn find(&self, key: &Key, body: Option<&Key>) -> Option<Found> {
        let mut inner = self.inner.lock();
        inner.forget_until(Instant::now());
        let leg = inner.by_key.get(key).and_then(|id| inner.legs.get(id))?;
        if body.is_some_and(|body| *body != leg.names.body) {
            return None;
        }
        Some(match leg.state.clone() {
            State::Running { mailbox, number } => Found::Running { mailbox, number },
            State::Finished(record) => Found::Finished(record),
        })
    }
}

impl Inner {
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
        if let State::Finished(record) = &leg.state {
            self.bytes = self.bytes.saturating_sub(record.bytes());
        }
        for key in &leg.names.keys {
            if self.by_key.get(key) == Some(&id) {
                self.by_key.remove(key);
            }
        }
    }
}

impl Ticket {
    /// The leg's reader left and may ask again: of equal requests, that is the one whose
    /// answer it wants.
    pub(super) fn reclaim(&self) {
        let mut inner = self.legs.inner.lock();
        let Some(names) = inner.legs.get(&self.id).map(|leg| leg.names.clone()) else { return };
        for key in names.keys {
            let owner = inner.by_key.get(&key).and_then(|id| inner.legs.get(id));
            if owner.is_none_or(|owner| owner.names.body == names.body) {
                inner.by_key.insert(key, self.id);
            }
        }
    }

    /// The leg finished well.
    pub(super) fn finish(mut self, record: Record) {
        let keep = self.legs.keep;
        if record.events().is_none() || keep.is_zero() {
            return;
        }
        self.ended = true;
        let mut inner = self.legs.inner.lock();
        let now = Instant::now();
        inner.bytes += record.bytes();
        inner.finished.push_back((now + keep, self.id));
        if let Some(leg) = inner.legs.get_mut(&self.id) {
            leg.state = State::Finished(Arc::new(record));
        }
        inner.forget_until(now);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.ended {
            self.legs.inner.lock().forget(self.id);
        }
    }
}

#[cfg(test)]
#[path = "legs_tests.rs"]
mod tests;
