//! The request bodies that are being read, and how much memory they may have together.
//!
//! Bytes count as they arrive, and then what they were decoded to, until the turn has started. When
//! the limit is exceeded, bodies are evicted, and their clients are asked to retry: always the
//! largest body of the key that holds the most bytes. So no request waits for memory, many small
//! bodies of one key do not lock out a larger request of another key, and a body that is announced
//! but not sent takes no memory from others.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use parking_lot::Mutex;
use serde::Serialize;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::keys::KeyHash;

#[derive(Debug)]
pub struct Bodies {
    limit: usize,
    state: Mutex<BodiesState>,
}

#[derive(Debug, Default)]
struct BodiesState {
    bytes: usize,
    /// Keys without a body are not in it.
    keys: HashMap<KeyHash, KeyBodies>,
    numbers: u64,
    refused: u64,
}

/// The bodies of one key.
#[derive(Debug, Default)]
struct KeyBodies {
    /// Of all of them, including those that cannot be evicted now.
    bytes: usize,
    /// Those that can be evicted, by size and number: the last is the largest, and of equal
    /// ones the newest.
    evictable: BTreeMap<(usize, u64), (BodyStage, CancellationToken)>,
}

/// One body's part of the memory. Dropping it gives it back.
#[derive(Debug)]
pub(super) struct BodyShare {
    bodies: Arc<Bodies>,
    key: KeyHash,
    number: u64,
    bytes: usize,
    stage: BodyStage,
    evicted: CancellationToken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyStage {
    /// It is being read, and can be evicted.
    Coming,
    /// It was read completely, and moves to the next stage at once.
    Whole,
    /// It is being decoded, or waits for a free turn. It can be evicted.
    Waiting,
}

/// The memory for bodies was full, and this body was evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BodyEvicted;

/// A look at them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BodyHealth {
    /// How many are still being read.
    pub reading: u64,
    pub bytes: u64,
    pub max_bytes: u64,
    /// How many were evicted since the program started.
    pub refused: u64,
}

impl Bodies {
    /// `limit`: bytes of all of them together.
    #[must_use]
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, state: Mutex::default() })
    }

    #[must_use]
    pub fn health(&self) -> BodyHealth {
        let state = self.state.lock();
        let evictable = state.keys.values().flat_map(|key| key.evictable.values());
        BodyHealth {
            reading: evictable.filter(|(stage, _)| *stage == BodyStage::Coming).count() as u64,
            bytes: state.bytes as u64,
            max_bytes: self.limit as u64,
            refused: state.refused,
        }
    }

    /// A client that called with this key begins to send a body.
    pub(super) fn begin(self: &Arc<Self>, key: KeyHash) -> BodyShare {
        let evicted = CancellationToken::new();
        let mut state = self.state.lock();
        state.numbers += 1;
        let number = state.numbers;
        let share = BodyShare {
            bodies: Arc::clone(self),
            key,
            number,
            bytes: 0,
            stage: BodyStage::Coming,
            evicted,
        };
        state.add(&share);
        drop(state);
        share
    }
}

impl BodiesState {
    /// Counts a body, which can be evicted from now on.
    fn add(&mut self, share: &BodyShare) {
        self.bytes += share.bytes;
        let key = self.keys.entry(share.key).or_default();
        key.bytes += share.bytes;
        key.evictable.insert((share.bytes, share.number), (share.stage, share.evicted.clone()));
    }

    /// The body keeps its bytes and cannot be evicted any more. False: it was evicted before.
    fn pin(&mut self, share: &BodyShare) -> bool {
        let key = self.keys.get_mut(&share.key);
        key.is_some_and(|key| key.evictable.remove(&(share.bytes, share.number)).is_some())
    }

    /// The bytes of a body count no longer. It cannot be evicted at this time.
    fn discount(&mut self, key: &KeyHash, bytes: usize) {
        self.bytes -= bytes;
        if let Some(held) = self.keys.get_mut(key) {
            held.bytes -= bytes;
            if held.bytes == 0 && held.evictable.is_empty() {
                self.keys.remove(key);
            }
        }
    }

