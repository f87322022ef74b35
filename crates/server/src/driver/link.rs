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
use crate::{auth::Tokens, net::pool::Asleep};

/// What one link is opened with.
#[derive(Clone, Debug)]
pub struct Open<O> {
    pub token: SecretString,
    /// Where later requests of the same stream get theirs, if the transport makes any: the
    /// stream may outlive the token it was opened with.
    pub tokens: Option<Tokens>,
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

/// A backend whose turns run over one kind of peer.
pub trait Dial: Driver {
    type Peer: LinkPeer;

    /// What the peer of a turn is made with, besides the request.
    fn plan(&self, request: &TurnRequest, turn: TurnSetup) -> <Self::Peer as Peer>::Plan;

    /// Opens a link. Returns as soon as the request is on its way: the server may
    /// wait for our first message before it answers, so a refusal that comes later
    /// is the first thing [`LinkReceiver::next`] gives.
    fn open(
        &self,
        open: Open<<Self::Peer as Peer>::Open>,
    ) -> BoxFuture<'_, Result<Link<Self::Peer>, LinkError>>;
}
