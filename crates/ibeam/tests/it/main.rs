//! The whole path, deterministically: the API, the turn machine and the driver
//! against the simulator, joined in memory, with paused time.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on should stop"
)]

mod attach;
mod audit;
mod auth;
#[cfg(target_os = "linux")]
mod backends;
mod chat;
#[cfg(target_os = "linux")]
mod children;
mod cli;
mod client;
mod client_rules;
mod controls;
mod crash;
mod crowd;
mod cuts;
#[cfg(unix)]
mod doctor;
mod documents;
mod door;
mod doors;
#[cfg(unix)]
mod dropin;
mod embed;
mod endings;
mod fake_agent;
mod faults;
#[cfg(unix)]
mod instance;
#[cfg(all(feature = "keychain", target_os = "linux"))]
mod keychain;
mod killed;
mod lab;
#[cfg(unix)]
mod lasting;
mod leaving;
mod login;
mod manual;
mod matched;
mod mcp;
mod mcp_approve;
#[cfg(unix)]
mod mcp_servers;
mod messages;
mod named;
mod orphans;
mod parking;
mod places;
mod power;
mod responses;
#[cfg(unix)]
mod run;
mod secrets;
mod server;
#[cfg(target_os = "linux")]
mod service;
mod sessions;
mod setup;
mod strace;
mod trace;
mod transports;
mod usage;
mod watch;
mod websocket;
