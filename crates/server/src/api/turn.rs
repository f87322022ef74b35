//! One request for a turn, whatever dialect it is in: its body is read, the turn runs, and
//! the answer goes out as a stream or as a whole.

use std::{sync::Arc, time::Duration};

use axum::{
    body::Body,
    extract::{FromRequest, Request},
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use ibeam_core::{
    error::{ErrorCode, TurnError},
    model::{MODE_WORDS, ParamHandling, RunModes, TurnRequest},
    wire::{Collect, Encode},
};

use super::{
    ApiSettings, EventSource, GatewayService, Shared,
    answer_stream::AnswerStream,
    bodies::{BodyEvicted, BodyShare},
    body_reader::{self, BodyReadError},
    decode::{self, Decoded},
    error,
    log::RequestLog,
    responses::{self, PreparedRequest, RecentResponses},
    sse_body::SseBody,
    workspace,
};
use crate::{
    keys::Caller,
    session::{MatchedConversation, NameSource, RequestContext, SessionName},
};

const CONTROLS: HeaderName = HeaderName::from_static("x-ibeam-controls");
const SESSION: HeaderName = HeaderName::from_static("x-ibeam-session");
const NO_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Headers in which clients name their conversation.
const SESSION_ID: &str = "x-session-id";
const SESSION_AFFINITY: &str = "x-session-affinity";

/// `off`: this request continues nothing that is stored, and its turn is not parked.
const SESSION_REUSE: &str = "x-ibeam-session-reuse";

/// Whether parameters without effect are refused.
const STRICT: &str = "x-ibeam-strict";

/// The mode in which the model works.
const MODE: &str = "x-ibeam-mode";

/// The longest header value that is taken for a key or a name.
const VALUE_CAP: usize = 256;

/// How a dialect writes its answer.
pub(super) trait ReplyFormat {
    fn stream(self) -> Box<dyn Encode>;
    fn whole(self) -> Box<dyn Collect>;

    /// Whether a client with these headers makes more of a failure in the stream than of a
    /// status, also when nothing of the stream went out yet.
    fn fails_in_stream(&self, _headers: &HeaderMap, _error: &TurnError) -> bool {
        false
    }
}

/// A request with its body.
pub(super) struct IncomingRequest {
    pub(super) body: Bytes,
    pub(super) asked: RequestHead,
    /// What the body counts for in memory.
    pub(super) share: BodyShare,
}

/// What a request has besides its body.
pub(super) struct RequestHead {
    pub(super) headers: HeaderMap,
    pub(super) log: Arc<RequestLog>,
    pub(super) caller: Caller,
    /// SHA-256 of the body.
    pub(super) digest: [u8; 32],
    /// What the request counts for in memory, until its turn has started.
    pub(super) share: Option<BodyShare>,
}

/// Reads the body. A rejection is the complete response.
impl<S: GatewayService> FromRequest<Shared<S>> for IncomingRequest {
    type Rejection = Response;

    async fn from_request(request: Request, shared: &Shared<S>) -> Result<Self, Response> {
        let settings = shared.service.settings();
        let (mut parts, body) = request.into_parts();
        let log = parts.extensions.remove::<Arc<RequestLog>>();
        let Some((log, caller)) = log.zip(parts.extensions.remove::<Caller>()) else {
            let text = "the request bypassed the key check. This is a bug in ibeam.";
            return Err(error::response(&TurnError::new(ErrorCode::Internal, text)));
        };
        let limits = (settings.body_limit, settings.body_pause);
        let share = settings.bodies.begin(caller.id);
        match body_reader::read(&parts.headers, body, limits, share).await {
            Ok((body, mut share)) => {
                // From here on a larger one can be refused for the sake of smaller ones.
                share.wait(body.len()).map_err(|none| error::response(&none.into()))?;
                let digest =
                    share.unless_evicted(decode::digest(shared, &caller, body.clone())).await;
                let digest = digest.unwrap_or_else(|none| Err(none.into()));
                let digest = digest.map_err(|failure| error::response(&failure))?;
                let asked =
                    RequestHead { headers: parts.headers, log, caller, digest, share: None };
                Ok(Self { body, asked, share })
            }
            Err(BodyReadError::Failed(failure)) => Err(error::response(&failure)),
            Err(BodyReadError::Stalled) => Err(body_reader::stalled()),
        }
    }
}

impl IncomingRequest {
    /// Decodes something of the body.
    ///
    /// # Errors
    /// It cannot be understood.
    pub(super) async fn peek<S: GatewayService, T: Send + 'static>(
        &self,
        shared: &Shared<S>,
        decode: fn(&[u8]) -> Result<T, TurnError>,
    ) -> Result<T, TurnError> {
        let decoded = decode::body(shared, &self.asked.caller, self.body.clone(), decode);
        self.share.unless_evicted(decoded).await?
    }

    /// Decodes the body. The request may wait long for its answer; its bytes need not.
    ///
    /// # Errors
    /// It cannot be understood.
    pub(super) async fn decode<S: GatewayService, T: Decoded>(
        self,
        shared: &Shared<S>,
        decode: fn(&[u8]) -> Result<T, TurnError>,
    ) -> Result<(RequestHead, T), TurnError> {
        let Self { body, asked, mut share } = self;
        share.wait(body.len())?;
        let decoded =
            share.unless_evicted(decode::body(shared, &asked.caller, body, decode)).await??;
        Ok((asked.holding(share, decoded.bytes())?, decoded))
    }

    /// As [`Self::decode`], with what a request of the Responses API continues. `recent`: what its
    /// connection remembers.
    ///
    /// # Errors
    /// It cannot be understood, or the previous response does not exist.
    pub(super) async fn prepare<S: GatewayService>(
        self,
        shared: &Shared<S>,
        recent: Option<&RecentResponses>,
    ) -> Result<(RequestHead, PreparedRequest), TurnError> {
        self.prepare_and(shared, recent, PreparedRequest::without_before).await
    }

    /// As [`Self::prepare`]. `trim` drops what is not needed; only the rest counts.
    ///
    /// # Errors
    /// As [`Self::prepare`].
    pub(super) async fn prepare_and<S: GatewayService>(
        self,
        shared: &Shared<S>,
        recent: Option<&RecentResponses>,
        trim: impl FnOnce(PreparedRequest) -> PreparedRequest,
    ) -> Result<(RequestHead, PreparedRequest), TurnError> {
        let Self { body, asked, mut share } = self;
        share.wait(body.len())?;
        let evicted = share.eviction();
        let prepare = responses::prepare(shared, &asked.caller, body, recent, &mut share);
        let prepared = tokio::select! {
            biased;
            prepared = prepare => trim(prepared?),
            () = evicted => return Err(BodyEvicted.into()),
        };
        Ok((asked.holding(share, prepared.bytes())?, prepared))
    }
}

