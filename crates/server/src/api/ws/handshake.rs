//! The opening handshake (RFC 6455, section 4.2).

use std::borrow::Cow;

use axum::{
    body::Body,
    extract::Request,
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Version, header};
use ibeam_core::error::{ErrorCode, TurnError};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use crate::api::error;

const WEBSOCKET: HeaderValue = HeaderValue::from_static("websocket");
const VERSION: HeaderValue = HeaderValue::from_static("13");

/// What to answer the client's key with, or the answer to a request that cannot be
/// upgraded.
pub(super) fn check(enabled: bool, request: &Request) -> Result<String, Box<Response>> {
    let headers = request.headers();
    if !has_token(headers, &header::UPGRADE, "websocket") {
        return Err(Box::new(if enabled { plain(request) } else { only_post(request) }));
    }
    if !enabled {
        let text = "WebSockets are disabled here; use POST, or set `websocket = true`";
        return Err(Box::new(upgrade_required(text)));
    }
    if request.version() != Version::HTTP_11 || !has_token(headers, &header::CONNECTION, "upgrade")
    {
        return Err(Box::new(impossible()));
    }
    if headers.get(header::SEC_WEBSOCKET_VERSION) != Some(&VERSION) {
        return Err(Box::new(upgrade_required("only version 13 of WebSocket is supported")));
    }
    match headers.get(header::SEC_WEBSOCKET_KEY) {
        Some(key) => Ok(derive_accept_key(key.as_bytes())),
        None => {
            let text = "the handshake has no `Sec-WebSocket-Key` header";
            let failure = TurnError::new(ErrorCode::InvalidValue, text);
            Err(Box::new(error::response(&failure.param("sec-websocket-key"))))
        }
    }
}

pub(super) fn accepted(accept: &str) -> Response {
    let mut response = StatusCode::SWITCHING_PROTOCOLS.into_response();
    *response.body_mut() = Body::empty();
    let headers = response.headers_mut();
    headers.insert(header::UPGRADE, WEBSOCKET);
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    if let Ok(accept) = HeaderValue::try_from(accept) {
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    }
    response
}

/// Clients that try a WebSocket first take a 426 for a reason not to try again.
fn upgrade_required(text: impl Into<Cow<'static, str>>) -> Response {
    let failure = TurnError::new(ErrorCode::MethodNotAllowed, text);
    let mut response = error::with_status(&failure, 426);
    let headers = response.headers_mut();
    headers.insert(header::UPGRADE, WEBSOCKET);
    headers.insert(header::SEC_WEBSOCKET_VERSION, VERSION);
    response
}

/// Over HTTP/2, say, or through something on the way that does not pass upgrades on.
pub(super) fn impossible() -> Response {
    upgrade_required("a WebSocket needs an HTTP/1.1 connection with `Connection: upgrade`")
}

/// No upgrade was asked for.
fn plain(request: &Request) -> Response {
    upgrade_required(format!(
        "GET {} opens a WebSocket; use POST for anything else",
        crate::api::short(request.uri().path())
    ))
}

/// Nor would one be granted.
fn only_post(request: &Request) -> Response {
    crate::api::not_allowed(request.method(), request.uri(), crate::api::POST)
}

fn has_token(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|word| word.trim().eq_ignore_ascii_case(token))
}
