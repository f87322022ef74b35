//! Messages that wait to be sent upstream, and their size.

use std::collections::VecDeque;

use crate::driver::Outgoing;

/// Messages on their way upstream.
#[derive(Default)]
pub(super) struct SendQueue {
    pub(super) messages: VecDeque<Outgoing>,
    pub(super) bytes: usize,
}

impl SendQueue {
    pub(super) fn push(&mut self, message: impl Into<Outgoing>) {
        let message = message.into();
        self.bytes += message.size();
        self.messages.push_back(message);
    }

    pub(super) fn sent(&mut self) {
        if let Some(message) = self.messages.pop_front() {
            self.bytes -= message.size();
        }
    }

    /// Frees memory that a burst took.
    pub(super) fn shrink(&mut self) {
        self.messages.shrink_to_fit();
    }
}
