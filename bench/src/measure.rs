//! One racer's numbers.

use std::time::Duration;

use tokio::time::Instant;

use crate::{
    child::Racer,
    load::{Crowd, Target, crowd, stream},
    rules::{Rule, Size},
};

/// Throughput and cost at full speed.
#[derive(Default)]
pub(crate) struct Speed {
    pub(crate) events_per_second: f64,
    pub(crate) cpu_per_million: f64,
    pub(crate) errors: Vec<String>,
}

/// Delay of paced events against the fastest that a direct client ever saw.
pub(crate) struct Latency {
    pub(crate) p50: Option<f64>,
    pub(crate) p99: Option<f64>,
    pub(crate) errors: Vec<String>,
}

/// All streams of a crowd read at full speed; the best of `rounds`.
pub(crate) async fn speed(
    target: &Target,
    racer: &Racer,
    streams: usize,
    size: Size,
    rounds: usize,
) -> Speed {
    let mut best = Speed::default();
    for _ in 0..rounds {
        let before = racer.cpu();
        let seen = crowd(target, Rule::Fast, streams, size, Instant::now()).await;
        let spent = racer.cpu() - before;
        best.errors.extend(seen.errors);
        #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
        let events = seen.events as f64;
        let rate = events / seen.elapsed.as_secs_f64();
        if rate > best.events_per_second {
            best.events_per_second = rate;
            best.cpu_per_million = spent / events * 1e6;
        }
    }
    best
}

/// Paced streams, all at once. `base` is the smallest delay of direct streams.
pub(crate) async fn latency(
    target: &Target,
    streams: usize,
    size: Size,
    origin: Instant,
    base: i64,
) -> Latency {
    let seen = crowd(target, Rule::Paced, streams, size, origin).await;
    let mut delays: Vec<f64> = seen.delays.iter().map(|delay| micros(delay - base)).collect();
    delays.sort_by(f64::total_cmp);
    Latency { p50: quantile(&delays, 0.50), p99: quantile(&delays, 0.99), errors: seen.errors }
}

/// The smallest delay that a direct client sees: what the two clocks differ by,
/// and one trip over the loopback.
pub(crate) async fn base(direct: &Target, size: Size, origin: Instant) -> i64 {
    let seen = crowd(direct, Rule::Paced, 4, size, origin).await;
    seen.delays.into_iter().min().unwrap_or(0)
}

/// From the request to the first event, one stream after the other; the median.
pub(crate) async fn first_byte(target: &Target, rounds: usize) -> (Option<f64>, Vec<String>) {
    let mut times = Vec::new();
    let mut errors = Vec::new();
    for _ in 0..rounds {
        match stream(target, Rule::One, Instant::now()).await {
            Ok(seen) if seen.events == 1 => times.push(seen.first.as_secs_f64() * 1e6),
            Ok(_) => errors.push("no event".to_owned()),
            Err(error) => errors.push(format!("{error:#}")),
        }
    }
    times.sort_by(f64::total_cmp);
    (quantile(&times, 0.5), errors)
}

/// Megabytes more for each stream that is open and silent.
pub(crate) async fn memory(
    target: &Target,
    racer: &Racer,
    streams: usize,
    size: Size,
) -> (f64, Vec<String>) {
    let before = racer.rss();
    let held = crowd(target, Rule::Hold, streams, size, Instant::now());
    let half = Duration::from_millis(size.hold_ms / 2);
    let middle = async {
        tokio::time::sleep(half).await;
        racer.rss()
    };
    let (seen, during): (Crowd, f64) = tokio::join!(held, middle);
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    let streams = streams as f64;
    ((during - before) / streams, seen.errors)
}

#[expect(clippy::cast_precision_loss, reason = "microseconds of one run")]
fn micros(delay: i64) -> f64 {
    delay as f64
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an index into a list that fits into memory"
)]
fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let at = (sorted.len().saturating_sub(1) as f64 * share).round() as usize;
    sorted.get(at).copied()
}
