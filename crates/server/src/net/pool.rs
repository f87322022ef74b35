//! A pool of HTTP/2 connections that counts streams.
//!
//! The pooled clients of the field put every stream on one connection, where the one above the
//! peer's limit waits for ever without an error. Here each connection carries at most
//! [`PoolConfig::max_streams`] (or what the peer allows), another is opened when all are full, and
//! one that said GOAWAY gets no new stream.
//!
//! It stands on `h2` itself: a stream then needs no task of its own, a reset is
//! possible even while the peer's window is shut, and the peer's limit can be read
//! at the moment a connection is chosen.
//!
//! *Invariant:* a connection joins the pool only after the peer's SETTINGS came, so
//! its limit is known and it does speak HTTP/2.

mod beats;
mod connection;
mod nap;

use std::{
    pin::pin,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use h2::{
    SendStream,
    client::{ResponseFuture, SendRequest},
};
use http::Request;
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

pub use self::beats::{Asleep, Beat};
use self::{beats::Beats, nap::Napping};
use super::connect::{Connector, DialError, Host};
use crate::tasks::Tasks;

#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// Streams per connection, if the peer allows as many.
    pub max_streams: usize,
    pub max_connections: usize,
    /// For the whole way: name, TCP, proxy, TLS, SETTINGS.
    pub connect_timeout: Duration,
    /// A peer that vanished without a FIN is found by these.
    pub ping_interval: Duration,
    pub ping_timeout: Duration,
    /// A connection unused for this long (at most twice) is closed.
    pub idle_timeout: Duration,
    /// Between the heartbeats of sleeping streams.
    pub heartbeat: Duration,
}

impl Default for PoolConfig {
    fn default() -> Self {
        Self {
            max_streams: 32,
            max_connections: 256,
            connect_timeout: Duration::from_secs(10),
            ping_interval: Duration::from_secs(20),
            ping_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(120),
            heartbeat: Duration::from_secs(5),
        }
    }
}

/// The pool of one host. Clones share it; dropping the last one closes every
/// connection as soon as its streams have ended.
#[derive(Clone, Debug)]
pub struct Pool(Arc<PoolInner>);

/// What is open right now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    pub connections: usize,
    pub streams: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error("all {0} connections are in use")]
    Full(usize),
    #[error("the request cannot be sent: {0}")]
    Request(String),
}

/// A request that is on its way.
#[derive(Debug)]
pub struct PooledStream {
    pub response: ResponseFuture,
    pub send: SendStream<Bytes>,
    /// Keep it as long as any half of the stream: it is the stream's place in the
    /// pool. Drop it last.
    pub lease: Lease,
}

/// One stream's place on its connection. Clones hold the same place.
#[derive(Clone, Debug)]
pub struct Lease {
    held: Arc<HeldStream>,
}

#[derive(Debug)]
struct HeldStream {
    pool: Arc<PoolInner>,
    gauge: Arc<Gauge>,
}

#[derive(Debug)]
struct PoolInner {
    host: Host,
    connector: Connector,
    config: PoolConfig,
    tasks: Tasks,
    state: Mutex<PoolState>,
    /// A place became free, or a connection went away.
    freed: Notify,
    /// Cancelled when the pool is dropped: wakes connections so that they close.
    closing: CancellationToken,
    /// What naps are counted from.
    epoch: Instant,
    connections: AtomicUsize,
    streams: AtomicUsize,
}

#[derive(Debug, Default)]
struct PoolState {
    members: Vec<PoolMember>,
    /// Connections in the making.
    flights: Vec<DialAttempt>,
    next_flight: u64,
    /// Callers without a stream yet.
    waiting: usize,
    /// The newest peer's limit, to guess how many connections the waiting need.
    peer_limit: Option<usize>,
}

#[derive(Debug)]
struct PoolMember {
    send: SendRequest<Bytes>,
    gauge: Arc<Gauge>,
}

/// How full a connection is.
#[derive(Debug, Default)]
struct Gauge {
    load: AtomicUsize,
    /// Streams ever opened; distinguishes an idle connection from one with short streams.
    uses: AtomicU64,
    /// Sleeping streams.
    asleep: AtomicUsize,
    beats: Beats,
    /// The waker of the connection's reader, while it naps.
    reader: Mutex<Option<Waker>>,
}

#[derive(Debug)]
struct DialAttempt {
    id: u64,
    landed: watch::Receiver<Option<Result<(), DialError>>>,
}

// === impl Pool ===

impl Pool {
    #[must_use]
    pub fn new(host: Host, connector: Connector, config: PoolConfig, tasks: Tasks) -> Self {
        Self(Arc::new(PoolInner {
            host,
            connector,
            config,
            tasks,
            state: Mutex::default(),
            freed: Notify::new(),
            closing: CancellationToken::new(),
            epoch: Instant::now(),
            connections: AtomicUsize::new(0),
            streams: AtomicUsize::new(0),
        }))
    }

