//! Single measurements of one racer. What they are worth shows only over several rounds.

use std::time::Duration;

use tokio::time::Instant;

use crate::{
    child::Racer,
    load::{LoadTarget, hold, stream, streams_at_once},
    metric::Metric,
    recipe::Recipe,
    rules::{Rule, Size},
    stats::{float, median, quantile},
};

/// Requests before open streams are counted, so that code and buffers which are needed once
/// do not count as theirs.
const MEMORY_WARM_UP: usize = 20;

/// The result of one measurement. Each of its metrics is listed, also when it could not be
/// measured, so that the series of all racers stay in step.
#[derive(Default)]
pub(crate) struct Lap {
    pub(crate) values: Vec<(Metric, Option<f64>)>,
    pub(crate) errors: Vec<String>,
}

/// The simulator's clock made comparable with ours.
#[derive(Clone, Copy)]
pub(crate) struct SimulatorClock {
    pub(crate) origin: Instant,
    /// The smallest delay of direct streams: what the two clocks differ by, and one trip over
    /// the loopback.
    base: i64,
}

impl SimulatorClock {
    pub(crate) async fn read(direct: &LoadTarget, size: Size) -> Self {
        let origin = Instant::now();
        let seen = streams_at_once(direct, Rule::Paced, 4, size, origin).await;
        Self { origin, base: seen.delays.into_iter().min().unwrap_or(0) }
    }
}

/// Throughput and cost of many streams, read at full speed.
pub(crate) async fn speed(target: &LoadTarget, racer: &Racer, streams: usize, size: Size) -> Lap {
    let before = racer.cpu();
    let seen = streams_at_once(target, Rule::Fast, streams, size, Instant::now()).await;
    let spent = racer.cpu() - before;
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    let events = (seen.events > 0).then_some(seen.events as f64);
    let rate = events.map(|events| events / seen.elapsed.as_secs_f64());
    let cpu = events.map(|events| spent / events * 1e6);
    Lap { values: vec![(Metric::Events, rate), (Metric::Cpu, cpu)], errors: seen.errors }
}

/// Paced streams, all at once: the delay of their events against the least that a direct client
/// ever saw.
pub(crate) async fn latency(
    target: &LoadTarget,
    streams: usize,
    size: Size,
    clock: SimulatorClock,
) -> Lap {
    let seen = streams_at_once(target, Rule::Paced, streams, size, clock.origin).await;
    #[expect(clippy::cast_precision_loss, reason = "microseconds of one run")]
    let mut delays: Vec<f64> =
        seen.delays.iter().map(|delay| (delay - clock.base) as f64).collect();
    delays.sort_by(f64::total_cmp);
    let values = [(Metric::LatencyP50, 0.50), (Metric::LatencyP99, 0.99)];
    let values = values.map(|(metric, share)| (metric, quantile(&delays, share))).to_vec();
    Lap { values, errors: seen.errors }
}

/// From the request to the first event in microseconds, one stream after the other; the median.
pub(crate) async fn first_event(target: &LoadTarget, streams: usize) -> Lap {
    let mut times = Vec::new();
    let mut errors = Vec::new();
    for _ in 0..streams {
        match stream(target, Rule::One, Instant::now()).await {
            Ok(seen) if seen.events == 1 => times.push(seen.first.as_secs_f64() * 1e6),
            Ok(_) => errors.push("no event".to_owned()),
            Err(error) => errors.push(format!("{error:#}")),
        }
    }
    times.sort_by(f64::total_cmp);
    Lap { values: vec![(Metric::FirstEvent, median(&times))], errors }
}

/// From the start of a process to the end of its first answer in milliseconds; the median of
/// some starts.
pub(crate) async fn cold_start(recipe: &Recipe, starts: usize) -> anyhow::Result<Lap> {
    let mut times = Vec::new();
    let mut errors = Vec::new();
    for _ in 0..starts {
        let started = Instant::now();
        let racer = recipe.start().await?;
        let answer = stream(&LoadTarget::Http(racer.address), Rule::One, started).await;
        let took = started.elapsed();
        racer.stop().await;
        match answer {
            Ok(seen) if seen.events == 1 => times.push(took.as_secs_f64() * 1e3),
            Ok(_) => errors.push("no event after a cold start".to_owned()),
            Err(error) => errors.push(format!("after a cold start: {error:#}")),
        }
    }
    times.sort_by(f64::total_cmp);
    Ok(Lap { values: vec![(Metric::ColdStart, median(&times))], errors })
}

/// Memory in MB of a process that was just started, and its growth with streams open and silent. A
/// process that has served crowds before would reuse what it kept of them.
pub(crate) async fn memory(recipe: &Recipe, streams: usize, rest: Duration) -> anyhow::Result<Lap> {
    let racer = recipe.start().await?;
    tokio::time::sleep(rest).await;
    let idle = racer.rss();
    let warm_up = first_event(&LoadTarget::Http(racer.address), MEMORY_WARM_UP.min(streams)).await;
    let (per_stream, mut errors) = growth(&racer, streams, rest).await;
    racer.stop().await;
    errors.extend(warm_up.errors);
    Ok(Lap { values: vec![(Metric::RssIdle, Some(idle)), (Metric::RssStream, per_stream)], errors })
}

async fn growth(racer: &Racer, streams: usize, rest: Duration) -> (Option<f64>, Vec<String>) {
    let before = racer.rss();
    let (held, errors) = hold(racer.address, streams).await;
    tokio::time::sleep(rest).await;
    let during = racer.rss();
    let per_stream = (!held.is_empty()).then(|| (during - before) / float(held.len()));
    (per_stream, errors)
}
