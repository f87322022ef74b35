//! Many conversations at once, each waiting for the result of one tool call.

use std::{fmt::Write as _, net::SocketAddr, path::Path, sync::Arc, time::Duration};

use anyhow::Context as _;
use tokio::{task::JoinSet, time::Instant};

use super::{
    SessionPlan, SessionReport,
    dialogue::{Dialogue, DialogueAnswer},
    requests::ClientSetup,
    rig::{LOOKUP, RigOptions, SessionRig},
};
use crate::{
    http::Http,
    page::{count, number, say, verdict},
};

/// Clients that ask at the same time.
const CLIENTS: usize = 32;
/// After the last request, before memory is read.
const REST: Duration = Duration::from_secs(2);
const MEMORY_LIMIT_MB: f64 = 512.0;
const CPU_LIMIT_PERCENT: f64 = 5.0;

/// The cost of this number of parked sessions.
struct ParkedCost {
    rss_before: f64,
    /// The larger of two readings: before and after the watched time.
    rss: f64,
    simulator_rss: f64,
    /// Share of one core, in percent.
    cpu: f64,
    /// Client heartbeats for each session and minute.
    heartbeats: f64,
    connections: u64,
    /// What `/health` says of sessions.
    health: serde_json::Value,
    /// Streams that are parked, by `/health`.
    parked: u64,
    parking: Duration,
    resumed: ResumedSessions,
    errors: Vec<String>,
}

/// What came of those that got their result.
struct ResumedSessions {
    right: usize,
    /// Runs that had to be opened for it: a parked one needs none.
    runs: u64,
}

/// A session that waits.
struct WaitingSession {
    number: usize,
    answer: DialogueAnswer,
}

pub(super) async fn measure(ibeam: &Path, plan: &SessionPlan) -> anyhow::Result<SessionReport> {
    let mut section = SessionReport::default();
    let setups = [Arc::new(ClientSetup::small()), Arc::new(ClientSetup::agent())];
    let mut costs = Vec::new();
    for setup in &setups {
        say(&format!("{} sessions, {} bytes of setup each", plan.parked, setup.bytes()));
        let cost = park(ibeam, setup, plan).await?;
        section.must(cost.errors.is_empty(), &cost.errors.join("; "));
        section.must(cost.parked == plan.parked as u64, "not every session was parked");
        section.must(cost.resumed.right == sample(plan), "a session got no answer, or not its own");
        section.must(cost.resumed.runs == 0, "a parked session was not continued but rebuilt");
        costs.push((setup.bytes(), cost));
    }
    section.text = table(plan, &costs);
    Ok(section)
}

fn sample(plan: &SessionPlan) -> usize {
    plan.resumed.min(plan.parked)
}

async fn park(
    ibeam: &Path,
    setup: &Arc<ClientSetup>,
    plan: &SessionPlan,
) -> anyhow::Result<ParkedCost> {
    let mut rig = SessionRig::make(ibeam, RigOptions::default()).await?;
    let gateway = rig.gateway.address;
    let rss_before = rig.gateway.rss();
    let started = Instant::now();
    let (waiting, mut errors) = open_all(gateway, setup, plan.parked).await;
    let parking = started.elapsed();
    tokio::time::sleep(REST).await;
    let rss_parked = rig.gateway.rss();

    let (first, cpu) = (rig.counters().await?, rig.gateway.cpu());
    let watched = Instant::now();
    tokio::time::sleep(plan.window).await;
    let cpu = (rig.gateway.cpu() - cpu) / watched.elapsed().as_secs_f64() * 100.0;
    let last = rig.counters().await?;
    let minutes = watched.elapsed().as_secs_f64() / 60.0;
    let heartbeats =
        count(last.heartbeats - first.heartbeats) / count(plan.parked as u64) / minutes;
    let rss = rig.gateway.rss().max(rss_parked);
    let simulator_rss = rig.simulator.rss();
    let health = Http::open(gateway).await?.get("/health").await?;
    let health = health.get("sessions").cloned().context("/health has no sessions")?;
    let parked = health.get("parked").and_then(serde_json::Value::as_u64).unwrap_or_default();

    let step = (plan.parked / sample(plan).max(1)).max(1);
    let chosen = waiting.into_iter().filter(|one| one.number.is_multiple_of(step));
    let (right, wrong) = resume_all(gateway, setup, chosen.take(sample(plan)).collect()).await;
    errors.extend(wrong);
    let resumed = ResumedSessions { right, runs: rig.counters().await?.runs - last.runs };
    rig.end().await?;
    Ok(ParkedCost {
        rss_before,
        rss,
        simulator_rss,
        cpu,
        heartbeats,
        connections: last.connections,
        health,
        parked,
        parking,
        resumed,
        errors,
    })
}

/// Asks this number of questions, each of which ends in one call.
async fn open_all(
    gateway: SocketAddr,
    setup: &Arc<ClientSetup>,
    sessions: usize,
) -> (Vec<WaitingSession>, Vec<String>) {
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let setup = Arc::clone(setup);
        clients.spawn(async move {
            let mut dialogue = Dialogue::open(gateway, &setup).await?;
            let mut waiting = Vec::new();
            for number in (client..sessions).step_by(CLIENTS) {
                dialogue.messages.clear();
                dialogue.user(&question(number));
                let answer = dialogue.ask().await.with_context(|| question(number))?;
                answer.only_call().with_context(|| question(number))?;
                waiting.push(WaitingSession { number, answer });
            }
            anyhow::Ok(waiting)
        });
    }
    gather(clients).await
}

