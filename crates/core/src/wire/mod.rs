//! The APIs that clients speak: decoding their requests, encoding their replies.

pub mod chat;

use bytes::BytesMut;

/// A comment that every event-stream parser skips; sent during silence so that
/// nobody on the way takes the connection for dead.
pub const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";

/// One event of a `text/event-stream`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SseFrame<'a> {
    pub event: Option<&'a str>,
    pub data: &'a str,
}

impl SseFrame<'_> {
    /// Appends the frame. Data of several lines becomes several `data:` fields, as
    /// the format asks.
    pub fn write(&self, out: &mut BytesMut) {
        if let Some(event) = self.event {
            out.extend_from_slice(b"event: ");
            out.extend_from_slice(event.as_bytes());
            out.extend_from_slice(b"\n");
        }
        for line in self.data.split('\n') {
            out.extend_from_slice(b"data: ");
            out.extend_from_slice(line.strip_suffix('\r').unwrap_or(line).as_bytes());
            out.extend_from_slice(b"\n");
        }
        out.extend_from_slice(b"\n");
    }
}

#[cfg(test)]
#[path = "sse_tests.rs"]
mod tests;