    #[must_use]
    pub fn stats(&self) -> PoolStats {
        PoolStats {
            connections: self.0.connections.load(Ordering::Relaxed),
            streams: self.0.streams.load(Ordering::Relaxed),
        }
    }

    /// Starts a request with an open body on the emptiest connection, or on a new one if all are
    /// full. Returns when the request is queued, without waiting for an answer.
    ///
    /// # Errors
    /// Nothing has been sent.
    pub async fn open(&self, request: &Request<()>) -> Result<PooledStream, PoolError> {
        let inner = &self.0;
        if let Some(stream) = inner.try_open(request)? {
            return Ok(stream);
        }
        let _waiting = StreamWaiter::new(inner);
        // A dial has its own limit; the second one is for a pool that stays full.
        let limit = inner.config.connect_timeout.saturating_mul(2);
        tokio::time::timeout(limit, inner.open_when_free(request))
            .await
            .unwrap_or(Err(PoolError::Full(inner.config.max_connections)))
    }

    /// Makes sure that a connection is there or on its way, so that a request soon
    /// to come finds it.
    pub fn warm_up(&self) {
        let mut state = self.0.state.lock();
        if state.members.is_empty() && state.flights.is_empty() {
            self.0.launch(&mut state);
        }
    }
}

// === impl Inner ===

impl PoolInner {
    async fn open_when_free(
        self: &Arc<Self>,
        request: &Request<()>,
    ) -> Result<PooledStream, PoolError> {
        loop {
            // Listen first, look second: a place freed in between is not missed.
            let mut freed = pin!(self.freed.notified());
            freed.as_mut().enable();
            if let Some(stream) = self.try_open(request)? {
                return Ok(stream);
            }
            match self.join_flight() {
                None => freed.await,
                Some(mut landed) => tokio::select! {
                    () = freed => {}
                    result = landed.wait_for(Option::is_some) => {
                        // Gone without a word: its task was shut down.
                        let lost = || DialError::Failed("the connection was given up".to_owned());
                        let result = result.map(|value| value.clone());
                        result.ok().flatten().unwrap_or_else(|| Err(lost()))?;
                    }
                },
            }
        }
    }

    /// A stream on the emptiest connection that has room.
    fn try_open(
        self: &Arc<Self>,
        request: &Request<()>,
    ) -> Result<Option<PooledStream>, PoolError> {
        let mut state = self.state.lock();
        // A connection that broke or said GOAWAY takes no more; its streams go on.
        state.members.retain_mut(PoolMember::usable);
        loop {
            let cap = self.config.max_streams;
            let emptiest = state
                .members
                .iter_mut()
                .enumerate()
                .map(|(index, member)| (member.gauge.load.load(Ordering::Relaxed), index, member))
                .filter(|(load, _, member)| *load < cap.min(member.send.current_max_send_streams()))
                .min_by_key(|(load, index, _)| (*load, *index));
            let Some((_, index, member)) = emptiest else { return Ok(None) };
            match member.send.send_request(request.clone(), false) {
                Ok((response, send)) => {
                    let lease = Lease::new(self, &member.gauge);
                    return Ok(Some(PooledStream { response, send, lease }));
                }
                // It broke since we looked.
                Err(error) if error.is_go_away() || error.is_io() => {
                    state.members.remove(index);
                }
                Err(error) => return Err(PoolError::Request(error.to_string())),
            }
        }
    }

    /// The dial to wait for, started here if those under way are too few for all waiters. `None`:
    /// the limit of connections is reached.
    fn join_flight(self: &Arc<Self>) -> Option<watch::Receiver<Option<Result<(), DialError>>>> {
        let mut state = self.state.lock();
        let per_flight = state.peer_limit.unwrap_or(usize::MAX).clamp(1, self.config.max_streams);
        let coming = state.flights.len().saturating_mul(per_flight);
        let open = state.members.len() + state.flights.len();
        if coming < state.waiting && open < self.config.max_connections {
            self.launch(&mut state);
        }
        state.flights.last().map(|flight| flight.landed.clone())
    }

