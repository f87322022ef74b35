//! Counters over everything the simulator has seen, for tests and benchmarks.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;
use serde::Serialize;

/// The number of notes kept, so that a broken client cannot fill the memory.
const NOTES_CAP: usize = 256;
/// The number of paths that are counted separately.
const PATHS_CAP: usize = 256;
/// Conversations whose runs are counted; the oldest are forgotten.
const CONVERSATIONS_CAP: usize = 16_384;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A snapshot of the counters.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
        pub struct Stats {
            $($(#[$doc])* pub $name: u64,)*
            /// Requests by path.
            pub requests: BTreeMap<String, u64>,
            /// Runs by conversation id.
            pub conversations: BTreeMap<String, u64>,
            /// Breaches of the protocol by clients.
            pub violations: Vec<String>,
            /// Fields of client messages that our schema does not have.
            pub unknown_fields: Vec<String>,
        }

        #[derive(Debug, Default)]
        pub(crate) struct SimCounters {
            $(pub(crate) $name: AtomicU64,)*
            requests: Mutex<BTreeMap<String, u64>>,
            conversations: Mutex<ConversationCounts>,
            violations: Mutex<Vec<String>>,
            unknown_fields: Mutex<Vec<String>>,
        }

        impl SimCounters {
            pub(crate) fn snapshot(&self) -> Stats {
                Stats {
                    $($name: self.$name.load(Ordering::Relaxed),)*
                    requests: self.requests.lock().clone(),
                    conversations: self.conversations.lock().counts(),
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
    /// Runs that are open now, on either transport.
    open_streams,
    runs_started,
    /// Ended as the script says, faults included.
    runs_finished,
    /// Ended with an error end frame that is not from a script.
    runs_failed,
    /// The client sent a cancel action.
    runs_cancelled,
    /// The client left without a cancel action.
    runs_abandoned,
    /// Dropped because the client was silent for too long.
    runs_silent,
    /// Ended by an injected fault.
    runs_cut,
    resumes,
    /// Runs that reached the model, and so waited for its start.
    bootstraps,
    /// Bytes of clients in runs, after HTTP framing: envelopes, and bodies of appends.
    bytes_in,
    /// Bytes of envelopes sent to clients in runs.
    bytes_out,
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

impl SimCounters {
    pub(crate) fn request(&self, path: &str) {
        let mut requests = self.requests.lock();
        if let Some(count) = requests.get_mut(path) {
            *count += 1;
        } else if requests.len() < PATHS_CAP {
            requests.insert(path.to_owned(), 1);
        }
    }

    pub(crate) fn conversation(&self, id: &str) {
        self.conversations.lock().count(id);
    }

    pub(crate) fn violation(&self, what: String) {
        tracing::debug!(what, "protocol violation by the client");
        note(&mut self.violations.lock(), what);
    }

    pub(crate) fn unknown_field(&self, what: String) {
        note(&mut self.unknown_fields.lock(), what);
    }
}

/// How many runs each conversation had.
#[derive(Debug, Default)]
struct ConversationCounts {
    runs: HashMap<String, u64>,
    order: VecDeque<String>,
}

impl ConversationCounts {
    fn count(&mut self, id: &str) {
        if let Some(runs) = self.runs.get_mut(id) {
            *runs += 1;
            return;
        }
        self.runs.insert(id.to_owned(), 1);
        self.order.push_back(id.to_owned());
        if self.order.len() > CONVERSATIONS_CAP
            && let Some(oldest) = self.order.pop_front()
        {
            self.runs.remove(&oldest);
        }
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        self.runs.iter().map(|(id, runs)| (id.clone(), *runs)).collect()
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

pub(crate) fn add_many(counter: &AtomicU64, count: usize) {
    counter.fetch_add(count as u64, Ordering::Relaxed);
}

pub(crate) fn sub(counter: &AtomicU64) {
    counter.fetch_sub(1, Ordering::Relaxed);
}
