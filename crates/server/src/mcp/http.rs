//! MCP over HTTP with the gateway's own client: its certificates, its proxies, its limits.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, header,
};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use ibeam_core::codec::{
    jsonrpc::{self, RpcMessage},
    sse::{SseDecoder, SseEvent},
};

use super::peer::MESSAGE_BYTES;
use crate::{
    config::servers::Hidden,
    net::{
        connect::{Connector, Host},
        hosts::Reach,
        http::{HttpClient, HttpError, read_all},
        proxy::Proxy,
        tls::{Alpn, Tls},
    },
    tasks::Tasks,
};

/// Of a refusal, which is shown in part.
const REFUSAL_BYTES: usize = 64 << 10;

const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";
pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
pub(super) const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(super) const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// Headers that the protocol itself sets.
const RESERVED: [HeaderName; 8] = [
    SESSION,
    VERSION,
    LAST_EVENT,
    header::ACCEPT,
    header::CONTENT_TYPE,
    header::CONTENT_LENGTH,
    header::HOST,
    header::TRANSFER_ENCODING,
];

/// A server elsewhere.
#[derive(Clone)]
pub struct Remote {
    uri: Uri,
    host: Host,
    headers: HeaderMap,
    sse: bool,
}

/// Neither the headers nor the path, which may have a token in it.
impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("host", &self.host).finish_non_exhaustive()
    }
}

impl Remote {
    /// `sse`: it speaks the older transport, and the newer one is not tried.
    ///
    /// # Errors
    /// The address or a header cannot be used, or would show a secret to the network.
    pub fn new(url: &str, headers: Vec<(String, Hidden)>, sse: bool) -> Result<Self, String> {
        let uri: Uri = url.trim().parse().map_err(|_| "url: is not a URL".to_owned())?;
        let host =
            Host::of(&uri).ok_or("url: must be `https://…` or `http://…`, without a user")?;
        if !host.is_tls() && !host.is_loopback() && !headers.is_empty() {
            let text = "url: is plain http to another machine, which would show the headers to \
                        the network";
            return Err(text.to_owned());
        }
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let bad = |why: &str| format!("headers.{name}: {why}");
            let key: HeaderName = name.parse().map_err(|_| bad("is not a header name"))?;
            if RESERVED.contains(&key) {
                return Err(bad("is set by the protocol"));
            }
            let mut value = HeaderValue::from_str(value.expose())
                .map_err(|_| bad("has characters that a header cannot carry"))?;
            value.set_sensitive(true);
            map.insert(key, value);
        }
        Ok(Self { uri, host, headers: map, sse })
    }

    #[must_use]
    pub fn host(&self) -> &Host {
        &self.host
    }

    #[must_use]
    pub fn is_sse(&self) -> bool {
        self.sse
    }

    /// The headers, and the path, which may have a token in it.
    pub(super) fn secrets(&self) -> Vec<Hidden> {
        let values = self.headers.values().filter_map(|value| value.to_str().ok());
        let path = self.uri.path_and_query().map(|path| path.as_str());
        values.chain(path).map(|text| Hidden::from(text.to_owned())).collect()
    }

    pub(super) fn uri(&self) -> &Uri {
        &self.uri
    }

    #[cfg(test)]
    pub(super) fn headers(&self) -> &HeaderMap {
        &self.headers
    }
}

/// What the clients of all servers share.
#[derive(Clone, Debug)]
pub(super) struct Web {
    pub(super) tls: Arc<Tls>,
    pub(super) connect: Duration,
    pub(super) tasks: Tasks,
}

/// The client of one server. It dials no other host.
#[derive(Clone, Debug)]
pub(super) struct ServerHttp {
    client: HttpClient,
    headers: HeaderMap,
}

/// Why there is no answer to a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ServerHttpError {
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error("it asks for authorization; give it a header in its settings")]
    Unauthorized,
    /// The server does not know the session that was named.
    #[error("it ended the session")]
    Expired,
    #[error("it answered with HTTP status {0}")]
    Status(u16),
    #[error("its answer has the unexpected type `{0}`")]
    Type(String),
    #[error("its answer is not a valid protocol message")]
    NoMessage,
}

impl ServerHttpError {
    /// Whether asking again for a stream is of no use.
    pub(super) fn is_final(&self) -> bool {
        match self {
            Self::Http(_) => false,
            Self::Status(status) => (400..500).contains(status) && ![408, 429].contains(status),
            Self::Unauthorized | Self::Expired | Self::Type(_) | Self::NoMessage => true,
        }
    }
}

/// What came back for a message.
pub(super) struct Posted {
    pub(super) status: u16,
    /// The session that the server has begun.
    pub(super) session: Option<HeaderValue>,
    pub(super) reply: Reply,
}

pub(super) enum Reply {
    /// Nothing: the message was taken.
    Taken,
    Message(Bytes),
    Events(EventStream),
}

/// The events of a body, as they come.
pub(super) struct EventStream {
    body: Incoming,
    events: SseDecoder,
}

impl EventStream {
    fn new(body: Incoming) -> Self {
        Self { body, events: SseDecoder::new(MESSAGE_BYTES) }
    }