impl RequestHead {
    /// The body was dropped; what it was decoded to takes `bytes` of memory.
    fn holding(mut self, mut share: BodyShare, bytes: usize) -> Result<Self, BodyEvicted> {
        share.wait(bytes)?;
        self.share = Some(share);
        Ok(self)
    }

    pub(super) fn value(&self, name: &str) -> Option<String> {
        let value = self.headers.get(name)?.to_str().ok()?.trim();
        (!value.is_empty() && value.len() <= VALUE_CAP).then(|| value.to_owned())
    }

    /// Starts the turn.
    pub(super) fn start<S: GatewayService>(
        &mut self,
        shared: &Shared<S>,
        mut turn: TurnRequest,
    ) -> AnswerStream<S::Turn> {
        self.log.model(&turn.model);
        let read = self.modes(&turn).and_then(|modes| {
            turn.hints.modes = modes;
            self.context(shared.service.settings(), &turn)
        });
        let mut context = match read {
            Ok(context) => context,
            Err(refusal) => return AnswerStream::new(Box::pin(std::future::ready(Err(refusal)))),
        };
        let service = Arc::clone(&shared.service);
        let asked = self.headers.get(workspace::HEADER).cloned();
        let rule = shared.service.settings().workspaces.clone();
        let share = self.share.take();
        let start = async move {
            if let Some(asked) = asked {
                context.workspace = Some(workspace::read(asked, rule, service.tasks()).await?);
            }
            service.start_turn(turn, context).await
        };
        AnswerStream::new(Box::pin(async move {
            match share {
                // Also while it waits for a permit.
                Some(share) => share.unless_evicted(start).await?,
                None => start.await,
            }
        }))
    }

