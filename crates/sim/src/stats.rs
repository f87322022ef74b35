//! What the simulator saw, for tests and benches.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;

/// Notes kept at most; a client that is wrong all the time must not fill the memory.
const NOTES_CAP: usize = 256;
/// Different paths counted one by one.
const PATHS_CAP: usize = 256;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A snapshot of the counters.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Stats {
            $($(#[$doc])* pub $name: u64,)*
            /// Requests by path.
            pub requests: BTreeMap<String, u64>,
            /// What clients did that the real service would not like.
            pub violations: Vec<String>,
            /// Fields of client messages that our schema does not have.
            pub unknown_fields: Vec<String>,
        }

        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: AtomicU64,)*
            requests: Mutex<BTreeMap<String, u64>>,
            violations: Mutex<Vec<String>>,
            unknown_fields: Mutex<Vec<String>>,
        }

        impl Counters {
            pub(crate) fn snapshot(&self) -> Stats {
                Stats {
                    $($name: self.$name.load(Ordering::Relaxed),)*
                    requests: self.requests.lock().clone(),
                    violations: self.violations.lock().clone(),
                    unknown_fields: self.unknown_fields.lock().clone(),
                }
            }
        }
    };
}

counters! {
    connections,
    open_connections,
    /// Runs whose engine is alive now, on either transport.
    open_streams,
    runs_started,
    /// Ended as the script wanted, faults included.
    runs_finished,
    /// Ended with an error end frame that nobody scripted.
    runs_failed,
    /// The client sent a cancel action.
    runs_cancelled,
    /// The client went away without a word.
    runs_abandoned,
    /// Dropped because the client was silent for too long.
    runs_silent,
    /// Ended by an injected fault.
    runs_cut,
    resumes,
    client_messages,
    client_heartbeats,
    server_frames,
    appends,
    duplicate_appends,
    execs_sent,
    exec_results,
    exec_throws,
    exec_closes,
    kv_gets,
    kv_sets,
    queries_sent,
    query_answers,
    refreshes,
}

impl Counters {
    pub(crate) fn request(&self, path: &str) {
        let mut requests = self.requests.lock();
        if let Some(count) = requests.get_mut(path) {
            *count += 1;
        } else if requests.len() < PATHS_CAP {
            requests.insert(path.to_owned(), 1);
        }
    }

    pub(crate) fn violation(&self, what: String) {
        tracing::debug!(what, "protocol violation by the client");
        note(&mut self.violations.lock(), what);
    }

    pub(crate) fn unknown_field(&self, what: String) {
        note(&mut self.unknown_fields.lock(), what);
    }
}

fn note(notes: &mut Vec<String>, what: String) {
    if notes.len() < NOTES_CAP && !notes.contains(&what) {
        notes.push(what);
    }
}

pub(crate) fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

pub(crate) fn sub(counter: &AtomicU64) {
    counter.fetch_sub(1, Ordering::Relaxed);
}
