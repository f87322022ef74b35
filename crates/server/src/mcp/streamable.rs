//! Streamable HTTP: each message is a request of its own, answered with JSON or with a stream of
//! events. A stream that breaks is resumed, and a session that the server has forgotten is started
//! again.

use std::{future::pending, pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use http::{HeaderMap, HeaderValue, Method, Uri};
use ibeam_core::{
    codec::jsonrpc::{self, RpcMessage},
    mcp::client::{Handshake, McpClient, ServerGreeting},
};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::{
    http::{
        EventStream, LAST_EVENT, PostReply, RemoteServer, SESSION, ServerHttp, ServerHttpError,
        VERSION,
    },
    peer::{Outgoing, OutgoingQueue, ServerPeer},
};
use crate::net::http::HttpError;

/// Requests at once. The callers of a server are fewer.
const AT_ONCE: usize = 64;
/// For a message without an answer to be taken, for a new session, and for its end.
const SHORT: Duration = Duration::from_secs(5);
/// Before a stream is asked for again, if the server does not say.
const RESUME: Duration = Duration::from_secs(1);
const SOONEST: Duration = Duration::from_millis(100);
const LATEST: Duration = Duration::from_secs(60);
/// For the end of a stream that has given its answer, so that its connection can be kept.
const DRAIN: Duration = Duration::from_millis(50);

/// The connection to one server.
pub(super) struct Streamable {
    link: Arc<StreamableLink>,
    session: Arc<StreamableSession>,
}

/// How the server is reached.
struct StreamableLink {
    wire: ServerHttp,
    uri: Uri,
}

/// What the server gave in its greeting.
struct StreamableSession {
    number: u64,
    /// The version, and the id if there is one.
    headers: HeaderMap,
}

/// Why connecting failed.
pub(super) struct ConnectRefused {
    pub(super) why: String,
    /// The message itself was refused: the server may use the older transport.
    pub(super) as_such: bool,
}

impl From<ServerHttpError> for ConnectRefused {
    fn from(error: ServerHttpError) -> Self {
        let as_such = matches!(error, ServerHttpError::Status(status) if is_refusal(status));
        Self { why: error.to_string(), as_such }
    }
}

/// Whether a status refuses the message rather than its sender.
fn is_refusal(status: u16) -> bool {
    (400..500).contains(&status) && ![401, 403, 407, 429].contains(&status)
}

/// A request that is under way. It is returned if its session is no longer known.
type Exchange = Pin<Box<dyn Future<Output = Option<PendingRequest>> + Send>>;

struct PendingRequest {
    id: u64,
    message: Bytes,
    gone: CancellationToken,
    /// The number of the session it was sent in.
    session: u64,
    again: bool,
}

impl Streamable {
    pub(super) async fn open(
        remote: &RemoteServer,
        wire: ServerHttp,
    ) -> Result<(Self, ServerGreeting), ConnectRefused> {
        let link = Arc::new(StreamableLink { wire, uri: remote.uri().clone() });
        let (session, greeting) = link.greet(0).await?;
        Ok((Self { link, session: Arc::new(session) }, greeting))
    }

    /// Carries messages until `end` is cancelled.
    pub(super) async fn run(
        mut self,
        peer: ServerPeer,
        mut queue: OutgoingQueue,
        end: CancellationToken,
    ) {
        let closing = peer.closing();
        let mut exchanges: FuturesUnordered<Exchange> = FuturesUnordered::new();
        let mut listening = self.listen(&peer);
        loop {
            tokio::select! {
                () = end.cancelled() => break,
                () = &mut listening => listening = Box::pin(pending()),
                Some(expired) = exchanges.next() => {
                    let Some(request) = expired else { continue };
                    let renewed = tokio::select! {
                        () = end.cancelled() => break,
                        renewed = self.renew(&request) => renewed,
                    };
                    match renewed {
                        Ok(anew) => {
                            if anew {
                                listening = self.listen(&peer);
                            }
                            exchanges.push(self.ask(PendingRequest { again: true, ..request }, &peer));
                        }
                        Err(why) => peer.fail(request.id, why),
                    }
                }
                outgoing = queue.recv(), if exchanges.len() < AT_ONCE => match outgoing {
                    Some(Outgoing::Request { id, message, gone }) => {
                        let request = PendingRequest { id, message, gone, session: 0, again: false };
                        exchanges.push(self.ask(request, &peer));
                    }
                    Some(Outgoing::Note(message)) => exchanges.push(self.notify(message)),
                    None => break,
                },
            }
        }
        drop((exchanges, listening, closing));
        if self.session.headers.contains_key(SESSION) {
            let headers = self.session.headers.clone();
            let ended = self.link.wire.send(Method::DELETE, &self.link.uri, headers, Bytes::new());
            // A server may refuse to end its sessions.
            let _ = timeout(SHORT, ended).await;
        }
    }

    /// Starts the session again, unless that was done since the request was sent. Returns whether
    /// it was done now.
    async fn renew(&mut self, request: &PendingRequest) -> Result<bool, String> {
        if request.again {
            return Err(ServerHttpError::Expired.to_string());
        }
        if request.session != self.session.number {
            return Ok(false);
        }
        let greeted = timeout(SHORT, self.link.greet(self.session.number + 1)).await;
        match greeted {
            Ok(Ok((session, _))) => self.session = Arc::new(session),
            Ok(Err(refused)) => return Err(refused.why),
            Err(_elapsed) => return Err("it did not start a new session".to_owned()),
        }
        Ok(true)
    }

    fn ask(&self, request: PendingRequest, peer: &ServerPeer) -> Exchange {
        let (link, session, peer) =
            (Arc::clone(&self.link), Arc::clone(&self.session), peer.clone());
        Box::pin(async move {
            let request = PendingRequest { session: session.number, ..request };
            let gone = request.gone.clone();
            tokio::select! {
                () = gone.cancelled() => None,
                expired = link.answer(request, &session, &peer) => expired,
            }
        })
    }

    fn notify(&self, message: Bytes) -> Exchange {
        let (link, session) = (Arc::clone(&self.link), Arc::clone(&self.session));
        Box::pin(async move {
            let taken = link.wire.notify(&link.uri, message, session.headers.clone());
            match timeout(SHORT, taken).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => debug!(%error, "an MCP server did not accept a message"),
                Err(_elapsed) => debug!("an MCP server did not accept a message in time"),
            }
            None
        })
    }

    /// Reads the server's own messages, if it has a stream for them.
    fn listen(&self, peer: &ServerPeer) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        if !self.session.headers.contains_key(SESSION) {
            return Box::pin(pending());
        }
        let (link, session, peer) =
            (Arc::clone(&self.link), Arc::clone(&self.session), peer.clone());
        Box::pin(async move {
            let followed = match link.wire.listen(&link.uri, session.headers.clone()).await {
                Ok(stream) => link.follow(stream, &session, &peer, None).await,
                Err(error) => Err(error),
            };
            if let Err(error) = followed {
                debug!(%error, "an MCP server has no stream of its own");
            }
        })
    }
}

