//! A simulator of Cursor's backend: the real wire, scripted turns, faults on demand.
//!
//! It answers over HTTP/2 and HTTP/1.1, on a socket or in memory, checks what clients
//! send as the real service does, and waits for every answer it asked for. What it says
//! comes from a [`Scenario`]; without one, a small deterministic assistant talks and
//! uses the tools it is offered.
//!
//! *Invariant:* nothing here reads the wall clock or draws random numbers; time is
//! tokio's, so that tests can pause it, and ids follow from what the client sent.

mod assistant;
mod blobs;
mod config;
pub mod cursor_agent;
mod engine;
mod models;
mod prompt;
mod protobuf;
mod record;
mod scenario;
mod stream;
mod wire;

use std::sync::{Arc, atomic::AtomicU64};

use tokio_util::task::TaskTracker;

pub use crate::{
    config::{Http2, SimConfig},
    protobuf::SchemaError,
    record::{
        counters::Stats,
        runs::RunReport,
        transcript::{Direction, Record, Recorder},
    },
    scenario::{
        Rule, Scenario, ScenarioError, When,
        faults::{Chaos, Cut, ErrorSpec, Fault, Refuse, ResetCode, Strike},
        quirks::{Quirk, Quirks},
        step::{
            AbortStep, Blob, BlobRef, Exec, Query, RawFrame, Say, Step, StepError, UnknownArm,
            UsageStep,
        },
    },
};
use crate::{
    engine::conversations,
    record::{counters, runs},
    wire::{append, auth, login},
};

/// The simulator. Clones share everything.
#[derive(Clone, Debug)]
pub struct Sim {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) config: SimConfig,
    pub(crate) counters: counters::Counters,
    pub(crate) auth: auth::Auth,
    pub(crate) appends: append::Appends,
    pub(crate) blobs: blobs::Kept,
    pub(crate) conversations: conversations::Conversations,
    pub(crate) ledger: runs::Ledger,
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
            conversations: conversations::Conversations::new(config.scenario.rules.len()),
            config,
            counters: counters::Counters::default(),
            appends: append::Appends::default(),
            blobs: blobs::Kept::default(),
            ledger: runs::Ledger::default(),
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
