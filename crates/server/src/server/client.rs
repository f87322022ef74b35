//! One client's connection, from its first byte to its last.

use std::{convert::Infallible, future::pending, pin::Pin, sync::Arc, time::Duration};

use hyper::{
    body::Incoming,
    service::{Service as _, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::conn::auto,
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::{Notify, Semaphore, watch},
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tracing::{debug, info};

use super::{
    connections::{ConnectionActivity, ConnectionSlot, MAKE_ROOM},
    progress::{ReadProgress, WatchedIo},
};
use crate::{
    api::{ClientConnection, ConnectionHandle, KeylessPermit},
    config::Config,
    keys::Caller,
    shutdown::Shutdown,
    tasks::Executor,
};

/// How long a connection may take to close after the turns were ended.
const GOODBYE: Duration = Duration::from_secs(2);

/// How long a client without a key may take to leave after it was evicted.
const STRANGER: Duration = Duration::from_millis(100);

/// Requests at once on one connection of HTTP/2. A client that needs more opens another.
const STREAMS: u32 = 100;

/// Those among them that come without a valid key. What is beyond that waits.
const KEYLESS: usize = 8;

/// How long more than so many may wait. A client that reads its answers never has that many for long.
const KEYLESS_WAIT: Duration = Duration::from_secs(2);

/// How much a connection of HTTP/2 may send ahead of being read. A client without a key can make us
/// buffer this much.
const WINDOW: u32 = 256 * 1024;

/// Streams that are reset before we looked at them, and those that we had to reset: a client with
/// more of them on one connection is abusive and loses it.
const RESETS: usize = 20;
const OWN_RESETS: usize = 100;

/// A byte stream to a client.
pub(super) trait ClientIo: AsyncRead + AsyncWrite + Send + Unpin {
    /// Closing it discards what was not sent yet. Otherwise a client that reads nothing could
    /// keep a closed socket open.
    fn discard_unsent(&self) {}
}

impl ClientIo for TcpStream {
    fn discard_unsent(&self) {
        let _ = self.set_zero_linger();
    }
}

#[cfg(unix)]
impl ClientIo for tokio::net::UnixStream {}

impl ClientIo for WatchedIo {}

impl ClientIo for TlsStream<WatchedIo> {}

#[cfg(test)]
impl ClientIo for tokio::io::DuplexStream {}

/// What all connections share.
#[derive(Clone)]
pub(super) struct ClientHost {
    pub(super) router: axum::Router,
    pub(super) tls: Option<TlsAcceptor>,
    pub(super) limits: ClientLimits,
    pub(super) shutdown: Shutdown,
    pub(super) executor: Executor,
}

/// The limits of one client.
#[derive(Clone, Copy)]
pub(super) struct ClientLimits {
    /// Without a request; a head that takes longer is refused.
    idle: Duration,
    /// With an answer that it does not take.
    stall: Duration,
    handshake: Duration,
    headers: usize,
    header_bytes: usize,
}

impl ClientLimits {
    pub(super) fn of(config: &Config) -> Self {
        Self {
            idle: config.clocks.client_idle,
            stall: config.clocks.client_stall,
            handshake: config.clocks.handshake,
            headers: config.limits.headers,
            // Below that, the library does not work.
            header_bytes: config.limits.header_bytes.max(8192),
        }
    }
}

/// Why a connection is asked to end.
enum LeaveReason {
    Idle,
    Evicted,
    Worn,
    Draining,
}

/// Serves one connection to its end.
pub(super) async fn client(
    stream: Box<dyn ClientIo>,
    host: ClientHost,
    member: Arc<ConnectionSlot>,
) {
    let ClientLimits { idle, stall, headers, header_bytes, .. } = host.limits;
    let progress = ReadProgress::new(stall);
    let stream = progress.watch(stream);
    let Some(stream) = secured(stream, &host, &member).await else { return };
    let mut builder = auto::Builder::new(host.executor);
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(idle)
        .max_headers(headers)
        .max_buf_size(header_bytes);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(header_bytes).unwrap_or(u32::MAX))
        .max_concurrent_streams(STREAMS)
        .max_pending_accept_reset_streams(RESETS)
        .max_local_error_reset_streams(OWN_RESETS)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .keep_alive_interval(Some(Duration::from_secs(30)));
    let inner = TowerToHyperService::new(host.router);
    let (of, answers) = (Arc::clone(&member), Arc::clone(&progress));
    let shutdown = host.shutdown.clone();
    let keyless = Arc::new(KeylessRequests::default());
    let waiting = Arc::clone(&keyless);
    let service = service_fn(move |mut request: http::Request<Incoming>| {
        let busy = of.begin();
        let (inner, answers) = (inner.clone(), Arc::clone(&answers));
        let place = RequestPlace {
            member: Arc::clone(&of),
            shutdown: shutdown.clone(),
            keyless: Arc::clone(&waiting),
        };
        request.extensions_mut().insert(ConnectionHandle(Arc::new(place)));
        async move {
            let mut response = inner.call(request).await?;
            // While its bytes wait for the client, the connection is busy.
            let kept = (busy, response.extensions_mut().remove::<KeylessPermit>());
            Ok::<_, Infallible>(response.map(|body| answers.answer(body, kept)))
        }
    });
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let leave = tokio::select! {
        biased;
        result = connection.as_mut() => return ended(result),
        () = progress.stalled() => return cut(),
        () = keyless.too_many() => return flooded(),
        leave = asked_to_leave(&member, idle) => leave,
        () = member.evicted() => LeaveReason::Evicted,
        () = host.shutdown.draining() => LeaveReason::Draining,
    };
    connection.as_mut().graceful_shutdown();
    tokio::select! {
        result = connection.as_mut() => ended(result),
        () = progress.stalled() => cut(),
        () = patience(leave, &member, idle) => debug!("a connection did not close in time"),
        () = async {
            host.shutdown.aborted().await;
            sleep(GOODBYE).await;
        } => {}
    }
}

/// The stream of requests. A client that does not finish the TLS handshake in time is disconnected.
async fn secured(
    stream: WatchedIo,
    host: &ClientHost,
    member: &ConnectionSlot,
) -> Option<Box<dyn ClientIo>> {
    let Some(tls) = &host.tls else { return Some(Box::new(stream)) };
    let secured = tokio::select! {
        secured = timeout(host.limits.handshake, tls.accept(stream)) => secured,
        () = member.evicted() => return None,
        () = host.shutdown.draining() => return None,
    };
    match secured {
        Ok(Ok(stream)) => Some(Box::new(stream)),
        Ok(Err(error)) => {
            debug!(%error, "TLS handshake with a client failed");
            None
        }
        Err(_elapsed) => {
            debug!("TLS handshake with a client timed out");
            None
        }
    }
}

/// Ends when the connection has been idle for `limit`, or has served enough.
async fn asked_to_leave(member: &ConnectionSlot, limit: Duration) -> LeaveReason {
    let mut mood = member.mood();
    let worn = async {
        if mood.wait_for(|mood| mood.is_worn()).await.is_err() {
            pending::<()>().await;
        }
    };
    tokio::select! {
        () = quiet(member.mood(), Instant::now(), limit) => LeaveReason::Idle,
        () = worn => LeaveReason::Worn,
    }
}

/// Ends when a connection that was asked to leave has had its time. One that answers a
/// request has all it needs.
async fn patience(leave: LeaveReason, member: &ConnectionSlot, idle: Duration) {
    let now = Instant::now();
    let time = match leave {
        // What it was sent last may still be on its way.
        LeaveReason::Idle | LeaveReason::Worn => Some(idle),
        LeaveReason::Evicted => return make_room(member).await,
        // No client waits for an answer to half a head.
        LeaveReason::Draining if member.mood().borrow().served == 0 => Some(MAKE_ROOM),
        // The server has a clock for those that still read.
        LeaveReason::Draining => None,
    };
    let over = async {
        match time {
            Some(time) => quiet(member.mood(), now, time).await,
            None => pending().await,
        }
    };
    let needed = async {
        member.evicted().await;
        make_room(member).await;
    };
    tokio::select! {
        () = over => {}
        () = needed => {}
    }
}

/// Ends when an evicted connection has had its time. Requests with a key are answered first, unless
/// that key has most of all connections; others may never end, since their client need not read.
async fn make_room(member: &ConnectionSlot) {
    if !member.has_shown_key() {
        sleep(STRANGER).await;
    }
    if member.has_shown_key() {
        tokio::select! {
            () = quiet(member.mood(), Instant::now(), MAKE_ROOM) => {}
            () = member.cut() => {}
        }
    }
}

/// Ends when no request has run for `time`, counted from `start` at the earliest.
async fn quiet(mut mood: watch::Receiver<ConnectionActivity>, start: Instant, time: Duration) {
    loop {
        let idle = mood.borrow_and_update().idle;
        let over = async {
            match idle {
                Some(since) => sleep_until(since.max(start) + time).await,
                None => pending().await,
            }
        };
        tokio::select! {
            // A request that comes in the last moment counts.
            biased;
            changed = mood.changed() => {
                if changed.is_err() {
                    pending::<()>().await;
                }
            }
            () = over => return,
        }
    }
}

fn ended<E: std::fmt::Display>(result: Result<(), E>) {
    if let Err(error) = result {
        // Clients disconnect all the time, so this is for debugging only.
        debug!(%error, "a connection ended with an error");
    }
}

fn flooded() {
    info!(
        "a client without a key does not read the answers to many requests; closing its connection"
    );
}

fn cut() {
    info!("a client stopped reading its answer; closing its connection");
}

/// A connection as its requests know it. A WebSocket holds it after its handshake.
struct RequestPlace {
    member: Arc<ConnectionSlot>,
    shutdown: Shutdown,
    keyless: Arc<KeylessRequests>,
}

impl ClientConnection for RequestPlace {
    fn begin(&self) -> Box<dyn Send> {
        Box::new(self.member.begin())
    }

    fn asked_to_leave(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let (member, draining) = (Arc::clone(&self.member), self.shutdown.draining());
        Box::pin(async move {
            tokio::select! {
                () = member.evicted() => {}
                () = draining => {}
            }
        })
    }

    fn showed_key(&self, caller: &Caller) {
        self.member.showed_key(caller.shares.then_some(caller.id));
    }

    fn keyless(&self) -> Pin<Box<dyn Future<Output = Option<KeylessPermit>> + Send>> {
        let requests = Arc::clone(&self.keyless);
        Box::pin(async move { requests.permit().await })
    }
}

/// The requests without a valid key on one connection.
struct KeylessRequests {
    permits: Arc<Semaphore>,
    /// Those that wait longest, and not for too long.
    places: Semaphore,
    too_many: Notify,
}

impl Default for KeylessRequests {
    fn default() -> Self {
        Self {
            permits: Arc::new(Semaphore::new(KEYLESS)),
            places: Semaphore::new(KEYLESS),
            too_many: Notify::new(),
        }
    }
}

impl KeylessRequests {
    async fn permit(&self) -> Option<KeylessPermit> {
        if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
            return Some(permit.into());
        }
        let Ok(place) = timeout(KEYLESS_WAIT, self.places.acquire()).await else {
            self.too_many.notify_one();
            return pending().await;
        };
        let permit = Arc::clone(&self.permits).acquire_owned().await.ok();
        drop(place);
        permit.map(KeylessPermit::from)
    }

    /// Ends when more requests than may have waited for too long.
    async fn too_many(&self) {
        self.too_many.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::connections::Connections;

    const IDLE: Duration = Duration::from_secs(30);
    const LONG: Duration = Duration::from_secs(3600);

    /// It was asked to leave a moment before.
    #[tokio::test(start_paused = true)]
    async fn running_request_is_never_cut() {
        for leave in
            [LeaveReason::Idle, LeaveReason::Evicted, LeaveReason::Worn, LeaveReason::Draining]
        {
            let member = Connections::new(1).enter().await.unwrap();
            let expect = if matches!(leave, LeaveReason::Idle | LeaveReason::Worn) {
                IDLE
            } else {
                MAKE_ROOM
            };
            let mut cut = Box::pin(patience(leave, &member, IDLE));
            assert!(timeout(Duration::ZERO, cut.as_mut()).await.is_err());
            let request = member.begin();
            member.showed_key(None);
            assert!(timeout(LONG, cut.as_mut()).await.is_err(), "cut in its answer");
            drop(request);
            let began = Instant::now();
            cut.await;
            assert_eq!(began.elapsed(), expect);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn answer_without_a_key_does_not_keep_a_needed_slot() {
        let member = Connections::new(1).enter().await.unwrap();
        let _page = member.begin();
        let began = Instant::now();
        patience(LeaveReason::Evicted, &member, IDLE).await;
        assert_eq!(began.elapsed(), STRANGER);
    }

    #[tokio::test(start_paused = true)]
    async fn request_at_the_idle_limit_keeps_the_connection() {
        let member = Connections::new(1).enter().await.unwrap();
        let mut leave = Box::pin(asked_to_leave(&member, IDLE));
        assert!(timeout(IDLE - Duration::from_millis(1), leave.as_mut()).await.is_err());
        tokio::time::advance(Duration::from_millis(1)).await;
        let request = member.begin();
        assert!(timeout(LONG, leave.as_mut()).await.is_err(), "it is busy");
        drop(request);
        let began = Instant::now();
        assert!(matches!(leave.await, LeaveReason::Idle));
        assert_eq!(began.elapsed(), IDLE);
    }
}
