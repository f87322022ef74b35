//! The APIs that clients speak: decoding their requests, encoding their replies.

mod blank;
pub mod chat;
mod chunk;
pub mod completions;
mod file;
mod freeform;
mod image;
mod json;
mod lenient;
pub mod messages;
pub mod responses;
mod scan;
mod surrogates;
mod tool_choice;

#[cfg(test)]
mod testing;

use bytes::BytesMut;

use crate::{
    error::{ErrorCode, TurnError},
    model::TurnEvent,
};

/// Writes one turn as the event stream of a dialect. Give it every event, in order; it
/// appends the bytes to the caller's buffer.
///
/// Each event is one frame, and the data of a frame is one line of JSON (or a word such as
/// `[DONE]`), so that the same bytes can be taken apart for a WebSocket.
pub trait Encode: Send {
    /// Appends what `event` means to the client. Events after the ending are
    /// dropped: there is one terminal only.
    fn on_event(&mut self, event: &TurnEvent, out: &mut BytesMut);

    /// The events ended without a terminal one: the client gets an error.
    fn on_cut(&mut self, out: &mut BytesMut);

    /// Nothing was said for a while.
    fn on_silence(&mut self, out: &mut BytesMut) {
        out.extend_from_slice(KEEP_ALIVE);
    }

    fn is_ended(&self) -> bool;
}

/// Collects one turn into the reply of a request that does not stream.
pub trait Collect: Send {
    /// Takes the next event. Events after the ending are dropped.
    fn on_event(&mut self, event: TurnEvent);

    /// The reply's JSON.
    ///
    /// # Errors
    /// The turn failed, or its events stopped without an ending.
    fn finish(self: Box<Self>) -> Result<Vec<u8>, TurnError>;
}

/// The failure of a turn whose events stopped without an ending.
#[must_use]
pub fn cut_off() -> TurnError {
    TurnError::new(
        ErrorCode::UpstreamClosed,
        "the answer was cut off before it was complete; try again",
    )
}

/// A comment that every event-stream parser skips; sent during silence so that
/// no proxy takes the connection for dead.
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
