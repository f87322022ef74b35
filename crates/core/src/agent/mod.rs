//! The Agent API: one turn of it as a state machine.

mod link;

pub use link::LinkError;
