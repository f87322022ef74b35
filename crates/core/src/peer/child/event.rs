//! What a child reports, in the terms that both of its protocols share.

use crate::{
    model::{FinishReason, Usage},
    peer::PeerFailure,
};

#[derive(Clone, Debug, PartialEq)]
pub enum ChildEvent {
    /// The name of the session, by which it can be resumed later.
    Session(String),
    Text(String),
    Thought(String),
    /// It did something by itself, described in one line. Never a call of the client's tools.
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
    Failed(PeerFailure),
}
