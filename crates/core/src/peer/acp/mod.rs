//! `cursor-agent acp`: the Agent Client Protocol, JSON-RPC over the child's standard input
//! and output, one message to a line.
//!
//! A run is a chain of requests, one at a time: greet the agent, open or resume a session,
//! choose the model, send the prompt. Signing in is only tried when the agent requires it.
//! Everything that comes before the prompt was sent is history, which `session/load` replays,
//! and not part of the answer.
//!
//! The client's tools reach the agent as an MCP server in `session/new`. Early builds
//! ignore that list, and nothing in the protocol says so. That does not matter: the driver also
//! writes the server into the workspace's `.cursor/mcp.json`, which every build reads, and the
//! host knows whether the agent has asked for its tools. A session that is still open in the
//! child keeps the server it was opened with, so it may only be resumed while that one is still
//! hosted.
//!
//! What this does *not* do: switch the mode. In `ask` mode the hosted tools may be missing;
//! what the agent shall not do to the machine is refused when it asks ([`ToolPolicy`]).

mod answers;
mod calls;
mod failures;
mod models;
mod modes;
mod permission;
mod requests;
mod speaker;

pub use permission::ToolPolicy;
pub use speaker::AcpSpeaker;
