//! What runs were billed for, for the list of usage events.

use std::{collections::VecDeque, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

/// Events that are listed at most; older ones are forgotten.
const EVENTS_CAP: usize = 1024;

/// What one run is billed for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct UsageEvent {
    pub(crate) conversation: String,
    /// The model belongs to the pool of Cursor's own models.
    pub(crate) auto: bool,
    /// Input that was not cached.
    pub(crate) input: u64,
    pub(crate) output: u64,
    pub(crate) cache_read: u64,
}

/// The newest events.
#[derive(Debug, Default)]
pub(crate) struct UsageLedger(Mutex<VecDeque<(Instant, UsageEvent)>>);

impl UsageLedger {
    pub(super) fn add(&self, event: UsageEvent) {
        let mut events = self.0.lock();
        if events.len() >= EVENTS_CAP {
            events.pop_front();
        }
        events.push_back((Instant::now(), event));
    }

    /// The events that are at least this old, and their ages, the newest first.
    pub(super) fn older_than(&self, delay: Duration) -> Vec<(Duration, UsageEvent)> {
        let events = self.0.lock();
        let aged = events.iter().rev().map(|(at, event)| (at.elapsed(), event.clone()));
        aged.filter(|(age, _)| *age >= delay).collect()
    }
}
