//! What the process knows about its turns: how many there are, how they ended, which ones wait
//! for tool results, and which messages of the backend were unknown.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use ibeam_core::{
    codec::pbwalk::UnknownField,
    error::{ErrorCode, TurnError},
    model::ids::SessionId,
    peer::DriftReport,
};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::{sync::mpsc, time::Instant};
use tracing::{info, warn};

use super::{
    parked::{LiveTurn, ParkedCalls, ParkedLimits, TurnIdentity, TurnTable},
    visit::Visit,
};
use crate::store::Scope;

/// How many kinds of drift are counted separately.
const DRIFT_KINDS: usize = 256;

/// How long a failure to reach the backend is remembered.
const UNREACHABLE: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, Default)]
pub struct Registry {
    inner: Arc<RegistryState>,
}

#[derive(Debug, Default)]
struct RegistryState {
    turns: AtomicUsize,
    started: AtomicU64,
    finished: AtomicU64,
    failed: AtomicU64,
    cancelled: AtomicU64,
    fates: Mutex<Fates>,
    /// The backend refused our credential when it last saw it.
    refused: AtomicBool,
    /// When the backend could not be reached, unless it answered since.
    unreachable: Mutex<Option<Instant>>,
    /// Whether the field above is set, so that an incoming frame takes no lock.
    silent: AtomicBool,
    drift: Mutex<BTreeMap<String, u64>>,
    table: Mutex<TurnTable>,
}

/// How requests were matched, and how parked turns ended. `/health` shows it unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Fates {
    /// How requests were matched, see [`super::Matched`].
    pub new: u64,
    pub resumed: u64,
    pub rebuilt: u64,
    pub continued: u64,
    pub forked: u64,
    pub attached: u64,
    pub replayed: u64,
    /// Parked turns that expired.
    pub expired: u64,
    /// Parked turns that were evicted.
    pub evicted: u64,
    /// Parked turns whose conversation continued without their results.
    pub superseded: u64,
    /// Parked turns that the backend ended.
    pub died_parked: u64,
}

/// The counters at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Turns that are not parked.
    pub active: usize,
    pub parked: usize,
    pub parked_bytes: usize,
    pub started: u64,
    pub finished: u64,
    pub failed: u64,
    pub cancelled: u64,
    pub fates: Fates,
    pub drift: BTreeMap<String, u64>,
}

/// One turn's entry in the registry; it is removed with its actor.
#[derive(Debug)]
pub(super) struct RegistryEntry {
    registry: Registry,
    session: SessionId,
}

impl Registry {
    #[must_use]
    pub fn new(limits: ParkedLimits) -> Self {
        let table = Mutex::new(TurnTable::new(limits));
        Self { inner: Arc::new(RegistryState { table, ..RegistryState::default() }) }
    }

    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (parked, parked_bytes) = self.inner.table.lock().parked();
        Snapshot {
            active: self.inner.turns.load(Ordering::Relaxed).saturating_sub(parked),
            parked,
            parked_bytes,
            started: read(&self.inner.started),
            finished: read(&self.inner.finished),
            failed: read(&self.inner.failed),
            cancelled: read(&self.inner.cancelled),
            fates: *self.inner.fates.lock(),
            drift: self.inner.drift.lock().clone(),
        }
    }

    /// Notes how a request ended: whether the backend accepted our credential, and whether it
    /// answered at all.
    pub fn note_backend(&self, outcome: Result<(), &TurnError>) {
        match outcome {
            Ok(()) => {
                self.inner.refused.store(false, Ordering::Relaxed);
                self.note_heard();
            }
            Err(error) if error.code == ErrorCode::NotAuthenticated => {
                self.inner.refused.store(true, Ordering::Relaxed);
            }
            Err(error) if error.unreachable => {
                let mut unreachable = self.inner.unreachable.lock();
                *unreachable = Some(Instant::now());
                self.inner.silent.store(true, Ordering::Release);
            }
            // A backend that answers with a failure is reachable, and a failure of our own is not
            // evidence either way.
            Err(_) => {}
        }
    }

    /// Notes that the backend answered.
    pub fn note_heard(&self) {
        if self.inner.silent.load(Ordering::Acquire) {
            let mut unreachable = self.inner.unreachable.lock();
            *unreachable = None;
            self.inner.silent.store(false, Ordering::Release);
        }
    }

    /// Whether the backend was unreachable at the last attempt, and that was recently. Later, a
    /// request must find out.
    #[must_use]
    pub fn backend_unreachable(&self) -> bool {
        self.inner.unreachable.lock().is_some_and(|at| at.elapsed() < UNREACHABLE)
    }

    /// Whether the backend refused our credential when it last saw it.
    #[must_use]
    pub fn credential_refused(&self) -> bool {
        self.inner.refused.load(Ordering::Relaxed)
    }

    /// Changes the counters of [`Fates`].
    pub(crate) fn count(&self, change: impl FnOnce(&mut Fates)) {
        change(&mut self.inner.fates.lock());
    }

    /// The turn of that session, if it lives and is this caller's.
    pub(crate) fn find(&self, session: SessionId, scope: Scope) -> Option<LiveTurn> {
        self.inner.table.lock().find(session, scope)
    }

    /// The highest number of a call that the caller's turn handed out, if it is parked.
    pub(crate) fn highest_call(&self, session: SessionId, scope: Scope) -> Option<u32> {
        self.inner.table.lock().highest_call(session, scope)
    }

    /// The caller's parked turns that wait for any of these calls.
    pub(crate) fn waiting_for(
        &self,
        scope: Scope,
        calls: impl Iterator<Item = (SessionId, u32)>,
    ) -> Vec<LiveTurn> {
        self.inner.table.lock().waiting_for(scope, calls)
    }

    /// The caller's parked turn of that conversation.
    pub(crate) fn parked_as(&self, scope: Scope, conversation: &str) -> Option<LiveTurn> {
        self.inner.table.lock().parked_as(scope, conversation)
    }

    /// Evicts the turn that has been parked longest, of one scope or of all. When its results come,
    /// the history is sent again. False: none is parked.
    pub(crate) fn evict_oldest(&self, scope: Option<Scope>) -> bool {
        self.inner.table.lock().evict_oldest(scope)
    }

    pub(super) fn enter(
        &self,
        session: SessionId,
        identity: TurnIdentity,
        mailbox: mpsc::Sender<Visit>,
    ) -> RegistryEntry {
        self.inner.turns.fetch_add(1, Ordering::Relaxed);
        self.inner.table.lock().enter(session, LiveTurn { identity: Arc::new(identity), mailbox });
        RegistryEntry { registry: self.clone(), session }
    }
}

