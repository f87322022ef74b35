//! Single measurements of one racer. What they are worth shows only over several rounds.

use std::time::Duration;

use tokio::time::Instant;

use crate::{
    child::Racer,
    load::{Target, crowd, hold, stream},
    recipe::Recipe,
    rules::{Rule, Size},
    stats::{float, median, quantile},
};

/// Requests before open streams are counted, so that code and buffers which are needed once
/// do not count as theirs.
const MEMORY_WARM_UP: usize = 20;

/// Throughput and cost at full speed.
pub(crate) struct Speed {
    pub(crate) events_per_second: Option<f64>,
    pub(crate) cpu_per_million: Option<f64>,
    pub(crate) errors: Vec<String>,
}

/// Delay of paced events against the fastest that a direct client ever saw.
pub(crate) struct Latency {
    pub(crate) p50: Option<f64>,
    pub(crate) p99: Option<f64>,
    pub(crate) errors: Vec<String>,
}

/// One number.
#[derive(Default)]
pub(crate) struct Single {
    pub(crate) value: Option<f64>,
    pub(crate) errors: Vec<String>,
}

/// MB of a fresh process.
pub(crate) struct Memory {
    pub(crate) idle: f64,
    pub(crate) per_stream: Option<f64>,
    pub(crate) errors: Vec<String>,
}

/// The simulator's clock made comparable with ours.
#[derive(Clone, Copy)]
pub(crate) struct Clock {
    pub(crate) origin: Instant,
    /// The smallest delay of direct streams: what the two clocks differ by, and one trip over
    /// the loopback.
    base: i64,
}

impl Clock {
    pub(crate) async fn read(direct: &Target, size: Size) -> Self {
        let origin = Instant::now();
        let seen = crowd(direct, Rule::Paced, 4, size, origin).await;
        Self { origin, base: seen.delays.into_iter().min().unwrap_or(0) }
    }
}

/// All streams of a crowd read at full speed.
pub(crate) async fn speed(target: &Target, racer: &Racer, streams: usize, size: Size) -> Speed {
    let before = racer.cpu();
    let seen = crowd(target, Rule::Fast, streams, size, Instant::now()).await;
    let spent = racer.cpu() - before;
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    let events = (seen.events > 0).then_some(seen.events as f64);
    Speed {
        events_per_second: events.map(|events| events / seen.elapsed.as_secs_f64()),
        cpu_per_million: events.map(|events| spent / events * 1e6),
        errors: seen.errors,
    }
}

/// Paced streams, all at once.
pub(crate) async fn latency(target: &Target, streams: usize, size: Size, clock: Clock) -> Latency {
    let seen = crowd(target, Rule::Paced, streams, size, clock.origin).await;
    #[expect(clippy::cast_precision_loss, reason = "microseconds of one run")]
    let mut delays: Vec<f64> =
        seen.delays.iter().map(|delay| (delay - clock.base) as f64).collect();
    delays.sort_by(f64::total_cmp);
    Latency { p50: quantile(&delays, 0.50), p99: quantile(&delays, 0.99), errors: seen.errors }
}

/// From the request to the first event in microseconds, one stream after the other; the median.
pub(crate) async fn first_event(target: &Target, streams: usize) -> Single {
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
    Single { value: median(&times), errors }
}

/// From the start of a process to the end of its first answer in milliseconds; the median of
/// some starts.
pub(crate) async fn cold_start(recipe: &Recipe, starts: usize) -> anyhow::Result<Single> {
    let mut times = Vec::new();
    let mut errors = Vec::new();
    for _ in 0..starts {
        let started = Instant::now();
        let racer = recipe.start().await?;
        let answer = stream(&Target::Http(racer.address), Rule::One, started).await;
        let took = started.elapsed();
        racer.stop().await;
        match answer {
            Ok(seen) if seen.events == 1 => times.push(took.as_secs_f64() * 1e3),
            Ok(_) => errors.push("no event after a cold start".to_owned()),
            Err(error) => errors.push(format!("after a cold start: {error:#}")),
        }
    }
    times.sort_by(f64::total_cmp);
    Ok(Single { value: median(&times), errors })
}

/// Memory of a process that was just started, and its growth with streams open and silent. A
/// process that has served crowds before would reuse what it kept of them.
pub(crate) async fn memory(
    recipe: &Recipe,
    streams: usize,
    rest: Duration,
) -> anyhow::Result<Memory> {
    let racer = recipe.start().await?;
    tokio::time::sleep(rest).await;
    let idle = racer.rss();
    let warm_up = first_event(&Target::Http(racer.address), MEMORY_WARM_UP.min(streams)).await;
    let (per_stream, mut errors) = growth(&racer, streams, rest).await;
    racer.stop().await;
    errors.extend(warm_up.errors);
    Ok(Memory { idle, per_stream, errors })
}

async fn growth(racer: &Racer, streams: usize, rest: Duration) -> (Option<f64>, Vec<String>) {
    let before = racer.rss();
    let (held, errors) = hold(racer.address, streams).await;
    tokio::time::sleep(rest).await;
    let during = racer.rss();
    let per_stream = (!held.is_empty()).then(|| (during - before) / float(held.len()));
    (per_stream, errors)
}
