//! MCP over HTTP with the gateway's own client: its certificates, its proxies, its limits.

use std::{
    borrow::Cow,
    collections::HashMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU16, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream::BoxStream};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, header,
};
use http_body_util::BodyStream;
use hyper::body::Incoming;
use rmcp::{
    model::{ClientJsonRpcMessage, ServerJsonRpcMessage},
    transport::streamable_http_client::{
        AuthRequiredError, HttpStatusError, SseError, StreamableHttpClient, StreamableHttpError,
        StreamableHttpPostResponse,
    },
};
use sse_stream::{Sse, SseStream};

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

/// Of one message. As much as the standard library of the protocol takes over a pipe.
const MESSAGE_BYTES: usize = 16 << 20;
/// Of a refusal, which is shown in part.
const REFUSAL_BYTES: usize = 64 << 10;

const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

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
        let uri: Uri = url.trim().parse().map_err(|_| "url: is no URL".to_owned())?;
        let host = Host::of(&uri).ok_or("url: is no `https://…` or `http://…` without a user")?;
        if !host.is_tls() && !host.is_loopback() && !headers.is_empty() {
            let text = "url: is plain http to another machine, which would show the headers to \
                        the network";
            return Err(text.to_owned());
        }
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let bad = |why: &str| format!("headers.{name}: {why}");
            let key: HeaderName = name.parse().map_err(|_| bad("is no name of a header"))?;
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

/// The client of one server. It dials nobody else.
#[derive(Clone, Debug)]
pub(super) struct Wire {
    client: HttpClient,
    headers: HeaderMap,
    /// The last status by which a message was refused.
    refused: Arc<AtomicU16>,
}

#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(super) struct WireError(#[from] HttpError);

type Failure = StreamableHttpError<WireError>;

impl From<WireError> for Failure {
    fn from(error: WireError) -> Self {
        Self::Client(error)
    }
}

fn failed(error: HttpError) -> Failure {
    WireError(error).into()
}

impl Wire {
    pub(super) fn new(remote: &Remote, web: &Web) -> Self {
        let connector = Connector::Tcp {
            tls: Arc::clone(&web.tls),
            // A proxy for the world is none for this machine.
            proxy: if remote.host.is_loopback() { Proxy::none() } else { Proxy::from_env() },
            connect_timeout: web.connect,
            reach: Reach::only(remote.host.clone()),
        };
        Self {
            client: HttpClient::new(connector, Alpn::Http1, &web.tasks),
            headers: remote.headers.clone(),
            refused: Arc::default(),
        }
    }

    /// Whether the last message was refused for what it is, and not for who sent it.
    pub(super) fn was_refused(&self) -> bool {
        let status = self.refused.load(Ordering::Relaxed);
        (400..500).contains(&status) && ![401, 403, 407, 429].contains(&status)
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
        limit: usize,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        headers.insert(header::ACCEPT, HeaderValue::from_static(EVENTS));
        let response = self.send(Method::GET, uri, headers, Bytes::new()).await.map_err(failed)?;
        if response.status() == StatusCode::METHOD_NOT_ALLOWED {
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        }
        let response = admitted(response)?;
        if !response.status().is_success() {
            return Err(HttpStatusError::new(response.status().as_u16(), None).into());
        }
        if !is_kind(&response, EVENTS) {
            return Err(StreamableHttpError::UnexpectedContentType(kind(&response)));
        }
        Ok(events(response.into_body(), limit))
    }

    async fn post(
        &self,
        uri: &Uri,
        message: &ClientJsonRpcMessage,
        mut headers: HeaderMap,
        limit: usize,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let had_session = headers.contains_key(SESSION);
        headers.insert(
            header::ACCEPT,
            HeaderValue::from_static("application/json, text/event-stream"),
        );
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
        let body = Bytes::from(serde_json::to_vec(message)?);
        let response = self.send(Method::POST, uri, headers, body).await.map_err(failed)?;
        let status = response.status();
        self.refused
            .store(if status.is_success() { 0 } else { status.as_u16() }, Ordering::Relaxed);
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        let response = admitted(response)?;
        if status == StatusCode::NOT_FOUND && had_session {
            return Err(StreamableHttpError::SessionExpired);
        }
        let session = response.headers().get(SESSION);
        let session = session.and_then(|id| id.to_str().ok()).map(ToOwned::to_owned);
        if status.is_success() && is_kind(&response, EVENTS) {
            return Ok(StreamableHttpPostResponse::Sse(
                events(response.into_body(), limit),
                session,
            ));
        }
        let json = is_kind(&response, JSON);
        let kind = kind(&response);
        let most = if status.is_success() { limit } else { REFUSAL_BYTES };
        let body = read_all(response.into_body(), most).await.map_err(failed)?;
        let read =
            json.then(|| serde_json::from_slice::<ServerJsonRpcMessage>(&body).ok()).flatten();
        let asks = matches!(message, ClientJsonRpcMessage::Request(_));
        match read {
            // A refusal that says why in the protocol's own words is an answer.
            Some(read @ ServerJsonRpcMessage::Error(_)) => {
                Ok(StreamableHttpPostResponse::Json(read, session))
            }
            _ if !status.is_success() => Err(HttpStatusError::new(status.as_u16(), None).into()),
            Some(read) => Ok(StreamableHttpPostResponse::Json(read, session)),
            // Nothing is waited for, so it need not make sense.
            None if !asks => Ok(StreamableHttpPostResponse::Accepted),
            None if json => Err(StreamableHttpError::UnexpectedServerResponse(Cow::Borrowed(
                "the answer is no message of the protocol",
            ))),
            None => Err(StreamableHttpError::UnexpectedContentType(kind)),
        }
    }
}

