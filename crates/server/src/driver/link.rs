//! Links: what a run is spoken over. A link takes and gives the messages of its own peer and no
//! others.

use std::{convert::Infallible, fmt, sync::Arc};

use bytes::Bytes;
use ibeam_core::{
    model::TurnRequest,
    peer::{LinkError, Peer},
};
use secrecy::SecretString;
use tokio::sync::Notify;

use super::{BoxFuture, Driver, TurnSetup};
use crate::{auth::AccessTokens, net::pool::Asleep};

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

/// An open link. Dropping both halves cancels it upstream if it is unfinished.
#[derive(Debug)]
pub struct Link<W: LinkPeer> {
    pub tx: W::Sender,
    pub rx: W::Receiver,
}

/// The half that sends.
pub trait LinkSender<M>: fmt::Debug + Send + Sync + 'static {
    /// Sends one message, and waits while the peer accepts no more. Messages are sent in the order
    /// of the calls. If the future is dropped, the message is sent completely or not at all.
    ///
    /// # Errors
    /// The link has ended; the other half has the reason.
    fn send(&self, message: M) -> impl Future<Output = Result<(), LinkError>> + Send;

    /// Hands a message to the task of a child, if that needs no waiting. Returns whether it was
    /// accepted; other links never accept one.
    fn hand_over(&self, _: M) -> bool {
        false
    }

    /// Ends the link in a way that makes the backend stop working.
    fn cancel(&self);
}

/// The half that receives. Dropped before the end, it cancels the link: there is no reader left.
pub trait LinkReceiver<M>: fmt::Debug + Send + 'static {
    /// The next message. `None` is a clean end; after it, or after an error, nothing more comes.
    /// Safe to drop half-way.
    fn next(&mut self) -> impl Future<Output = Option<Result<M, LinkError>>> + Send;

    /// Keeps incoming data in as little memory as possible while nothing is read. Safe to drop
    /// half-way.
    fn hold(&mut self) -> impl Future<Output = Infallible> + Send {
        // Most links have a connection or a pipe of their own, which holds little.
        std::future::pending()
    }

    /// Leaves the link to its connection until the first half of the result is dropped: the
    /// connection sends `framed` repeatedly, and notifies through the second half when the backend
    /// seems to want something. `None` where each message is a request of its own.
    fn sleep(&mut self, _: Bytes) -> Option<(Asleep, Arc<Notify>)> {
        None
    }
}

/// A backend whose turns run over one kind of peer.
pub trait Dial: Driver {
    type Peer: LinkPeer;

    /// What the peer of a turn is made from, besides the request.
    fn plan(&self, request: &TurnRequest, turn: TurnSetup) -> <Self::Peer as Peer>::Plan;

    /// Opens a link. Returns as soon as the request is on its way: the server may
    /// wait for our first message before it answers, so a refusal that comes later
    /// is the first thing [`LinkReceiver::next`] gives.
    fn open(
        &self,
        open: Open<<Self::Peer as Peer>::Open>,
    ) -> BoxFuture<'_, Result<Link<Self::Peer>, LinkError>>;
}
