//! `POST /v1/chat/completions`.

use std::sync::Arc;

use axum::{
    Extension,
    body::Body,
    extract::{Request, State},
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use ibeam_core::{
    error::TurnError,
    wire::chat::{self, Aggregator, Encoder},
};
use sha2::{Digest as _, Sha256};

use super::{
    Ctx, RequestMeta, Service, Shared,
    answer::Answer,
    body::SseBody,
    error,
    log::RequestLog,
    read::{self, Unread},
};
use crate::keys::Caller;

const IGNORED: HeaderName = HeaderName::from_static("x-ibeam-ignored");
const NO_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Headers in which clients name their conversation.
const SESSION_ID: &str = "x-session-id";
const SESSION_AFFINITY: &str = "x-session-affinity";

/// The longest header value that is taken for a key or a name.
const VALUE_CAP: usize = 256;

pub(super) async fn completions<S: Service>(
    State(shared): Ctx<S>,
    Extension(log): Extension<Arc<RequestLog>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Response {
    match complete(&shared, log, caller, request).await {
        Ok(response) => response,
        Err(failure) => error::response(&failure),
    }
}

async fn complete<S: Service>(
    shared: &Shared<S>,
    log: Arc<RequestLog>,
    caller: Caller,
    request: Request,
) -> Result<Response, TurnError> {
    let settings = shared.service.settings();
    let (parts, body) = request.into_parts();
    let limits = (settings.body_limit, settings.body_pause);
    let share = settings.bodies.begin();
    let (body, share) = match read::read(&parts.headers, body, limits, share).await {
        Ok(whole) => whole,
        Err(Unread::Failed(error)) => return Err(error),
        Err(Unread::Stalled) => return Ok(read::stalled()),
    };
    let mut turn = chat::decode(&body)?;
    let digest = Sha256::digest(&body).into();
    // The request may wait long for its answer; its bytes need not.
    drop((body, share));
    log.model(&turn.model);
    // A name in the conversation itself is nearer to it than a header.
    let named = turn.hints.session.take().or_else(|| value(&parts.headers, SESSION_ID));
    let affinity = named.is_none();
    turn.hints.session = named.or_else(|| value(&parts.headers, SESSION_AFFINITY));
    let meta = RequestMeta {
        request_id: log.id.clone(),
        idempotency_key: value(&parts.headers, "idempotency-key"),
        retry_count: value(&parts.headers, "x-stainless-retry-count")
            .and_then(|count| count.parse().ok())
            .unwrap_or(0),
        affinity: affinity && turn.hints.session.is_some(),
        body: digest,
        caller,
    };
    let id = chat::completion_id(shared.service.random());
    let created = shared.service.unix_now();
    let model = turn.model.clone();
    let ignored = turn.sampling.ignored.join(",");
    let (stream, include_usage) = (turn.hints.stream, turn.hints.include_usage);
    let service = Arc::clone(&shared.service);
    let mut answer = Answer::new(Box::pin(async move { service.start_turn(turn, meta).await }));

    let mut response = if stream {
        // A place in the queue is waited for as long as that takes, which has a clock
        // of its own: "too many requests" is a status or it is nothing.
        answer.started().await?;
        let late = match tokio::time::timeout(settings.header_grace, answer.first()).await {
            Ok(first) => {
                first?;
                false
            }
            Err(_elapsed) => true,
        };
        let encoder = Encoder::new(&id, created, &model, include_usage);
        let body = SseBody::new(answer, encoder, settings.keep_alive, late, log);
        let mut response = Response::new(Body::new(body));
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("text/event-stream; charset=utf-8"),
        );
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        headers.insert(NO_BUFFERING, HeaderValue::from_static("no"));
        response
    } else {
        let mut whole = Aggregator::default();
        while let Some(event) = answer.next().await {
            whole.on_event(event);
        }
        axum::Json(whole.finish(id, created, model)?).into_response()
    };
    if !ignored.is_empty()
        && let Ok(ignored) = HeaderValue::try_from(ignored)
    {
        response.headers_mut().insert(IGNORED, ignored);
    }
    Ok(response)
}

fn value(headers: &HeaderMap, name: &str) -> Option<String> {
    let value = headers.get(name)?.to_str().ok()?.trim();
    (!value.is_empty() && value.len() <= VALUE_CAP).then(|| value.to_owned())
}