/// Passes on a response that is no refusal of who asks.
fn admitted(response: Response<Incoming>) -> Result<Response<Incoming>, Failure> {
    if response.status() != StatusCode::UNAUTHORIZED {
        return Ok(response);
    }
    let challenge = response.headers().get(header::WWW_AUTHENTICATE);
    let challenge = challenge.and_then(|value| value.to_str().ok()).unwrap_or_default();
    Err(StreamableHttpError::AuthRequired(AuthRequiredError::new(challenge.to_owned())))
}

fn kind(response: &Response<Incoming>) -> Option<String> {
    let kind = response.headers().get(header::CONTENT_TYPE)?;
    Some(String::from_utf8_lossy(kind.as_bytes()).into_owned())
}

fn is_kind(response: &Response<Incoming>, wanted: &str) -> bool {
    kind(response).is_some_and(|kind| kind.to_ascii_lowercase().starts_with(wanted))
}

/// A body as events of at most `limit` bytes each.
fn events(body: Incoming, limit: usize) -> BoxStream<'static, Result<Sse, SseError>> {
    let mut size = EventSize::new(limit);
    let chunks = BodyStream::new(body).filter_map(move |frame| {
        let chunk = match frame {
            Ok(frame) => frame.into_data().ok().map(|chunk| match size.fits(&chunk) {
                true => Ok(chunk),
                false => Err(HttpError::TooLarge(limit)),
            }),
            Err(error) => Some(Err(HttpError::Broken(error.to_string()))),
        };
        std::future::ready(chunk)
    });
    SseStream::from_bytes_stream(chunks).boxed()
}

/// How much of an event has come: an empty line ends it.
struct EventSize {
    limit: usize,
    bytes: usize,
    line: usize,
    /// The line ended with half of a CRLF.
    half: bool,
}

impl EventSize {
    fn new(limit: usize) -> Self {
        Self { limit, bytes: 0, line: 0, half: false }
    }

    fn fits(&mut self, chunk: &[u8]) -> bool {
        for byte in chunk {
            let half = std::mem::replace(&mut self.half, *byte == b'\r');
            match byte {
                b'\n' if half => {}
                b'\n' | b'\r' if self.line == 0 => self.bytes = 0,
                b'\n' | b'\r' => self.line = 0,
                _ => self.line += 1,
            }
            self.bytes += 1;
            if self.bytes > self.limit {
                return false;
            }
        }
        true
    }
}

fn headers(
    session: Option<&str>,
    bearer: Option<String>,
    custom: HashMap<HeaderName, HeaderValue>,
) -> HeaderMap {
    let mut headers: HeaderMap = custom.into_iter().collect();
    let values = [
        (SESSION, session.map(ToOwned::to_owned)),
        (header::AUTHORIZATION, bearer.map(|b| format!("Bearer {b}"))),
    ];
    for (name, value) in values {
        if let Some(value) = value.and_then(|value| HeaderValue::from_str(&value).ok()) {
            headers.insert(name, value);
        }
    }
    headers
}

fn address(uri: &str) -> Result<Uri, Failure> {
    uri.parse().map_err(|_| StreamableHttpError::UnexpectedServerResponse("no address".into()))
}

impl StreamableHttpClient for Wire {
    type Error = WireError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let headers = headers(session_id.as_deref(), auth_header, custom_headers);
        self.post(&address(&uri)?, &message, headers, MESSAGE_BYTES).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failure> {
        let headers = headers(Some(&session_id), auth_header, custom_headers);
        // A server that keeps its sessions says so, and nobody minds.
        self.send(Method::DELETE, &address(&uri)?, headers, Bytes::new()).await.map_err(failed)?;
        Ok(())
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        let mut headers = headers(session_id.as_deref(), auth_header, custom_headers);
        if let Some(id) = last_event_id.and_then(|id| HeaderValue::from_str(&id).ok()) {
            headers.insert(LAST_EVENT, id);
        }
        self.listen(&address(&uri)?, headers, MESSAGE_BYTES).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_event_counts() {
        let mut size = EventSize::new(12);
        assert!(size.fits(b"data: a\n\n"));
        assert!(size.fits(b"data: b\r\n\r\n"));
        assert!(size.fits(b"data: c"));
        assert!(!size.fits(b"cccccccc"), "no end, and too long");
        let mut size = EventSize::new(12);
        assert!(!size.fits(b"data: a\r\ndata: b\r\n"), "a line's end is no event's");
    }

    #[test]
    fn nothing_of_a_secret_is_printed() {
        let headers = vec![("Authorization".to_owned(), Hidden::from("Bearer hunter2".to_owned()))];
        let remote = Remote::new("https://x.test/path?key=hunter3", headers, false).unwrap();
        let text = format!("{remote:?} {}", super::super::config::Way::Http(remote.clone()));
        assert!(!text.contains("hunter"), "{text}");
    }
}