    /// Starts a connection. Its task belongs to the pool, not to the caller, which may give up
    /// while others wait for the same connection.
    fn launch(self: &Arc<Self>, state: &mut PoolState) {
        let (tell, landed) = watch::channel(None);
        let id = state.next_flight;
        state.next_flight += 1;
        state.flights.push(DialAttempt { id, landed });
        let pool = Arc::downgrade(self);
        let (host, connector) = (self.host.clone(), self.connector.clone());
        let (config, closing) = (self.config.clone(), self.closing.clone());
        let (gauge, epoch) = (Arc::new(Gauge::default()), self.epoch);
        self.tasks.spawn("upstream connection", async move {
            let nap = |io| Napping::new(io, Arc::clone(&gauge), epoch);
            let dialled = tokio::select! {
                () = closing.cancelled() => return,
                dialled = connection::dial(&host, &connector, &config, nap) => dialled,
            };
            let Some(inner) = pool.upgrade() else { return };
            let (connection, _open) = {
                let mut state = inner.state.lock();
                state.flights.retain(|flight| flight.id != id);
                match dialled {
                    Err(error) => {
                        tracing::debug!(%host, %error, "no upstream connection");
                        tell.send_replace(Some(Err(error)));
                        return;
                    }
                    Ok((send, connection)) => {
                        state.peer_limit = Some(send.current_max_send_streams());
                        state.members.push(PoolMember { send, gauge: Arc::clone(&gauge) });
                        tell.send_replace(Some(Ok(())));
                        (connection, CountedConnection::new(&inner))
                    }
                }
            };
            // From here on the pool may be dropped while streams go on.
            drop(inner);
            connection::drive(connection, &pool, &gauge, &config, &closing).await;
            if let Some(inner) = pool.upgrade() {
                inner.remove(&gauge);
            }
        });
    }

    fn remove(&self, gauge: &Arc<Gauge>) {
        self.state.lock().members.retain(|member| !Arc::ptr_eq(&member.gauge, gauge));
        self.freed.notify_waiters();
    }

    /// Takes the connection out of the pool if nothing happened since `uses`.
    fn remove_if_idle(&self, gauge: &Arc<Gauge>, uses: u64) -> bool {
        let mut state = self.state.lock();
        let idle =
            gauge.load.load(Ordering::Relaxed) == 0 && gauge.uses.load(Ordering::Relaxed) == uses;
        if idle {
            state.members.retain(|member| !Arc::ptr_eq(&member.gauge, gauge));
        }
        idle
    }
}

impl Drop for PoolInner {
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

impl PoolMember {
    fn usable(&mut self) -> bool {
        // Never pending: this handle opens no stream that could wait for its turn.
        let polled = self.send.poll_ready(&mut Context::from_waker(Waker::noop()));
        !matches!(polled, Poll::Ready(Err(_)))
    }
}

impl Gauge {
    /// Whether all streams are asleep. If so, `reader` is woken as soon as one is not.
    fn naps(&self, reader: &Waker) -> bool {
        let all_asleep = || {
            let asleep = self.asleep.load(Ordering::Relaxed);
            asleep > 0 && asleep >= self.load.load(Ordering::Relaxed)
        };
        if !all_asleep() {
            return false;
        }
        *self.reader.lock() = Some(reader.clone());
        // The lock orders this check against `stir`.
        all_asleep()
    }

    /// A stream has woken up.
    fn stir(&self) {
        if let Some(reader) = self.reader.lock().take() {
            reader.wake();
        }
    }
}

// === guards ===

impl Lease {
    /// Only under the pool's lock, so that a load is never over its limit.
    fn new(pool: &Arc<PoolInner>, gauge: &Arc<Gauge>) -> Self {
        gauge.load.fetch_add(1, Ordering::Relaxed);
        gauge.uses.fetch_add(1, Ordering::Relaxed);
        pool.streams.fetch_add(1, Ordering::Relaxed);
        gauge.stir();
        let held = HeldStream { pool: Arc::clone(pool), gauge: Arc::clone(gauge) };
        Self { held: Arc::new(held) }
    }

    /// Has the connection send `beat` again and again, and read only now and then if all
    /// its streams are asleep.
    #[must_use = "it wakes when this is dropped"]
    pub fn sleep(&self, beat: Arc<dyn Beat>) -> Asleep {
        Asleep::new(&self.held.gauge, beat)
    }
}

impl Drop for HeldStream {
    fn drop(&mut self) {
        self.gauge.load.fetch_sub(1, Ordering::Relaxed);
        self.pool.streams.fetch_sub(1, Ordering::Relaxed);
        self.pool.freed.notify_one();
    }
}

/// A caller that waits for a stream.
struct StreamWaiter<'a>(&'a PoolInner);

impl<'a> StreamWaiter<'a> {
    fn new(inner: &'a PoolInner) -> Self {
        inner.state.lock().waiting += 1;
        Self(inner)
    }
}

impl Drop for StreamWaiter<'_> {
    fn drop(&mut self) {
        self.0.state.lock().waiting -= 1;
    }
}

/// A connection that is open, in the count.
struct CountedConnection(Weak<PoolInner>);

impl CountedConnection {
    fn new(inner: &Arc<PoolInner>) -> Self {
        inner.connections.fetch_add(1, Ordering::Relaxed);
        Self(Arc::downgrade(inner))
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        if let Some(inner) = self.0.upgrade() {
            inner.connections.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
