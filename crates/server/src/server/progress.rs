//! Whether a client reads what it is sent. Every answer, and the connection below all of them, has
//! a clock that runs while bytes wait for the client; one that takes too few of them loses its
//! connection.
//!
//! An answer needs a clock of its own because of HTTP/2: a client that opens no window and
//! answers every ping takes all that the socket gives it. A single stream cannot be given
//! up instead: the library keeps the bytes of a stream until the client takes them.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::body::Body;
use bytes::{Buf, Bytes};
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, sleep_until},
};

use super::client::ClientIo;

/// A client that is behind takes this much in the time that it has, or is cut. The slowest
/// lines carry more; a client that takes a byte now and then does not.
const PACE: usize = 16 * 1024;

/// How often the clocks of answers are checked in the time that a client has. Bytes that start to
/// wait between two checks count from the second one: reading the time for every piece of every
/// answer would cost more than all the rest of this.
const LOOKS: u32 = 8;

/// More could not be added to a moment.
const LONGEST: Duration = Duration::from_secs(365 * 86_400);

/// All that one connection's client has to take.
#[derive(Debug)]
pub(super) struct ReadProgress {
    stall: Duration,
    /// The connection is being cut.
    cut: AtomicBool,
    connection: Backlog,
    /// Those of its answers. Each goes with its last byte.
    answers: Mutex<Vec<Weak<Backlog>>>,
}

/// Bytes that wait for a client.
#[derive(Debug, Default)]
struct Backlog(Mutex<StallClock>);

#[derive(Debug, Default)]
struct StallClock {
    /// Since when the client is behind.
    since: Option<Instant>,
    /// What it took since then.
    taken: usize,
    /// What it can take at once.
    waiting: usize,
    /// There is more, which was not asked for yet.
    more: bool,
}

impl StallClock {
    fn behind(&mut self) {
        self.since.get_or_insert_with(Instant::now);
    }

    fn took(&mut self, bytes: usize) {
        self.taken = self.taken.saturating_add(bytes);
        if self.taken >= PACE && self.since.is_some() {
            self.since = Some(Instant::now());
            self.taken = 0;
        }
    }

    fn caught_up(&mut self) {
        self.since = None;
        self.taken = 0;
    }

    fn settle(&mut self) {
        if self.is_empty() {
            self.caught_up();
        }
    }

    fn is_empty(&self) -> bool {
        self.waiting == 0 && !self.more
    }

    /// Since when the client of an answer is behind, at the latest.
    fn seen_at(&mut self, now: Instant) -> Option<Instant> {
        if !self.is_empty() {
            self.since.get_or_insert(now);
        }
        self.since
    }
}

impl ReadProgress {
    pub(super) fn new(stall: Duration) -> Arc<Self> {
        let stall = stall.min(LONGEST);
        Arc::new(Self {
            stall,
            cut: AtomicBool::new(false),
            connection: Backlog::default(),
            answers: Mutex::default(),
        })
    }

    /// Watches what is written to the connection itself.
    pub(super) fn watch(self: &Arc<Self>, io: Box<dyn ClientIo>) -> WatchedIo {
        WatchedIo { io, progress: Arc::clone(self) }
    }

    /// Watches an answer. `kept` is dropped with its last byte.
    pub(super) fn answer<K: Send + Sync>(&self, body: Body, kept: K) -> AnswerBody<K> {
        let backlog = Arc::new(Backlog::default());
        let mut answers = self.answers.lock();
        answers.retain(|answer| answer.strong_count() > 0);
        answers.push(Arc::downgrade(&backlog));
        AnswerBody { body, share: Arc::new(AnswerShare { backlog, _kept: kept }) }
    }

    /// Ends when something has waited for the client for too long. What the system has yet
    /// to send is discarded with the connection then.
    pub(super) async fn stalled(&self) {
        loop {
            let now = Instant::now();
            let since = self.behind_since(now);
            if since.is_some_and(|since| since + self.stall <= now) {
                self.cut.store(true, Ordering::Relaxed);
                return;
            }
            let due = since.unwrap_or(now) + self.stall;
            sleep_until(due.min(now + self.stall / LOOKS)).await;
        }
    }

    fn behind_since(&self, now: Instant) -> Option<Instant> {
        let answers = self.answers.lock();
        let answers = answers.iter().filter_map(Weak::upgrade);
        let answers = answers.filter_map(|backlog| backlog.0.lock().seen_at(now));
        answers.chain(self.connection.0.lock().since).min()
    }
}

// === the connection ===

/// A connection that knows whether its client reads.
pub(super) struct WatchedIo {
    io: Box<dyn ClientIo>,
    progress: Arc<ReadProgress>,
}

impl WatchedIo {
    fn wrote(&self, polled: &Poll<io::Result<usize>>, offered: usize) {
        let mut clock = self.progress.connection.0.lock();
        match polled {
            Poll::Pending => clock.behind(),
            Poll::Ready(Ok(taken)) if *taken < offered => clock.took(*taken),
            Poll::Ready(_) => clock.caught_up(),
        }
    }
}

impl Drop for WatchedIo {
    fn drop(&mut self) {
        let progress = &self.progress;
        // A WebSocket has a clock of its own.
        let since = progress.connection.0.lock().since;
        let stalled = since.is_some_and(|since| since.elapsed() >= progress.stall);
        if stalled || progress.cut.load(Ordering::Relaxed) {
            // Otherwise the system keeps the socket, and tries to deliver what it has.
            self.io.discard_unsent();
        }
    }
}

impl AsyncRead for WatchedIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl AsyncWrite for WatchedIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write(cx, bytes);
        self.wrote(&polled, bytes.len());
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write_vectored(cx, pieces);
        self.wrote(&polled, pieces.iter().map(|piece| piece.len()).sum());
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

// === an answer ===

/// The body of an answer; its pieces notice when they are read.
pub(super) struct AnswerBody<K> {
    body: Body,
    share: Arc<AnswerShare<K>>,
}

struct AnswerShare<K> {
    backlog: Arc<Backlog>,
    _kept: K,
}

/// A piece of an answer on its way.
pub(super) struct AnswerPiece<K> {
    bytes: Bytes,
    share: Arc<AnswerShare<K>>,
}

impl<K: Send + Sync> http_body::Body for AnswerBody<K> {
    type Data = AnswerPiece<K>;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<AnswerPiece<K>>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        let mut clock = self.share.backlog.0.lock();
        clock.more = matches!(polled, Poll::Ready(Some(_)));
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            clock.waiting += frame.data_ref().map_or(0, Bytes::len);
        }
        clock.settle();
        drop(clock);
        polled.map_ok(|frame| {
            frame.map_data(|bytes| AnswerPiece { bytes, share: Arc::clone(&self.share) })
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<K> Drop for AnswerBody<K> {
    fn drop(&mut self) {
        let mut clock = self.share.backlog.0.lock();
        clock.more = false;
        clock.settle();
    }
}

impl<K> AnswerPiece<K> {
    fn took(&self, bytes: usize) {
        let mut clock = self.share.backlog.0.lock();
        clock.waiting = clock.waiting.saturating_sub(bytes);
        clock.took(bytes);
        clock.settle();
    }
}

impl<K> Buf for AnswerPiece<K> {
    fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.bytes
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        self.took(count);
    }
}

impl<K> Drop for AnswerPiece<K> {
    fn drop(&mut self) {
        if !self.bytes.is_empty() {
            self.took(self.bytes.len());
        }
    }
}

#[cfg(test)]
#[path = "progress_tests.rs"]
mod tests;
