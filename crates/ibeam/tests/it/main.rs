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
mod autumn_wire;
#[cfg(target_os = "linux")]
mod backends;
mod broken_streams;
mod chat;
#[cfg(target_os = "linux")]
mod children;
mod cli;
mod client;
mod client_rules;
mod controls;
mod crash;
#[cfg(unix)]
mod doctor;
mod documents;
#[cfg(unix)]
mod dropin;
mod embed;
mod endings;
mod fake_agent;
mod faults;
mod generations;
mod identical_windows;
#[cfg(unix)]
mod instance;
mod key_limits;
#[cfg(all(feature = "keychain", target_os = "linux"))]
mod keychain;
mod killed;
mod lab;
mod listeners;
mod login;
mod manual;
mod mcp;
mod mcp_approve;
#[cfg(unix)]
mod mcp_servers;
mod messages;
mod modes;
mod named;
mod native_requests;
mod orphans;
mod parking;
mod probes;
#[cfg(target_os = "linux")]
mod reasoning;
mod recordings;
mod refusals;
mod responses;
#[cfg(unix)]
mod run;
mod running_gateway;
mod secrets;
mod server;
#[cfg(target_os = "linux")]
mod service;
mod session_header;
mod sessions;
mod setup;
#[cfg(unix)]
mod setup_port;
mod strace;
mod trace;
mod transports;
mod usage;
mod watch;
mod websocket;
