//! What a child said, in words that both of its protocols share.

use crate::{
    error::TurnError,
    model::{FinishReason, Usage},
};

#[derive(Clone, Debug, PartialEq)]
pub enum Heard {
    /// The conversation has this name, by which it can be gone on with later.
    Session(String),
    Text(String),
    Thought(String),
    /// It did something by itself, told in one line. Never a call of the client's tools.
    Did(String),
    /// It is about to call a tool that is hosted for it; the call itself comes over MCP.
    Announced,
    /// The tokens of the whole run.
    Usage(Usage),
    /// It lives, and has nothing to say.
    Alive,
    /// The answer is whole. Nothing comes after it.
    Ended(FinishReason),
    /// There will be no answer, or no more of it. Nothing comes after it.
    Failed(Failure),
}

/// A failure, and what may be done about it beside telling the caller.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    pub error: TurnError,
    pub remedy: Remedy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Nothing: the same request would fail again.
    None,
    /// A passing fault: another try helps while nothing was sent on to the client.
    Retry,
    /// The conversation that was to be gone on with is lost: everything is told anew.
    TellAnew,
}
