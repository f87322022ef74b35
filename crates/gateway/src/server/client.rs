//! One client's connection, from its first byte to its last.

use std::{
    future::pending,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use hyper::service::{Service as _, service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::conn::auto,
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::watch,
    time::{sleep, sleep_until, timeout},
};
use tokio_rustls::TlsAcceptor;
use tracing::debug;

use super::crowd::{Busy, Member, Mood};
use crate::{config::Config, shutdown::Shutdown, tasks::Executor};

/// How long a connection may take to say goodbye after the turns were ended.
const GOODBYE: Duration = Duration::from_secs(2);

/// How long one may take that has to make room.
const MAKE_ROOM: Duration = Duration::from_secs(1);

/// Whatever bytes come and go on.
pub(super) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// What all connections share.
#[derive(Clone)]
pub(super) struct Host {
    pub(super) router: axum::Router,
    pub(super) tls: Option<TlsAcceptor>,
    pub(super) limits: ClientLimits,
    pub(super) shutdown: Shutdown,
    pub(super) executor: Executor,
}

/// What a client may do to us.
#[derive(Clone, Copy)]
pub(super) struct ClientLimits {
    /// Without a request; a head that takes longer is none.
    idle: Duration,
    handshake: Duration,
    headers: usize,
    header_bytes: usize,
}

impl ClientLimits {
    pub(super) fn of(config: &Config) -> Self {
        Self {
            idle: config.clocks.client_idle,
            handshake: config.clocks.handshake,
            headers: config.limits.headers,
            // Below that, the library does not work.
            header_bytes: config.limits.header_bytes.max(8192),
        }
    }
}

/// Why a connection is asked to end.
enum Leave {
    Idle,
    Evicted,
    Worn,
    Draining,
}

/// Serves one connection to its end.
pub(super) async fn client(stream: Box<dyn Io>, host: Host, member: Arc<Member>) {
    let Some(stream) = secured(stream, &host, &member).await else { return };
    let ClientLimits { idle, headers, header_bytes, .. } = host.limits;
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
        .keep_alive_interval(Some(Duration::from_secs(30)));
    let inner = TowerToHyperService::new(host.router);
    let mood = member.mood();
    let of = Arc::clone(&member);
    let service = service_fn(move |request| {
        let busy = of.begin();
        let response = inner.call(request);
        async move { response.await.map(|response| response.map(|body| Counted { body, _busy: busy })) }
    });
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let leave = tokio::select! {
        result = connection.as_mut() => return ended(result),
        leave = asked_to_leave(mood, idle) => leave,
        () = member.evicted() => Leave::Evicted,
        () = host.shutdown.draining() => Leave::Draining,
    };
    connection.as_mut().graceful_shutdown();
    let patience = async {
        match leave {
            // What it was sent last may still be on its way.
            Leave::Idle => sleep(idle).await,
            Leave::Evicted => sleep(MAKE_ROOM).await,
            Leave::Worn | Leave::Draining => pending().await,
        }
    };
    tokio::select! {
        result = connection.as_mut() => ended(result),
        () = patience => debug!("a connection had to be cut"),
        () = async {
            host.shutdown.aborted().await;
            sleep(GOODBYE).await;
        } => {}
    }
}

/// The stream that requests come on. Who does not manage TLS in time is let go.
async fn secured(stream: Box<dyn Io>, host: &Host, member: &Member) -> Option<Box<dyn Io>> {
    let Some(tls) = &host.tls else { return Some(stream) };
    let secured = tokio::select! {
        secured = timeout(host.limits.handshake, tls.accept(stream)) => secured,
        () = member.evicted() => return None,
        () = host.shutdown.draining() => return None,
    };
    match secured {
        Ok(Ok(stream)) => Some(Box::new(stream)),
        Ok(Err(error)) => {
            debug!(%error, "a client and we do not agree on TLS");
            None
        }
        Err(_elapsed) => {
            debug!("a client took too long for TLS");
            None
        }
    }
}

/// Ends when the connection has been idle for `limit`, or has served enough.
async fn asked_to_leave(mut mood: watch::Receiver<Mood>, limit: Duration) -> Leave {
    loop {
        let since = match *mood.borrow_and_update() {
            Mood::Worn => return Leave::Worn,
            Mood::Busy => None,
            Mood::Idle(since) => Some(since),
        };
        let expired = async {
            match since {
                Some(since) => sleep_until(since + limit).await,
                None => pending().await,
            }
        };
        tokio::select! {
            () = expired => return Leave::Idle,
            changed = mood.changed() => {
                if changed.is_err() {
                    pending::<()>().await;
                }
            }
        }
    }
}

fn ended<E: std::fmt::Display>(result: Result<(), E>) {
    if let Err(error) = result {
        // Clients hang up all the time; only the curious need to know.
        debug!(%error, "a connection ended badly");
    }
}

/// A response's body. While it is there, the connection is busy.
struct Counted {
    body: Body,
    _busy: Busy,
}

impl http_body::Body for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
