//! What a request says in its headers, and the answers that are not streams.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use ibeam_core::mcp::server::{self, McpHeaders};

use super::entrance::{Body, EntranceRefusal};

pub(super) const EVENT_STREAM: &str = "text/event-stream";
pub(super) const JSON: &str = "application/json";

/// What a client can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Accepted {
    Both,
    Stream,
    Json,
    Neither,
}

impl Accepted {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        if !headers.contains_key(header::ACCEPT) {
            return Self::Json;
        }
        let says = |word: &str| {
            let mut values = headers.get_all(header::ACCEPT).iter();
            values.any(|value| value.to_str().is_ok_and(|text| text.contains(word)))
        };
        match (says(EVENT_STREAM), says(JSON)) {
            (true, true) => Self::Both,
            (true, false) => Self::Stream,
            (false, true) => Self::Json,
            (false, false) if says("*/*") => Self::Json,
            (false, false) => Self::Neither,
        }
    }
}

/// The headers that the protocol looks at.
pub(super) fn of_protocol(headers: &HeaderMap) -> McpHeaders {
    let all = |name: &str| -> Vec<String> {
        let values = headers.get_all(name).iter();
        values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
    };
    McpHeaders {
        version: all("mcp-protocol-version").into_iter().next(),
        method: all("mcp-method"),
        name: all("mcp-name"),
    }
}

/// Why a request that was let in is not answered.
#[derive(Debug)]
pub(super) enum Denied {
    Plain(EntranceRefusal),
    /// Its headers do not fit the protocol.
    Protocol(server::McpRefusal),
    /// Only these methods are.
    Method(&'static str),
}

impl From<EntranceRefusal> for Denied {
    fn from(refusal: EntranceRefusal) -> Self {
        Self::Plain(refusal)
    }
}

impl From<server::McpRefusal> for Denied {
    fn from(refusal: server::McpRefusal) -> Self {
        Self::Protocol(refusal)
    }
}

impl Denied {
    pub(super) fn response(self) -> Response<Body> {
        match self {
            Self::Plain(refusal) => refusal.response(),
            Self::Protocol(server::McpRefusal::Message(message)) => json(400, message),
            Self::Protocol(server::McpRefusal::Words(text)) => {
                let mut response = Response::new(Full::from(text).boxed_unsync());
                *response.status_mut() = StatusCode::BAD_REQUEST;
                response
            }
            Self::Method(allowed) => {
                let text = "the method is not allowed";
                let mut response = EntranceRefusal(StatusCode::METHOD_NOT_ALLOWED, text).response();
                response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
                response
            }
        }
    }
}

/// A message as the whole body.
pub(super) fn json(status: u16, message: Bytes) -> Response<Body> {
    let mut response = Response::new(Full::from(message).boxed_unsync());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
    response
}

/// For a message that has no answer.
pub(super) fn taken() -> Response<Body> {
    let mut response = Response::new(Full::default().boxed_unsync());
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}
