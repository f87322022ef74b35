//! What a turn was given and what it gave, in order: for a recording, from which
//! [`crate::recording`] can run the turn again.

use std::fmt;

use crate::{
    error::TurnError,
    model::{Millis, TurnEvent, TurnRequest, Usage},
    peer::{LinkError, LinkMessage, OpenRecord},
};

/// Takes down what happens in a turn. It is called where streams are read, so it must not wait.
pub trait TurnTape: fmt::Debug + Send {
    fn note(&mut self, at: Millis, entry: TapeEntry);
}

/// One thing that happened.
#[derive(Clone, Debug)]
pub enum TapeEntry {
    // === what the turn was given ===
    Opened,
    Heard(LinkMessage),
    LinkError(LinkError),
    Eof,
    Timeout,
    /// Whether the link is read.
    Reading(bool),
    /// The caller ended the turn.
    Aborted(TurnError),
    /// The request of the next leg, with the results.
    Resumed(Box<TurnRequest>),
    /// How many retries are left.
    Retries(u32),
    /// The connection sends the heartbeats.
    Relieved,
    /// The controls of the request ended the answer; the client saw this.
    Cut(Option<String>),
    AskedAgain(String),
    /// The client saw this in place of what the backend said.
    Shown(Option<String>),
    /// The tokens that the client was told.
    UsageNoted(Usage),

    // === what it gave ===
    Open {
        fresh_token: bool,
        open: OpenRecord,
    },
    Send(LinkMessage),
    Close {
        cancel: bool,
    },
    Event(TurnEvent),
    /// What the client got, where the leg changed it on the way.
    Client(TurnEvent),
}

/// The tape of one turn.
#[derive(Debug)]
pub(super) struct TurnTaping {
    tape: Box<dyn TurnTape>,
    /// Not everything comes with its time.
    at: Millis,
    reading: bool,
}

impl TurnTaping {
    pub(super) fn new(tape: Box<dyn TurnTape>) -> Self {
        Self { tape, at: Millis(0), reading: true }
    }

    pub(super) fn note_at(&mut self, at: Millis, entry: TapeEntry) {
        self.at = at;
        self.note(entry);
    }

    pub(super) fn note(&mut self, entry: TapeEntry) {
        self.tape.note(self.at, entry);
    }

    /// The caller says so after every step; only a change is news.
    pub(super) fn reading(&mut self, at: Millis, reading: bool) {
        if std::mem::replace(&mut self.reading, reading) != reading {
            self.note_at(at, TapeEntry::Reading(reading));
        }
    }
}
