//! The client: the same for every racer. It opens streams, counts marks, and
//! notes when they came.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context as _, bail};
use http::{Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::{task::JoinSet, time::Instant};

use crate::{
    http::Http,
    rules::{MARK, Rule, Size},
    upstream::Upstream,
};

/// A stream that takes longer has hung.
const STREAM_LIMIT: Duration = Duration::from_secs(180);

/// Where the streams go.
#[derive(Clone)]
pub(crate) enum Target {
    /// To the simulator itself, over HTTP/2.
    Direct(Arc<Upstream>),
    /// To a gateway, over HTTP/1.1, one connection a stream.
    Http(SocketAddr),
}

/// What one stream brought.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) events: u64,
    /// From the request to the first event.
    pub(crate) first: Duration,
    /// Arrival after `origin` minus the simulator's stamp, in microseconds; the
    /// two clocks start at different times, so only differences mean something.
    pub(crate) delays: Vec<i64>,
    digits: Option<u64>,
}

/// What many streams brought.
#[derive(Default)]
pub(crate) struct Crowd {
    pub(crate) events: u64,
    pub(crate) elapsed: Duration,
    pub(crate) firsts: Vec<Duration>,
    pub(crate) delays: Vec<i64>,
    pub(crate) errors: Vec<String>,
}

/// Opens `count` streams at once and reads them to their ends.
pub(crate) async fn crowd(
    target: &Target,
    rule: Rule,
    count: usize,
    size: Size,
    origin: Instant,
) -> Crowd {
    let expected = rule.events(size);
    let started = Instant::now();
    let mut streams = JoinSet::new();
    for _ in 0..count {
        let target = target.clone();
        streams.spawn(async move {
            tokio::time::timeout(STREAM_LIMIT, stream(&target, rule, origin))
                .await
                .context("hung")?
        });
    }
    let mut crowd = Crowd::default();
    while let Some(joined) = streams.join_next().await {
        match joined.context("joined").flatten() {
            Ok(seen) => {
                crowd.events += seen.events;
                crowd.firsts.push(seen.first);
                crowd.delays.extend(seen.delays);
                if seen.events != expected {
                    crowd.errors.push(format!("{} of {expected} events", seen.events));
                }
            }
            Err(error) => crowd.errors.push(format!("{error:#}")),
        }
    }
    crowd.elapsed = started.elapsed();
    crowd
}

/// Opens one stream and reads it to its end.
pub(crate) async fn stream(target: &Target, rule: Rule, origin: Instant) -> anyhow::Result<Seen> {
    let started = Instant::now();
    match target {
        Target::Direct(upstream) => {
            let run = upstream.run(rule).await?;
            if run.response.status() != StatusCode::OK {
                bail!("status {}", run.response.status());
            }
            let seen = read(run.response.into_body(), started, origin).await;
            drop(run.sender);
            seen
        }
        Target::Http(address) => {
            let mut http = Http::open(*address).await?;
            let response = chat(&mut http, rule).await?;
            read(response.into_body(), started, origin).await
        }
    }
}

/// The request that every gateway gets; the query tells the relay what ibeam
/// reads from the body.
async fn chat(http: &mut Http, rule: Rule) -> anyhow::Result<Response<Incoming>> {
    let prompt = rule.prompt();
    let body = format!(
        r#"{{"model":"auto","stream":true,"messages":[{{"role":"user","content":"{prompt}"}}]}}"#
    );
    let path = format!("/v1/chat/completions?bench={}", prompt.replace(' ', "+"));
    http.post(&path, &[], body).await
}

async fn read(mut body: Incoming, started: Instant, origin: Instant) -> anyhow::Result<Seen> {
    let mut seen = Seen::default();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            let now = Instant::now();
            let before = seen.events;
            seen.take(&data, now.duration_since(origin));
            if before == 0 && seen.events > 0 {
                seen.first = now.duration_since(started);
            }
        }
    }
    Ok(seen)
}

impl Seen {
    /// Counts marks; the digits right before one are the simulator's clock.
    fn take(&mut self, data: &[u8], now: Duration) {
        for &byte in data {
            match byte {
                b'0'..=b'9' => {
                    let digit = u64::from(byte - b'0');
                    self.digits =
                        Some(self.digits.unwrap_or(0).wrapping_mul(10).wrapping_add(digit));
                }
                MARK => {
                    self.events += 1;
                    if let Some(stamp) = self.digits.take() {
                        let arrival = i64::try_from(now.as_micros()).unwrap_or(i64::MAX);
                        self.delays.push(arrival.wrapping_sub(stamp.cast_signed()));
                    }
                }
                _ => self.digits = None,
            }
        }
    }
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