impl RegistryEntry {
    pub(super) fn started(&self) {
        self.registry.inner.started.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn finished(&self) {
        self.registry.inner.finished.fetch_add(1, Ordering::Relaxed);
        self.registry.note_backend(Ok(()));
    }

    pub(super) fn failed(&self, error: &TurnError) {
        let counter = if error.code == ErrorCode::Cancelled {
            &self.registry.inner.cancelled
        } else {
            &self.registry.inner.failed
        };
        counter.fetch_add(1, Ordering::Relaxed);
        self.registry.note_backend(Err(error));
    }

    pub(super) fn heard(&self) {
        self.registry.note_heard();
    }

    pub(super) fn count(&self, change: impl FnOnce(&mut Fates)) {
        self.registry.count(change);
    }

    /// The turn waits for the results of these calls, under this id. Others may be evicted for
    /// it.
    pub(super) fn park(&self, bytes: usize, conversation: &str, calls: ParkedCalls) {
        self.registry.inner.table.lock().park(self.session, bytes, conversation, calls);
    }

    /// Sets the size of the parked turn.
    pub(super) fn reweigh(&self, bytes: usize) {
        self.registry.inner.table.lock().reweigh(self.session, bytes);
    }

    /// The turn resumes.
    pub(super) fn unpark(&self) {
        self.registry.inner.table.lock().unpark(self.session);
    }

    /// The turn takes no more visits.
    pub(super) fn retire(&self) {
        self.registry.inner.table.lock().leave(self.session);
    }

    /// Counts what a turn did not understand, and logs each kind of it once.
    pub(super) fn drifted(&self, report: &DriftReport) {
        let mut drift = self.registry.inner.drift.lock();
        // Whether it is the first of its kind.
        let mut count = |key: String, n: u64| {
            if n == 0 || (drift.len() >= DRIFT_KINDS && !drift.contains_key(&key)) {
                return false;
            }
            let counted = drift.entry(key).or_default();
            let is_first = *counted == 0;
            *counted += n;
            is_first
        };
        for (unknown, n) in &report.unknown_fields {
            let UnknownField { message, field, .. } = unknown;
            if !count(format!("{message}#{field}"), *n) {
                continue;
            }
            match report.arms.contains(unknown) {
                true => warn!(
                    "Cursor sent a message that this version of ibeam does not know: {message} \
                     field {field}. A newer version may support it"
                ),
                false => info!(
                    "Cursor sent a field that this version of ibeam does not know and skips: \
                     {message} field {field}"
                ),
            }
        }
        if count("undecodable_messages".to_owned(), report.undecodable_messages) {
            warn!("Cursor sent a message that this version of ibeam cannot read");
        }
        if count("unknown_arms".to_owned(), report.unknown_arms) && report.arms.is_empty() {
            warn!("Cursor sent a message that this version of ibeam does not know");
        }
    }
}

impl Drop for RegistryEntry {
    fn drop(&mut self) {
        self.retire();
        self.registry.inner.turns.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Read as _, io::Seek as _};

    use ibeam_core::models::ModelPick;

    use super::*;

    #[test]
    fn each_kind_of_drift_is_logged_once_by_its_name() {
        let mut log: File = tempfile::tempfile().unwrap();
        let writer = log.try_clone().unwrap();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(writer).finish();
        let _guard = tracing::subscriber::set_default(subscriber);
        let registry = Registry::new(ParkedLimits::default());
        let identity = TurnIdentity { scope: [1; 32], setup: [2; 32], model: ModelPick::default() };
        let (sender, _mailbox) = mpsc::channel(1);
        let entry = registry.enter(SessionId::from_random([1; 16]), identity, sender);
        let field = |message, field| UnknownField { message, field, wire: 2 };
        let exec = field("agent.v1.ExecServerMessage", 60);
        let report = DriftReport {
            unknown_fields: vec![(field("agent.v1.InteractionUpdate", 99), 2), (exec.clone(), 1)],
            undecodable_messages: 1,
            unknown_arms: 1,
            arms: vec![exec],
        };
        for _ in 0..3 {
            entry.drifted(&report);
        }
        let mut text = String::new();
        log.rewind().unwrap();
        log.read_to_string(&mut text).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[0].contains("INFO"), "{text}");
        assert!(lines[0].ends_with("agent.v1.InteractionUpdate field 99"), "{text}");
        assert!(lines[1].contains("WARN"), "{text}");
        assert!(lines[1].contains("agent.v1.ExecServerMessage field 60."), "{text}");
        assert!(lines[2].contains("WARN") && lines[2].contains("cannot read"), "{text}");
        let counts = registry.snapshot().drift;
        assert_eq!(counts["agent.v1.InteractionUpdate#99"], 6);
        assert_eq!((counts["unknown_arms"], counts["undecodable_messages"]), (3, 3));
    }
}