    /// Evicts the largest body of the key that holds the most bytes. False: there is none.
    fn evict(&mut self) -> bool {
        let candidates = self.keys.iter_mut().filter_map(|(key, held)| {
            let largest = *held.evictable.last_key_value()?.0;
            Some(((held.bytes, largest), (key, held)))
        });
        let Some((_, (key, held))) = candidates.max_by_key(|(order, _)| *order) else {
            return false;
        };
        let key = *key;
        let Some(((bytes, _), (_, evicted))) = held.evictable.pop_last() else { return false };
        self.refused += 1;
        self.discount(&key, bytes);
        evicted.cancel();
        true
    }
}

impl BodyShare {
    /// Counts bytes that arrived.
    ///
    /// # Errors
    /// It was evicted.
    pub(super) fn grow(&mut self, more: usize) -> Result<(), BodyEvicted> {
        let mut state = self.bodies.state.lock();
        if !state.pin(self) {
            return Err(BodyEvicted);
        }
        state.discount(&self.key, self.bytes);
        self.bytes += more;
        self.fit(&mut state)
    }

    /// Counts it with its present size, and evicts bodies until the limit holds.
    fn fit(&self, state: &mut BodiesState) -> Result<(), BodyEvicted> {
        state.add(self);
        while state.bytes > self.bodies.limit && state.evict() {}
        if self.evicted.is_cancelled() { Err(BodyEvicted) } else { Ok(()) }
    }

    /// It was read completely, and stays until [`Self::wait`].
    ///
    /// # Errors
    /// It was evicted.
    pub(super) fn complete(&mut self) -> Result<(), BodyEvicted> {
        let mut state = self.bodies.state.lock();
        if !state.pin(self) {
            return Err(BodyEvicted);
        }
        self.stage = BodyStage::Whole;
        Ok(())
    }

    /// It was read completely, takes `bytes` of memory now, and can be evicted again.
    ///
    /// # Errors
    /// It was evicted.
    pub(super) fn wait(&mut self, bytes: usize) -> Result<(), BodyEvicted> {
        let mut state = self.bodies.state.lock();
        match self.stage {
            BodyStage::Coming => return Err(BodyEvicted),
            BodyStage::Whole => self.stage = BodyStage::Waiting,
            BodyStage::Waiting if !state.pin(self) => return Err(BodyEvicted),
            BodyStage::Waiting => {}
        }
        state.discount(&self.key, self.bytes);
        // A body that has all the memory for itself is accepted, however large it has become.
        self.bytes = bytes.min(self.bodies.limit);
        self.fit(&mut state)
    }

    /// Does something until it is evicted.
    ///
    /// # Errors
    /// It was evicted before the work was done.
    pub(super) async fn unless_evicted<T>(
        &self,
        work: impl Future<Output = T>,
    ) -> Result<T, BodyEvicted> {
        tokio::select! {
            biased;
            done = work => Ok(done),
            () = self.evicted() => Err(BodyEvicted),
        }
    }

    /// Waits until it is evicted.
    pub(super) async fn evicted(&self) {
        self.evicted.cancelled().await;
    }

    /// As [`Self::evicted`], without a borrow.
    pub(super) fn eviction(&self) -> WaitForCancellationFutureOwned {
        self.evicted.clone().cancelled_owned()
    }
}

impl Drop for BodyShare {
    fn drop(&mut self) {
        let mut state = self.bodies.state.lock();
        let counted = match self.stage {
            BodyStage::Coming | BodyStage::Waiting => state.pin(self),
            BodyStage::Whole => true,
        };
        if counted {
            state.discount(&self.key, self.bytes);
        }
    }
}

#[cfg(test)]
#[path = "bodies_tests.rs"]
mod tests;
