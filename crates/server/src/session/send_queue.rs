//! Messages that wait to be sent upstream, and their size.

use std::collections::VecDeque;

use ibeam_core::peer::OutMessage;

/// Messages on their way upstream.
pub(super) struct SendQueue<M> {
    pub(super) messages: VecDeque<M>,
    pub(super) bytes: usize,
}

impl<M> Default for SendQueue<M> {
    fn default() -> Self {
        Self { messages: VecDeque::new(), bytes: 0 }
    }
}

impl<M: OutMessage> SendQueue<M> {
    pub(super) fn push(&mut self, message: M) {
        self.bytes += message.bytes();
        self.messages.push_back(message);
    }

    pub(super) fn sent(&mut self) {
        if let Some(message) = self.messages.pop_front() {
            self.bytes -= message.bytes();
        }
    }

    /// Frees memory that a burst took.
    pub(super) fn shrink(&mut self) {
        self.messages.shrink_to_fit();
    }
}
