//! The two directions of one run and the connection under them, above HTTP and below the engine.

pub(crate) mod control;
pub(crate) mod format;
pub(crate) mod inbound;
pub(crate) mod outbound;
