//! What a turn wants its caller to do.

use bytes::Bytes;

use crate::child::{Start, ToChild};

/// What the caller must do for the machine.
#[derive(Clone, Debug)]
pub enum Command {
    /// Open a stream, dropping any earlier one.
    Open(OpenSpec),
    /// Send this framed message on the open stream.
    Send(Bytes),
    /// Tell the child this.
    Tell(ToChild),
    /// The stream is no longer needed. `cancel` resets it, so that the backend
    /// stops working; otherwise it has already ended.
    Close { cancel: bool },
}

/// How to open a stream.
#[derive(Clone, Debug, Default)]
pub struct OpenSpec {
    /// Fresh for every stream.
    pub request_id: String,
    /// The same for all streams of one turn.
    pub original_request_id: String,
    /// Resuming over HTTP/2 after an internal-error reset gives an empty turn.
    pub prefer_h1: bool,
    /// The token of the last stream was refused: this one needs another.
    pub fresh_token: bool,
    /// How to start the child, where the turn runs in one.
    pub child: Option<Box<Start>>,
}

impl Command {
    /// How much it puts on the wire.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Send(frame) => frame.len(),
            Self::Tell(message) => message.bytes(),
            Self::Open(_) | Self::Close { .. } => 0,
        }
    }
}
