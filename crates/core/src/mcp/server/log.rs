//! What was said on one stream of events, and where its reader is.
//!
//! A stream of a session has ids, and begins with an event that has nothing else: a client
//! that loses its connection names the last id it saw, and gets what came after it.

use std::collections::VecDeque;

use bytes::{BufMut as _, Bytes, BytesMut};

/// Events that are kept for a reader that is away. More are only news of progress.
const KEPT: usize = 16;
/// When a client should come back, in milliseconds.
const RETRY: u64 = 3000;

/// One stream.
#[derive(Debug)]
pub struct EventLog {
    number: Option<u64>,
    next: u64,
    kept: VecDeque<(u64, Bytes)>,
    ended: bool,
}

/// What a reader gets.
#[derive(Debug, PartialEq, Eq)]
pub enum LogRead {
    /// These bytes; go on from `next`.
    Event { bytes: Bytes, next: u64 },
    /// Nothing yet.
    Wait,
    /// The stream is over.
    End,
}

/// The id of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventId {
    pub index: u64,
    /// Of the stream; `None` is the one that belongs to no request.
    pub stream: Option<u64>,
}

impl EventId {
    /// As it comes back in `Last-Event-ID`.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let (index, stream) = match text.split_once('/') {
            Some((index, stream)) => (index, Some(stream.parse().ok()?)),
            None => (text, None),
        };
        Some(Self { index: index.parse().ok()?, stream })
    }
}

impl EventLog {
    /// A stream without ids, which cannot be resumed.
    #[must_use]
    pub fn plain() -> Self {
        Self { number: None, next: 0, kept: VecDeque::new(), ended: false }
    }

    /// A stream of a session.
    #[must_use]
    pub fn numbered(number: u64) -> Self {
        let mut log = Self { number: Some(number), ..Self::plain() };
        log.push(format!("data: \nid: 0/{number}\nretry: {RETRY}\n\n").into());
        log
    }

    /// A stream of a session that belongs to no request.
    #[must_use]
    pub fn of_session() -> Self {
        let mut log = Self::plain();
        log.push(format!("data: \nid: 0\nretry: {RETRY}\n\n").into());
        log
    }

    /// Adds a message.
    pub fn say(&mut self, message: &[u8]) {
        // Our messages are lines, and one event has one.
        let line = message.strip_suffix(b"\n").unwrap_or(message);
        let mut event = BytesMut::with_capacity(line.len() + 32);
        event.put_slice(b"data: ");
        event.put_slice(line);
        if let Some(number) = self.number {
            event.put_slice(format!("\nid: {}/{number}", self.next).as_bytes());
        }
        event.put_slice(b"\n\n");
        self.push(event.freeze());
    }

    pub fn end(&mut self) {
        self.ended = true;
    }

    /// The first event at `from` or after it.
    #[must_use]
    pub fn read(&self, from: u64) -> LogRead {
        match self.kept.iter().find(|(index, _)| *index >= from) {
            Some((index, bytes)) => LogRead::Event { bytes: bytes.clone(), next: index + 1 },
            None if self.ended => LogRead::End,
            None => LogRead::Wait,
        }
    }

    fn push(&mut self, event: Bytes) {
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back((self.next, event));
        self.next += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(read: LogRead) -> String {
        let LogRead::Event { bytes, .. } = read else { panic!("{read:?}") };
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[test]
    fn reconnecting_reader_gets_the_missed_events() {
        let mut log = EventLog::numbered(3);
        assert_eq!(text(log.read(0)), "data: \nid: 0/3\nretry: 3000\n\n");
        assert_eq!(log.read(1), LogRead::Wait);
        log.say(b"{\"a\":1}\n");
        log.say(b"{}");
        log.end();
        assert_eq!(text(log.read(1)), "data: {\"a\":1}\nid: 1/3\n\n");
        assert_eq!(text(log.read(2)), "data: {}\nid: 2/3\n\n");
        assert_eq!(log.read(3), LogRead::End);
    }

    #[test]
    fn only_the_newest_events_are_kept() {
        let mut log = EventLog::plain();
        for n in 0..100 {
            log.say(n.to_string().as_bytes());
        }
        assert_eq!(log.kept.len(), KEPT);
        assert_eq!(text(log.read(0)), "data: 84\n\n");
        let LogRead::Event { next, .. } = log.read(0) else { panic!() };
        assert_eq!(text(log.read(next)), "data: 85\n\n");
    }

    #[test]
    fn event_ids_are_parsed() {
        let id = |index, stream| Some(EventId { index, stream });
        assert_eq!(EventId::read("4/17"), id(4, Some(17)));
        assert_eq!(EventId::read("0"), id(0, None));
        for wrong in ["", "x", "1/", "/1", "1/2/3", "-1"] {
            assert_eq!(EventId::read(wrong), None, "{wrong}");
        }
    }
}
