//! The older transport: one stream of events for all that the server says, and an address
//! that the stream tells for all that the client says.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream::BoxStream};
use http::{HeaderMap, HeaderValue, Method, Uri, header};
use rmcp::{
    RoleClient,
    model::{ClientJsonRpcMessage, ServerJsonRpcMessage},
    transport::{Transport, streamable_http_client::SseError},
};
use sse_stream::Sse;
use tokio::time::timeout;
use tracing::debug;

use super::http::{Remote, Wire};
use crate::net::connect::Host;

const MESSAGE_BYTES: usize = 16 << 20;
/// For one message to be taken; what it brings about comes on the stream.
const TAKEN: Duration = Duration::from_secs(30);

pub(super) struct SseTransport {
    wire: Wire,
    endpoint: Arc<Uri>,
    events: BoxStream<'static, Result<Sse, SseError>>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum SseFailure {
    #[error("{0}")]
    Refused(String),
    #[error("a message was refused with HTTP status {0}")]
    Status(u16),
    #[error("a message was not taken in time")]
    Late,
    #[error("a message cannot be written: {0}")]
    Json(#[from] serde_json::Error),
}

impl SseTransport {
    pub(super) async fn open(remote: &Remote, wire: Wire) -> Result<Self, SseFailure> {
        let refused = |why: String| SseFailure::Refused(why);
        let mut events = wire
            .listen(remote.uri(), HeaderMap::new(), MESSAGE_BYTES)
            .await
            .map_err(|error| refused(error.to_string()))?;
        while let Some(event) = events.next().await {
            let event = event.map_err(|error| refused(error.to_string()))?;
            if event.event.as_deref() == Some("endpoint") {
                let endpoint = endpoint(remote.uri(), event.data.as_deref().unwrap_or_default())
                    .ok_or_else(|| refused("the stream names an address elsewhere".to_owned()))?;
                return Ok(Self { wire, endpoint: Arc::new(endpoint), events });
            }
        }
        Err(refused("the stream ended without an address for messages".to_owned()))
    }
}

/// The address for messages. It must be on the host of the stream: the headers are for
/// that one alone.
fn endpoint(base: &Uri, told: &str) -> Option<Uri> {
    let told = told.trim();
    let host = Host::of(base)?;
    if let Some(uri) = told.parse::<Uri>().ok().filter(|uri| uri.scheme().is_some()) {
        return (Host::of(&uri)? == host).then_some(uri);
    }
    let path = match told.strip_prefix('/') {
        Some(_) => told.to_owned(),
        None if told.starts_with('?') => format!("{}{told}", base.path()),
        None => {
            let folder = base.path().rsplit_once('/').map_or("", |(folder, _)| folder);
            format!("{folder}/{told}")
        }
    };
    // `//host/path` would be another host to a browser; here it is a path.
    path.parse::<http::uri::PathAndQuery>().ok()?;
    Some(host.uri(&path))
}

impl Transport<RoleClient> for SseTransport {
    type Error = SseFailure;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), SseFailure>> + Send + 'static {
        let (wire, endpoint) = (self.wire.clone(), Arc::clone(&self.endpoint));
        async move {
            let body = Bytes::from(serde_json::to_vec(&message)?);
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            let sent = timeout(TAKEN, wire.send(Method::POST, &endpoint, headers, body)).await;
            let response = sent
                .map_err(|_elapsed| SseFailure::Late)?
                .map_err(|error| SseFailure::Refused(error.to_string()))?;
            let status = response.status();
            if status.is_success() { Ok(()) } else { Err(SseFailure::Status(status.as_u16())) }
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let event = match self.events.next().await? {
                Ok(event) => event,
                Err(error) => {
                    debug!(%error, "the stream of an MCP server broke");
                    return None;
                }
            };
            if event.event.as_deref().is_some_and(|kind| kind != "message") {
                continue;
            }
            match serde_json::from_str(event.data.as_deref().unwrap_or_default()) {
                Ok(message) => return Some(message),
                Err(error) => debug!(%error, "an MCP server said something that is no message"),
            }
        }
    }

    async fn close(&mut self) -> Result<(), SseFailure> {
        self.events = futures_util::stream::empty().boxed();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_go_to_the_host_of_the_stream() {
        let base: Uri = "http://127.0.0.1:3001/api/sse".parse().unwrap();
        for (told, full) in [
            ("/message?s=1", Some("http://127.0.0.1:3001/message?s=1")),
            ("message", Some("http://127.0.0.1:3001/api/message")),
            ("?s=1", Some("http://127.0.0.1:3001/api/sse?s=1")),
            ("http://127.0.0.1:3001/m", Some("http://127.0.0.1:3001/m")),
            ("http://evil.example/m", None),
            ("https://127.0.0.1:3001/m", None),
        ] {
            let found = endpoint(&base, told).map(|uri| uri.to_string());
            assert_eq!(found.as_deref(), full, "{told}");
        }
    }
}
