//! Ways to run a turn upstream. A driver opens a link and hands out its two halves; what
//! travels on them is the business of a peer in `core`.

mod agent;
mod agent_h1;
mod agent_h2;
pub mod child;
mod errors;
mod fallback;
mod headers;
#[cfg(test)]
mod testing;

use std::{convert::Infallible, fmt, ops::Deref, sync::Arc};

use bytes::Bytes;
use ibeam_core::{
    backend::BackendKind,
    error::TurnError,
    models::ModelInfo,
    peer::agent::AgentPeer,
    peer::child::ChildPeer,
    peer::{LinkError, Peer},
};
use secrecy::SecretString;
use tokio::sync::Notify;

pub use agent::{AgentConfig, AgentDriver};
pub use futures_util::future::BoxFuture;
pub use headers::ClientProfile;

pub use crate::config::Transport;

use crate::{
    auth::AccessTokens,
    net::pool::{Asleep, PoolStats},
};

/// What one link is opened with.
#[derive(Clone, Debug)]
pub struct Open<O> {
    pub token: SecretString,
    /// Where later requests of the same stream get theirs, if the transport makes any: the
    /// stream may outlive the token it was opened with.
    pub tokens: Option<AccessTokens>,
    /// Fresh for every link.
    pub request_id: String,
    /// The same for all links of one turn.
    pub original_request_id: String,
    /// What only this backend needs.
    pub peer: O,
}

/// The two halves that links of a peer are made of. A link takes and gives the messages of its
/// own peer and no others.
pub trait LinkPeer: Peer {
    type Sender: LinkSender<Self::Out>;
    type Receiver: LinkReceiver<Self::In>;
}

/// An open link. Drop both halves to be rid of it: an unfinished one is then
/// cancelled upstream.
#[derive(Debug)]
pub struct Link<W: LinkPeer> {
    pub tx: W::Sender,
    pub rx: W::Receiver,
}

/// The half that sends.
pub trait LinkSender<M>: fmt::Debug + Send + Sync + 'static {
    /// Sends one message, waiting while the peer takes no more. Messages go
    /// out in the order of the calls. Dropping the future before it is done sends
    /// either the whole message or nothing of it.
    ///
    /// # Errors
    /// The link is over; the other half knows why.
    fn send(&self, message: M) -> impl Future<Output = Result<(), LinkError>> + Send;

    /// Leaves a message with the task of a child if that takes no waiting. Gives whether it
    /// was taken; other links take none in this way.
    fn hand_over(&self, _: M) -> bool {
        false
    }

    /// Ends the link in a way that makes the backend stop working.
    fn cancel(&self);
}

/// The half that receives. Dropped before the end, it cancels the link: there is no reader left.
pub trait LinkReceiver<M>: fmt::Debug + Send + 'static {
    /// What comes next. `None` is a clean end; after it, or after an error, there is
    /// nothing more. Safe to drop half-way.
    fn next(&mut self) -> impl Future<Output = Option<Result<M, LinkError>>> + Send;

    /// Keeps what arrives in as little memory as it can, while nothing is read. Safe to drop
    /// half-way.
    fn hold(&mut self) -> impl Future<Output = Infallible> + Send {
        // Most links have a connection or a pipe of their own, which holds little.
        std::future::pending()
    }

    /// Leaves the link to its connection until the first half of the answer is dropped:
    /// the connection sends `framed` again and again, and notifies through the other when the
    /// backend seems to want something. None where each message is a request of its own.
    fn sleep(&mut self, _: Bytes) -> Option<(Asleep, Arc<Notify>)> {
        None
    }
}

/// One backend.
pub trait Driver: fmt::Debug + Send + Sync + 'static {
    /// The models this account may use.
    fn models(&self, token: SecretString) -> BoxFuture<'_, Result<Vec<ModelInfo>, TurnError>>;

    fn kind(&self) -> BackendKind;

    /// Gets ready for turns, in the background. For a program that serves.
    fn warm_up(&self) {}

    /// Takes the way to get rid of a turn that only waits, for when there is no room for
    /// another one.
    fn on_crowded(&self, _: MakeRoom) {}

    fn stats(&self) -> DriverStats {
        DriverStats::default()
    }
}

/// A backend whose turns run over the peer `W`.
pub trait Dial<W: LinkPeer>: Driver {
    /// Opens a link. Returns as soon as the request is on its way: the server may
    /// wait for our first message before it answers, so a refusal that comes later
    /// is the first thing [`LinkReceiver::next`] gives.
    fn open(&self, open: Open<W::Open>) -> BoxFuture<'_, Result<Link<W>, LinkError>>;
}

/// The driver of this program, with the peer that its turns run over.
#[derive(Clone, Debug)]
pub enum AnyDriver {
    Agent(Arc<dyn Dial<AgentPeer>>),
    Child(Arc<dyn Dial<ChildPeer>>),
}

impl Deref for AnyDriver {
    type Target = dyn Driver;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Agent(driver) => &**driver,
            Self::Child(driver) => &**driver,
        }
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

impl fmt::Debug for MakeRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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

#[cfg(test)]
#[path = "sim_tests.rs"]
mod sim_tests;
