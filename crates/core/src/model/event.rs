//! What a turn produces, whatever backend it runs on.

use super::{ids::CallId, usage::Usage};
use crate::error::TurnError;

/// One step of an answer.
///
/// *Invariant:* a turn gives exactly one terminal event (`Finished` or `Failed`)
/// and nothing after it; the events of one tool call are begin, arguments, end.
#[derive(Clone, Debug, PartialEq)]
pub enum TurnEvent {
    /// The backend took the request. Comes first, at most once.
    Started,
    Text(String),
    Reasoning(String),
    ToolCallBegin {
        id: CallId,
        name: String,
    },
    /// A further piece of the arguments' JSON text.
    ToolCallArgs {
        id: CallId,
        delta: String,
    },
    ToolCallEnd {
        id: CallId,
    },
    Usage(Usage),
    Finished(FinishReason),
    Failed(TurnError),
}

/// Why an answer ended without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    Stop,
    /// One of the client's stop sequences came: its place among them.
    StopSequence(usize),
    Length,
    ToolCalls,
}

impl TurnEvent {
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Finished(_) | Self::Failed(_))
    }
}

/// Checks the invariant of [`TurnEvent`] over one turn. Every turn has one, and the
/// property tests use it as their oracle.
#[derive(Debug, Default)]
pub struct TerminalGuard {
    open_calls: Vec<CallId>,
    any: bool,
    ended: bool,
}

impl TerminalGuard {
    /// # Errors
    /// Names the rule that `event` breaks.
    pub fn check(&mut self, event: &TurnEvent) -> Result<(), &'static str> {
        if self.ended {
            return Err("an event after the terminal one");
        }
        match event {
            TurnEvent::Started if self.any => return Err("`Started` is not first"),
            TurnEvent::ToolCallBegin { id, .. } => {
                if self.open_calls.contains(id) {
                    return Err("a call begins twice");
                }
                self.open_calls.push(id.clone());
            }
            TurnEvent::ToolCallArgs { id, .. } if !self.open_calls.contains(id) => {
                return Err("arguments of a call that is not open");
            }
            TurnEvent::ToolCallEnd { id } => {
                let Some(at) = self.open_calls.iter().position(|open| open == id) else {
                    return Err("the end of a call that is not open");
                };
                self.open_calls.remove(at);
            }
            TurnEvent::Finished(_) if !self.open_calls.is_empty() => {
                return Err("finished while a call is open");
            }
            TurnEvent::Started
            | TurnEvent::Text(_)
            | TurnEvent::Reasoning(_)
            | TurnEvent::ToolCallArgs { .. }
            | TurnEvent::Usage(_)
            | TurnEvent::Finished(_)
            | TurnEvent::Failed(_) => {}
        }
        self.any = true;
        self.ended = event.is_terminal();
        Ok(())
    }

    #[must_use]
    pub fn ended(&self) -> bool {
        self.ended
    }
}