    /// The next event; `None` at the end. Nothing is lost when the future is dropped.
    pub(super) async fn next(&mut self) -> Result<Option<SseEvent>, HttpError> {
        loop {
            if let Some(event) = self.events.next() {
                return Ok(Some(event));
            }
            let Some(frame) = self.body.frame().await else { return Ok(None) };
            let frame = frame.map_err(|error| HttpError::Broken(error.to_string()))?;
            if let Some(chunk) = frame.data_ref() {
                self.events.push(chunk).map_err(|_| HttpError::TooLarge(MESSAGE_BYTES))?;
            }
        }
    }
}

impl ServerHttp {
    pub(super) fn new(remote: &Remote, web: &Web) -> Self {
        let connector = Connector::Tcp {
            tls: Arc::clone(&web.tls),
            // A proxy for the world is none for this machine.
            proxy: if remote.host.is_loopback() { Proxy::none() } else { Proxy::from_env() },
            connect_timeout: web.connect,
            reach: Reach::only(remote.host.clone()),
        };
        let client = HttpClient::new(connector, Alpn::Http1, &web.tasks);
        Self { client, headers: remote.headers.clone() }
    }

    pub(super) async fn send(
        &self,
        method: Method,
        uri: &Uri,
        more: HeaderMap,
        body: Bytes,
    ) -> Result<Response<Incoming>, HttpError> {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = uri.clone();
        let headers = request.headers_mut();
        headers.extend(self.headers.clone());
        headers.extend(more);
        self.client.send(request).await
    }

    /// Asks for a stream of events.
    pub(super) async fn listen(
        &self,
        uri: &Uri,
        mut headers: HeaderMap,
    ) -> Result<EventStream, ServerHttpError> {
        headers.insert(header::ACCEPT, HeaderValue::from_static(EVENTS));
        let response = self.send(Method::GET, uri, headers, Bytes::new()).await?;
        match response.status() {
            StatusCode::UNAUTHORIZED => Err(ServerHttpError::Unauthorized),
            status if !status.is_success() => Err(ServerHttpError::Status(status.as_u16())),
            _ if !is_kind(&response, EVENTS) => Err(ServerHttpError::Type(kind(&response))),
            _ => Ok(EventStream::new(response.into_body())),
        }
    }

    async fn message(
        &self,
        uri: &Uri,
        message: Bytes,
        mut headers: HeaderMap,
    ) -> Result<Response<Incoming>, ServerHttpError> {
        let had_session = headers.contains_key(SESSION);
        let both = HeaderValue::from_static("application/json, text/event-stream");
        headers.insert(header::ACCEPT, both);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
        let response = self.send(Method::POST, uri, headers, message).await?;
        match response.status() {
            StatusCode::UNAUTHORIZED => Err(ServerHttpError::Unauthorized),
            StatusCode::NOT_FOUND if had_session => Err(ServerHttpError::Expired),
            _ => Ok(response),
        }
    }

    /// Sends a message that has no answer. What a server says to it even so is not looked at.
    pub(super) async fn notify(
        &self,
        uri: &Uri,
        message: Bytes,
        headers: HeaderMap,
    ) -> Result<(), ServerHttpError> {
        let status = self.message(uri, message, headers).await?.status();
        if status.is_success() { Ok(()) } else { Err(ServerHttpError::Status(status.as_u16())) }
    }

    /// Sends a request.
    pub(super) async fn post(
        &self,
        uri: &Uri,
        message: Bytes,
        headers: HeaderMap,
    ) -> Result<Posted, ServerHttpError> {
        let response = self.message(uri, message, headers).await?;
        let status = response.status();
        let session = response.headers().get(SESSION).cloned();
        let posted = |reply| Posted { status: status.as_u16(), session, reply };
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(posted(Reply::Taken));
        }
        if status.is_success() && is_kind(&response, EVENTS) {
            return Ok(posted(Reply::Events(EventStream::new(response.into_body()))));
        }
        let (is_json, kind) = (is_kind(&response, JSON), kind(&response));
        let most = if status.is_success() { MESSAGE_BYTES } else { REFUSAL_BYTES };
        let body = read_all(response.into_body(), most).await?;
        let read = if is_json { jsonrpc::parse(&body) } else { None };
        match read {
            // A refusal that says why in the protocol's own words is an answer.
            Some(RpcMessage::Response { outcome: Err(_), .. }) => {}
            _ if !status.is_success() => return Err(ServerHttpError::Status(status.as_u16())),
            Some(_) => {}
            None if body.is_empty() => return Ok(posted(Reply::Taken)),
            None if is_json => return Err(ServerHttpError::NoMessage),
            None => return Err(ServerHttpError::Type(kind)),
        }
        Ok(posted(Reply::Message(body)))
    }
}

fn kind(response: &Response<Incoming>) -> String {
    let kind = response.headers().get(header::CONTENT_TYPE);
    kind.map(|kind| String::from_utf8_lossy(kind.as_bytes()).into_owned()).unwrap_or_default()
}

fn is_kind(response: &Response<Incoming>, wanted: &str) -> bool {
    kind(response).to_ascii_lowercase().starts_with(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_secret_is_printed() {
        let headers = vec![("Authorization".to_owned(), Hidden::from("Bearer hunter2".to_owned()))];
        let remote = Remote::new("https://x.test/path?key=hunter3", headers, false).unwrap();
        let text =
            format!("{remote:?} {}", super::super::config::ServerTransport::Http(remote.clone()));
        assert!(!text.contains("hunter"), "{text}");
    }
}
