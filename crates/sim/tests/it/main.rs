//! The simulator from outside, with a small test client over in-memory connections.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that panics has failed, which is its duty"
)]

mod answers;
mod behaviour;
mod chains;
mod costs;
mod endpoints;
mod faults;
mod http1;
mod peer;
mod quirks;
mod resumes;
mod shipped;
mod turns;
mod vectors;