/// Sends the results, and counts the sessions that got their own answer.
async fn resume_all(
    gateway: SocketAddr,
    setup: &Arc<ClientSetup>,
    mut waiting: Vec<WaitingSession>,
) -> (usize, Vec<String>) {
    let mut clients = JoinSet::new();
    let share = waiting.len().div_ceil(CLIENTS).max(1);
    while !waiting.is_empty() {
        let mine = waiting.split_off(waiting.len().saturating_sub(share));
        let setup = Arc::clone(setup);
        clients.spawn(async move {
            let mut dialogue = Dialogue::open(gateway, &setup).await?;
            let mut verdicts = Vec::new();
            for WaitingSession { number, answer } in mine {
                let result = format!("value-{number:06}");
                dialogue.messages.clear();
                dialogue.user(&question(number));
                dialogue.keep(&answer);
                dialogue.result(&answer.only_call()?.id, &result);
                let answer = dialogue.ask().await.with_context(|| question(number))?;
                let right = answer.text == format!("{} is {result}", question(number));
                verdicts.push(if right { Ok(()) } else { Err(answer.text) });
            }
            anyhow::Ok(verdicts)
        });
    }
    let (verdicts, mut errors) = gather(clients).await;
    let right = verdicts.iter().filter(|verdict| verdict.is_ok()).count();
    errors.extend(verdicts.into_iter().filter_map(Result::err));
    (right, errors)
}

fn question(number: usize) -> String {
    format!("{LOOKUP} {number:06}")
}

async fn gather<T: 'static>(mut clients: JoinSet<anyhow::Result<Vec<T>>>) -> (Vec<T>, Vec<String>) {
    let (mut all, mut errors) = (Vec::new(), Vec::new());
    while let Some(joined) = clients.join_next().await {
        match joined.context("joined").flatten() {
            Ok(some) => all.extend(some),
            Err(error) => errors.push(format!("{error:#}")),
        }
    }
    (all, errors)
}

fn table(plan: &SessionPlan, costs: &[(usize, ParkedCost)]) -> String {
    let mut out = format!("| {} parked sessions |", plan.parked);
    // Writing to a string cannot fail, hence the ignored results.
    for (bytes, _) in costs {
        let _ = write!(out, " {bytes} bytes of setup | |");
    }
    let _ = writeln!(out, " target |\n|---|{}---|", "---:|---|".repeat(costs.len()));
    for row in ROWS {
        let _ = write!(out, "| {} |", row.name);
        for (_, cost) in costs {
            let value = (row.pick)(cost, plan);
            let met = row.target.map_or("", |(_, meets)| verdict(meets(value, plan)));
            let _ = write!(out, " {} | {met} |", number(value));
        }
        let _ = writeln!(out, " {} |", row.target.map_or("", |(words, _)| words));
    }
    for (bytes, cost) in costs {
        let _ = writeln!(out, "\n`/health` with {bytes} bytes of setup: `{}`", cost.health);
        if let Some(first) = cost.errors.first() {
            let _ = writeln!(out, "\n{} ERRORS, the first: {first}", cost.errors.len());
        }
    }
    out
}

/// A line of the table, and what the project asks of it.
struct ParkedRow {
    name: &'static str,
    pick: fn(&ParkedCost, &SessionPlan) -> f64,
    target: Option<(&'static str, MeetsTarget)>,
}

/// Whether a value meets the target.
type MeetsTarget = fn(f64, &SessionPlan) -> bool;

impl ParkedRow {
    const fn new(name: &'static str, pick: fn(&ParkedCost, &SessionPlan) -> f64) -> Self {
        Self { name, pick, target: None }
    }

    const fn must(mut self, words: &'static str, meets: MeetsTarget) -> Self {
        self.target = Some((words, meets));
        self
    }
}

const ROWS: [ParkedRow; 12] = [
    ParkedRow::new("parked, by `/health`", |cost, _| count(cost.parked))
        .must("all", |parked, plan| parked >= count(plan.parked as u64)),
    ParkedRow::new("RSS before, MB", |cost, _| cost.rss_before),
    ParkedRow::new("RSS with all parked, MB", |cost, _| cost.rss)
        .must("under 512 MB", |rss, _| rss < MEMORY_LIMIT_MB),
    ParkedRow::new("RSS per session, kB", |cost, plan| {
        (cost.rss - cost.rss_before) * 1024.0 / count(plan.parked as u64)
    }),
    ParkedRow::new("CPU, % of one core", |cost, _| cost.cpu)
        .must("under 5 %", |cpu, _| cpu < CPU_LIMIT_PERCENT),
    ParkedRow::new("heartbeats sent, per session and minute", |cost, _| cost.heartbeats),
    ParkedRow::new("upstream connections", |cost, _| count(cost.connections)),
    ParkedRow::new("time to park all, s", |cost, _| cost.parking.as_secs_f64()),
    ParkedRow::new("given their result", |_, plan| count(sample(plan) as u64)),
    ParkedRow::new("answered rightly", |cost, _| count(cost.resumed.right as u64))
        .must("all", |right, plan| right >= count(sample(plan) as u64)),
    ParkedRow::new("runs opened for that", |cost, _| count(cost.resumed.runs))
        .must("none", |runs, _| runs <= 0.0),
    ParkedRow::new("RSS of the simulator, MB, not counted", |cost, _| cost.simulator_rss),
];
