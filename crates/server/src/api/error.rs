//! Failures as HTTP responses, in the dialect of their route: OpenAI's or Anthropic's.

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use ibeam_core::{
    error::{ErrorCode, TurnError},
    wire::{chat, messages},
};

const ANTHROPIC_VERSION: HeaderName = HeaderName::from_static("anthropic-version");
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// Attached to a response, for the log line of its request.
#[derive(Clone, Debug)]
pub(super) struct ResponseFailure {
    pub(super) error: TurnError,
    /// Another status than the table's.
    status: Option<u16>,
}

impl From<&TurnError> for ResponseFailure {
    fn from(error: &TurnError) -> Self {
        Self { error: error.clone(), status: None }
    }
}

/// A handler's failure, so that `?` ends it with the right response.
#[derive(Debug)]
pub(super) struct HandlerError(TurnError);

impl From<TurnError> for HandlerError {
    fn from(error: TurnError) -> Self {
        Self(error)
    }
}

impl IntoResponse for HandlerError {
    fn into_response(self) -> Response {
        response(&self.0)
    }
}

/// The API that a request and the errors of its route belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ApiDialect {
    OpenAi,
    Anthropic,
}

/// What decides the dialect of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RouteDialect {
    /// The path alone: it belongs to one API.
    Is(ApiDialect),
    /// Both APIs have the path, or none has: Anthropic's clients are known by their header.
    ByHeader,
}

impl RouteDialect {
    pub(super) fn of(self, headers: &HeaderMap) -> ApiDialect {
        match self {
            Self::Is(dialect) => dialect,
            Self::ByHeader if headers.contains_key(ANTHROPIC_VERSION) => ApiDialect::Anthropic,
            Self::ByHeader => ApiDialect::OpenAi,
        }
    }
}

/// A response that only carries the failure. The guard renders it in the route's dialect.
pub(super) fn response(error: &TurnError) -> Response {
    carrier(ResponseFailure::from(error))
}

/// The same with another status than the table's, for routes where the table's
/// would be wrong.
pub(super) fn with_status(error: &TurnError, status: u16) -> Response {
    carrier(ResponseFailure { status: Some(status), ..ResponseFailure::from(error) })
}

fn carrier(failure: ResponseFailure) -> Response {
    let mut response = Response::new(Body::empty());
    response.extensions_mut().insert(failure);
    response
}

/// Writes status, headers and body of a failure. What headers the response has already stay.
pub(super) fn render(
    response: &mut Response,
    failure: &ResponseFailure,
    dialect: ApiDialect,
    request_id: &str,
) {
    let error = &failure.error;
    let (status, body) = match dialect {
        ApiDialect::OpenAi => {
            let mut body = chat::OpenAiErrorBody::from(error);
            body.error.status = failure.status.unwrap_or(body.error.status);
            (body.error.status, serde_json::to_string(&body))
        }
        ApiDialect::Anthropic => {
            let body = messages::AnthropicErrorBody::new(error, Some(request_id));
            let status = failure.status.unwrap_or(error.code.row().anthropic_status);
            (status, serde_json::to_string(&body))
        }
    };
    *response.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    *response.body_mut() = Body::from(body.unwrap_or_default());
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(wait) = error.retry_after_header() {
        // Whole seconds, rounded up: too early is worse than too late.
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    if error.forbids_retry() {
        headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
    }
    if error.code == ErrorCode::InvalidApiKey {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
}

/// The whole response as HTTP/1.1 has it, for a connection that is not served.
pub(super) fn raw(error: &TurnError) -> Vec<u8> {
    let row = error.code.row();
    let body = serde_json::to_string(&chat::OpenAiErrorBody::from(error)).unwrap_or_default();
    let wait = error.retry_after_header().map_or(0, |wait| wait.as_secs());
    let status = StatusCode::from_u16(row.status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
         retry-after: {wait}\r\nconnection: close\r\n\r\n{body}"
    )
    .into_bytes()
}

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;
