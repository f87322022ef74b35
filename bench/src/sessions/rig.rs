//! What a measurement runs on: a simulator and a gateway, each a process of its own, and
//! the simulator's counters.

use std::{io::Write as _, path::Path, time::Duration};

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::requests::{ANSWER_BYTES, padded};
use crate::{
    child::Racer,
    http::Http,
    recipe::{ibeam_start, sim_start},
};

/// Counters that did not move for this long have settled.
const QUIET: Duration = Duration::from_millis(100);
/// Longer than any message is on its way.
const SETTLE_ROUNDS: usize = 50;
/// A prompt that asks for a long answer.
pub(super) const TALK: &str = "bench talk";
/// Words that ask for one call of the tool `lookup`.
pub(super) const LOOKUP: &str = "bench lookup";

/// How the two are started.
#[derive(Clone, Copy)]
pub(super) struct RigOptions {
    /// What the backend takes to set up a run.
    pub(super) bootstrap: Duration,
    /// The backend remembers blobs from one run to the next.
    pub(super) keep_blobs: bool,
    /// The gateway keeps sessions.
    pub(super) reuse: bool,
}

impl Default for RigOptions {
    fn default() -> Self {
        Self { bootstrap: Duration::ZERO, keep_blobs: false, reuse: true }
    }
}

pub(super) struct SessionRig {
    pub(super) simulator: Racer,
    pub(super) gateway: Racer,
    counters: Http,
    _scenario: tempfile::TempPath,
}

impl SessionRig {
    pub(super) async fn make(ibeam: &Path, options: RigOptions) -> anyhow::Result<Self> {
        let mut file = tempfile::Builder::new().suffix(".toml").tempfile()?;
        file.write_all(scenario().as_bytes())?;
        let scenario = file.into_temp_path();
        let mut args = vec!["--pace-ms=0".to_owned(), format!("--scenario={}", scenario.display())];
        if !options.bootstrap.is_zero() {
            args.push(format!("--bootstrap={}ms", options.bootstrap.as_millis()));
        }
        if options.keep_blobs {
            args.push("--keep-blobs".to_owned());
        }
        let simulator = sim_start(ibeam, args).start().await.context("the simulator")?;
        let mut recipe = ibeam_start(ibeam, simulator.address);
        if !options.reuse {
            recipe = recipe.with("CURSOR_SESSION_REUSE", "0");
        }
        let gateway = recipe.start().await.context("ibeam")?;
        let counters = Http::open(simulator.address).await?;
        Ok(Self { simulator, gateway, counters, _scenario: scenario })
    }

    pub(super) async fn counters(&mut self) -> anyhow::Result<SimulatorCounters> {
        SimulatorCounters::of(&self.counters.get("/sim/stats").await?)
    }

    /// The counters once nothing is under way any more.
    pub(super) async fn settled(&mut self) -> anyhow::Result<SimulatorCounters> {
        let mut last = self.counters().await?;
        for _ in 0..SETTLE_ROUNDS {
            tokio::time::sleep(QUIET).await;
            let now = self.counters().await?;
            if now == last {
                break;
            }
            last = now;
        }
        Ok(last)
    }

    /// Stops both. Numbers of a gateway that breaks the protocol mean nothing.
    pub(super) async fn end(mut self) -> anyhow::Result<()> {
        let stats = self.counters.get("/sim/stats").await?;
        self.gateway.stop().await;
        self.simulator.stop().await;
        match stats.get("violations").and_then(Value::as_array).and_then(|list| list.first()) {
            Some(first) => bail!("the simulator objects: {first}"),
            None => Ok(()),
        }
    }
}

/// What the simulator counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SimulatorCounters {
    pub(super) runs: u64,
    pub(super) bootstraps: u64,
    /// Bytes that came in runs, after HTTP framing.
    pub(super) bytes: u64,
    pub(super) heartbeats: u64,
    /// Open connections, without the one that asks.
    pub(super) connections: u64,
}

impl SimulatorCounters {
    fn of(stats: &Value) -> anyhow::Result<Self> {
        let get = |name: &str| {
            stats.get(name).and_then(Value::as_u64).with_context(|| format!("no counter `{name}`"))
        };
        Ok(Self {
            runs: get("runs_started")?,
            bootstraps: get("bootstraps")?,
            bytes: get("bytes_in")?,
            heartbeats: get("client_heartbeats")?,
            connections: get("open_connections")?.saturating_sub(1),
        })
    }
}

/// Two rules; every other question gets the built-in assistant.
fn scenario() -> String {
    let words = padded("Here is what I think.", ANSWER_BYTES);
    format!(
        r#"name = "sessions"

[[rule]]
when = {{ contains = "{TALK}" }}
steps = [{{ text = {{ text = "{words}", chunk = 64, pace_ms = 0 }} }}, "assistant"]

[[rule]]
when = {{ contains = "{LOOKUP}" }}
steps = [
    {{ exec = {{ arm = "mcp", args = {{ name = "lookup", args = {{ key = "it" }} }} }} }},
    {{ text = "{{prompt}} is {{result}}" }},
]
"#
    )
}

#[cfg(test)]
#[path = "rig_tests.rs"]
mod tests;
