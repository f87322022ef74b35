//! Legs by what a client may name them with when it asks a second time: those that
//! run can be attached to, those that finished are told again for a while.

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

#[derive(Debug)]
enum State {
    /// Its request is on its way to a turn. The sender is there when somebody waits, and
    /// goes when the wait is over.
    Coming(Option<watch::Sender<()>>),
    Running {
        mailbox: mpsc::Sender<Visit>,
        number: u32,
    },
    Finished(Arc<LegRecord>),
}

/// A leg that somebody asked for before.
#[derive(Clone, Debug)]
pub(crate) enum Found {
    /// It will be known in a moment what becomes of it.
    Coming(Coming),
    Running {
        mailbox: mpsc::Sender<Visit>,
        number: u32,
    },
    Finished(Arc<LegRecord>),
}

/// The wait for a leg that is about to run.
#[derive(Clone, Debug)]
pub(crate) struct Coming(watch::Receiver<()>);

impl Coming {
    /// Until it runs, or will not.
    pub(crate) async fn over(mut self) {
        // Nothing is ever sent; the other end just goes.
        let _ = self.0.changed().await;
    }
}

/// A question for a leg: by one of its names, and if need be only with this body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe {
    pub(crate) key: Key,
    pub(crate) body: Option<Key>,
}

/// A leg's place. Dropped without an ending, the leg is forgotten: what failed
/// is not told again.
#[derive(Debug)]
pub(crate) struct Ticket {
    legs: Legs,
    id: u64,
    ended: bool,
}

impl Legs {
    /// `keep`: how long a finished leg can be told again.
    pub(crate) fn new(keep: Duration) -> Self {
        Self { inner: Arc::default(), keep }
    }

    /// A place for a leg that is about to begin; it takes over names that others had.
    pub(crate) fn reserve(&self, names: Names) -> Ticket {
        let id = self.inner.lock().reserve(names);
        Ticket { legs: self.clone(), id, ended: false }
    }

    /// The first leg that a probe finds. If there is none, a place is reserved in the same
    /// moment: of two that ask together, one finds the other.
    pub(crate) fn find_or_reserve(&self, probes: &[Probe], names: &Names) -> Result<Found, Ticket> {
        let mut inner = self.inner.lock();
        inner.forget_until(Instant::now());
        if let Some(found) = probes.iter().find_map(|probe| inner.find(probe)) {
            return Ok(found);
        }
        let id = inner.reserve(names.clone());
        Err(Ticket { legs: self.clone(), id, ended: false })
    }
}

impl Inner {
    fn reserve(&mut self, names: Names) -> u64 {
        self.next += 1;
        let id = self.next;
        for key in &names.keys {
            self.by_key.insert(*key, id);
        }
        self.legs.insert(id, Leg { names, state: State::Coming(None) });
        id
    }

    fn find(&mut self, probe: &Probe) -> Option<Found> {
        let leg = self.by_key.get(&probe.key).and_then(|id| self.legs.get_mut(id))?;
        if probe.body.is_some_and(|body| body != leg.names.body) {
            return None;
        }
        Some(match &mut leg.state {
            State::Coming(waited) => {
                let sender = waited.get_or_insert_with(|| watch::channel(()).0);
                Found::Coming(Coming(sender.subscribe()))
            }
            State::Running { mailbox, number } => {
                Found::Running { mailbox: mailbox.clone(), number: *number }
            }
            State::Finished(record) => Found::Finished(Arc::clone(record)),
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
    /// The leg runs. Visits to it go to this mailbox.
    pub(super) fn begin(&self, mailbox: mpsc::Sender<Visit>, number: u32) {
        if let Some(leg) = self.legs.inner.lock().legs.get_mut(&self.id) {
            leg.state = State::Running { mailbox, number };
        }
    }

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
    pub(super) fn finish(mut self, record: LegRecord) {
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
