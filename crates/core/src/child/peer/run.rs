//! The run of a child that a turn is at, as far as the turn has to know it.

use crate::{child::Speaker, model::Millis};

#[derive(Debug)]
pub(super) enum Link {
    /// There is no child, and none shall be before that time.
    Waiting {
        until: Millis,
    },
    Opening,
    Open(Box<Run>),
    Done,
}

#[derive(Debug)]
pub(super) struct Run {
    pub(super) speaker: Box<dyn Speaker>,
    /// It said something that concerns the turn. Greetings do not, nor does noise.
    pub(super) spoke: bool,
    pub(super) last_heard: Millis,
    /// False while back-pressure keeps us from reading: silence is then our own.
    pub(super) reading: bool,
    /// When the newest call was handed out; its siblings may follow.
    pub(super) batch: Option<Millis>,
    /// Calls that it said it would make, and calls that it made. Either may be first: they
    /// come on two ways.
    pub(super) announced: usize,
    pub(super) made: usize,
}

impl Run {
    /// A child that is being looked after from now on.
    pub(super) fn new(speaker: Box<dyn Speaker>, now: Millis) -> Self {
        Self {
            speaker,
            spoke: false,
            last_heard: now,
            reading: true,
            batch: None,
            announced: 0,
            made: 0,
        }
    }
}
