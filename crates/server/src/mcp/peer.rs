//! A server as its callers see it, whatever transport is under it.
//!
//! Callers put messages into a bounded queue, from which the transport sends them. The
//! transport hands over what comes back, and says when the connection is over.

use std::{collections::HashMap, fmt, sync::Arc};

use bytes::Bytes;
use ibeam_core::{
    codec::jsonrpc::RpcError,
    mcp::client::{McpClient, McpIncoming, McpRequest, ServerGreeting},
};
use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::debug;

/// Of one message. As much as others take over a pipe.
pub(super) const MESSAGE_BYTES: usize = 16 << 20;

/// Messages that wait to be sent. A server has far fewer calls at once.
const QUEUE: usize = 64;

/// What a transport has to send.
#[derive(Debug)]
pub(super) enum Outgoing {
    /// A request. Its caller has stopped waiting when `gone` is cancelled.
    Request { id: u64, message: Bytes, gone: CancellationToken },
    /// A message that has no answer.
    Note(Bytes),
}

pub(super) type Queue = mpsc::Receiver<Outgoing>;

/// Why a request has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RequestFailure {
    /// The server answered with an error.
    Refused(RpcError),
    /// The message did not reach it, or its answer did not reach us.
    Lost(String),
    /// The connection is over.
    Closed,
}

impl fmt::Display for RequestFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => error.fmt(f),
            Self::Lost(why) => f.write_str(why),
            Self::Closed => f.write_str("the connection ended"),
        }
    }
}

type RequestOutcome = Result<Box<RawValue>, RequestFailure>;

/// Clones are the same connection.
#[derive(Clone, Debug)]
pub(super) struct Peer(Arc<PeerInner>);

#[derive(Debug)]
struct PeerInner {
    state: Mutex<PeerState>,
    queue: mpsc::Sender<Outgoing>,
    changed: Notify,
    over: CancellationToken,
}

#[derive(Debug, Default)]
struct PeerState {
    client: McpClient,
    waiting: HashMap<u64, oneshot::Sender<RequestOutcome>>,
    closed: bool,
}

impl Peer {
    pub(super) fn new() -> (Self, Queue) {
        let (queue, sent) = mpsc::channel(QUEUE);
        let inner = PeerInner {
            state: Mutex::default(),
            queue,
            changed: Notify::new(),
            over: CancellationToken::new(),
        };
        (Self(Arc::new(inner)), sent)
    }

    // === for callers ===

    /// The handshake.
    pub(super) async fn greet(&self) -> Result<ServerGreeting, String> {
        let ask = McpRequest::Initialize { version: env!("CARGO_PKG_VERSION") };
        let result = self.request(ask).await.map_err(|error| match error {
            RequestFailure::Closed => "it exited before the handshake".to_owned(),
            error => error.to_string(),
        })?;
        let greeting = ServerGreeting::read(&result)?;
        let note = Outgoing::Note(McpClient::initialized());
        self.0.queue.send(note).await.map_err(|_| RequestFailure::Closed.to_string())?;
        Ok(greeting)
    }

    /// The result of a request. Dropping the future sends the server a
    /// cancellation.
    pub(super) async fn request(&self, ask: McpRequest<'_>) -> RequestOutcome {
        let (answer, answered) = oneshot::channel();
        let (id, message) = {
            let mut state = self.0.state.lock();
            if state.closed {
                return Err(RequestFailure::Closed);
            }
            let (id, message) = state.client.ask(ask);
            state.waiting.insert(id, answer);
            (id, message)
        };
        let gone = CancellationToken::new();
        let request = Outgoing::Request { id, message, gone: gone.clone() };
        let _abandoned = Abandoned { peer: self, id, _gone: gone.drop_guard() };
        self.0.queue.send(request).await.map_err(|_| RequestFailure::Closed)?;
        answered.await.unwrap_or(Err(RequestFailure::Closed))
    }

    /// Waits until the server says that its list of tools is another one.
    pub(super) async fn changed(&self) {
        self.0.changed.notified().await;
    }

    /// Waits for the end of the connection.
    pub(super) async fn over(&self) {
        self.0.over.cancelled().await;
    }

    // === for transports ===

    /// Takes a message of the server.
    pub(super) fn receive(&self, message: &[u8]) {
        let mut state = self.0.state.lock();
        match state.client.receive(message) {
            McpIncoming::Answer { id, outcome } => {
                if let Some(caller) = state.waiting.remove(&id) {
                    // A caller that has gone has dropped the other end.
                    let _ = caller.send(outcome.map_err(RequestFailure::Refused));
                }
            }
            McpIncoming::Reply(reply) => {
                drop(state);
                // Waiting for room here could stop both sides for ever.
                if self.0.queue.try_send(Outgoing::Note(reply)).is_err() {
                    debug!("an MCP server sends requests faster than it reads the answers");
                }
            }
            McpIncoming::ToolsChanged => self.0.changed.notify_one(),
            McpIncoming::Ignored => {}
        }
    }

    /// Whether the answer to this request is still awaited.
    pub(super) fn is_waiting(&self, id: u64) -> bool {
        self.0.state.lock().client.is_pending(id)
    }

    /// A request will have no answer.
    pub(super) fn fail(&self, id: u64, why: impl Into<String>) {
        let mut state = self.0.state.lock();
        state.client.forget(id);
        if let Some(caller) = state.waiting.remove(&id) {
            let _ = caller.send(Err(RequestFailure::Lost(why.into())));
        }
    }

    /// The connection is over, when this is dropped.
    pub(super) fn closing(&self) -> Closing {
        Closing(self.clone())
    }
}

/// A transport that runs. Dropping it ends all that wait.
pub(super) struct Closing(Peer);

impl Drop for Closing {
    fn drop(&mut self) {
        let Peer(inner) = &self.0;
        let mut state = inner.state.lock();
        state.closed = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        drop(waiting);
        inner.over.cancel();
    }
}

/// Takes back a request whose caller stops waiting.
struct Abandoned<'a> {
    peer: &'a Peer,
    id: u64,
    _gone: DropGuard,
}

impl Drop for Abandoned<'_> {
    fn drop(&mut self) {
        let Peer(inner) = self.peer;
        let cancelled = {
            let mut state = inner.state.lock();
            state.waiting.remove(&self.id);
            state.client.give_up(self.id)
        };
        if let Some(message) = cancelled {
            // If the queue is full, the server is not informed and finishes the call.
            let _ = inner.queue.try_send(Outgoing::Note(message));
        }
    }
}

#[cfg(test)]
#[path = "peer_tests.rs"]
mod tests;
