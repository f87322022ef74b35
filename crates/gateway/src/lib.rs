//! The gateway: everything of ibeam that touches the world. The binary is a thin
//! shell around this library, and a program may start a server from it too:
//! see [`server::Server`].

pub mod api;
pub mod app;
pub mod audit;
pub mod auth;
pub mod catalog;
mod checks;
pub mod cli;
pub mod clock;
pub mod config;
mod counter;
pub mod driver;
pub mod harden;
pub mod keys;
mod limits;
pub mod mcp;
pub mod net;
pub mod random;
pub mod server;
pub mod session;
pub mod shutdown;
mod stamp;
pub mod store;
pub mod tasks;
pub mod telemetry;
