//! Connections to the simulator, and the messages on them.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use ibeam_core::codec::connect;
use ibeam_proto::agent::{
    AgentClientMessage, ClientHeartbeat, agent_client_message::Message as ToServer,
};
use ibeam_sim::Sim;
use tokio::sync::mpsc;

pub(crate) async fn send(tx: &mpsc::Sender<Bytes>, message: ToServer) {
    let _ = tx.send(connect::encode(&AgentClientMessage { message: Some(message) })).await;
}

/// Client heartbeats every 5 s.
pub(crate) fn beats(tx: &mpsc::Sender<Bytes>, mute: bool) -> tokio::task::JoinHandle<()> {
    let tx = tx.clone();
    spawn(async move {
        if mute {
            return;
        }
        while !tx.is_closed() {
            tokio::time::sleep(Duration::from_secs(5)).await;
            send(&tx, ToServer::ClientHeartbeat(ClientHeartbeat {})).await;
        }
    })
}

#[expect(clippy::disallowed_methods, reason = "tests need no tracker")]
pub(crate) fn spawn(
    work: impl Future<Output = ()> + Send + 'static,
) -> tokio::task::JoinHandle<()> {
    tokio::spawn(work)
}

/// The error with its causes.
pub(crate) fn error_text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}

/// A response, and its connection.
pub(crate) struct PendingResponse {
    pub(crate) response: Pin<Box<dyn Future<Output = hyper::Result<Response<Incoming>>> + Send>>,
    pub(crate) _keep: (tokio::task::JoinHandle<()>, Box<dyn std::any::Any + Send>),
}

/// A request body fed by a channel.
pub(crate) struct ChannelBody(pub(crate) mpsc::Receiver<Bytes>);

impl Body for ChannelBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(cx).map(|data| data.map(|data| Ok(Frame::data(data))))
    }
}

/// One call over a fresh HTTP/1.1 connection.
pub(crate) async fn call(
    sim: &Sim,
    request: http::request::Builder,
    body: Bytes,
) -> Response<Bytes> {
    let io = TokioIo::new(sim.connect());
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
    let work = spawn(async move {
        let _ = connection.await;
    });
    let request = request.header("host", "sim").body(Full::new(body)).unwrap();
    let (head, body) = sender.send_request(request).await.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    work.abort();
    Response::from_parts(head, body)
}
