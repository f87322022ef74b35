//! The run of a child that a turn is at.

use std::collections::VecDeque;

use crate::{
    model::Millis,
    peer::child::{FromChild, Speaker},
};

#[derive(Debug)]
pub(super) struct SpeakerRun {
    pub(super) speaker: Box<dyn Speaker>,
    /// What came from the child and was not looked at yet.
    pub(super) inbox: VecDeque<FromChild>,
    /// It said something that concerns the turn. Greetings do not, nor does noise.
    pub(super) spoke: bool,
    pub(super) last_heard: Millis,
    /// False while back-pressure keeps us from reading: silence is then our own.
    pub(super) reading: bool,
    /// The process is gone.
    pub(super) exited: bool,
}

impl SpeakerRun {
    /// A child that is being looked after from now on.
    pub(super) fn new(speaker: Box<dyn Speaker>, now: Millis) -> Self {
        Self {
            speaker,
            inbox: VecDeque::new(),
            spoke: false,
            last_heard: now,
            reading: true,
            exited: false,
        }
    }
}
