//! A room as it is served: which of the library's servers answers a request, and how all
//! of them end.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::{Frame, SizeHint};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use rmcp::transport::{
    StreamableHttpServerConfig, StreamableHttpService,
    streamable_http_server::session::{
        SessionManager as _, local::LocalSessionManager, never::NeverSessionManager,
    },
};
use serde::Deserialize;
use tokio::time::timeout;
use tokio_util::{
    sync::CancellationToken,
    task::{TaskTracker, task_tracker::TaskTrackerToken},
};

use super::{
    door::{Body, Refusal},
    handler::{Offer, OnePiece},
    room::Inside,
    slow,
};

/// How large the body of a request may be.
pub(super) const BODY_BYTES: usize = 32 * 1024 * 1024;

/// How long a body may take.
pub(super) const BODY_TIME: Duration = Duration::from_secs(30);

/// How often a stream without news says that it lives.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Sessions at once in a room. A client needs one.
pub(super) const SESSIONS: usize = 64;

/// How long those who waited in a room have for taking its last words.
const GOODBYE: Duration = Duration::from_secs(2);

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
pub(super) const EVENT_STREAM: &str = "text/event-stream";
pub(super) const JSON: &str = "application/json";
const BOTH: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");

type Sessions = StreamableHttpService<Offer, LocalSessionManager>;
type Single = StreamableHttpService<Offer, NeverSessionManager>;

/// A room with its servers: one that has sessions, and two that answer a request by itself,
/// with a stream or in one piece.
pub(super) struct Served {
    inside: Arc<Inside>,
    manager: Arc<LocalSessionManager>,
    sessions: Sessions,
    stream: Single,
    one_piece: Single,
    /// Requests that are being answered.
    visits: TaskTracker,
    /// Ends the streams that have no end of their own.
    cut: CancellationToken,
}

/// A request that was let in.
pub(super) struct Visit {
    served: Arc<Served>,
    counted: TaskTrackerToken,
}

impl Served {
    pub(super) fn new(inside: &Arc<Inside>) -> Self {
        let mut manager = LocalSessionManager::default();
        // A session whose only call waits is quiet. It ends with its room.
        manager.session_config.keep_alive = None;
        let manager = Arc::new(manager);
        let cut = CancellationToken::new();
        let config = StreamableHttpServerConfig::default()
            .with_sse_keep_alive(Some(KEEP_ALIVE))
            .with_max_request_body_bytes(BODY_BYTES)
            .with_cancellation_token(cut.clone());
        let offer = || {
            let offer = Offer(Arc::clone(inside));
            move || Ok(offer.clone())
        };
        let single = config.clone().with_legacy_session_mode(false);
        let never = || Arc::new(NeverSessionManager::default());
        Self {
            inside: Arc::clone(inside),
            sessions: Sessions::new(offer(), Arc::clone(&manager), config),
            stream: Single::new(offer(), never(), single.clone()),
            one_piece: Single::new(offer(), never(), single.with_json_response(true)),
            manager,
            visits: TaskTracker::new(),
            cut,
        }
    }

    pub(super) fn visit(self: &Arc<Self>) -> Visit {
        Visit { served: Arc::clone(self), counted: self.visits.token() }
    }

    /// Cleans up when the room is closed.
    pub(super) async fn look_after(
        self: Arc<Self>,
        stopped: impl Future<Output = ()> + Send + 'static,
    ) {
        tokio::select! {
            () = self.inside.closed() => {}
            () = stopped => self.inside.close(),
        }
        // Every call has its error by now. Whoever reads it gets it.
        self.visits.close();
        timeout(GOODBYE, self.visits.wait()).await.ok();
        self.cut.cancel();
        let names: Vec<_> = self.manager.sessions.read().await.keys().cloned().collect();
        for name in names {
            // One that has ended by itself is no matter.
            self.manager.close_session(&name).await.ok();
        }
    }
}

impl Visit {
    /// Whether this is the bearer of the room.
    pub(super) fn is_for(&self, bearer: &str) -> bool {
        self.served.inside.lets_in(bearer)
    }

