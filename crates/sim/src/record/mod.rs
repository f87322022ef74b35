//! What the simulator records: counters, runs and their frames.

mod counters;
mod prompts;
mod runs;
mod transcript;
mod usage;

use std::time::Duration;

use serde_json::{Value, json};

pub use self::{
    counters::Stats,
    prompts::{PromptEntry, PromptReport},
    runs::{RequestReport, RunReport},
    transcript::{Direction, FrameRecord, FrameRecorder},
};
pub(crate) use self::{
    counters::{SimCounters, add, add_many, sub},
    runs::RunTally,
    transcript::RunTape,
    usage::UsageEvent,
};
use self::{prompts::PromptLedger, runs::RunLedger, usage::UsageLedger};

/// The counters and the newest runs.
#[derive(Debug, Default)]
pub(crate) struct Records {
    pub(crate) counters: SimCounters,
    ledger: RunLedger,
    prompts: PromptLedger,
    usage: UsageLedger,
}

impl Records {
    pub(crate) fn stats(&self) -> Stats {
        self.counters.snapshot()
    }

    /// The newest runs, the oldest of them first, open ones included.
    pub(crate) fn runs(&self) -> Vec<RunReport> {
        self.ledger.list()
    }

    /// What the models of the newest runs know.
    pub(crate) fn prompts(&self) -> Vec<PromptReport> {
        self.prompts.list()
    }

    /// Records what a run costs.
    pub(crate) fn bill(&self, event: UsageEvent) {
        self.usage.add(event);
    }

    /// The events that are at least this old, and their ages.
    pub(crate) fn billed(&self, delay: Duration) -> Vec<(Duration, UsageEvent)> {
        self.usage.older_than(delay)
    }

    /// What `GET /sim/stats` answers: all counters, and the newest runs under `runs`.
    pub(crate) fn report(&self) -> Value {
        let mut report = serde_json::to_value(self.stats()).unwrap_or_default();
        if let Some(table) = report.as_object_mut() {
            table.insert("runs".to_owned(), json!(self.runs()));
        }
        report
    }
}
