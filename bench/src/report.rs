//! The race itself, and its table.

use std::{fmt::Write as _, fs, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context as _;
use tokio::time::Instant;

use crate::{
    Race, backends, dialects,
    load::{Target, crowd, stream},
    measure,
    page::{self, cell, complain, number, ratio, say, verdict},
    raw,
    recipe::{Recipe, ibeam_start, peer_start, relay_start, simulator},
    rules::{Rule, Size},
    upstream::Upstream,
};

/// How many streams a public peer is asked to bear.
const PEER_STREAMS: usize = 50;
/// Each is a process with `cli`.
const BACKEND_FIRSTS: usize = 20;
/// The name of the table's marks in the document.
const MARKS: &str = "bench";

/// How much is done.
struct Plan {
    size: Size,
    streams: usize,
    peer_streams: usize,
    crowd: usize,
    rounds: usize,
    dialect_rounds: usize,
    firsts: usize,
    starts: usize,
}

/// One racer's column.
#[derive(Default)]
struct Column {
    events_per_second: Option<f64>,
    cpu_per_million: Option<f64>,
    p50: Option<f64>,
    p99: Option<f64>,
    first: Option<f64>,
    rss_idle: Option<f64>,
    rss_stream: Option<f64>,
    cold: Option<f64>,
    errors: Vec<String>,
}

pub(crate) async fn race(race: &Race) -> anyhow::Result<()> {
    let ibeam = race.ibeam()?;
    let peer = race.peer.as_deref().map(fs::canonicalize).transpose().context("--peer")?;
    let plan = if race.smoke { Plan::smoke() } else { Plan::full() };

    let simulator = simulator(plan.size).await?;
    let direct = Target::Direct(Arc::new(Upstream::new(simulator.address)));
    let origin = Instant::now();
    say("simulator, read directly");
    let before = direct_speed(simulator.address, &plan).await?;
    let base = measure::base(&direct, plan.size, origin).await;

    let clock = Clock { origin, base };
    say("relay");
    let relay = column(&relay_start(simulator.address), &plan, plan.streams, &clock).await?;
    say("ibeam");
    let start = ibeam_start(&ibeam, simulator.address);
    let gateway = column(&start, &plan, plan.streams, &clock).await?;
    // Again, so that a busy moment of the machine does not pass for the simulator's limit.
    let own = before.max(direct_speed(simulator.address, &plan).await?);
    say("ibeam, a crowd");
    let crowded = crowded(&start, &plan).await?;

    say("ibeam, in every dialect");
    let spoken = dialects::race(&start, plan.streams, plan.size, plan.dialect_rounds).await?;

    say("ibeam, on every backend");
    let backends =
        backends::race(&ibeam, plan.size, plan.rounds, plan.firsts.min(BACKEND_FIRSTS)).await?;

    let mut peers = None;
    if let Some(folder) = &peer {
        say("public peer");
        let peer = column(&peer_start(folder, simulator.address), &plan, plan.peer_streams, &clock)
            .await?;
        say("relay and ibeam, as few streams as the peer");
        let relay =
            column(&relay_start(simulator.address), &plan, plan.peer_streams, &clock).await?;
        let gateway = column(&start, &plan, plan.peer_streams, &clock).await?;
        peers = Some((relay, gateway, peer));
    }
    simulator.stop().await;

    let text = table(&plan, own, &relay, &gateway, &crowded, peers.as_ref());
    let spoken_table = dialects::table(plan.streams, &spoken);
    let text = format!("{text}\n{spoken_table}\n{}", backends::table(&backends));
    println!("\n{text}");
    if race.smoke {
        complain("relay", &relay.errors)?;
        complain("ibeam", &gateway.errors)?;
        complain("the crowd", &crowded)?;
        for spoken in &spoken {
            complain("a dialect", &spoken.errors)?;
        }
        for backend in &backends.all {
            complain("a backend", &backend.errors)?;
        }
    }
    if let Some(file) = &race.write {
        page::write(file, MARKS, &text)?;
    }
    Ok(())
}

/// What the simulator can deliver; the best of some rounds.
async fn direct_speed(simulator: SocketAddr, plan: &Plan) -> anyhow::Result<f64> {
    let mut best: f64 = 0.0;
    for _ in 0..plan.rounds {
        best = best.max(raw::speed(simulator, plan.streams, plan.size).await?);
    }
    Ok(best)
}

/// Two clocks made comparable.
struct Clock {
    origin: Instant,
    base: i64,
}

impl Plan {
    fn full() -> Self {
        Self {
            size: Size { fast_events: 2_000, paced_events: 60, pace_ms: 100, hold_ms: 4_000 },
            streams: 200,
            peer_streams: PEER_STREAMS,
            crowd: 1_000,
            rounds: 3,
            dialect_rounds: 5,
            firsts: 200,
            starts: 9,
        }
    }

    fn smoke() -> Self {
        Self {
            size: Size { fast_events: 20, paced_events: 5, pace_ms: 20, hold_ms: 200 },
            streams: 10,
            peer_streams: 2,
            crowd: 20,
            rounds: 1,
            dialect_rounds: 1,
            firsts: 3,
            starts: 1,
        }
    }
}

async fn column(
    recipe: &Recipe,
    plan: &Plan,
    streams: usize,
    clock: &Clock,
) -> anyhow::Result<Column> {
    let mut column = Column { cold: cold(recipe, plan.starts).await?, ..Column::default() };
    let racer = recipe.start().await?;
    let target = Target::Http(racer.address);
    tokio::time::sleep(Duration::from_millis(300)).await;
    column.rss_idle = Some(racer.rss());

    let (first, errors) = measure::first_byte(&target, plan.firsts).await;
    column.first = first;
    column.errors.extend(errors);
    let (memory, errors) = measure::memory(&target, &racer, streams, plan.size).await;
    column.rss_stream = Some(memory);
    column.errors.extend(errors);
    let latency = measure::latency(&target, streams, plan.size, clock.origin, clock.base).await;
    (column.p50, column.p99) = (latency.p50, latency.p99);
    column.errors.extend(latency.errors);
    let speed = measure::speed(&target, &racer, streams, plan.size, plan.rounds).await;
    column.events_per_second = Some(speed.events_per_second);
    column.cpu_per_million = Some(speed.cpu_per_million);
    column.errors.extend(speed.errors);
    racer.stop().await;
    Ok(column)
}

/// From the start of the process to the end of its first answer, in milliseconds;
/// the median.
async fn cold(recipe: &Recipe, rounds: usize) -> anyhow::Result<Option<f64>> {
    let mut times = Vec::new();
    for _ in 0..rounds {
        let started = Instant::now();
        let racer = recipe.start().await?;
        let answer = stream(&Target::Http(racer.address), Rule::One, started).await;
        let took = started.elapsed();
        racer.stop().await;
        if answer.is_ok_and(|seen| seen.events == 1) {
            times.push(took.as_secs_f64() * 1e3);
        }
    }
    times.sort_by(f64::total_cmp);
    Ok(times.get(times.len() / 2).copied())
}

async fn crowded(recipe: &Recipe, plan: &Plan) -> anyhow::Result<Vec<String>> {
    let racer = recipe.start().await?;
    let target = Target::Http(racer.address);
    let seen = crowd(&target, Rule::Paced, plan.crowd, plan.size, Instant::now()).await;
    racer.stop().await;
    Ok(seen.errors)
}

fn table(
    plan: &Plan,
    simulator: f64,
    relay: &Column,
    ibeam: &Column,
    crowded: &[String],
    peers: Option<&(Column, Column, Column)>,
) -> String {
    let mut out = String::new();
    let own = ibeam.events_per_second.unwrap_or(f64::INFINITY);
    let counts =
        if simulator >= 2.0 * own { "so the rows count" } else { "so events/s DO NOT COUNT" };
    let crowd = match crowded.first() {
        None => "no error".to_owned(),
        Some(first) => format!("{} ERRORS, the first: {first}", crowded.len()),
    };
    // Writing to a string cannot fail, hence the ignored results below.
    let _ = writeln!(
        out,
        "Simulator read directly: {} events/s, {:.1} times ibeam's, {counts}.\n{} streams at once through ibeam: {crowd}.\n",
        number(simulator),
        simulator / own,
        plan.crowd,
    );
    let _ = writeln!(
        out,
        "| {} streams | relay | ibeam | ibeam / relay | target | |\n|---|---:|---:|---:|---|---|",
        plan.streams
    );
    for row in ROWS {
        let (a, b) = ((row.pick)(relay), (row.pick)(ibeam));
        let (target, verdict) = match row.target {
            None => ("", ""),
            Some((words, test)) => (words, verdict(test(a, b))),
        };
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {target} | {verdict} |",
            row.name,
            cell(a),
            cell(b),
            ratio(b, a)
        );
    }
    let _ =
        writeln!(out, "| errors | {} | {} | | none | |", relay.errors.len(), ibeam.errors.len());
    if let Some((relay, ibeam, peer)) = peers {
        let _ = writeln!(
            out,
            "\n| {} streams | relay | ibeam | opencode-cursor-oauth | ibeam / relay | peer / relay | peer / ibeam |\n|---|---:|---:|---:|---:|---:|---:|",
            plan.peer_streams
        );
        for row in ROWS {
            let (a, b, c) = ((row.pick)(relay), (row.pick)(ibeam), (row.pick)(peer));
            let _ = writeln!(
                out,
                "| {} | {} | {} | {} | {} | {} | {} |",
                row.name,
                cell(a),
                cell(b),
                cell(c),
                ratio(b, a),
                ratio(c, a),
                ratio(c, b)
            );
        }
        let _ = writeln!(
            out,
            "| errors | {} | {} | {} | | | |",
            relay.errors.len(),
            ibeam.errors.len(),
            peer.errors.len()
        );
    }
    for (who, column) in [("relay", relay), ("ibeam", ibeam)]
        .into_iter()
        .chain(peers.map(|peers| ("opencode-cursor-oauth", &peers.2)))
    {
        if let Some(first) = column.errors.first() {
            let _ = writeln!(out, "\nErrors of {who}: {}, the first: {first}", column.errors.len());
        }
    }
    out
}

