//! Turns what the network and the backend's refusals look like into
//! [`LinkError`]s.

use std::time::Duration;

use http::{HeaderMap, StatusCode, header};
use ibeam_core::{
    codec::connect::{Code, ConnectError, ERROR_TYPE},
    peer::LinkError,
};
use ibeam_proto::aiserver::ErrorKind;

use crate::net::{connect::DialError, http::HttpError, pool::PoolError};

/// How much of a refusal's body is read, and for how long.
pub(super) const REFUSAL_BODY: usize = 64 * 1024;
pub(super) const REFUSAL_WAIT: Duration = Duration::from_secs(5);

/// An answer that is no stream.
pub(super) fn status_error(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> LinkError {
    let error = ConnectError::from_json(body);
    let error = match error_type(headers) {
        Some(name) => error.map(|error| error.of_type(name)),
        None => error,
    };
    LinkError::Status { status: status.as_u16(), error, retry_after: retry_after(headers) }
}

/// A stream that ended without a byte, where its head names a known kind of error.
pub(super) fn silent_error(headers: &HeaderMap) -> Option<LinkError> {
    let name = error_type(headers)?;
    let error = ConnectError::new(Code::Unknown, name).of_type(name);
    let kind = error.detail.as_ref().map(|detail| detail.kind).unwrap_or_default();
    (kind != ErrorKind::ErrorUnspecified).then_some(LinkError::Status {
        status: StatusCode::OK.as_u16(),
        error: Some(error),
        retry_after: None,
    })
}

fn error_type(headers: &HeaderMap) -> Option<&str> {
    headers.get(ERROR_TYPE)?.to_str().ok()
}

/// `Retry-After` in seconds. The form with a date is not used by this backend.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

pub(super) fn dial_error(error: &DialError) -> LinkError {
    match error {
        DialError::Timeout => LinkError::ConnectTimeout,
        DialError::Failed(_)
        | DialError::Tls { .. }
        | DialError::Proxy(_)
        | DialError::NotH2(_) => LinkError::Connect(error.to_string()),
    }
}

pub(super) fn pool_error(error: &PoolError) -> LinkError {
    match error {
        PoolError::Dial(error) => dial_error(error),
        PoolError::Full(_) => LinkError::Refused(error.to_string()),
        PoolError::Request(_) => LinkError::Connect(error.to_string()),
    }
}

pub(super) fn http_error(error: &HttpError) -> LinkError {
    match error {
        HttpError::Dial(error) => dial_error(error),
        HttpError::Timeout | HttpError::TooLarge(_) | HttpError::Gzip | HttpError::Broken(_) => {
            LinkError::Reset(error.to_string())
        }
    }
}

/// A stream that failed before its answer began.
pub(super) fn h2_before_answer(error: &h2::Error) -> LinkError {
    let refused = error.reason() == Some(h2::Reason::REFUSED_STREAM)
        || wants_http1(error)
        || (error.is_go_away() && error.is_remote());
    let text = h2_text(error);
    if refused { LinkError::Refused(text) } else { LinkError::Reset(text) }
}

/// A stream that failed later.
pub(super) fn h2_after_answer(error: &h2::Error) -> LinkError {
    LinkError::Reset(h2_text(error))
}

pub(super) fn wants_http1(error: &h2::Error) -> bool {
    error.reason() == Some(h2::Reason::HTTP_1_1_REQUIRED)
}

/// Statuses by which load balancers say that the protocol is the wrong one.
pub(super) fn wrong_protocol(status: StatusCode) -> bool {
    matches!(status.as_u16(), 421 | 464)
}

/// The protocol's own name of the reason goes first: it is what people search for.
fn h2_text(error: &h2::Error) -> String {
    let who = if error.is_remote() { "by the server" } else { "locally" };
    match error.reason() {
        Some(reason) if error.is_go_away() => format!("connection ended {who}: {reason:?}"),
        Some(reason) => format!("stream reset {who}: {reason:?}"),
        None => format!("connection lost: {}", crate::net::chain(error)),
    }
}

#[cfg(test)]
#[path = "errors_tests.rs"]
mod tests;
