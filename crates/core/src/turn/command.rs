//! What a turn wants its caller to do.

use std::collections::VecDeque;

use crate::peer::{OutMessage, Peer};

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

/// What waits in a [`CommandQueue`] at most before the peer is asked for no more: a backend that
/// asks for much and reads nothing must not fill our memory with answers.
pub(super) const MOST_QUEUED: usize = 1 << 20;

/// Commands that the caller did not take yet, and the bytes of the messages among them.
#[derive(Debug)]
pub(super) struct CommandQueue<O, M> {
    list: VecDeque<Command<O, M>>,
    bytes: usize,
}

impl<O, M> Default for CommandQueue<O, M> {
    fn default() -> Self {
        Self { list: VecDeque::new(), bytes: 0 }
    }
}

impl<O, M: OutMessage> CommandQueue<O, M> {
    pub(super) fn push(&mut self, command: Command<O, M>) {
        self.bytes += command.bytes();
        self.list.push_back(command);
    }

    pub(super) fn pop(&mut self) -> Option<Command<O, M>> {
        let command = self.list.pop_front()?;
        self.bytes -= command.bytes();
        Some(command)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes >= MOST_QUEUED
    }

    /// Whether something else than messages for the present link is in it.
    pub(super) fn has_more_than_messages(&self) -> bool {
        self.list.iter().any(|command| !matches!(command, Command::Send(_)))
    }
}

impl<O, M: OutMessage> Command<O, M> {
    fn bytes(&self) -> usize {
        match self {
            Self::Send(message) => message.bytes(),
            Self::Open(_) | Self::Close { .. } => 0,
        }
    }
}
