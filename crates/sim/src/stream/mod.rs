//! The two directions of one run, below the engine and above HTTP.

pub(crate) mod inbound;
pub(crate) mod outbound;
