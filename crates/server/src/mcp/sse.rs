//! The older transport: one stream of events for all that the server says, and an address
//! that the stream names for all that the client says.

use std::{pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use http::{HeaderMap, HeaderValue, Method, Uri, header};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::{
    http::{EventStream, RemoteServer, ServerHttp},
    peer::{Outgoing, OutgoingQueue, ServerPeer},
};
use crate::net::connect::Host;

/// For one message to be taken; what it brings about comes on the stream.
const TAKEN: Duration = Duration::from_secs(30);
/// Messages at once. The callers of a server are fewer.
const AT_ONCE: usize = 64;

pub(super) struct SseTransport {
    link: Arc<SseLink>,
    events: EventStream,
}

/// Where messages go.
struct SseLink {
    wire: ServerHttp,
    endpoint: Uri,
}

impl SseTransport {
    pub(super) async fn open(remote: &RemoteServer, wire: ServerHttp) -> Result<Self, String> {
        let listening = wire.listen(remote.uri(), HeaderMap::new()).await;
        let mut events = listening.map_err(|error| error.to_string())?;
        while let Some(event) = events.next().await.map_err(|error| error.to_string())? {
            if event.event.as_deref() == Some("endpoint") {
                let endpoint = endpoint(remote.uri(), event.data.as_deref().unwrap_or_default())
                    .ok_or("the stream names an address on another host")?;
                return Ok(Self { link: Arc::new(SseLink { wire, endpoint }), events });
            }
        }
        Err("the stream ended without an address for messages".to_owned())
    }

    /// Carries messages until the stream ends, or `end` is cancelled.
    pub(super) async fn run(
        mut self,
        peer: ServerPeer,
        mut queue: OutgoingQueue,
        end: CancellationToken,
    ) {
        let _closing = peer.closing();
        let mut sending: FuturesUnordered<Pin<Box<dyn Future<Output = ()> + Send>>> =
            FuturesUnordered::new();
        loop {
            tokio::select! {
                () = end.cancelled() => return,
                Some(()) = sending.next() => {}
                event = self.events.next() => match event {
                    Ok(Some(event)) => {
                        if matches!(event.event.as_deref(), None | Some("" | "message")) {
                            peer.receive(event.data.unwrap_or_default().as_bytes());
                        }
                    }
                    Ok(None) => return,
                    Err(error) => {
                        debug!(%error, "the stream of an MCP server broke");
                        return;
                    }
                },
                outgoing = queue.recv(), if sending.len() < AT_ONCE => match outgoing {
                    Some(Outgoing::Request { id, message, .. }) => {
                        let (link, peer) = (Arc::clone(&self.link), peer.clone());
                        sending.push(Box::pin(async move {
                            if let Err(why) = link.send(message).await {
                                peer.fail(id, why);
                            }
                        }));
                    }
                    // The end of the handshake has to be there before anything else.
                    Some(Outgoing::Note(message)) => {
                        if let Err(why) = self.link.send(message).await {
                            debug!(why, "an MCP server did not accept a message");
                        }
                    }
                    None => return,
                },
            }
        }
    }
}

impl SseLink {
    async fn send(&self, message: Bytes) -> Result<(), String> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let sent = self.wire.send(Method::POST, &self.endpoint, headers, message);
        match timeout(TAKEN, sent).await {
            Ok(Ok(response)) if response.status().is_success() => Ok(()),
            Ok(Ok(response)) => {
                let status = response.status().as_u16();
                Err(format!("a message was refused with HTTP status {status}"))
            }
            Ok(Err(error)) => Err(error.to_string()),
            Err(_elapsed) => Err("a message was not accepted in time".to_owned()),
        }
    }
}

/// The address for messages. It must be on the host of the stream: the headers are for
/// that one alone.
fn endpoint(base: &Uri, named: &str) -> Option<Uri> {
    let named = named.trim();
    let host = Host::of(base)?;
    if let Some(uri) = named.parse::<Uri>().ok().filter(|uri| uri.scheme().is_some()) {
        return (Host::of(&uri)? == host).then_some(uri);
    }
    let path = match named.strip_prefix('/') {
        Some(_) => named.to_owned(),
        None if named.starts_with('?') => format!("{}{named}", base.path()),
        None => {
            let folder = base.path().rsplit_once('/').map_or("", |(folder, _)| folder);
            format!("{folder}/{named}")
        }
    };
    // `//host/path` would be another host to a browser; here it is a path.
    path.parse::<http::uri::PathAndQuery>().ok()?;
    Some(host.uri(&path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_go_to_the_host_of_the_stream() {
        let base: Uri = "http://127.0.0.1:3001/api/sse".parse().unwrap();
        for (named, full) in [
            ("/message?s=1", Some("http://127.0.0.1:3001/message?s=1")),
            ("message", Some("http://127.0.0.1:3001/api/message")),
            ("?s=1", Some("http://127.0.0.1:3001/api/sse?s=1")),
            ("http://127.0.0.1:3001/m", Some("http://127.0.0.1:3001/m")),
            ("http://evil.example/m", None),
            ("https://127.0.0.1:3001/m", None),
        ] {
            let found = endpoint(&base, named).map(|uri| uri.to_string());
            assert_eq!(found.as_deref(), full, "{named}");
        }
    }
}
