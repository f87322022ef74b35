//! Reads `text/event-stream`. Lines may end with LF, CR or CRLF, and chunks anywhere.

use std::{collections::VecDeque, mem};

/// One event. An event with an id or a retry time but no data is returned too: servers send such
/// events to show how their stream can be resumed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// Its type, if it has one.
    pub event: Option<String>,
    pub data: Option<String>,
    pub id: Option<String>,
    /// How long to wait before reconnecting, in milliseconds.
    pub retry: Option<u64>,
}

/// An event is larger than allowed. The stream cannot be read further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream is larger than {0} bytes")]
pub struct TooLarge(pub usize);

/// Cuts a stream into events of limited size.
#[derive(Debug)]
pub struct SseDecoder {
    ready: VecDeque<SseEvent>,
    /// A line whose end has not come yet.
    line: Vec<u8>,
    /// The event that has begun.
    event: SseEvent,
    /// Bytes in `event`.
    held: usize,
    /// The last byte was a CR: an LF right after it belongs to the same line end.
    after_cr: bool,
    /// Nothing was read yet: a byte order mark may come.
    at_start: bool,
    max: usize,
}

impl SseDecoder {
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self {
            ready: VecDeque::new(),
            line: Vec::new(),
            event: SseEvent::default(),
            held: 0,
            after_cr: false,
            at_start: true,
            max,
        }
    }

    /// Adds a chunk. Take the events with [`Self::next`] before adding another one.
    ///
    /// # Errors
    /// An event is too large.
    pub fn push(&mut self, mut chunk: &[u8]) -> Result<(), TooLarge> {
        while let Some(first) = chunk.first() {
            if mem::take(&mut self.after_cr) && *first == b'\n' {
                chunk = chunk.get(1..).unwrap_or_default();
                continue;
            }
            let end = memchr::memchr2(b'\n', b'\r', chunk);
            let (piece, rest) = chunk.split_at(end.unwrap_or(chunk.len()));
            if self.held + self.line.len() + piece.len() > self.max {
                return Err(TooLarge(self.max));
            }
            self.line.extend_from_slice(piece);
            if let Some((end, rest)) = rest.split_first() {
                self.after_cr = *end == b'\r';
                let line = mem::take(&mut self.line);
                self.end_line(&line);
                chunk = rest;
            } else {
                chunk = rest;
            }
        }
        Ok(())
    }

    /// The next whole event. An event that the end of the stream cut off is never given.
    #[expect(clippy::should_implement_trait, reason = "it goes on after a `None`")]
    pub fn next(&mut self) -> Option<SseEvent> {
        self.ready.pop_front()
    }

    fn end_line(&mut self, mut line: &[u8]) {
        const MARK: &[u8] = b"\xef\xbb\xbf";
        if mem::take(&mut self.at_start) {
            line = line.strip_prefix(MARK).unwrap_or(line);
        }
        if line.is_empty() {
            let event = mem::take(&mut self.event);
            self.held = 0;
            if event != SseEvent::default() {
                self.ready.push_back(event);
            }
            return;
        }
        let (name, value) = match memchr::memchr(b':', line) {
            Some(at) => {
                let (name, value) = line.split_at(at);
                let value = value.get(1..).unwrap_or_default();
                (name, value.strip_prefix(b" ").unwrap_or(value))
            }
            None => (line, &[][..]),
        };
        let text = || String::from_utf8_lossy(value).into_owned();
        match name {
            b"data" => match &mut self.event.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(&String::from_utf8_lossy(value));
                }
                None => self.event.data = Some(text()),
            },
            b"event" => self.event.event = Some(text()),
            b"id" if !value.contains(&0) => self.event.id = Some(text()),
            b"retry" => {
                if let Ok(time) = text().parse() {
                    self.event.retry = Some(time);
                }
            }
            // A comment (whose name is empty), or a field that is not known.
            _ => return,
        }
        self.held += line.len();
    }
}

#[cfg(test)]
#[path = "sse_tests.rs"]
mod tests;
