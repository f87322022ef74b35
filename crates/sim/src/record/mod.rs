//! What the simulator keeps about the clients it served: counters, runs and their frames.

pub(crate) mod counters;
pub(crate) mod runs;
pub(crate) mod transcript;
