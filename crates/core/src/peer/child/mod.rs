//! Turns that a child process runs: Cursor's own CLI, in either of its two protocols.
//! What they have in common is here: the input and output of a child, and how it is
//! started. The protocols themselves are [`crate::peer::cli`] and [`crate::peer::acp`].

/// What the MCP server is called that hosts the client's tools for a child.
pub const SERVER_NAME: &str = "ibeam";

mod event;
mod link;
mod peer;
mod prompt;
mod start;
mod tokens;

pub use event::ChildEvent;
pub use link::{Exit, FromChild, HostAddress, HostedCall, HostedResult, Ready, ToChild};
pub use peer::{ChildPeer, ChildPlan};
pub use start::{ChildOwner, ChildRequest, ChildStart, Prompt, Speaker};
pub(crate) use tokens::ReportedTokens;
