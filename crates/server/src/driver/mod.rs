//! Ways to run a turn upstream. A driver opens a stream and hands out its two
//! halves; what travels on them is the business of a machine in `core`.

mod agent;
mod agent_h1;
mod agent_h2;
pub mod child;
mod errors;
mod fallback;
mod headers;
#[cfg(test)]
mod testing;

use std::{convert::Infallible, pin::Pin, sync::Arc};

use bytes::Bytes;
use ibeam_core::{
    agent::LinkError,
    capabilities::Capabilities,
    child::{FromChild, Start, ToChild},
    error::TurnError,
    models::ModelInfo,
    turn::Protocol,
};
use secrecy::SecretString;
use tokio::sync::Notify;

pub use agent::{AgentConfig, AgentDriver, Transport};
pub use headers::VERSIONS as CLI_VERSIONS;
pub use headers::{DEFAULT_CLIENT_VERSION, Profile, installed_cli_version};

use crate::{
    auth::Tokens,
    net::pool::{Asleep, PoolStats},
};

pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What one stream is opened with.
#[derive(Clone, Debug)]
pub struct Open {
    pub token: SecretString,
    /// Where later requests of the same stream get theirs, if the transport makes any: the
    /// stream may outlive the token it was opened with.
    pub tokens: Option<Tokens>,
    /// Fresh for every stream.
    pub request_id: String,
    /// The same for all streams of one turn.
    pub original_request_id: String,
    /// Use HTTP/1.1 for this one if nothing forbids it.
    pub prefer_h1: bool,
    /// How to start a child, for drivers whose turns run in one.
    pub child: Option<Box<Start>>,
}

/// What a turn sends.
#[derive(Clone, Debug)]
pub enum Outgoing {
    /// One framed message.
    Bytes(Bytes),
    Child(ToChild),
}

impl Outgoing {
    /// How many bytes wait while it does.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Child(message) => message.bytes(),
        }
    }
}

impl From<Bytes> for Outgoing {
    fn from(framed: Bytes) -> Self {
        Self::Bytes(framed)
    }
}

impl From<ToChild> for Outgoing {
    fn from(message: ToChild) -> Self {
        Self::Child(message)
    }
}

/// What a turn gets.
#[derive(Clone, Debug)]
pub enum Incoming {
    /// The next bytes of the body, cut anywhere.
    Bytes(Bytes),
    Child(FromChild),
}

impl Incoming {
    /// The bytes, from a driver that gives nothing else.
    #[must_use]
    pub fn bytes(self) -> Option<Bytes> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Child(_) => None,
        }
    }
}

/// An open stream. Drop both halves to be rid of it: an unfinished one is then
/// cancelled upstream.
#[derive(Debug)]
pub struct Link {
    pub tx: LinkSender,
    pub rx: LinkReceiver,
}

/// The half that sends.
#[derive(Debug)]
pub struct LinkSender(Tx);

#[derive(Debug)]
enum Tx {
    H2(agent_h2::Sender),
    H1(agent_h1::Sender),
    Child(child::Sender),
}

/// The half that receives. Dropped before the end, it cancels the stream: nobody is
/// left to read it.
#[derive(Debug)]
pub struct LinkReceiver(Rx);

#[derive(Debug)]
enum Rx {
    H2(agent_h2::Receiver),
    H1(agent_h1::Receiver),
    Child(child::Receiver),
}

/// One backend.
pub trait Driver: std::fmt::Debug + Send + Sync + 'static {
    /// Opens a stream. Returns as soon as the request is on its way: the server may
    /// wait for our first message before it answers, so a refusal that comes later
    /// is the first thing [`LinkReceiver::next`] gives.
    fn open(&self, open: Open) -> BoxFuture<'_, Result<Link, LinkError>>;

    /// The models this account may use.
    fn models(&self, token: SecretString) -> BoxFuture<'_, Result<Vec<ModelInfo>, TurnError>>;

    /// What its streams carry.
    fn protocol(&self) -> Protocol {
        Protocol::Agent
    }

    fn capabilities(&self) -> Capabilities {
        self.protocol().capabilities()
    }

    /// Gets ready for turns, in the background. For a program that serves.
    fn warm_up(&self) {}

    /// Is told how to get rid of a turn that only waits, for when there is no room for
    /// another one.
    fn on_crowded(&self, _: MakeRoom) {}

    fn stats(&self) -> DriverStats {
        DriverStats::default()
    }
}