    /// What the headers say about the turn.
    fn context(
        &self,
        settings: &ApiSettings,
        turn: &TurnRequest,
    ) -> Result<RequestContext, TurnError> {
        if self.switch(STRICT)?.unwrap_or(settings.strict)
            && let Some(name) = served_params(settings, turn, turn.hints.modes).ignored.first()
        {
            return Err(ignored(name));
        }
        let named = |header, source| self.value(header).map(|name| SessionName { name, source });
        let retry_count = self.value("x-stainless-retry-count");
        Ok(RequestContext {
            request_id: self.log.id.clone(),
            caller: self.caller.clone(),
            body: self.digest,
            idempotency_key: self.value("idempotency-key"),
            retry_count: retry_count.and_then(|count| count.parse().ok()).unwrap_or(0),
            session: named(SESSION_ID, NameSource::SessionId)
                .or_else(|| named(SESSION_AFFINITY, NameSource::Affinity)),
            // It only switches off: what the setting forbids stays forbidden.
            fresh: self.switch(SESSION_REUSE)? == Some(false),
            workspace: None,
        })
    }

    /// What the model's name and the header say about modes. The name is nearer to the request.
    fn modes(&self, turn: &TurnRequest) -> Result<RunModes, TurnError> {
        let named = RunModes::of_model_name(&turn.model)?;
        let Some(word) = self.headers.get(MODE) else { return Ok(named) };
        let modes = word.to_str().ok().and_then(RunModes::parse).ok_or_else(|| {
            let text = format!("the header `{MODE}` must have {MODE_WORDS}");
            TurnError::new(ErrorCode::InvalidValue, text).param(MODE)
        })?;
        Ok(named.or(modes))
    }

    /// A header that switches something on or off. A misspelt one is refused, so that its client
    /// does not believe that it holds.
    fn switch(&self, header: &'static str) -> Result<Option<bool>, TurnError> {
        let Some(word) = self.headers.get(header) else { return Ok(None) };
        match word.to_str().unwrap_or("?").trim().to_ascii_lowercase().as_str() {
            "on" | "true" | "1" => Ok(Some(true)),
            "off" | "false" | "0" => Ok(Some(false)),
            _ => {
                let text = format!("the header `{header}` must be `on` or `off` (`true`, `false`)");
                Err(TurnError::new(ErrorCode::InvalidValue, text).param(header))
            }
        }
    }

    /// Whether the answer is to name its conversation: `x-ibeam-session: id`.
    fn wants_conversation(&self) -> Result<bool, TurnError> {
        let Some(word) = self.headers.get(SESSION) else { return Ok(false) };
        if word.to_str().is_ok_and(|word| word.trim().eq_ignore_ascii_case("id")) {
            return Ok(true);
        }
        let text = format!("the header `{SESSION}` of a request must be `id`");
        Err(TurnError::new(ErrorCode::InvalidValue, text).param("x-ibeam-session"))
    }
}

/// How this backend treats the parameters of a request, and the modes that it asks for.
fn served_params(settings: &ApiSettings, turn: &TurnRequest, modes: RunModes) -> ParamHandling {
    let mut params = turn.sampling.params.clone();
    params.ignored.extend(modes.named());
    params.serve(&settings.served);
    params
}

