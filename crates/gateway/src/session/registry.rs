//! What the process knows about its turns: how many there are, how they ended,
//! and what of the backend's messages nobody understood.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};

use ibeam_core::{agent::DriftReport, error::ErrorCode};
use parking_lot::Mutex;

/// How many kinds of drift are told apart.
const DRIFT_KINDS: usize = 256;

#[derive(Clone, Debug, Default)]
pub struct Registry {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    active: AtomicUsize,
    started: AtomicU64,
    finished: AtomicU64,
    failed: AtomicU64,
    cancelled: AtomicU64,
    /// The backend turned our credential away the last time it saw it.
    refused: AtomicBool,
    drift: Mutex<BTreeMap<String, u64>>,
}

/// The counters at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    pub active: usize,
    pub started: u64,
    pub finished: u64,
    pub failed: u64,
    pub cancelled: u64,
    pub drift: BTreeMap<String, u64>,
}

/// One turn's place in the registry; it leaves with its actor.
#[derive(Debug)]
pub(super) struct Entry {
    registry: Registry,
}

impl Registry {
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Snapshot {
            active: self.inner.active.load(Ordering::Relaxed),
            started: read(&self.inner.started),
            finished: read(&self.inner.finished),
            failed: read(&self.inner.failed),
            cancelled: read(&self.inner.cancelled),
            drift: self.inner.drift.lock().clone(),
        }
    }

    /// Notes whether the backend took our credential.
    pub fn note_credential(&self, outcome: Result<(), ErrorCode>) {
        match outcome {
            Ok(()) => self.inner.refused.store(false, Ordering::Relaxed),
            Err(ErrorCode::NotAuthenticated) => self.inner.refused.store(true, Ordering::Relaxed),
            // Says nothing about the credential.
            Err(_) => {}
        }
    }

    /// Whether the backend turned our credential away when it last saw it.
    #[must_use]
    pub fn credential_refused(&self) -> bool {
        self.inner.refused.load(Ordering::Relaxed)
    }

    pub(super) fn enter(&self) -> Entry {
        self.inner.active.fetch_add(1, Ordering::Relaxed);
        self.inner.started.fetch_add(1, Ordering::Relaxed);
        Entry { registry: self.clone() }
    }
}

impl Entry {
    pub(super) fn finished(&self) {
        self.registry.inner.finished.fetch_add(1, Ordering::Relaxed);
        self.registry.note_credential(Ok(()));
    }

    pub(super) fn failed(&self, code: ErrorCode) {
        let counter = if code == ErrorCode::Cancelled {
            &self.registry.inner.cancelled
        } else {
            &self.registry.inner.failed
        };
        counter.fetch_add(1, Ordering::Relaxed);
        self.registry.note_credential(Err(code));
    }

    pub(super) fn drifted(&self, report: &DriftReport) {
        let mut drift = self.registry.inner.drift.lock();
        let mut count = |key: String, n: u64| {
            if n > 0 && (drift.len() < DRIFT_KINDS || drift.contains_key(&key)) {
                *drift.entry(key).or_default() += n;
            }
        };
        for (unknown, n) in &report.unknown_fields {
            count(format!("{}#{}", unknown.message, unknown.field), *n);
        }
        count("undecodable_messages".to_owned(), report.undecodable_messages);
        count("unknown_arms".to_owned(), report.unknown_arms);
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.registry.inner.active.fetch_sub(1, Ordering::Relaxed);
    }
}