    pub(super) async fn answer<B>(self, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (mut parts, body) = request.into_parts();
        // The library shows requests in its logs. These two let one in.
        parts.headers.remove(header::AUTHORIZATION);
        parts.uri = http::Uri::from_static("/mcp");
        if parts.method != Method::POST {
            let request = Request::from_parts(parts, Full::<Bytes>::default());
            let response = Box::pin(self.served.sessions.handle(request)).await;
            return response.map(|body| body.boxed_unsync());
        }
        let body = match read(body).await {
            Ok(body) => body,
            Err(refusal) => return refusal.response(),
        };
        let way = match self.way(&parts.headers, &body).await {
            Ok(way) => way,
            Err(refusal) => return refusal.response(),
        };
        if !matches!(way, Way::Session) {
            parts.headers.insert(header::ACCEPT, BOTH);
        }
        if matches!(way, Way::OnePiece) {
            parts.extensions.insert(OnePiece);
        }
        let request = Request::from_parts(parts, Full::new(body));
        let served = Arc::clone(&self.served);
        let response = match way {
            Way::Session => {
                Box::pin(served.sessions.handle(request)).await.map(|body| body.boxed_unsync())
            }
            Way::OnePiece => {
                Box::pin(served.one_piece.handle(request)).await.map(|body| body.boxed_unsync())
            }
            Way::Stream => {
                slow::soon(Box::pin(async move {
                    served.stream.handle(request).await.map(|body| body.boxed_unsync())
                }))
                .await
            }
        };
        response.map(|body| Counted { body, _counted: self.counted }.boxed_unsync())
    }

    /// Sessions are for those who begin one, or have one.
    async fn way(&self, headers: &HeaderMap, body: &[u8]) -> Result<Way, Refusal> {
        if headers.contains_key(SESSION) {
            return Ok(Way::Session);
        }
        let accepted = Accepted::of(headers);
        if matches!(accepted, Accepted::Json) {
            return Ok(Way::OnePiece);
        }
        #[derive(Deserialize)]
        struct Message {
            method: Option<String>,
        }
        let message: Option<Message> = serde_json::from_slice(body).ok();
        let method = message.and_then(|message| message.method);
        if method.as_deref() != Some("initialize") {
            // What cannot be read is refused by the library, in its words.
            return Ok(if matches!(accepted, Accepted::Neither) {
                Way::Session
            } else {
                Way::Stream
            });
        }
        if self.served.manager.sessions.read().await.len() >= SESSIONS {
            return Err(Refusal(StatusCode::TOO_MANY_REQUESTS, "there are too many sessions"));
        }
        Ok(Way::Session)
    }
}

/// Who answers.
enum Way {
    Session,
    Stream,
    OnePiece,
}

/// What a client can read.
enum Accepted {
    Stream,
    Json,
    Neither,
}

impl Accepted {
    fn of(headers: &HeaderMap) -> Self {
        if !headers.contains_key(header::ACCEPT) {
            return Self::Json;
        }
        let says = |word: &str| {
            let mut values = headers.get_all(header::ACCEPT).iter();
            values.any(|value| value.to_str().is_ok_and(|text| text.contains(word)))
        };
        if says(EVENT_STREAM) {
            Self::Stream
        } else if says(JSON) || says("*/*") {
            Self::Json
        } else {
            Self::Neither
        }
    }
}

async fn read<B>(body: B) -> Result<Bytes, Refusal>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let whole = Box::pin(Limited::new(body, BODY_BYTES).collect());
    match timeout(BODY_TIME, whole).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            Err(Refusal(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large"))
        }
        Ok(Err(_)) => Err(Refusal(StatusCode::BAD_REQUEST, "the body cannot be read")),
        Err(_) => Err(Refusal(StatusCode::REQUEST_TIMEOUT, "the body took too long")),
    }
}

/// An answer's body. While it is there, its room is not quite closed.
struct Counted {
    body: Body,
    _counted: TaskTrackerToken,
}

impl http_body::Body for Counted {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
