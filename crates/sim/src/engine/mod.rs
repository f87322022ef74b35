//! Runs: what the simulated service does on one stream, from the request to the end frame.

mod assistant_turn;
mod checkpoint;
mod client_messages;
pub(crate) mod conversations;
mod exec;
mod fault_injection;
mod native_tools;
mod player;
mod resume;
pub(crate) mod run;
pub(crate) mod run_io;
pub(crate) mod tool_calls;
