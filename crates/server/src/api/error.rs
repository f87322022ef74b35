//! Failures as HTTP responses: in OpenAI's shape, and in Anthropic's for its clients.

use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, StatusCode, header};
use ibeam_core::{
    error::{ErrorCode, TurnError},
    wire::{chat, messages},
};

const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// Rides on a response, for the log line of its request.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) error: TurnError,
    /// Another status than the table's.
    status: Option<u16>,
}

impl From<&TurnError> for Failure {
    fn from(error: &TurnError) -> Self {
        Self { error: error.clone(), status: None }
    }
}

/// A handler's failure, so that `?` ends it with the right response.
#[derive(Debug)]
pub(super) struct Failed(TurnError);

impl From<TurnError> for Failed {
    fn from(error: TurnError) -> Self {
        Self(error)
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        response(&self.0)
    }
}

pub(super) fn response(error: &TurnError) -> Response {
    openai(Failure::from(error))
}

/// The same with another status than the table's, for routes where the table's
/// would be wrong.
pub(super) fn with_status(error: &TurnError, status: u16) -> Response {
    openai(Failure { status: Some(status), ..Failure::from(error) })
}

fn openai(failure: Failure) -> Response {
    let mut body = chat::ErrorBody::from(&failure.error);
    body.error.status = failure.status.unwrap_or(body.error.status);
    let status = body.error.status;
    let response = (status_code(status), axum::Json(body)).into_response();
    finished(response, failure)
}

/// The same failure for Anthropic's clients.
pub(super) fn anthropic(failure: Failure, request_id: &str) -> Response {
    let status = failure.status.unwrap_or(failure.error.code.row().anthropic_status);
    let body = messages::ErrorBody::new(&failure.error, Some(request_id));
    let response = (status_code(status), axum::Json(body)).into_response();
    finished(response, failure)
}

fn status_code(status: u16) -> StatusCode {
    StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

fn finished(mut response: Response, failure: Failure) -> Response {
    let error = &failure.error;
    let headers = response.headers_mut();
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
    response.extensions_mut().insert(failure);
    response
}

/// The whole response as HTTP/1.1 has it, for a connection that nobody serves.
pub(super) fn raw(error: &TurnError) -> Vec<u8> {
    let row = error.code.row();
    let body = serde_json::to_string(&chat::ErrorBody::from(error)).unwrap_or_default();
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
