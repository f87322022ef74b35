//! The request bodies that are being read, and how much memory they may have together.
//!
//! Bytes count as they come, and then what they were decoded to, until its turn has begun.
//! When they would be too many, the largest body gives way: its client is told to try again.
//! So nobody waits, a large body never keeps small ones out, and one that is announced and
//! does not come takes nothing from anyone.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use serde::Serialize;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

#[derive(Debug)]
pub struct Bodies {
    limit: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    bytes: usize,
    /// Those that can be asked to give way, by size and number: the last is the largest, and
    /// of equal ones the newest.
    evictable: BTreeMap<(usize, u64), (Stage, CancellationToken)>,
    numbers: u64,
    refused: u64,
}

/// One body's part of the memory. Dropping it gives it back.
#[derive(Debug)]
pub(super) struct Share {
    bodies: Arc<Bodies>,
    number: u64,
    bytes: usize,
    stage: Stage,
    evicted: CancellationToken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It can be asked to give way.
    Coming,
    /// All of it is there, and is used in a moment.
    Whole,
    /// It is being decoded, or what it says waits for a free turn. It can be asked to give way.
    Waiting,
}

/// There is no room for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoRoom;

/// A look at them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BodyHealth {
    /// How many still come.
    pub reading: u64,
    pub bytes: u64,
    pub max_bytes: u64,
    /// How many had to give way since the program started.
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
        let coming = state.evictable.values().filter(|(stage, _)| *stage == Stage::Coming);
        BodyHealth {
            reading: coming.count() as u64,
            bytes: state.bytes as u64,
            max_bytes: self.limit as u64,
            refused: state.refused,
        }
    }

    /// A body begins to come.
    pub(super) fn begin(self: &Arc<Self>) -> Share {
        let evicted = CancellationToken::new();
        let mut state = self.state.lock();
        state.numbers += 1;
        let number = state.numbers;
        state.evictable.insert((0, number), (Stage::Coming, evicted.clone()));
        Share { bodies: Arc::clone(self), number, bytes: 0, stage: Stage::Coming, evicted }
    }
}

impl Share {
    /// There are so many bytes more of it.
    ///
    /// # Errors
    /// It has to give way, or had to before.
    pub(super) fn grow(&mut self, more: usize) -> Result<(), NoRoom> {
        let mut state = self.bodies.state.lock();
        state.evictable.remove(&(self.bytes, self.number)).ok_or(NoRoom)?;
        state.bytes -= self.bytes;
        self.bytes += more;
        self.sit(&mut state)
    }

    /// It can be asked to give way from now on, with as many bytes as it has.
    fn sit(&self, state: &mut State) -> Result<(), NoRoom> {
        state.bytes += self.bytes;
        let entry = (self.stage, self.evicted.clone());
        state.evictable.insert((self.bytes, self.number), entry);
        while state.bytes > self.bodies.limit
            && let Some(((bytes, _), (_, evicted))) = state.evictable.pop_last()
        {
            state.bytes -= bytes;
            state.refused += 1;
            evicted.cancel();
        }
        if self.evicted.is_cancelled() { Err(NoRoom) } else { Ok(()) }
    }

    /// All of it is there; from now on it stays.
    ///
    /// # Errors
    /// It had to give way.
    pub(super) fn complete(&mut self) -> Result<(), NoRoom> {
        let mut state = self.bodies.state.lock();
        state.evictable.remove(&(self.bytes, self.number)).ok_or(NoRoom)?;
        self.stage = Stage::Whole;
        Ok(())
    }

    /// What was whole waits now, and has so many bytes in memory.
    ///
    /// # Errors
    /// It has to give way, or had to before.
    pub(super) fn wait(&mut self, bytes: usize) -> Result<(), NoRoom> {
        let mut state = self.bodies.state.lock();
        match self.stage {
            Stage::Coming => return Err(NoRoom),
            Stage::Whole => self.stage = Stage::Waiting,
            Stage::Waiting => {
                state.evictable.remove(&(self.bytes, self.number)).ok_or(NoRoom)?;
            }
        }
        state.bytes -= self.bytes;
        // One that has all the room for itself is not refused for want of it.
        self.bytes = bytes.min(self.bodies.limit);
        self.sit(&mut state)
    }

    /// Does something unless it has to give way.
    ///
    /// # Errors
    /// It has to.
    pub(super) async fn unless_evicted<T>(
        &self,
        work: impl Future<Output = T>,
    ) -> Result<T, NoRoom> {
        tokio::select! {
            biased;
            done = work => Ok(done),
            () = self.evicted() => Err(NoRoom),
        }
    }

    /// Waits until it has to give way.
    pub(super) async fn evicted(&self) {
        self.evicted.cancelled().await;
    }

    /// The same, for those who wait beside it.
    pub(super) fn gives_way(&self) -> WaitForCancellationFutureOwned {
        self.evicted.clone().cancelled_owned()
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut state = self.bodies.state.lock();
        let counted = match self.stage {
            Stage::Coming | Stage::Waiting => {
                state.evictable.remove(&(self.bytes, self.number)).is_some()
            }
            Stage::Whole => true,
        };
        if counted {
            state.bytes -= self.bytes;
        }
    }
}

#[cfg(test)]
#[path = "bodies_tests.rs"]
mod tests;