impl StreamableLink {
    async fn greet(
        &self,
        number: u64,
    ) -> Result<(StreamableSession, ServerGreeting), ConnectRefused> {
        let (mut handshake, message) = Handshake::new(env!("CARGO_PKG_VERSION"));
        let posted = self.wire.post(&self.uri, message, HeaderMap::new()).await?;
        let as_such = is_refusal(posted.status);
        let refused = |why: String| ConnectRefused { why, as_such };
        let unfinished = || refused("it did not answer `initialize`".to_owned());
        let greeting = match posted.reply {
            PostReply::Taken => None,
            PostReply::Message(message) => handshake.receive(&message),
            PostReply::Events(mut stream) => loop {
                let event = stream.next().await.map_err(ServerHttpError::Http)?;
                let Some(event) = event else { break None };
                let data = event.data.unwrap_or_default();
                if let Some(greeting) = handshake.receive(data.as_bytes()) {
                    break Some(greeting);
                }
            },
        };
        let greeting = greeting.ok_or_else(unfinished)?.map_err(refused)?;
        let mut headers = HeaderMap::new();
        if let Ok(version) = HeaderValue::from_str(&greeting.version) {
            headers.insert(VERSION, version);
        }
        if let Some(id) = posted.session {
            headers.insert(SESSION, id);
        }
        self.wire.notify(&self.uri, McpClient::initialized(), headers.clone()).await?;
        Ok((StreamableSession { number, headers }, greeting))
    }