/// Ends a turn that waits for its client. False: none does.
#[derive(Clone)]
pub struct MakeRoom(Arc<dyn Fn() -> bool + Send + Sync>);

impl MakeRoom {
    pub fn new(make_room: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(make_room))
    }

    #[must_use]
    pub fn now(&self) -> bool {
        (self.0)()
    }
}

impl std::fmt::Debug for MakeRoom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MakeRoom")
    }
}

/// What is open upstream, for tests that look for leaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriverStats {
    pub http2: PoolStats,
    /// Streams open over HTTP/1.1.
    pub http1_streams: usize,
    /// Whether new streams go over HTTP/1.1 because HTTP/2 was refused.
    pub fallen_back: bool,
    /// Whether it is the server's own wish.
    pub http2_forbidden: bool,
    /// Processes, with a turn or without.
    pub children: usize,
}

impl LinkSender {
    /// Sends one message, waiting while the peer takes no more. Messages go
    /// out in the order of the calls. Dropping the future before it is done sends
    /// either the whole message or nothing of it.
    ///
    /// # Errors
    /// The stream is over; the other half tells why.
    pub async fn send(&self, message: impl Into<Outgoing>) -> Result<(), LinkError> {
        match (&self.0, message.into()) {
            (Tx::H2(tx), Outgoing::Bytes(framed)) => tx.send(framed).await,
            (Tx::H1(tx), Outgoing::Bytes(framed)) => tx.send(framed).await,
            (Tx::Child(tx), Outgoing::Child(message)) => tx.send(message).await,
            // A turn speaks as the driver of its program does.
            (Tx::H2(_) | Tx::H1(_), Outgoing::Child(_)) | (Tx::Child(_), Outgoing::Bytes(_)) => {
                Err(LinkError::Reset("a message of another driver".to_owned()))
            }
        }
    }

    /// Leaves a message with the task of a child if that takes no waiting. Gives whether it
    /// was taken; other streams take none in this way.
    pub(crate) fn hand_over(&self, message: Outgoing) -> bool {
        match (&self.0, message) {
            (Tx::Child(tx), Outgoing::Child(message)) => tx.hand_over(message),
            _ => false,
        }
    }

    /// Ends the stream in a way that makes the backend stop working.
    pub fn cancel(&self) {
        match &self.0 {
            Tx::H2(tx) => tx.cancel(),
            Tx::H1(tx) => tx.cancel(),
            Tx::Child(tx) => tx.cancel(),
        }
    }
}

impl LinkReceiver {
    /// Leaves the stream to its connection until the first half of the answer is dropped:
    /// the connection sends `framed` again and again, and tells through the other when the
    /// backend seems to want something. None where each message is a request of its own.
    pub fn sleep(&mut self, framed: Bytes) -> Option<(Asleep, Arc<Notify>)> {
        match &mut self.0 {
            Rx::H2(rx) => rx.sleep(framed),
            Rx::H1(_) | Rx::Child(_) => None,
        }
    }

    /// Keeps what arrives in as little memory as it can, while nothing is read. Safe to drop
    /// half-way.
    pub async fn hold(&mut self) -> Infallible {
        match &mut self.0 {
            Rx::H2(rx) => rx.hold().await,
            // It has a connection or a pipe of its own, which holds little.
            Rx::H1(_) | Rx::Child(_) => std::future::pending().await,
        }
    }

    /// What comes next. `None` is a clean end; after it, or after an error, there is
    /// nothing more. Safe to drop half-way.
    pub async fn next(&mut self) -> Option<Result<Incoming, LinkError>> {
        match &mut self.0 {
            Rx::H2(rx) => rx.next().await.map(|read| read.map(Incoming::Bytes)),
            Rx::H1(rx) => rx.next().await.map(|read| read.map(Incoming::Bytes)),
            Rx::Child(rx) => rx.next().await.map(|heard| Ok(Incoming::Child(heard))),
        }
    }
}

#[cfg(test)]
#[path = "sim_tests.rs"]
mod sim_tests;
