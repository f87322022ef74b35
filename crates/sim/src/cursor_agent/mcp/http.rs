//! MCP over streamable HTTP: every message is its own POST, and an answer is one JSON document or
//! an event stream that contains it.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::{net::TcpStream, task::JoinSet};

use super::{MESSAGE_CAP, answers};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const PROTOCOL: HeaderName = HeaderName::from_static("mcp-protocol-version");

#[derive(Debug)]
pub(super) struct McpHttp {
    uri: Uri,
    authority: String,
    headers: HeaderMap,
    /// From the server's answer to `initialize`.
    session: Mutex<Option<HeaderValue>>,
}

/// An answer, and its connection.
struct HttpAnswer {
    response: Response<Incoming>,
    _connection: JoinSet<()>,
}

impl McpHttp {
    pub(super) fn new(url: &str, headers: &[(String, String)]) -> Result<Self, String> {
        let uri: Uri = url.parse().map_err(|_| format!("`{url}` is not a URL"))?;
        if uri.scheme_str() != Some("http") {
            return Err(format!("`{url}`: only http:// URLs are supported"));
        }
        let authority = uri.authority().ok_or_else(|| format!("`{url}` names no host"))?;
        let authority = match authority.port_u16() {
            Some(_) => authority.to_string(),
            None => format!("{authority}:80"),
        };
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let bad = || format!("`{name}` is not a valid header");
            let value = HeaderValue::from_str(value).map_err(|_| bad())?;
            map.insert(HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?, value);
        }
        let session = Mutex::new(None);
        Ok(Self { uri, authority, headers: map, session })
    }

    /// Sets the agreed version, for every request from now on.
    pub(super) fn agree(&mut self, version: &str) {
        if let Ok(version) = HeaderValue::from_str(version) {
            self.headers.insert(PROTOCOL, version);
        }
    }

    /// The answer to a request, error or not.
    pub(super) async fn ask(&self, id: u64, request: &Value) -> Result<Value, String> {
        let answer = self.send(Method::POST, Some(request)).await?;
        if let Some(session) = answer.response.headers().get(SESSION) {
            *self.session.lock() = Some(session.clone());
        }
        let status = answer.response.status();
        if !status.is_success() {
            return Err(format!("HTTP {status}"));
        }
        let kind = answer.response.headers().get(header::CONTENT_TYPE);
        let stream = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        if stream { answer.event(id).await } else { answer.document().await }
    }

    pub(super) async fn notify(&self, message: &Value) -> Result<(), String> {
        let answer = self.send(Method::POST, Some(message)).await?;
        let status = answer.response.status();
        if status.is_success() { Ok(()) } else { Err(format!("HTTP {status}")) }
    }

    pub(super) async fn close(&self) {
        if self.session.lock().is_some() {
            // The server may be gone already.
            let _ = self.send(Method::DELETE, None).await;
        }
    }

    /// Sends a request on its own connection.
    async fn send(&self, method: Method, message: Option<&Value>) -> Result<HttpAnswer, String> {
        let words = |error: &dyn std::fmt::Display| format!("fetch failed: {error}");
        let stream = TcpStream::connect(&self.authority).await.map_err(|e| words(&e))?;
        let _ = stream.set_nodelay(true);
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|e| words(&e))?;
        let mut running = JoinSet::new();
        running.spawn(async move {
            // The request reports an error of the connection.
            let _ = connection.await;
        });
        let body = message.map(|message| Bytes::from(message.to_string())).unwrap_or_default();
        let path = self.uri.path_and_query().map_or("/", |path| path.as_str());
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().map_err(|e: http::uri::InvalidUri| words(&e))?;
        let headers = request.headers_mut();
        headers.extend(self.headers.clone());
        let host = self.uri.authority().map(ToString::to_string).unwrap_or_default();
        headers.insert(header::HOST, HeaderValue::from_str(&host).map_err(|e| words(&e))?);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let accept = HeaderValue::from_static("application/json, text/event-stream");
        headers.insert(header::ACCEPT, accept);
        if let Some(session) = self.session.lock().clone() {
            headers.insert(SESSION, session);
        }
        let response = sender.send_request(request).await.map_err(|e| words(&e))?;
        Ok(HttpAnswer { response, _connection: running })
    }
}

impl HttpAnswer {
    async fn document(self) -> Result<Value, String> {
        let body = Limited::new(self.response.into_body(), MESSAGE_CAP);
        let bytes = body.collect().await.map_err(|error| error.to_string())?.to_bytes();
        serde_json::from_slice(&bytes).map_err(|error| error.to_string())
    }

    /// Reads events until the answer arrives; progress and the like is skipped.
    async fn event(mut self, id: u64) -> Result<Value, String> {
        let mut events = EventReader::default();
        loop {
            while let Some(data) = events.next() {
                let Ok(message) = serde_json::from_str::<Value>(&data) else { continue };
                if answers(&message, id) {
                    return Ok(message);
                }
            }
            match self.response.body_mut().frame().await {
                None => return Err("the stream ended without an answer".to_owned()),
                Some(Err(error)) => return Err(error.to_string()),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        events.push(&data)?;
                    }
                }
            }
        }
    }
}

/// Parses server-sent events; only their data counts.
#[derive(Debug, Default)]
struct EventReader {
    bytes: Vec<u8>,
    data: Option<String>,
}

impl EventReader {
    fn push(&mut self, bytes: &[u8]) -> Result<(), String> {
        if self.bytes.len() + bytes.len() > MESSAGE_CAP {
            return Err("an event is too long".to_owned());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// The data of the next complete event.
    fn next(&mut self) -> Option<String> {
        loop {
            let end = self.bytes.iter().position(|byte| *byte == b'\n')?;
            let rest = self.bytes.split_off(end + 1);
            let line = std::mem::replace(&mut self.bytes, rest);
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches(['\n', '\r']);
            if line.is_empty() {
                if let Some(data) = self.data.take() {
                    return Some(data);
                }
            } else if let Some(data) = line.strip_prefix("data:") {
                let data = data.strip_prefix(' ').unwrap_or(data);
                match &mut self.data {
                    Some(all) => {
                        all.push('\n');
                        all.push_str(data);
                    }
                    None => self.data = Some(data.to_owned()),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::EventReader;

    #[test]
    fn events_may_be_split_anywhere() {
        let mut events = EventReader::default();
        events.push(b": hello\r\nid: 1\r\nda").unwrap();
        assert_eq!(events.next(), None);
        events.push(b"ta: {\"a\":\r\ndata: 1}\r\n\r\ndata:x\n\n\n").unwrap();
        assert_eq!(events.next().as_deref(), Some("{\"a\":\n1}"));
        assert_eq!(events.next().as_deref(), Some("x"));
        assert_eq!(events.next(), None);
    }
}
