//! The least that a client of the simulator must do: one `Run` over HTTP/2 with a
//! canned request that needs no further answer. Used by the relay, and by the
//! client when it measures the simulator itself.

use std::{
    convert::Infallible,
    net::SocketAddr,
    pin::Pin,
    sync::atomic::{AtomicUsize, Ordering},
};

use anyhow::Context as _;
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt as _, Full, combinators::WithTrailers};
use hyper::{body::Incoming, client::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use ibeam_core::codec::connect;
use ibeam_proto::agent::{
    AgentClientMessage, AgentRunRequest, ConversationAction, ConversationStateStructure,
    ModelDetails, RequestContext, RequestContextEnv, UserMessage, UserMessageAction,
    agent_client_message, conversation_action,
};
use tokio::{
    net::TcpStream,
    sync::{OnceCell, oneshot},
    task::JoinSet,
};

use crate::rules::Rule;

/// Connections that the streams are spread over; 16 times the simulator's limit
/// of 200 streams is more than the bench asks for.
const CONNECTIONS: usize = 16;
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 64 * 1024 * 1024;

/// What every run is opened with.
pub(crate) const HEADERS: [(&str, &str); 7] = [
    ("content-type", "application/connect+proto"),
    ("connect-protocol-version", "1"),
    ("authorization", "Bearer bench"),
    ("x-cursor-client-type", "cli"),
    ("x-cursor-client-version", "cli-2026.09.02-fa0c06e"),
    ("x-ghost-mode", "true"),
    ("x-request-id", "33333333-3333-4333-8333-333333333333"),
];

/// An open run.
pub(crate) struct OpenRun {
    pub(crate) response: Response<Incoming>,
    pub(crate) open: OpenRequest,
}

/// Keeps the request side of a run open, as the protocol wants, until it is dropped.
pub(crate) struct OpenRequest {
    _sender: oneshot::Sender<Infallible>,
}

/// One frame, then silence until its [`OpenRequest`] is dropped.
type RequestBody = WithTrailers<Full<Bytes>, BoxFuture>;
type BoxFuture = Pin<Box<dyn Future<Output = Option<Result<HeaderMap, Infallible>>> + Send>>;

fn request_body(first: Bytes) -> (OpenRequest, RequestBody) {
    let (sender, open) = oneshot::channel();
    // Nothing is ever sent here, so a result means that the sender was dropped.
    let end: BoxFuture = Box::pin(async move { open.await.ok().map(|never| match never {}) });
    (OpenRequest { _sender: sender }, Full::new(first).with_trailers(end))
}

pub(crate) struct Upstream {
    address: SocketAddr,
    slots: Vec<OnceCell<http2::SendRequest<RequestBody>>>,
    next: AtomicUsize,
    connections: tokio::sync::Mutex<JoinSet<()>>,
}

impl Upstream {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self {
            address,
            slots: (0..CONNECTIONS).map(|_| OnceCell::new()).collect(),
            next: AtomicUsize::new(0),
            connections: tokio::sync::Mutex::default(),
        }
    }

    pub(crate) async fn run(&self, rule: Rule) -> anyhow::Result<OpenRun> {
        let at = self.next.fetch_add(1, Ordering::Relaxed) % CONNECTIONS;
        let slot = self.slots.get(at).context("no such connection")?;
        let mut connection = slot.get_or_try_init(|| self.connect()).await?.clone();
        let (open, body) = request_body(canned(rule));
        let mut request =
            Request::post(format!("http://{}/agent.v1.AgentService/Run", self.address));
        for (name, value) in HEADERS {
            request = request.header(name, value);
        }
        let request = request.body(body)?;
        connection.ready().await?;
        let response = connection.send_request(request).await?;
        Ok(OpenRun { response, open })
    }

    async fn connect(&self) -> anyhow::Result<http2::SendRequest<RequestBody>> {
        let socket = TcpStream::connect(self.address).await?;
        socket.set_nodelay(true)?;
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .handshake(TokioIo::new(socket))
            .await?;
        self.connections.lock().await.spawn(async move {
            connection.await.ok();
        });
        Ok(sender)
    }
}

/// The run request, framed. The context comes inline, so that the simulator has
/// nothing to ask.
pub(crate) fn canned(rule: Rule) -> Bytes {
    let context = RequestContext {
        env: Some(RequestContextEnv {
            os_version: "linux 6.8.0".to_owned(),
            workspace_paths: vec!["/w".to_owned()],
            shell: "/bin/bash".to_owned(),
            time_zone: "UTC".to_owned(),
            ..Default::default()
        }),
        ..Default::default()
    };
    let message = UserMessage {
        text: rule.prompt().to_owned(),
        message_id: "11111111-1111-4111-8111-111111111111".to_owned(),
        mode: 1,
        ..Default::default()
    };
    let action = UserMessageAction {
        user_message: Some(message),
        request_context: Some(context),
        ..Default::default()
    };
    let run = AgentRunRequest {
        conversation_state: Some(ConversationStateStructure::default()),
        action: Some(ConversationAction {
            action: Some(conversation_action::Action::UserMessageAction(action)),
        }),
        model_details: Some(ModelDetails { model_id: "default".to_owned(), ..Default::default() }),
        conversation_id: Some("22222222-2222-4222-8222-222222222222".to_owned()),
        ..Default::default()
    };
    connect::encode(&AgentClientMessage {
        message: Some(agent_client_message::Message::RunRequest(run)),
    })
}
