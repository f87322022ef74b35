//! What a turn wants its caller to do.

use bytes::Bytes;

/// What the caller must do for the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Open a stream, dropping any earlier one.
    Open(OpenSpec),
    /// Send this framed message on the open stream.
    Send(Bytes),
    /// The stream is no longer needed. `cancel` resets it, so that the backend
    /// stops working; otherwise it has already ended.
    Close { cancel: bool },
}

/// How to open a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenSpec {
    /// Fresh for every stream.
    pub request_id: String,
    /// The same for all streams of one turn.
    pub original_request_id: String,
    /// Resuming over HTTP/2 after an internal-error reset gives an empty turn.
    pub prefer_h1: bool,
    /// The token of the last stream was refused: this one needs another.
    pub fresh_token: bool,
}

impl Command {
    /// How much it puts on the wire.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Send(frame) => frame.len(),
            Self::Open(_) | Self::Close { .. } => 0,
        }
    }
}
