//! A turn, whatever it runs on: the machine of the Agent API or the one for children,
//! behind the same methods.

mod command;
pub(crate) mod draws;
pub(crate) mod results;

use bytes::Bytes;

pub use self::command::{Command, OpenSpec};
use crate::{
    agent::{self, DriftReport, LinkError, Uncounted},
    capabilities::Capabilities,
    child::{self, FromChild},
    error::TurnError,
    model::{Millis, ToolCall, TurnEvent, TurnRequest, Usage},
    tokens::Sample,
};

/// What a turn and its backend speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// The Agent API, over HTTP.
    Agent,
    /// `cursor-agent --print`, in a child.
    Cli,
    /// `cursor-agent acp`, in a child.
    Acp,
}

impl Protocol {
    #[must_use]
    pub fn capabilities(self) -> Capabilities {
        match self {
            Self::Agent => Capabilities::AGENT,
            Self::Cli => Capabilities::CLI,
            Self::Acp => Capabilities::ACP,
        }
    }
}

/// Where a turn stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// No stream yet, or waiting to try again.
    Opening,
    Streaming,
    /// Calls are with the client; the stream is kept open for their results.
    AwaitingTools,
    Done,
}

#[derive(Debug)]
pub enum Turn {
    Agent(Box<agent::Turn>),
    Child(Box<child::Turn>),
}

impl From<agent::Turn> for Turn {
    fn from(turn: agent::Turn) -> Self {
        Self::Agent(Box::new(turn))
    }
}

impl From<child::Turn> for Turn {
    fn from(turn: child::Turn) -> Self {
        Self::Child(Box::new(turn))
    }
}

/// The same call on whichever machine it is.
macro_rules! either {
    ($self:expr, $turn:ident => $call:expr) => {
        match $self {
            Self::Agent($turn) => $call,
            Self::Child($turn) => $call,
        }
    };
}

// === what goes in ===

impl Turn {
    pub fn on_opened(&mut self, now: Millis) {
        either!(self, turn => turn.on_opened(now));
    }

    /// Bytes of the open stream. A child gives none.
    pub fn on_bytes(&mut self, chunk: Bytes, now: Millis) {
        match self {
            Self::Agent(turn) => turn.on_bytes(chunk, now),
            Self::Child(_) => {}
        }
    }

    /// News of the child. Other backends have none.
    pub fn on_child(&mut self, heard: FromChild, now: Millis) {
        match self {
            Self::Agent(_) => {}
            Self::Child(turn) => turn.on_child(heard, now),
        }
    }

    pub fn on_link_error(&mut self, error: &LinkError, now: Millis) {
        either!(self, turn => turn.on_link_error(error, now));
    }

    pub fn on_eof(&mut self, now: Millis) {
        either!(self, turn => turn.on_eof(now));
    }

    pub fn on_timeout(&mut self, now: Millis) {
        either!(self, turn => turn.on_timeout(now));
    }

    pub fn set_reading(&mut self, reading: bool, now: Millis) {
        either!(self, turn => turn.set_reading(reading, now));
    }

    /// # Errors
    /// Gives the request back when what waits cannot serve it.
    pub fn resume(&mut self, request: TurnRequest, now: Millis) -> Result<(), Box<TurnRequest>> {
        either!(self, turn => turn.resume(request, now))
    }

    /// How many retries the present leg may take.
    pub fn allow_retries(&mut self, retries: u32) {
        either!(self, turn => turn.allow_retries(retries));
    }

    pub fn cancel(&mut self) {
        either!(self, turn => turn.cancel());
    }

    pub fn abort(&mut self, error: TurnError) {
        either!(self, turn => turn.abort(error));
    }

    pub fn cut(&mut self, shown: Option<String>) -> Option<Usage> {
        either!(self, turn => turn.cut(shown))
    }

    pub fn ask_again(&mut self, text: &str) -> bool {
        either!(self, turn => turn.ask_again(text))
    }

    pub fn show_only(&mut self, text: Option<String>) {
        match self {
            Self::Agent(turn) => turn.show_only(text),
            Self::Child(turn) => turn.show_otherwise(),
        }
    }

    pub fn note_usage(&mut self, usage: &Usage) {
        either!(self, turn => turn.note_usage(usage));
    }

    /// Somebody else sends the heartbeats of a parked stream. None: it needs none.
    pub fn relieve(&mut self) {
        match self {
            Self::Agent(turn) => turn.relieve(),
            Self::Child(_) => {}
        }
    }
}

// === what comes out ===

impl Turn {
    pub fn poll_command(&mut self) -> Option<Command> {
        either!(self, turn => turn.poll_command())
    }

    pub fn poll_event(&mut self) -> Option<TurnEvent> {
        either!(self, turn => turn.poll_event())
    }

    #[must_use]
    pub fn poll_deadline(&self) -> Option<Millis> {
        either!(self, turn => turn.poll_deadline())
    }

    #[must_use]
    pub fn phase(&self) -> Phase {
        either!(self, turn => turn.phase())
    }

    #[must_use]
    pub fn is_cut(&self) -> bool {
        either!(self, turn => turn.is_cut())
    }

    #[must_use]
    pub fn awaits(&self, call_id: &str) -> bool {
        either!(self, turn => turn.awaits(call_id))
    }

    #[must_use]
    pub fn calls(&self) -> Vec<ToolCall> {
        either!(self, turn => turn.calls())
    }

    #[must_use]
    pub fn checkpoint(&mut self) -> Option<Bytes> {
        either!(self, turn => turn.checkpoint())
    }

    /// What the newest checkpoint names. A child keeps such things itself.
    pub fn take_new_blobs(&mut self) -> Vec<(Bytes, Bytes)> {
        match self {
            Self::Agent(turn) => turn.take_new_blobs(),
            Self::Child(_) => Vec::new(),
        }
    }

    #[must_use]
    pub fn conversation_id(&self) -> &str {
        either!(self, turn => turn.conversation_id())
    }

    #[must_use]
    pub fn uncounted(&mut self) -> Uncounted {
        either!(self, turn => turn.uncounted())
    }

    #[must_use]
    pub fn sample(&self, usage: &Usage) -> Option<Sample> {
        either!(self, turn => turn.sample(usage))
    }

    #[must_use]
    pub fn memory(&self) -> usize {
        either!(self, turn => turn.memory())
    }

    #[must_use]
    pub fn drift(&self) -> DriftReport {
        either!(self, turn => turn.drift())
    }

    /// What keeps a parked stream alive, if anything has to.
    #[must_use]
    pub fn heartbeat(&self) -> Option<Bytes> {
        match self {
            Self::Agent(_) => Some(agent::Turn::heartbeat()),
            Self::Child(_) => None,
        }
    }
}
