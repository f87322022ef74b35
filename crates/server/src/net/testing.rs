//! Peers for tests: an HTTP/2 server on a pipe, with all its settings accessible.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use h2::{Reason, RecvStream, server::SendResponse};
use http::{Request, Response, StatusCode};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite, DuplexStream},
    sync::watch,
};
use tokio_util::task::TaskTracker;

use super::{
    connect::{Connector, Host},
    tls::Tls,
};

pub(crate) type Handler = dyn Fn(Peer, Request<RecvStream>, SendResponse<Bytes>) -> Pin<Box<dyn Future<Output = ()> + Send>>
    + Send
    + Sync;

/// Commands for the peer's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Serve,
    /// Say GOAWAY, finish what runs.
    GoAway,
    /// Neither read nor write, and do not close.
    BlackHole,
}

#[derive(Clone)]
pub(crate) struct Peer {
    pub(crate) tasks: TaskTracker,
    pub(crate) dialled: Arc<AtomicUsize>,
    /// How each broken request stream ended.
    pub(crate) resets: Arc<Mutex<Vec<Option<Reason>>>>,
    pub(crate) received: Arc<AtomicUsize>,
    pub(crate) mode: watch::Sender<Mode>,
    max_streams: u32,
    window: u32,
    handler: Arc<Handler>,
}

pub(crate) fn host() -> Host {
    Host::parse("http://127.0.0.1:1").unwrap()
}

impl Peer {
    /// Sends back what it gets.
    pub(crate) fn echo(max_streams: u32) -> Self {
        Self::new(max_streams, |peer, request, respond| Box::pin(echo(peer, request, respond)))
    }

    pub(crate) fn new(
        max_streams: u32,
        handler: impl Fn(
            Self,
            Request<RecvStream>,
            SendResponse<Bytes>,
        ) -> Pin<Box<dyn Future<Output = ()> + Send>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self {
            tasks: TaskTracker::new(),
            dialled: Arc::default(),
            resets: Arc::default(),
            received: Arc::default(),
            mode: watch::Sender::new(Mode::Serve),
            max_streams,
            window: 1024 * 1024,
            handler: Arc::new(handler),
        }
    }

    pub(crate) fn window(mut self, window: u32) -> Self {
        self.window = window;
        self
    }

    pub(crate) fn connector(&self) -> Connector {
        let peer = self.clone();
        Connector::Memory(Arc::new(move || peer.connect()))
    }

    pub(crate) fn connect(&self) -> DuplexStream {
        let (near, far) = tokio::io::duplex(64 * 1024);
        self.tasks.spawn(self.clone().serve(far));
        near
    }

    pub(crate) fn dialled(&self) -> usize {
        self.dialled.load(Ordering::SeqCst)
    }

    pub(crate) fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }

    pub(crate) async fn serve(self, io: impl AsyncRead + AsyncWrite + Unpin) {
        self.dialled.fetch_add(1, Ordering::SeqCst);
        // Callers leave faster here than a client resets streams.
        let mut connection = h2::server::Builder::new()
            .max_pending_accept_reset_streams(1_000)
            .max_concurrent_streams(self.max_streams)
            .initial_window_size(self.window)
            .initial_connection_window_size(self.window.saturating_mul(4).max(64 * 1024))
            .handshake::<_, Bytes>(io)
            .await
            .unwrap();
        // Each connection reacts to changes after its birth only.
        let mut mode = self.mode.subscribe();
        loop {
            tokio::select! {
                accepted = connection.accept() => match accepted {
                    Some(Ok((request, respond))) => {
                        self.tasks.spawn((self.handler)(self.clone(), request, respond));
                    }
                    Some(Err(_)) | None => return,
                },
                Ok(()) = mode.changed() => {
                    let now = *mode.borrow_and_update();
                    match now {
                        Mode::Serve => {}
                        Mode::GoAway => connection.graceful_shutdown(),
                        Mode::BlackHole => std::future::pending().await,
                    }
                }
            }
        }
    }
}

pub(crate) fn answer(status: u16) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    response
}

async fn echo(peer: Peer, request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
    let mut body = request.into_body();
    let Ok(mut send) = respond.send_response(answer(200), false) else { return };
    while let Some(chunk) = body.data().await {
        match chunk {
            Ok(chunk) => {
                peer.received.fetch_add(chunk.len(), Ordering::SeqCst);
                let _ = body.flow_control().release_capacity(chunk.len());
                if send.send_data(chunk, false).is_err() {
                    return;
                }
            }
            Err(error) => {
                peer.resets.lock().push(error.reason());
                return;
            }
        }
    }
    let _ = send.send_data(Bytes::new(), true);
}

/// A client that trusts one certificate for `localhost` and
/// `backend.test`, and a server that has it.
pub(crate) fn tls_pair(alpn: &[&str]) -> (Tls, Arc<rustls::ServerConfig>) {
    let names = ["localhost".to_owned(), "backend.test".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut server = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    server.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    (Tls::with_roots(roots), Arc::new(server))
}
