//! A small backend for tests of the drivers: HTTP/1.1 and HTTP/2 on one pipe.

use std::{collections::BTreeMap, convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Either, Full};
use hyper::{
    body::{Body, Frame, Incoming},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use ibeam_core::{codec::connect, peer::agent::AgentOpen};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
};
use tokio_util::task::TaskTracker;

use super::{
    AgentConfig, AgentDriver, LinkReceiver as _, Open,
    agent::{AgentReceiver, OpenStream},
};
use crate::{
    config::Transport,
    net::{connect::Connector, testing::host},
    tasks::Tasks,
};

pub(super) const RUN: &str = "/agent.v1.AgentService/Run";
pub(super) const RUN_SSE: &str = "/agent.v1.AgentService/RunSSE";
pub(super) const APPEND: &str = "/aiserver.v1.BidiService/BidiAppend";

pub(super) fn driver(connector: &Connector, transport: Transport) -> (AgentDriver, Tasks) {
    let tasks = Tasks::new();
    let config = AgentConfig { transport, ..AgentConfig::new(host()) };
    (AgentDriver::new(config, connector, &tasks), tasks)
}

pub(super) fn spec() -> OpenStream {
    Open {
        token: "tok".to_owned().into(),
        tokens: None,
        request_id: "11111111-1111-4111-8111-111111111111".to_owned(),
        original_request_id: "22222222-2222-4222-8222-222222222222".to_owned(),
        peer: AgentOpen { prefer_h1: false, ..AgentOpen::default() },
    }
}

pub(super) fn framed(text: &str) -> Bytes {
    connect::frame(0, text.as_bytes())
}

pub(super) async fn read(rx: &mut AgentReceiver, want: usize) -> Vec<u8> {
    let mut out = Vec::new();
    while out.len() < want {
        out.extend_from_slice(&rx.next().await.unwrap().unwrap());
    }
    out
}

pub(super) async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// Waits until nothing runs any more on either side.
pub(super) async fn all_gone(tasks: &Tasks) {
    assert_eq!(tasks.join_within(Duration::from_secs(1)).await, 0);
}

/// What a path answers with: a status, headers and a body.
#[derive(Clone, Default)]
pub(super) struct Canned {
    pub(super) status: u16,
    pub(super) headers: Vec<(&'static str, &'static str)>,
    pub(super) body: Bytes,
}

/// Echoes what is appended into the long answer; the rest is canned.
#[derive(Clone, Default)]
pub(super) struct Backend {
    pub(super) tasks: TaskTracker,
    pub(super) canned: Arc<Mutex<BTreeMap<&'static str, Canned>>>,
    pub(super) seen: Arc<Mutex<Vec<(String, http::request::Parts, Bytes)>>>,
    /// The end of the long answer, once there is one.
    pub(super) answer: Arc<Mutex<Option<mpsc::Sender<Bytes>>>>,
    /// Long answers that ended or whose connection was lost.
    pub(super) closed: Arc<Mutex<usize>>,
}

pub(super) struct LongBody {
    chunks: mpsc::Receiver<Bytes>,
    closed: Arc<Mutex<usize>>,
}

impl Backend {
    pub(super) fn connector(&self) -> Connector {
        let backend = self.clone();
        Connector::Memory(Arc::new(move || {
            let (near, far) = tokio::io::duplex(64 * 1024);
            backend.tasks.spawn(backend.clone().serve(far));
            near
        }))
    }

    pub(super) fn can(&self, path: &'static str, status: u16, body: impl Into<Bytes>) {
        let canned = Canned { status, body: body.into(), ..Canned::default() };
        self.canned.lock().insert(path, canned);
    }

    /// Paths requested so far, without the name of their service.
    pub(super) fn paths(&self) -> Vec<String> {
        let seen = self.seen.lock();
        seen.iter().map(|(path, ..)| path.rsplit('/').next().unwrap().to_owned()).collect()
    }

    pub(super) async fn serve(self, io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let service = service_fn(move |request| {
            let backend = self.clone();
            async move { Ok::<_, Infallible>(backend.respond(request).await) }
        });
        let _ = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new())
            .serve_connection(TokioIo::new(io), service)
            .await;
    }

    /// Like a server without newer features.
    pub(super) async fn serve_http1(
        self,
        io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) {
        let service = service_fn(move |request| {
            let backend = self.clone();
            async move { Ok::<_, Infallible>(backend.respond(request).await) }
        });
        let _ = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(io), service)
            .await;
    }

    async fn respond(&self, request: Request<Incoming>) -> Response<Either<Full<Bytes>, LongBody>> {
        let (head, body) = request.into_parts();
        let path = head.uri.path().to_owned();
        let canned = self.canned.lock().get(path.as_str()).cloned();
        let run = path.ends_with("/Run");
        let body = if run { Bytes::new() } else { body.collect().await.unwrap().to_bytes() };
        self.seen.lock().push((path.clone(), head, body.clone()));
        if let Some(canned) = canned {
            let mut response = Response::builder().status(canned.status);
            for (name, value) in &canned.headers {
                response = response.header(*name, *value);
            }
            return response.body(Either::Left(Full::new(canned.body))).unwrap();
        }
        if path.ends_with("/RunSSE") {
            let (send, chunks) = mpsc::channel(64);
            *self.answer.lock() = Some(send);
            let body = LongBody { chunks, closed: Arc::clone(&self.closed) };
            return Response::new(Either::Right(body));
        }
        if path.ends_with("/BidiAppend") {
            let answer = self.answer.lock().clone();
            if let Some(answer) = answer {
                let _ = answer.send(body).await;
            }
            return Response::new(Either::Left(Full::new(Bytes::from_static(b"{}"))));
        }
        Response::builder().status(404).body(Either::Left(Full::default())).unwrap()
    }
}

impl Body for LongBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.chunks.poll_recv(cx).map(|chunk| chunk.map(|chunk| Ok(Frame::data(chunk))))
    }
}

impl Drop for LongBody {
    fn drop(&mut self) {
        *self.closed.lock() += 1;
    }
}
