//! The client: the same for every racer. It opens streams, counts marks, and
//! notes when they came.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context as _, bail};
use http::{Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use memchr::{memchr, memchr_iter};
use tokio::{task::JoinSet, time::Instant};

use crate::{
    http::Http,
    rules::{MARK, Rule, Size},
    upstream::Upstream,
};

/// A stream that takes longer has hung.
const STREAM_LIMIT: Duration = Duration::from_secs(180);
/// Delays of the first events of a stream are left out: they show how hundreds of streams are
/// opened at once.
pub(crate) const SETTLE_EVENTS: usize = 5;

/// Where the streams go.
#[derive(Clone)]
pub(crate) enum LoadTarget {
    /// To the simulator itself, over HTTP/2.
    Direct(Arc<Upstream>),
    /// To a gateway, over HTTP/1.1, one connection a stream: a chat request, and marks
    /// count wherever they are, since a relay sends no event stream.
    Http(SocketAddr),
    /// The same in one of the dialects, and only the marks of deltas count: some dialects
    /// say everything again at the end.
    Dialect(SocketAddr, BenchDialect),
}

/// An API through which a stream is requested.
#[derive(Clone, Copy)]
pub(crate) enum BenchDialect {
    Chat,
    /// As coding clients ask: `store` is false.
    Responses,
    /// The default of the API: the response is kept.
    ResponsesKept,
    Messages,
}

impl BenchDialect {
    pub(crate) const ALL: [Self; 4] =
        [Self::Chat, Self::Responses, Self::ResponsesKept, Self::Messages];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Chat | Self::Responses | Self::Messages => self.path(),
            Self::ResponsesKept => "/v1/responses, kept",
        }
    }

    fn path(self) -> &'static str {
        match self {
            Self::Chat => "/v1/chat/completions",
            Self::Responses | Self::ResponsesKept => "/v1/responses",
            Self::Messages => "/v1/messages",
        }
    }

    fn body(self, prompt: &str) -> String {
        let asked = match self {
            Self::Chat => format!(r#""messages":[{{"role":"user","content":"{prompt}"}}]"#),
            Self::Responses => format!(r#""input":"{prompt}","store":false"#),
            Self::ResponsesKept => format!(r#""input":"{prompt}""#),
            Self::Messages => {
                format!(r#""max_tokens":64000,"messages":[{{"role":"user","content":"{prompt}"}}]"#)
            }
        };
        format!(r#"{{"model":"auto","stream":true,{asked}}}"#)
    }

    /// How the data of a piece of text begins.
    fn delta(self) -> &'static [u8] {
        match self {
            Self::Chat => b"data: {\"id\":",
            Self::Responses | Self::ResponsesKept => {
                b"data: {\"type\":\"response.output_text.delta\""
            }
            Self::Messages => b"data: {\"type\":\"content_block_delta\"",
        }
    }
}

/// The load of one stream.
#[derive(Default)]
pub(crate) struct StreamLoad {
    pub(crate) events: u64,
    /// From the request to the first event.
    pub(crate) first: Duration,
    /// Arrival after `origin` minus the simulator's stamp, in microseconds; the
    /// two clocks start at different times, so only differences mean something.
    pub(crate) delays: Vec<i64>,
    digits: Option<u64>,
}

/// The load of many streams.
#[derive(Default)]
pub(crate) struct TotalLoad {
    pub(crate) events: u64,
    pub(crate) elapsed: Duration,
    pub(crate) delays: Vec<i64>,
    pub(crate) errors: Vec<String>,
}

/// Opens `count` streams at once and reads them to their ends.
pub(crate) async fn streams_at_once(
    target: &LoadTarget,
    rule: Rule,
    count: usize,
    size: Size,
    origin: Instant,
) -> TotalLoad {
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
    let mut total = TotalLoad::default();
    while let Some(joined) = streams.join_next().await {
        match joined.context("joined").flatten() {
            Ok(seen) => {
                total.events += seen.events;
                total.delays.extend(seen.delays.into_iter().skip(SETTLE_EVENTS));
                if seen.events != expected {
                    total.errors.push(format!("{} of {expected} events", seen.events));
                }
            }
            Err(error) => total.errors.push(format!("{error:#}")),
        }
    }
    total.elapsed = started.elapsed();
    total
}

/// Opens one stream and reads it to its end.
pub(crate) async fn stream(
    target: &LoadTarget,
    rule: Rule,
    origin: Instant,
) -> anyhow::Result<StreamLoad> {
    let started = Instant::now();
    match target {
        LoadTarget::Direct(upstream) => {
            let run = upstream.run(rule).await?;
            if run.response.status() != StatusCode::OK {
                bail!("status {}", run.response.status());
            }
            let seen = read(run.response.into_body(), started, origin).await;
            drop(run.open);
            seen
        }
        LoadTarget::Http(address) => {
            let mut http = Http::open(*address).await?;
            let response = ask(&mut http, BenchDialect::Chat, rule).await?;
            read(response.into_body(), started, origin).await
        }
        LoadTarget::Dialect(address, dialect) => {
            let mut http = Http::open(*address).await?;
            let response = ask(&mut http, *dialect, rule).await?;
            read_lines(response.into_body(), *dialect, started, origin).await
        }
    }
}

/// A stream that has sent its first event and is silent since.
pub(crate) struct SilentStream {
    _http: Http,
    _body: Incoming,
}

/// Opens `count` streams at once and keeps them open.
pub(crate) async fn hold(address: SocketAddr, count: usize) -> (Vec<SilentStream>, Vec<String>) {
    let mut streams = JoinSet::new();
    for _ in 0..count {
        streams.spawn(async move {
            tokio::time::timeout(STREAM_LIMIT, hold_one(address)).await.context("hung")?
        });
    }
    let (mut held, mut errors) = (Vec::new(), Vec::new());
    while let Some(joined) = streams.join_next().await {
        match joined.context("joined").flatten() {
            Ok(stream) => held.push(stream),
            Err(error) => errors.push(format!("{error:#}")),
        }
    }
    (held, errors)
}

async fn hold_one(address: SocketAddr) -> anyhow::Result<SilentStream> {
    let mut http = Http::open(address).await?;
    let mut body = ask(&mut http, BenchDialect::Chat, Rule::Hold).await?.into_body();
    let mut seen = StreamLoad::default();
    while seen.events == 0 {
        let frame = body.frame().await.context("ended before its first event")?;
        if let Ok(data) = frame?.into_data() {
            seen.take(&data, Duration::ZERO);
        }
    }
    Ok(SilentStream { _http: http, _body: body })
}

/// The request that every gateway gets; the query gives the relay what ibeam
/// reads from the body.
async fn ask(
    http: &mut Http,
    dialect: BenchDialect,
    rule: Rule,
) -> anyhow::Result<Response<Incoming>> {
    let prompt = rule.prompt();
    let path = format!("{}?bench={}", dialect.path(), prompt.replace(' ', "+"));
    http.post(&path, &[], dialect.body(prompt)).await
}

async fn read(mut body: Incoming, started: Instant, origin: Instant) -> anyhow::Result<StreamLoad> {
    let mut seen = StreamLoad::default();
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

/// As [`read`], line by line. It looks at no byte by itself, so that a dialect of long events
/// does not seem slower than it is because of the client.
async fn read_lines(
    mut body: Incoming,
    dialect: BenchDialect,
    started: Instant,
    origin: Instant,
) -> anyhow::Result<StreamLoad> {
    let mut seen = StreamLoad::default();
    let mut rest: Vec<u8> = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        let now = Instant::now();
        let before = seen.events;
        let mut data: &[u8] = &data;
        while let Some((line, after)) =
            memchr(b'\n', data).and_then(|end| data.split_at_checked(end + 1))
        {
            data = after;
            if rest.is_empty() {
                seen.take_line(line, dialect, now.duration_since(origin));
            } else {
                rest.extend_from_slice(line);
                seen.take_line(&rest, dialect, now.duration_since(origin));
                rest.clear();
            }
        }
        rest.extend_from_slice(data);
        if before == 0 && seen.events > 0 {
            seen.first = now.duration_since(started);
        }
    }
    Ok(seen)
}

impl StreamLoad {
    /// Counts the marks of a whole line, as [`StreamLoad::take`] does, if it holds a delta.
    fn take_line(&mut self, line: &[u8], dialect: BenchDialect, now: Duration) {
        if !line.starts_with(dialect.delta()) {
            return;
        }
        for mark in memchr_iter(MARK, line) {
            let before = line.get(..mark).unwrap_or_default();
            let first =
                before.iter().rposition(|byte| !byte.is_ascii_digit()).map_or(0, |at| at + 1);
            let stamp = before.get(first..).and_then(|digits| str::from_utf8(digits).ok());
            self.count(stamp.and_then(|digits| digits.parse().ok()), now);
        }
    }

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
                    let stamp = self.digits.take();
                    self.count(stamp, now);
                }
                _ => self.digits = None,
            }
        }
    }

    fn count(&mut self, stamp: Option<u64>, now: Duration) {
        self.events += 1;
        if let Some(stamp) = stamp {
            let arrival = i64::try_from(now.as_micros()).unwrap_or(i64::MAX);
            self.delays.push(arrival.wrapping_sub(stamp.cast_signed()));
        }
    }
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