/// A line of the table, and what the project asks of it.
struct Row {
    name: &'static str,
    pick: fn(&Column) -> Option<f64>,
    target: Option<(&'static str, Test)>,
}

/// Whether relay's and ibeam's numbers meet the target.
type Test = fn(Option<f64>, Option<f64>) -> bool;

const ROWS: [Row; 8] = [
    Row {
        name: "events/s",
        pick: |column| column.events_per_second,
        target: Some(("at least 0.5 of the relay", |a, b| {
            b.zip(a).is_some_and(|(b, a)| b >= 0.5 * a)
        })),
    },
    Row { name: "added latency p50, µs", pick: |column| column.p50, target: None },
    Row {
        name: "added latency p99, µs",
        pick: |column| column.p99,
        target: Some(("at most 2 of the relay", |a, b| {
            b.zip(a).is_some_and(|(b, a)| b <= 2.0 * a)
        })),
    },
    Row { name: "time to first event, µs", pick: |column| column.first, target: None },
    Row { name: "CPU s per million events", pick: |column| column.cpu_per_million, target: None },
    Row {
        name: "RSS idle, MB",
        pick: |column| column.rss_idle,
        target: Some(("under 25 MB", |_, b| b.is_some_and(|b| b < 25.0))),
    },
    Row { name: "RSS per open stream, MB", pick: |column| column.rss_stream, target: None },
    Row {
        name: "cold start to first answer, ms",
        pick: |column| column.cold,
        target: Some(("under 50 ms", |_, b| b.is_some_and(|b| b < 50.0))),
    },
];
