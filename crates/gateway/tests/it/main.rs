//! The whole path, deterministically: the API, the turn machine and the driver
//! against the simulator, joined in memory, with paused time.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on should stop"
)]

mod attach;
mod auth;
mod chat;
mod cli;
mod client;
mod crowd;
mod cuts;
mod door;
mod doors;
mod endings;
mod faults;
mod killed;
mod lab;
mod login;
mod named;
mod parking;
mod places;
mod power;
mod secrets;
mod server;
mod sessions;
mod strace;
mod trace;
mod transports;
mod watch;
