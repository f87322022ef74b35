//! What the simulator records: counters, runs and their frames.

mod counters;
mod runs;
mod transcript;

use serde_json::{Value, json};

use self::runs::RunLedger;
pub use self::{
    counters::Stats,
    runs::RunReport,
    transcript::{Direction, FrameRecord, FrameRecorder},
};
pub(crate) use self::{
    counters::{SimCounters, add, add_many, sub},
    runs::RunTally,
    transcript::RunTape,
};

/// The counters and the newest runs.
#[derive(Debug, Default)]
pub(crate) struct Records {
    pub(crate) counters: SimCounters,
    ledger: RunLedger,
}

impl Records {
    pub(crate) fn stats(&self) -> Stats {
        self.counters.snapshot()
    }

    /// The newest runs, the oldest of them first, open ones included.
    pub(crate) fn runs(&self) -> Vec<RunReport> {
        self.ledger.list()
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
