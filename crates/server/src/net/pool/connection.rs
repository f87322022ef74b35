//! One HTTP/2 connection: how it is made and kept, and when it ends.

use std::{
    pin::{Pin, pin},
    sync::{Arc, Weak, atomic::Ordering},
    task::Poll,
};

use bytes::Bytes;
use h2::{
    PingPong,
    client::{Connection, SendRequest},
};
use tokio_util::sync::CancellationToken;

use super::{Gauge, PoolConfig, PoolInner, nap::Napping};
use crate::net::{
    chain,
    connect::{Connector, DialError, Host, Io},
    tls::Alpn,
};

/// What a stream may hold unread. Small, so that a slow reader costs little.
pub(super) const STREAM_WINDOW: u32 = 256 * 1024;
/// What the connection must allow per stream: when all are stalled at once, there
/// is still as much left again for those that are read.
const CONNECTION_WINDOW_PER_STREAM: u32 = 2 * STREAM_WINDOW;
/// What small unread frames may cost, per stream, by the measure of `h2`: 256 less
/// their size. It ends the whole connection beyond that. A window full of the
/// smallest text deltas (14 bytes) costs 4.5 MB; by default four such streams would
/// be the end of all.
const FRAME_BUDGET_PER_STREAM: usize = 5 * 1024 * 1024;
/// What `h2` may queue per stream beyond the peer's window.
const SEND_BUFFER: usize = 256 * 1024;
const MAX_HEADER_LIST: u32 = 64 * 1024;
/// Resets we remember per connection, so that late frames of a cancelled stream are
/// dropped in silence.
const RESETS_KEPT: usize = 256;
/// The largest window HTTP/2 knows.
const MAX_WINDOW: u32 = (1 << 31) - 1;

type H2Connection = Connection<Napping, Bytes>;

/// Connects, and waits for the peer's SETTINGS.
pub(super) async fn dial(
    host: &Host,
    connector: &Connector,
    config: &PoolConfig,
    nap: impl FnOnce(Io) -> Napping,
) -> Result<(SendRequest<Bytes>, H2Connection), DialError> {
    let dial = async {
        let io = connector.connect(host, Alpn::Http2).await?;
        if io.protocol != Alpn::Http2 {
            return Err(DialError::NotH2("TLS chose HTTP/1.1".to_owned()));
        }
        let streams = u32::try_from(config.max_streams).unwrap_or(u32::MAX);
        let window = CONNECTION_WINDOW_PER_STREAM.saturating_mul(streams).min(MAX_WINDOW);
        let (send, mut connection) = h2::client::Builder::new()
            .enable_push(false)
            // No stream before SETTINGS: this is how we see that they came.
            .initial_max_send_streams(0)
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(window)
            .data_frame_budget(FRAME_BUDGET_PER_STREAM.saturating_mul(config.max_streams))
            .max_send_buffer_size(SEND_BUFFER)
            .max_header_list_size(MAX_HEADER_LIST)
            .max_concurrent_reset_streams(RESETS_KEPT)
            .handshake::<_, Bytes>(nap(io))
            .await
            .map_err(|error| not_h2(host, &error))?;
        std::future::poll_fn(|cx| match Pin::new(&mut connection).poll(cx) {
            // Some HTTP/1.1 servers know the preface and hang up.
            Poll::Ready(Ok(())) if !host.is_tls() => {
                Poll::Ready(Err(DialError::NotH2("it closed the connection".to_owned())))
            }
            Poll::Ready(Ok(())) => {
                let text = format!("{host}: closed the connection immediately");
                Poll::Ready(Err(DialError::Failed(text)))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(not_h2(host, &error))),
            Poll::Pending if connection.max_concurrent_send_streams() > 0 => Poll::Ready(Ok(())),
            Poll::Pending => Poll::Pending,
        })
        .await?;
        Ok((send, connection))
    };
    tokio::time::timeout(config.connect_timeout, dial).await.unwrap_or(Err(DialError::Timeout))
}

/// Distinguishes a peer without HTTP/2 from a broken connection. Without TLS an HTTP/1.1 server
/// answers our preface with text, which is not a valid frame.
fn not_h2(host: &Host, error: &h2::Error) -> DialError {
    if error.is_io() || error.is_remote() || host.is_tls() {
        DialError::Failed(format!("{host}: {}", chain(error)))
    } else {
        DialError::NotH2(error.to_string())
    }
}

/// Runs a connection to its end.
pub(super) async fn drive(
    mut connection: H2Connection,
    pool: &Weak<PoolInner>,
    gauge: &Arc<Gauge>,
    config: &PoolConfig,
    closing: &CancellationToken,
) {
    let ping_pong = connection.ping_pong();
    let mut alive = pin!(keep_alive(ping_pong, config));
    let mut unwanted = pin!(unwanted(pool, gauge, config, closing));
    let mut beats = pin!(gauge.beats.run(config.heartbeat));
    let mut wanted = true;
    loop {
        tokio::select! {
            biased;
            ended = &mut connection => {
                if let Err(error) = ended {
                    tracing::debug!(error = %chain(&error), "upstream connection ended");
                }
                return;
            }
            // Dropping the connection ends its streams with an error.
            () = &mut alive => {
                tracing::warn!("upstream connection is dead: no answer to a ping");
                return;
            }
            // Out of the pool. Polled once more, a connection without streams sends
            // GOAWAY and closes; nothing else would wake it.
            () = &mut unwanted, if wanted => wanted = false,
            () = &mut beats => {}
        }
    }
}

/// Returns when a ping stays without answer.
async fn keep_alive(ping_pong: Option<PingPong>, config: &PoolConfig) {
    let Some(mut ping_pong) = ping_pong else { return std::future::pending().await };
    loop {
        tokio::time::sleep(config.ping_interval).await;
        let ping = ping_pong.ping(h2::Ping::opaque());
        match tokio::time::timeout(config.ping_timeout, ping).await {
            Ok(Ok(_)) => {}
            Err(_) => return,
            // The connection is ending by itself.
            Ok(Err(_)) => return std::future::pending().await,
        }
    }
}

/// Returns when the connection is out of the pool: unused for long, or the pool is
/// gone.
async fn unwanted(
    pool: &Weak<PoolInner>,
    gauge: &Arc<Gauge>,
    config: &PoolConfig,
    closing: &CancellationToken,
) {
    let mut seen = gauge.uses.load(Ordering::Relaxed);
    loop {
        tokio::select! {
            () = closing.cancelled() => return,
            () = tokio::time::sleep(config.idle_timeout) => {}
        }
        let Some(inner) = pool.upgrade() else { return };
        if inner.remove_if_idle(gauge, seen) {
            return;
        }
        seen = gauge.uses.load(Ordering::Relaxed);
    }
}
