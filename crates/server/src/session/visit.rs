//! What a request may ask of a turn that exists already.

use ibeam_core::{controls::Controls, model::TurnRequest};
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

use super::{TurnStream, admission::SaidInRequest, leg_index::LegEntry, retries::RetryClaim};
use crate::limits::Permit;

/// Visits that wait for a turn, which looks at them within moments.
const MAILBOX_CAP: usize = 4;

#[derive(Debug)]
pub(crate) enum Visit {
    /// Results for calls that the turn handed out.
    Resume(Box<Resume>),
    /// The same answer for one more reader.
    Attach { leg: u32, reply: oneshot::Sender<Attached> },
    /// A parked turn is to end. `done` is sent once its stream to the backend is closed and its
    /// conversation is free.
    End { why: ParkedEnding, done: Option<oneshot::Sender<()>> },
    /// A request waits for the conversation until `waiting` is closed: the turn is to end once it
    /// has no reader.
    Yield { waiting: oneshot::Sender<()> },
}

#[derive(Debug)]
pub(crate) struct Resume {
    pub(crate) leg: LegRequest,
    pub(crate) asked: Instant,
    pub(crate) reply: oneshot::Sender<Result<TurnStream, Box<LegRequest>>>,
}

/// A request with all that its leg needs: a permit, and the entry under which retries find it.
#[derive(Debug)]
pub(crate) struct LegRequest {
    pub(crate) request: TurnRequest,
    pub(crate) said: SaidInRequest,
    pub(crate) permit: Permit,
    pub(crate) leg_entry: LegEntry,
    /// For its answer.
    pub(crate) controls: Option<Box<Controls>>,
    pub(crate) retry: RetryClaim,
}

/// The answer to [`Visit::Attach`].
#[derive(Debug)]
pub(crate) enum Attached {
    Stream(TurnStream),
    /// That leg is over, or too long to be replayed from its start.
    Over,
    /// It has as many readers as it may have.
    Full,
}

/// Why a parked turn ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParkedEnding {
    Evicted,
    /// The conversation continued without its results.
    Superseded,
}

pub(super) fn mailbox() -> (mpsc::Sender<Visit>, mpsc::Receiver<Visit>) {
    mpsc::channel(MAILBOX_CAP)
}
