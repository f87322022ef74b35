//! Failures as HTTP responses in OpenAI's shape.

use axum::response::{IntoResponse as _, Response};
use http::{HeaderName, HeaderValue, StatusCode, header};
use ibeam_core::{
    error::{ErrorCode, TurnError},
    wire::chat::ErrorBody,
};

const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// Rides on a response, for the log line of its request.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) code: ErrorCode,
    pub(super) cause: Option<String>,
}

impl From<&TurnError> for Failure {
    fn from(error: &TurnError) -> Self {
        Self { code: error.code, cause: error.cause.clone() }
    }
}

pub(super) fn response(error: &TurnError) -> Response {
    with_status(error, error.code.row().status)
}

/// The same with another status than the table's, for routes where the table's
/// would be wrong.
pub(super) fn with_status(error: &TurnError, status: u16) -> Response {
    let mut body = ErrorBody::from(error);
    body.error.status = status;
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, axum::Json(body)).into_response();
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
    response.extensions_mut().insert(Failure::from(error));
    response
}

/// The whole response as HTTP/1.1 has it, for a connection that nobody serves.
pub(super) fn raw(error: &TurnError) -> Vec<u8> {
    let row = error.code.row();
    let body = serde_json::to_string(&ErrorBody::from(error)).unwrap_or_default();
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
