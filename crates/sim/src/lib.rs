//! A simulator of Cursor's backend: the real wire, scripted turns, faults on demand.
//!
//! It answers over HTTP/2 and HTTP/1.1, on a socket or in memory, checks what clients
//! send as the real service does, and waits for every answer it asked for. What it says
//! comes from a [`Scenario`]; without one, a small deterministic assistant talks and
//! uses the tools it is offered.
//!
//! *Invariant:* nothing here reads the wall clock or draws random numbers; time is
//! tokio's, so that tests can pause it, and ids follow from what the client sent.

mod append;
mod assistant;
mod auth;
mod blobs;
mod choose;
mod code;
mod config;
mod converse;
pub mod cursor_agent;
mod engine;
mod exec;
mod faults;
mod hear;
mod inbound;
mod intent;
mod ledger;
mod listing;
mod login;
mod models;
mod models_json;
mod native;
mod outbound;
mod patch;
mod play;
mod prompt;
mod quirks;
mod reply;
mod resume;
mod routes;
mod run;
mod schema;
mod script;
mod server;
mod stats;
mod step;
mod store;
mod strike;
mod tools;
mod transcript;
mod validate;

use std::sync::{Arc, atomic::AtomicU64};

use tokio_util::task::TaskTracker;

pub use crate::{
    config::{Http2, SimConfig},
    faults::{Chaos, Cut, ErrorSpec, Fault, Refuse, ResetCode, Strike},
    ledger::RunReport,
    quirks::{Quirk, Quirks},
    schema::SchemaError,
    script::{Rule, Scenario, ScenarioError, When},
    stats::Stats,
    step::{
        AbortStep, Blob, BlobRef, Exec, Query, RawFrame, Say, Step, StepError, UnknownArm,
        UsageStep,
    },
    transcript::{Direction, Record, Recorder},
};

/// The simulator. Clones share everything.
#[derive(Clone, Debug)]
pub struct Sim {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) config: SimConfig,
    pub(crate) counters: stats::Counters,
    pub(crate) auth: auth::Auth,
    pub(crate) appends: append::Appends,
    pub(crate) blobs: blobs::Kept,
    pub(crate) conversations: converse::Conversations,
    pub(crate) ledger: ledger::Ledger,
    pub(crate) logins: login::Logins,
    pub(crate) runs: AtomicU64,
    /// The zero of `{uptime_us}` in scripts.
    pub(crate) born: tokio::time::Instant,
    pub(crate) tasks: TaskTracker,
}

impl Sim {
    /// An access token that the default configuration accepts: shaped like the real ones,
    /// valid until the year 2100. It also serves as refresh token.
    pub const TOKEN: &str = auth::TOKEN;
    /// An API key that the default configuration exchanges for a token. It opens nothing
    /// else.
    pub const API_KEY: &str = auth::API_KEY;
    /// The last part of every token that is handed out: a mark by which a token is known
    /// wherever it turns up.
    pub const SIGNATURE: &str = auth::SIGNATURE;

    #[must_use]
    pub fn new(config: SimConfig) -> Self {
        let inner = Inner {
            auth: auth::Auth::new(&config),
            conversations: converse::Conversations::new(config.scenario.rules.len()),
            config,
            counters: stats::Counters::default(),
            appends: append::Appends::default(),
            blobs: blobs::Kept::default(),
            ledger: ledger::Ledger::default(),
            logins: login::Logins::default(),
            runs: AtomicU64::new(0),
            born: tokio::time::Instant::now(),
            tasks: TaskTracker::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The counters so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.inner.counters.snapshot()
    }

    #[must_use]
    pub fn config(&self) -> &SimConfig {
        &self.inner.config
    }

    /// From now on this token is refused, as if it had expired.
    pub fn revoke(&self, token: &str) {
        self.inner.auth.revoke(token);
    }

    /// How many tasks are alive: connections and runs.
    #[must_use]
    pub fn tasks(&self) -> usize {
        self.inner.tasks.len()
    }
}

impl Default for Sim {
    fn default() -> Self {
        Self::new(SimConfig::default())
    }
}
