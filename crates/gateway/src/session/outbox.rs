//! What waits to be sent upstream, and how much of it.

use std::collections::VecDeque;

use bytes::Bytes;

/// Frames on their way upstream.
#[derive(Default)]
pub(super) struct Outbox {
    pub(super) frames: VecDeque<Bytes>,
    pub(super) bytes: usize,
}

impl Outbox {
    pub(super) fn push(&mut self, frame: Bytes) {
        self.bytes += frame.len();
        self.frames.push_back(frame);
    }

    pub(super) fn sent(&mut self) {
        if let Some(frame) = self.frames.pop_front() {
            self.bytes -= frame.len();
        }
    }

    /// Gives back room that a burst took.
    pub(super) fn shrink(&mut self) {
        self.frames.shrink_to_fit();
    }
}
