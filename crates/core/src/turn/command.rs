//! What a turn wants its caller to do.

use crate::peer::Peer;

/// What the caller must do for a turn over this peer.
pub type TurnCommand<P> = Command<<P as Peer>::Open, <P as Peer>::Out>;

/// What the caller must do for the machine.
#[derive(Clone, Debug)]
pub enum Command<O, M> {
    /// Open a link, dropping any earlier one.
    Open(OpenLink<O>),
    /// Send this message on the open link.
    Send(M),
    /// The link is no longer needed. `cancel` resets it, so that the backend
    /// stops working; otherwise it has already ended.
    Close { cancel: bool },
}

/// How to open a link.
#[derive(Clone, Debug)]
pub struct OpenLink<O> {
    /// Fresh for every link.
    pub request_id: String,
    /// The same for all links of one turn.
    pub original_request_id: String,
    /// The token of the last link was refused: this one needs another.
    pub fresh_token: bool,
    /// What only this backend needs.
    pub peer: O,
}
