//! What the headers of an HTTP request must say, and whether it belongs to a session.

use bytes::Bytes;

use super::{HEADER_MISMATCH, Inbound, InboundRequest, version};
use crate::codec::jsonrpc::{self, INVALID_PARAMS, INVALID_REQUEST};

/// The headers that the protocol has, each as often as it was sent.
#[derive(Clone, Debug, Default)]
pub struct McpHeaders {
    pub version: Option<String>,
    pub method: Vec<String>,
    pub name: Vec<String>,
}

/// How a request is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifecycle {
    /// In the session that it names, or that it begins.
    Session,
    /// By itself: it says all there is to know.
    Alone,
}

/// Why a request is not answered.
#[derive(Debug, PartialEq, Eq)]
pub enum McpRefusal {
    /// With status 400 and these words.
    Words(String),
    /// With status 400 and this message.
    Message(Bytes),
}

impl McpRefusal {
    fn message(request: &InboundRequest<'_>, code: i64, text: &str) -> Self {
        Self::Message(jsonrpc::error(&request.id, code, text))
    }
}

/// The refusal of a message that answers something, outside of a session.
#[must_use]
pub fn no_answers() -> McpRefusal {
    let text = "a server without a session accepts no responses";
    McpRefusal::Message(jsonrpc::failure(None, INVALID_REQUEST, text, None))
}

/// Whether a request without a message (GET, DELETE) can be about a session at all.
///
/// # Errors
/// The version is not known.
pub fn has_sessions(headers: &McpHeaders) -> Result<bool, McpRefusal> {
    match headers.version.as_deref() {
        Some(asked) if !version::is_known(asked) => Err(unknown(asked)),
        Some(asked) => Ok(version::has_handshake(asked)),
        None => Ok(true),
    }
}

/// Where a message belongs.
///
/// # Errors
/// Its headers are not right.
pub fn lifecycle(headers: &McpHeaders, message: &Inbound<'_>) -> Result<Lifecycle, McpRefusal> {
    let request = message.request();
    let own = request.and_then(|request| request.meta.version.as_deref());
    if own.is_none() {
        has_sessions(headers)?;
    }
    if let Some(request) = request.filter(|request| request.is_greeting()) {
        greeting(headers, request)?;
        // The handshake is older than the versions without one, whatever version it asks for.
        return Ok(Lifecycle::Session);
    }
    if let Some(request) = request {
        version_twice(headers, request)?;
    }
    standard(headers, message)?;
    let complete = request.is_some_and(|request| request.meta.complete().is_ok());
    let version = own.or(headers.version.as_deref());
    let session = !complete && version.is_none_or(version::has_handshake);
    Ok(if session { Lifecycle::Session } else { Lifecycle::Alone })
}

fn unknown(asked: &str) -> McpRefusal {
    McpRefusal::Words(format!("Bad Request: Unsupported MCP-Protocol-Version: {asked}"))
}

fn is_stateless(headers: &McpHeaders) -> bool {
    headers.version.as_deref().is_some_and(|version| !version::has_handshake(version))
}

fn greeting(headers: &McpHeaders, request: &InboundRequest<'_>) -> Result<(), McpRefusal> {
    let Some(body) = request.greeted_version() else {
        return Err(McpRefusal::message(request, INVALID_PARAMS, "`protocolVersion` is missing"));
    };
    if let Some(header) = headers.version.as_deref().filter(|header| *header != body) {
        let text = format!(
            "MCP-Protocol-Version is {header}, but `initialize` asks for protocolVersion {body}"
        );
        return Err(McpRefusal::message(request, INVALID_REQUEST, &text));
    }
    if is_stateless(headers) && !headers.method.is_empty() {
        method(headers, &request.method).map_err(|text| mismatch(Some(request), &text))?;
    }
    Ok(())
}

/// A version in the message needs the same one in the headers, and the other way around.
fn version_twice(headers: &McpHeaders, request: &InboundRequest<'_>) -> Result<(), McpRefusal> {
    let Some(own) = &request.meta.version else {
        if request.method == "server/discover" || is_stateless(headers) {
            let missing = request.meta.complete().err().unwrap_or_default();
            return Err(McpRefusal::message(request, INVALID_PARAMS, &missing));
        }
        return Ok(());
    };
    let text = match &headers.version {
        Some(header) if header == own => return Ok(()),
        Some(header) => format!("MCP-Protocol-Version is {header}, but _meta says {own}"),
        None => {
            "_meta has a protocolVersion, but the header MCP-Protocol-Version is missing".to_owned()
        }
    };
    Err(mismatch(Some(request), &text))
}

/// Proxies route by these headers without reading the message, so they must agree with it.
fn standard(headers: &McpHeaders, message: &Inbound<'_>) -> Result<(), McpRefusal> {
    if !is_stateless(headers) {
        return Ok(());
    }
    match message {
        Inbound::Request(request) => method(headers, &request.method)
            .and_then(|()| name(headers, request))
            .map_err(|text| mismatch(Some(request), &text)),
        Inbound::Notification(note) => {
            method(headers, &note.method).map_err(|text| mismatch(None, &text))
        }
        Inbound::Response => Ok(()),
    }
}

fn mismatch(request: Option<&InboundRequest<'_>>, text: &str) -> McpRefusal {
    let id = request.map(|request| &request.id);
    McpRefusal::Message(jsonrpc::failure(id, HEADER_MISMATCH, text, None))
}

fn method(headers: &McpHeaders, expected: &str) -> Result<(), String> {
    match headers.method.as_slice() {
        [given] if given == expected => Ok(()),
        [given] => Err(format!("Mcp-Method is `{given}`, but the method is `{expected}`")),
        [] => Err("the header Mcp-Method is missing".to_owned()),
        _ => Err("the header Mcp-Method is there more than once".to_owned()),
    }
}

fn name(headers: &McpHeaders, request: &InboundRequest<'_>) -> Result<(), String> {
    let Some(expected) = request.target() else { return Ok(()) };
    match headers.name.as_slice() {
        [given] => match decoded(given) {
            Some(given) if given == expected => Ok(()),
            Some(given) => Err(format!("Mcp-Name is `{given}`, but the message has `{expected}`")),
            None => Err("the header Mcp-Name is not valid Base64".to_owned()),
        },
        [] => Err("the header Mcp-Name is missing".to_owned()),
        _ => Err("the header Mcp-Name is there more than once".to_owned()),
    }
}

/// Names that a header cannot carry are sent as `=?base64?…?=`.
fn decoded(value: &str) -> Option<String> {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let coded = value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?="));
    match coded {
        Some(coded) => String::from_utf8(STANDARD.decode(coded).ok()?).ok(),
        None => Some(value.to_owned()),
    }
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