/// The whole answer to a request: its turn, in the shape that the reply gives it.
///
/// # Errors
/// The turn failed before anything of it went out.
pub(super) async fn respond<S: GatewayService>(
    shared: &Shared<S>,
    mut asked: RequestHead,
    turn: TurnRequest,
    reply: impl ReplyFormat,
) -> Result<Response, TurnError> {
    // A mode that cannot be read is refused when the turn starts.
    let modes = asked.modes(&turn).unwrap_or_default();
    let mut params = served_params(shared.service.settings(), &turn, modes);
    let stream = turn.hints.stream;
    let with_id = asked.wants_conversation()?;
    let mut answer = asked.start(shared, turn);
    let mut session = |matched: Option<&MatchedConversation>| {
        if matched.is_some_and(|matched| matched.ignored_results) {
            params.ignored.push("tool_results");
        }
        matched.and_then(|how| session(how, with_id))
    };
    let (mut response, session) = if stream {
        let body = streamed(shared, &asked, answer, reply).await?;
        let session = session(body.matched());
        let mut response = Response::new(Body::new(body));
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("text/event-stream; charset=utf-8"),
        );
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        headers.insert(NO_BUFFERING, HeaderValue::from_static("no"));
        (response, session)
    } else {
        answer.started().await?;
        let session = session(answer.matched());
        let mut whole = reply.whole();
        while let Some(event) = answer.next().await {
            whole.on_event(event);
        }
        let json = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        (([json], whole.finish()?).into_response(), session)
    };
    if let Some(controls) = controls(&params) {
        response.headers_mut().insert(CONTROLS, controls);
    }
    if let Some(session) = session {
        response.headers_mut().insert(SESSION, session);
    }
    Ok(response)
}

/// The stream of an answer, once it has started or is late.
///
/// # Errors
/// As [`respond`].
pub(super) async fn streamed<S: GatewayService>(
    shared: &Shared<S>,
    asked: &RequestHead,
    mut answer: AnswerStream<S::Turn>,
    reply: impl ReplyFormat,
) -> Result<SseBody<S::Turn>, TurnError> {
    let settings = shared.service.settings();
    let late = match begin(&mut answer, settings.header_grace).await {
        Ok(late) => late,
        Err(failure) if reply.fails_in_stream(&asked.headers, &failure) => {
            answer = AnswerStream::failed(failure);
            false
        }
        Err(failure) => return Err(failure),
    };
    let log = Arc::clone(&asked.log);
    Ok(SseBody::new(answer, reply.stream(), settings.keep_alive, late, log))
}

/// Waits for the first event of an answer. Returns whether it is late.
async fn begin<T: EventSource>(
    answer: &mut AnswerStream<T>,
    grace: Duration,
) -> Result<bool, TurnError> {
    // A permit is waited for without this limit, since it has a limit of its own: "too many
    // requests" must be a status.
    answer.started().await?;
    match tokio::time::timeout(grace, answer.first()).await {
        Ok(first) => first.map(|()| false),
        Err(_elapsed) => Ok(true),
    }
}

fn ignored(name: &'static str) -> TurnError {
    let text = format!(
        "`{name}` has no effect: the backend does not support it. Leave it out, or turn `strict` \
         off (the setting, or the header `{STRICT}`)."
    );
    TurnError::new(ErrorCode::UnsupportedParameter, text).param(name)
}

/// How the request was matched, as an item of RFC 9651.
fn session(matched: &MatchedConversation, with_id: bool) -> Option<HeaderValue> {
    let how = matched.how.name();
    if !with_id {
        return Some(HeaderValue::from_static(how));
    }
    HeaderValue::try_from(format!(r#"{how};id="{}""#, matched.conversation)).ok()
}

/// What becomes of the request's parameters, as a dictionary of RFC 9651.
fn controls(params: &ParamHandling) -> Option<HeaderValue> {
    let lists =
        [("native", &params.native), ("emulated", &params.emulated), ("ignored", &params.ignored)];
    let entries: Vec<String> = lists
        .iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(treatment, names)| format!("{treatment}=({})", names.join(" ")))
        .collect();
    if entries.is_empty() { None } else { HeaderValue::try_from(entries.join(", ")).ok() }
}
