//! Connections: HTTP/2 or HTTP/1.1, recognised by the first bytes, on sockets or in memory.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use hyper::service::service_fn;
use hyper_util::{rt::TokioIo, server::conn::auto};
use tokio::{
    io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf},
    net::TcpListener,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{Sim, routes};
use crate::{
    config::SimHttp2,
    record::{add, sub},
    stream::ConnectionControl,
};

/// How long open streams may continue after `serve` is stopped.
const DRAIN: Duration = Duration::from_secs(2);
/// Time to send a GOAWAY before the connection closes.
const FLUSH: Duration = Duration::from_millis(5);
/// Time for a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

impl Sim {
    /// An in-memory connection to this simulator, for HTTP/2 with prior knowledge or
    /// HTTP/1.1. Call it inside a tokio runtime.
    #[must_use]
    pub fn connect(&self) -> DuplexStream {
        let (near, far) = tokio::io::duplex(self.config().duplex_buffer);
        let sim = self.clone();
        self.service.state.tasks.spawn(async move {
            Box::pin(sim.serve_connection(far, &CancellationToken::new())).await;
        });
        near
    }

    /// Serves a listener until `stop`, then lets open streams continue for a moment. Sets the
    /// protocols that are offered by ALPN.
    pub async fn serve(
        &self,
        listener: TcpListener,
        tls: Option<Arc<rustls::ServerConfig>>,
        stop: CancellationToken,
    ) {
        let tls = tls.map(|config| {
            let mut config = (*config).clone();
            config.alpn_protocols = match self.config().http2 {
                SimHttp2::NotOffered => vec![b"http/1.1".to_vec()],
                _ => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
            };
            TlsAcceptor::from(Arc::new(config))
        });
        let connections = TaskTracker::new();
        let kill = CancellationToken::new();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = stop.cancelled() => break,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Out of descriptors, or the peer has left: neither ends the server.
                    tracing::warn!(%error, "accept failed");
                    tokio::time::sleep(FLUSH).await;
                    continue;
                }
            };
            let _ = stream.set_nodelay(true);
            let (sim, tls) = (self.clone(), tls.clone());
            let (stop, kill) = (stop.clone(), kill.clone());
            connections.spawn(async move {
                let work = async {
                    match tls {
                        None => Box::pin(sim.serve_connection(stream, &stop)).await,
                        Some(tls) => {
                            match tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await {
                                Ok(Ok(stream)) => {
                                    Box::pin(sim.serve_connection(stream, &stop)).await;
                                }
                                Ok(Err(error)) => tracing::debug!(%error, "handshake failed"),
                                Err(_) => tracing::debug!("handshake took too long"),
                            }
                        }
                    }
                };
                tokio::select! {
                    () = work => {}
                    () = kill.cancelled() => {}
                }
            });
        }
        connections.close();
        if tokio::time::timeout(DRAIN, connections.wait()).await.is_err() {
            kill.cancel();
            connections.wait().await;
        }
    }

    async fn serve_connection<I>(self, io: I, stop: &CancellationToken)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let config = self.config();
        let control = Arc::new(ConnectionControl::default());
        let delay = self.service.state.behaviour.host_h2_delay;
        let opening = delay.map_or(Http2Opening::Over, Http2Opening::Waiting);
        let io = TokioIo::new(Freezable { io, control: Arc::clone(&control), opening });
        let mut builder = auto::Builder::new(Tracked(self.service.state.tasks.clone()));
        if config.http2 == SimHttp2::NotOffered {
            builder = builder.http1_only();
        }
        builder
            .http2()
            .max_concurrent_streams(config.max_concurrent_streams)
            .initial_stream_window_size(config.initial_window)
            .initial_connection_window_size(config.connection_window);
        let service = {
            let (sim, control) = (self.clone(), Arc::clone(&control));
            service_fn(move |request| {
                let (sim, control) = (sim.clone(), Arc::clone(&control));
                Box::pin(routes::answer(sim, control, request))
            })
        };
        let counters = self.counters();
        add(&counters.connections);
        add(&counters.open_connections);
        let connection = builder.serve_connection(io, service);
        let mut connection = std::pin::pin!(connection);
        let mut leaving = false;
        loop {
            tokio::select! {
                result = connection.as_mut() => {
                    if let Err(error) = result {
                        tracing::debug!(error, "connection ended");
                    }
                    break;
                }
                () = control.killed() => {
                    // Send a pending GOAWAY first.
                    if leaving {
                        let _ = tokio::time::timeout(FLUSH, connection.as_mut()).await;
                    }
                    break;
                }
                () = control.leaving(), if !leaving => {
                    leaving = true;
                    connection.as_mut().graceful_shutdown();
                }
                () = stop.cancelled(), if !leaving => {
                    leaving = true;
                    connection.as_mut().graceful_shutdown();
                }
            }
        }
        sub(&counters.open_connections);
    }
}

/// Runs hyper's tasks on the simulator's tracker.
#[derive(Clone, Debug)]
struct Tracked(TaskTracker);

impl<F> hyper::rt::Executor<F> for Tracked
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        // Boxed, so that the runtime's code for tasks is compiled once and not for each of
        // hyper's futures.
        let future: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
            future.await;
        });
        self.0.spawn(future);
    }
}

/// A transport that can stop moving without closing, and on which HTTP/2 may open slowly.
#[derive(Debug)]
struct Freezable<I> {
    io: I,
    control: Arc<ConnectionControl>,
    opening: Http2Opening,
}

/// The delay before the first answer on an HTTP/2 connection.
#[derive(Debug)]
enum Http2Opening {
    /// The first bytes have not come.
    Waiting(Duration),
    Delayed(Pin<Box<tokio::time::Sleep>>),
    /// It is over, or this is HTTP/1.1.
    Over,
}

impl Http2Opening {
    /// The first bytes decide which version of HTTP this is.
    fn on_read(&mut self, bytes: &[u8]) {
        if let (Self::Waiting(delay), false) = (&*self, bytes.is_empty()) {
            *self = match bytes.starts_with(b"PRI") {
                true => Self::Delayed(Box::pin(tokio::time::sleep(*delay))),
                false => Self::Over,
            };
        }
    }

    fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Self::Delayed(sleep) = self {
            std::task::ready!(sleep.as_mut().poll(cx));
            *self = Self::Over;
        }
        Poll::Ready(())
    }
}

impl<I> Freezable<I> {
    fn frozen(&self) -> bool {
        self.control.is_frozen()
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Freezable<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.frozen() {
            return Poll::Pending;
        }
        let before = buf.filled().len();
        let done = Pin::new(&mut self.io).poll_read(cx, buf);
        self.opening.on_read(buf.filled().get(before..).unwrap_or_default());
        done
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Freezable<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.frozen() {
            return Poll::Pending;
        }
        std::task::ready!(self.opening.poll_over(cx));
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.frozen() {
            return Poll::Pending;
        }
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.frozen() {
            return Poll::Pending;
        }
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.frozen() {
            return Poll::Pending;
        }
        std::task::ready!(self.opening.poll_over(cx));
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
