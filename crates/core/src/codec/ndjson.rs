//! One JSON value per line: cuts a byte stream into lines, of which nothing else is known.

use std::{collections::VecDeque, mem};

use bytes::{Bytes, BytesMut};

/// The longest line that is kept by default.
pub const MAX_LINE: usize = 16 * 1024 * 1024;

/// Cuts a byte stream into lines, ended by LF or CRLF. Empty ones are not given, and one
/// that is too long is dropped whole, without being kept until its end comes.
#[derive(Debug)]
pub struct Lines {
    /// What has not been looked at.
    chunks: VecDeque<Bytes>,
    /// A line whose end has not come yet. It has none in it, so it is never searched again.
    partial: BytesMut,
    /// The current line is too long: it is dropped up to its end.
    too_long: bool,
    ended: bool,
    dropped: u64,
    max: usize,
}

impl Default for Lines {
    fn default() -> Self {
        Self::new(MAX_LINE)
    }
}

impl Lines {
    /// `max` is the longest line in bytes, without its LF.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self {
            chunks: VecDeque::new(),
            partial: BytesMut::new(),
            too_long: false,
            ended: false,
            dropped: 0,
            max,
        }
    }

    /// Adds a chunk. Call [`Self::next`] until it gives `None` before the next one: what was
    /// not looked at is kept.
    pub fn push(&mut self, chunk: Bytes) {
        self.chunks.push_back(chunk);
    }

    /// There is no more: what is left is the last line.
    pub fn finish(&mut self) {
        self.ended = true;
    }

    /// The next whole line, or `None` when more bytes are needed.
    #[expect(clippy::should_implement_trait, reason = "it goes on after a `None`")]
    pub fn next(&mut self) -> Option<Bytes> {
        while let Some(chunk) = self.chunks.front_mut() {
            let line = if let Some(at) = memchr::memchr(b'\n', chunk) {
                let mut piece = chunk.split_to(at + 1);
                piece.truncate(at);
                self.complete(piece)
            } else {
                let piece = mem::take(chunk);
                self.chunks.pop_front();
                self.keep(&piece);
                None
            };
            if line.is_some() {
                return line;
            }
        }
        if self.ended { self.complete(Bytes::new()) } else { None }
    }

    /// How many lines were too long.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The line that ends with this piece, if there is anything in it.
    fn complete(&mut self, piece: Bytes) -> Option<Bytes> {
        let whole = self.partial.is_empty() && !self.too_long && piece.len() <= self.max;
        let mut line = if whole {
            piece
        } else {
            self.keep(&piece);
            if mem::take(&mut self.too_long) {
                return None;
            }
            self.partial.split().freeze()
        };
        if line.ends_with(b"\r") {
            line.truncate(line.len() - 1);
        }
        let line = uncoloured(line);
        (!line.is_empty()).then_some(line)
    }

    fn keep(&mut self, piece: &[u8]) {
        if self.too_long {
            return;
        }
        if self.partial.len() + piece.len() > self.max {
            self.too_long = true;
            self.dropped += 1;
            self.partial = BytesMut::new();
        } else {
            self.partial.extend_from_slice(piece);
        }
    }
}

/// Without `ESC [ … letter`, the colours of a terminal: JSON writes that character in
/// another way, so it is not part of the value.
#[must_use]
fn uncoloured(line: Bytes) -> Bytes {
    const ESCAPE: u8 = 0x1b;
    if memchr::memchr(ESCAPE, &line).is_none() {
        return line;
    }
    let mut out = BytesMut::with_capacity(line.len());
    let mut bytes = line.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if byte != ESCAPE {
            out.extend_from_slice(&[byte]);
        } else if bytes.next_if_eq(&b'[').is_some() {
            let _ = bytes.find(|byte| (b'@'..=b'~').contains(byte));
        }
    }
    out.freeze()
}

#[cfg(test)]
#[path = "ndjson_tests.rs"]
mod tests;