    /// Sends a request and sees to its answer.
    async fn answer(
        &self,
        request: PendingRequest,
        session: &StreamableSession,
        peer: &ServerPeer,
    ) -> Option<PendingRequest> {
        let (id, message) = (request.id, request.message.clone());
        let posted = match self.wire.post(&self.uri, message, session.headers.clone()).await {
            Ok(posted) => posted,
            Err(ServerHttpError::Expired) => return Some(request),
            Err(error) => {
                peer.fail(id, error.to_string());
                return None;
            }
        };
        match posted.reply {
            // The answer comes on the server's own stream.
            PostReply::Taken => {}
            PostReply::Message(message) => {
                peer.receive(&message);
                // No effect if that was the answer.
                peer.fail(
                    id,
                    match jsonrpc::parse(&message) {
                        Some(RpcMessage::Response { outcome: Err(error), .. }) => error.to_string(),
                        _ => "its answer belongs to another request".to_owned(),
                    },
                );
            }
            PostReply::Events(stream) => match self.follow(stream, session, peer, Some(id)).await {
                Ok(()) => {}
                Err(error) => peer.fail(id, error.to_string()),
            },
        }
        None
    }

    /// Reads a stream up to the answer of a request, or without an end. One that breaks, or that
    /// the server closes, is resumed after the last event that had an id.
    async fn follow(
        &self,
        mut stream: EventStream,
        session: &StreamableSession,
        peer: &ServerPeer,
        id: Option<u64>,
    ) -> Result<(), ServerHttpError> {
        let mut last: Option<HeaderValue> = None;
        let mut retry = None;
        loop {
            let end = loop {
                let event = match stream.next().await {
                    Ok(Some(event)) => event,
                    Ok(None) => break None,
                    Err(error) => break Some(error),
                };
                if let Some(id) = event.id.and_then(|id| HeaderValue::from_str(&id).ok()) {
                    last = Some(id);
                }
                retry = event.retry.map(Duration::from_millis).or(retry);
                if matches!(event.event.as_deref(), None | Some("" | "message")) {
                    peer.receive(event.data.unwrap_or_default().as_bytes());
                }
                if id.is_some_and(|id| !peer.is_waiting(id)) {
                    let _ =
                        timeout(DRAIN, async { while let Ok(Some(_)) = stream.next().await {} })
                            .await;
                    return Ok(());
                }
            };
            match end {
                Some(error @ HttpError::TooLarge(_)) => return Err(error.into()),
                Some(error) if id.is_some() && last.is_none() => return Err(error.into()),
                None if id.is_some() && last.is_none() => {
                    let text = "the stream ended before the answer";
                    return Err(HttpError::Broken(text.to_owned()).into());
                }
                Some(_) | None => {}
            }
            let mut wait = retry.unwrap_or(RESUME).clamp(SOONEST, LATEST);
            stream = loop {
                sleep(wait).await;
                let mut headers = session.headers.clone();
                headers.extend(last.clone().map(|id| (LAST_EVENT, id)));
                match self.wire.listen(&self.uri, headers).await {
                    Ok(stream) => break stream,
                    Err(error) if error.is_final() => return Err(error),
                    Err(error) => debug!(%error, "a stream of an MCP server is not resumed yet"),
                }
                wait = (2 * wait).min(LATEST);
            };
        }
    }
}
