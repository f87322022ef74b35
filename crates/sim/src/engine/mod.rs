//! Runs: what the simulated service does on one stream, from the request to the end frame.
//! [`SimRun`] is a run; it plays a script or the assistant's turn over a [`RunIo`].

mod assistant_turn;
mod call_batch;
mod catalogue;
mod checkpoint;
mod client_messages;
mod conversations;
mod exec;
mod fault_injection;
mod native_tools;
mod player;
mod prologue;
mod refusals;
mod resume;
mod rule_choice;
mod run;
mod run_io;
mod tool_calls;
mod usage;

use std::sync::{Arc, atomic::AtomicU64};

use tokio_util::task::TaskTracker;

use self::conversations::ConversationMemory;
pub(crate) use self::{
    prologue::agent_urls,
    refusals::{region, too_many_computers},
    run::{RunHeaders, SimRun},
    run_io::{RunIo, RunStop},
};
use crate::{
    behaviour::Behaviour,
    blobs::BlobCache,
    config::SimConfig,
    record::{Records, SimCounters},
    scenario::Quirks,
};

/// What all runs of a simulator share.
#[derive(Debug)]
pub(crate) struct SimState {
    /// The behaviour of every run, without what scenario rules change.
    pub(crate) behaviour: Arc<Behaviour>,
    pub(crate) config: SimConfig,
    pub(crate) records: Arc<Records>,
    pub(crate) blobs: BlobCache,
    pub(crate) conversations: ConversationMemory,
    /// How many runs there have been.
    pub(crate) runs: AtomicU64,
    /// The zero of `{uptime_us}` in scripts.
    pub(crate) born: tokio::time::Instant,
    pub(crate) tasks: TaskTracker,
}

impl SimState {
    pub(crate) fn new(config: SimConfig) -> Self {
        Self {
            behaviour: Arc::new(Behaviour::with([&config.scenario.behaviour, &config.behaviour])),
            conversations: ConversationMemory::new(config.scenario.rules.len()),
            config,
            records: Arc::default(),
            blobs: BlobCache::default(),
            runs: AtomicU64::new(0),
            born: tokio::time::Instant::now(),
            tasks: TaskTracker::new(),
        }
    }

    /// Milliseconds since 1970 by the simulator's clock.
    pub(crate) fn now_ms(&self) -> i64 {
        let passed = i64::try_from(self.born.elapsed().as_millis()).unwrap_or(i64::MAX);
        let epoch = i64::try_from(self.config.epoch).unwrap_or(i64::MAX);
        epoch.saturating_mul(1000).saturating_add(passed)
    }

    /// The quirks of every run.
    pub(crate) fn quirks(&self) -> Quirks {
        self.config.quirks.iter().chain(self.config.scenario.quirks.iter()).collect()
    }

    pub(crate) fn counters(&self) -> &SimCounters {
        &self.records.counters
    }
}
