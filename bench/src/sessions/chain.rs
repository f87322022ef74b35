//! One question that takes many tool calls in a row, the client answering each of them.

use std::{fmt::Write as _, path::Path, sync::Arc, time::Duration};

use anyhow::{Context as _, ensure};
use tokio::time::Instant;

use super::{
    SessionPlan, SessionReport,
    dialogue::Dialogue,
    requests::{ClientSetup, RESULT_BYTES, padded},
    rig::{RigOptions, SessionRig},
};
use crate::page::{cell, count, ratio, saving, verdict};

/// How much larger than the second a later tool turn may be: heartbeats fall where they
/// fall.
const SLACK: f64 = 1.1;

/// What a chain took.
struct ToolChain {
    /// Upstream bytes of the question, until its first call.
    question: u64,
    /// The same for each result, until the next call or the answer.
    results: Vec<u64>,
    runs: u64,
    bootstraps: u64,
    wall: Duration,
}

pub(super) async fn measure(ibeam: &Path, plan: &SessionPlan) -> anyhow::Result<SessionReport> {
    let options = RigOptions { bootstrap: plan.bootstrap, ..RigOptions::default() };
    let kept = run(ibeam, options, plan.calls).await?;
    let off = run(ibeam, RigOptions { reuse: false, ..options }, plan.calls).await;
    let (off, trouble) = match off {
        Ok(chain) => (Some(chain), None),
        Err(error) => (None, Some(format!("{error:#}"))),
    };

    let mut section =
        SessionReport { text: table(plan, &kept, off.as_ref()), ..SessionReport::default() };
    section.must(kept.runs == 1, "a chain of tool calls took more than one upstream run");
    section.must(kept.bootstraps == 1, "a chain of tool calls paid more than one bootstrap");
    section.must(kept.is_flat(), "the upstream bytes of a tool turn grow");
    if let Some(trouble) = trouble {
        // Writing to a string cannot fail.
        let _ = writeln!(section.text, "\nWithout reuse: {trouble}");
        section.broken.push(trouble);
    }
    Ok(section)
}

async fn run(ibeam: &Path, options: RigOptions, calls: usize) -> anyhow::Result<ToolChain> {
    let mut rig = SessionRig::make(ibeam, options).await?;
    let setup = Arc::new(ClientSetup::agent());
    let mut dialogue = Dialogue::open(rig.gateway.address, &setup).await?;
    let wishes: Vec<String> = (1..=calls).map(|at| format!("read file {}", file(at))).collect();
    dialogue.user(&wishes.join(" then "));

    let mut last = rig.settled().await?;
    let mut wall = Duration::ZERO;
    let mut bytes = Vec::with_capacity(calls + 1);
    for at in 1..=calls + 1 {
        let started = Instant::now();
        let answer = dialogue.ask().await.with_context(|| format!("request {at} of the chain"))?;
        wall += started.elapsed();
        let now = rig.settled().await?;
        bytes.push(now.bytes - last.bytes);
        last = now;
        if at > calls {
            ensure!(answer.calls.is_empty(), "a call beyond the last");
            ensure!(answer.text.contains(&content(calls)), "the answer lacks the last result");
            break;
        }
        let call = answer.only_call()?.clone();
        ensure!(call.arguments.contains(&file(at)), "call {at} is {call:?}");
        dialogue.keep(&answer);
        dialogue.result(&call.id, &padded(&content(at), RESULT_BYTES));
    }
    rig.end().await?;
    let question = bytes.first().copied().unwrap_or_default();
    let results = bytes.get(1..).unwrap_or_default().to_vec();
    Ok(ToolChain { question, results, runs: last.runs, bootstraps: last.bootstraps, wall })
}

fn file(at: usize) -> String {
    format!("part-{at:02}.txt")
}

fn content(at: usize) -> String {
    format!("This is part {at:02}.")
}

impl ToolChain {
    /// A late tool turn against an early one. The first follows the bootstrap, and with it
    /// whatever the start of a run leaves to send.
    fn growth(&self) -> Option<f64> {
        let second = self.results.get(1).copied().filter(|bytes| *bytes > 0)?;
        Some(count(*self.results.last()?) / count(second))
    }

    fn is_flat(&self) -> bool {
        self.growth().is_some_and(|growth| growth <= SLACK)
    }

    fn total(&self) -> f64 {
        count(self.question + self.results.iter().sum::<u64>())
    }
}

fn table(plan: &SessionPlan, kept: &ToolChain, off: Option<&ToolChain>) -> String {
    let mut out = format!(
        "| {} tool calls in a row | ibeam | reuse off | ibeam / off | target | |\n|---|---:|---:|---:|---|---|\n",
        plan.calls
    );
    let mut row =
        |name: &str, pick: &dyn Fn(&ToolChain) -> Option<f64>, target: Option<(&str, bool)>| {
            let (a, b) = (pick(kept), off.and_then(pick));
            let (words, met) = target.map_or(("", ""), |(words, met)| (words, verdict(met)));
            // Writing to a string cannot fail.
            let _ = writeln!(
                out,
                "| {name} | {} | {} | {} | {words} | {met} |",
                cell(a),
                cell(b),
                ratio(a, b)
            );
        };
    row("upstream runs", &|c| Some(count(c.runs)), Some(("exactly 1", kept.runs == 1)));
    row(
        "bootstraps paid",
        &|c| Some(count(c.bootstraps)),
        Some(("exactly 1", kept.bootstraps == 1)),
    );
    row("wall time, s", &|c| Some(c.wall.as_secs_f64()), None);
    row("upstream bytes of the question", &|c| Some(count(c.question)), None);
    for at in 0..plan.calls {
        let name = format!("upstream bytes of tool turn {}", at + 1);
        row(&name, &|c| c.results.get(at).copied().map(count), None);
    }
    row("last tool turn / second", &ToolChain::growth, Some(("at most 1.1", kept.is_flat())));
    row("upstream bytes of all", &|c| Some(c.total()), None);
    if let Some(off) = off {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "\nSaved upstream: {}.", saving(kept.total(), off.total()));
    }
    out
}
