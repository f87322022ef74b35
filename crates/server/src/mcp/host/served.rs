//! A room as it is served over HTTP: requests in a session and alone, and how everything ends with
//! the room.

use std::{collections::HashMap, future::Future, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use ibeam_core::mcp::server::{
    self, EventId, EventLog, Inbound, InboundRequest as Asked, Lifecycle, ToolServerAnswer,
};
use parking_lot::Mutex;
use tokio::time::timeout;
use tokio_util::{
    sync::CancellationToken,
    task::{TaskTracker, task_tracker::TaskTrackerToken},
};

use super::{
    call,
    entrance::{EntranceRefusal, HostBody},
    feed::Feed,
    reply::{Accepted, JSON, RequestDenied, json, of_protocol, taken},
    room::RoomState,
    session::HostSession,
};
use crate::{random, tasks::Tasks};

/// How large the body of a request may be.
pub(super) const BODY_BYTES: usize = 32 * 1024 * 1024;

/// How long a body may take.
pub(super) const BODY_TIME: Duration = Duration::from_secs(30);

/// How many sessions a room can have. A client needs one.
pub(super) const SESSIONS: usize = 64;

/// How long waiting callers have to read the last messages of a room.
const GOODBYE: Duration = Duration::from_secs(2);

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

type Answered = Result<Response<HostBody>, RequestDenied>;

/// A room with its sessions.
pub(super) struct ServedRoom {
    inside: Arc<RoomState>,
    tasks: Tasks,
    sessions: Mutex<HashMap<String, Arc<HostSession>>>,
    /// Requests in progress.
    visits: TaskTracker,
    /// Ends the streams that do not end by themselves.
    cut: CancellationToken,
}

/// An authorized request.
pub(super) struct RoomVisit {
    served: Arc<ServedRoom>,
    counted: TaskTrackerToken,
}

impl ServedRoom {
    pub(super) fn new(inside: &Arc<RoomState>, tasks: &Tasks) -> Self {
        Self {
            inside: Arc::clone(inside),
            tasks: tasks.clone(),
            sessions: Mutex::default(),
            visits: TaskTracker::new(),
            cut: CancellationToken::new(),
        }
    }

    pub(super) fn visit(self: &Arc<Self>) -> RoomVisit {
        RoomVisit { served: Arc::clone(self), counted: self.visits.token() }
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
        // Every call has its error by now, which is read if its caller is still there.
        self.visits.close();
        timeout(GOODBYE, self.visits.wait()).await.ok();
        self.cut.cancel();
        self.sessions.lock().clear();
    }

    #[cfg(test)]
    pub(super) fn sessions(&self) -> usize {
        self.sessions.lock().len()
    }

    fn session(&self, headers: &HeaderMap) -> Result<Arc<HostSession>, EntranceRefusal> {
        let Some(name) = headers.get(SESSION) else {
            return Err(EntranceRefusal(
                StatusCode::BAD_REQUEST,
                "Bad Request: Session ID is required",
            ));
        };
        let sessions = self.sessions.lock();
        let session = name.to_str().ok().and_then(|name| sessions.get(name));
        session
            .map(Arc::clone)
            .ok_or(EntranceRefusal(StatusCode::NOT_FOUND, "the session is not known"))
    }
}

impl RoomVisit {
    /// Whether this is the bearer of the room.
    pub(super) fn is_for(&self, bearer: &str) -> bool {
        self.served.inside.lets_in(bearer)
    }

    pub(super) async fn answer<B>(self, request: Request<B>) -> Response<HostBody>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (parts, body) = request.into_parts();
        let answered = match parts.method {
            Method::POST => match read(body).await {
                Ok(body) => self.post(&parts.headers, &body).await,
                Err(refusal) => Err(refusal.into()),
            },
            Method::GET => self.get(&parts.headers),
            Method::DELETE => self.delete(&parts.headers),
            _ => Err(RequestDenied::Method("GET, POST, DELETE")),
        };
        answered.unwrap_or_else(RequestDenied::response)
    }

    async fn post(self, headers: &HeaderMap, body: &[u8]) -> Answered {
        let accepted = Accepted::of(headers);
        let in_session = headers.contains_key(SESSION);
        if accepted == Accepted::Neither || (in_session && accepted != Accepted::Both) {
            let text = "the client must accept application/json and text/event-stream";
            return Err(EntranceRefusal(StatusCode::NOT_ACCEPTABLE, text).into());
        }
        let kind = headers.get(header::CONTENT_TYPE);
        if !kind.is_some_and(|kind| kind.as_bytes().starts_with(JSON.as_bytes())) {
            let text = "the content type must be application/json";
            return Err(EntranceRefusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, text).into());
        }
        let Some(message) = Inbound::read(body) else {
            let text = "the body is not a valid protocol message";
            return Err(EntranceRefusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, text).into());
        };
        let lifecycle = server::lifecycle(&of_protocol(headers), &message)?;
        if lifecycle == Lifecycle::Session {
            if in_session {
                let session = self.served.session(headers)?;
                return Ok(self.in_session(&session, &message));
            }
            let greeting = message.request().filter(|request| request.is_greeting());
            if let Some(greeting) = greeting.filter(|_| accepted != Accepted::Json) {
                return self.begin(greeting);
            }
        }
        match message {
            Inbound::Request(request) => Ok(self.alone(&request, accepted).await),
            Inbound::Notification(_) => Ok(taken()),
            Inbound::Response => Err(server::no_answers().into()),
        }
    }

    /// A session for a client that initializes one.
    fn begin(self, greeting: &Asked<'_>) -> Answered {
        let served = &self.served;
        let session = HostSession::new(&served.inside, &served.cut);
        let name = random::uuid();
        {
            let mut sessions = served.sessions.lock();
            if sessions.len() >= SESSIONS {
                let text = "there are too many sessions";
                return Err(EntranceRefusal(StatusCode::TOO_MANY_REQUESTS, text).into());
            }
            sessions.insert(name.clone(), Arc::clone(&session));
        }
        let mut response = match served.inside.server().answer(greeting) {
            ToolServerAnswer::Message { message, .. } | ToolServerAnswer::Tools(message) => {
                let body = Feed::complete(EventLog::of_session(), Some(&message), &served.cut);
                body.counted(self.counted).response()
            }
            ToolServerAnswer::Call(_) => taken(),
        };
        if let Ok(name) = HeaderValue::from_str(&name) {
            response.headers_mut().insert(SESSION, name);
        }
        Ok(response)
    }

    fn in_session(self, session: &Arc<HostSession>, message: &Inbound<'_>) -> Response<HostBody> {
        let request = match message {
            Inbound::Request(request) => request,
            Inbound::Notification(note) => {
                if let Some(id) = note.cancelled() {
                    session.cancel(&id);
                }
                return taken();
            }
            Inbound::Response => return taken(),
        };
        let body = match self.respond(request) {
            ToolServerAnswer::Message { message, .. } | ToolServerAnswer::Tools(message) => {
                session.answered(&message)
            }
            ToolServerAnswer::Call(call) => session.begin(call, &self.served.tasks),
        };
        body.counted(self.counted).response()
    }

    /// A request that is answered without a session: as a stream, or in one piece for a
    /// client that reads nothing else.
    async fn alone(self, request: &Asked<'_>, accepted: Accepted) -> Response<HostBody> {
        let served = &self.served;
        let call = match self.respond(request) {
            ToolServerAnswer::Message { message, status }
                if accepted == Accepted::Json || status != 200 =>
            {
                return json(status, message);
            }
            ToolServerAnswer::Tools(message) if accepted == Accepted::Json => {
                return json(200, message);
            }
            ToolServerAnswer::Message { message, .. } | ToolServerAnswer::Tools(message) => {
                let body = Feed::complete(EventLog::plain(), Some(&message), &served.cut);
                return body.counted(self.counted).response();
            }
            ToolServerAnswer::Call(call) => call,
        };
        if accepted == Accepted::Json {
            // A client that hangs up drops this, and takes its call back.
            return json(200, call::answer(&served.inside, &call, None).await);
        }
        let feed = Feed::new(EventLog::plain());
        let gone = CancellationToken::new();
        let body = feed.body(0, served.cut.clone()).with_caller(gone.clone().drop_guard());
        let inside = Arc::clone(&served.inside);
        served.tasks.spawn("mcp call", call::run(inside, call, feed, gone));
        body.counted(self.counted).response()
    }

    fn respond(&self, request: &Asked<'_>) -> ToolServerAnswer {
        let answer = self.served.inside.server().answer(request);
        if matches!(answer, ToolServerAnswer::Tools(_)) {
            self.served.inside.note_seen();
        }
        answer
    }

    fn get(self, headers: &HeaderMap) -> Answered {
        if !matches!(Accepted::of(headers), Accepted::Both | Accepted::Stream) {
            let text = "a client must accept text/event-stream";
            return Err(EntranceRefusal(StatusCode::NOT_ACCEPTABLE, text).into());
        }
        let session = self.session(headers)?;
        let Some(last) = headers.get(LAST_EVENT) else {
            // Not counted: it has no end of its own that could be waited for.
            return Ok(session.listen().response());
        };
        let last = last.to_str().ok().and_then(EventId::read);
        let body = last.and_then(|last| session.resume(last)).unwrap_or_else(|| {
            // An error would make the client ask for the same again and again.
            Feed::complete(EventLog::plain(), None, &self.served.cut)
        });
        Ok(body.counted(self.counted).response())
    }

    fn delete(self, headers: &HeaderMap) -> Answered {
        match self.session(headers) {
            Ok(session) => session.close(),
            // It has ended already.
            Err(RequestDenied::Plain(EntranceRefusal(StatusCode::NOT_FOUND, _))) => {
                return Ok(taken());
            }
            Err(denied) => return Err(denied),
        }
        if let Some(name) = headers.get(SESSION).and_then(|name| name.to_str().ok()) {
            self.served.sessions.lock().remove(name);
        }
        Ok(taken())
    }

    /// The session of a request that is about one.
    fn session(&self, headers: &HeaderMap) -> Result<Arc<HostSession>, RequestDenied> {
        if !server::has_sessions(&of_protocol(headers))? {
            return Err(RequestDenied::Method("POST"));
        }
        Ok(self.served.session(headers)?)
    }
}

async fn read<B>(body: B) -> Result<Bytes, EntranceRefusal>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let whole = Box::pin(Limited::new(body, BODY_BYTES).collect());
    match timeout(BODY_TIME, whole).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            Err(EntranceRefusal(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large"))
        }
        Ok(Err(_)) => Err(EntranceRefusal(StatusCode::BAD_REQUEST, "the body cannot be read")),
        Err(_) => Err(EntranceRefusal(StatusCode::REQUEST_TIMEOUT, "the body took too long")),
    }
}
