//! What a request may want of a turn that is already there.

use ibeam_core::{controls::Controls, model::TurnRequest};
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

use super::{TurnStream, admission::Told, legs::Ticket, retries::RetryClaim};
use crate::limits::Place;

/// Visits that wait for a turn. It looks at them within moments.
const MAILBOX_CAP: usize = 4;

#[derive(Debug)]
pub(crate) enum Visit {
    /// Results for calls that the turn handed out.
    Resume(Box<Resume>),
    /// The same answer for one more reader.
    Attach { leg: u32, reply: oneshot::Sender<Attached> },
    /// A parked turn is no longer wanted. `done` is told once the backend was, and its
    /// conversation is free.
    End { why: Ending, done: Option<oneshot::Sender<()>> },
}

#[derive(Debug)]
pub(crate) struct Resume {
    pub(crate) ask: Ask,
    pub(crate) asked: Instant,
    pub(crate) reply: oneshot::Sender<Result<TurnStream, Box<Ask>>>,
}

/// A request, its place among the running turns, and the one under which others find it.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) request: TurnRequest,
    pub(crate) told: Told,
    pub(crate) place: Place,
    pub(crate) ticket: Ticket,
    /// For its answer.
    pub(crate) controls: Option<Box<Controls>>,
    pub(crate) retry: RetryClaim,
}

/// What comes of wanting to attach.
#[derive(Debug)]
pub(crate) enum Attached {
    Stream(TurnStream),
    /// That leg is over, or too long to be told from its start.
    Over,
    /// It has readers enough.
    Full,
}

/// Why a parked turn ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Evicted,
    /// The conversation went on without its results.
    Superseded,
}

pub(super) fn mailbox() -> (mpsc::Sender<Visit>, mpsc::Receiver<Visit>) {
    mpsc::channel(MAILBOX_CAP)
}
