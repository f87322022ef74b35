//! What holds for every dialect, proven from outside: one recording of the backend in
//! all of them, laws over random turns, and random requests in great number.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that cannot go on should stop"
)]

mod dialects;
mod events;
mod golden;
mod laws;
mod pace;
mod random;
mod readers;
mod recording;
mod sse;
