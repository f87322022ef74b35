//! `cursor-agent acp`: the Agent Client Protocol, JSON-RPC over the child's standard input
//! and output, one message to a line.
//!
//! A run is a chain of requests, one at a time: greet the agent, open a conversation or go
//! on with one, choose the model, ask. Signing in is only tried when the agent demands it.
//! Everything that comes before the question was asked is history, which `session/load`
//! tells again, and no part of the answer.
//!
//! The client's tools reach the agent as an MCP server in `session/new`. Early builds
//! ignore that list, and nothing in the protocol says so. That is no matter here: whoever
//! starts the child also writes the server into the workspace's `.cursor/mcp.json`, which
//! every build reads, and whoever hosts it knows whether anybody has come for its tools. A
//! conversation that is still open in the child keeps the server it was opened with, so it
//! may only be gone on with where that one is still hosted.
//!
//! What this does *not* do: switch the mode. In `ask` mode the hosted tools may be missing;
//! what the agent shall not do to the machine is refused when it asks ([`ToolPolicy`]).

mod calls;
mod failures;
mod hear;
mod leave;
mod models;
mod say;
mod speaker;

pub use leave::ToolPolicy;
pub use speaker::AcpSpeaker;
