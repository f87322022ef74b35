//! The Model Context Protocol, on both sides: servers that the user configured, and the
//! server that offers a client's tools to Cursor's CLI.

pub mod bridge;
mod client;
pub mod config;
pub mod host;
mod http;
pub mod names;
mod output;
mod peer;
mod pipe;
pub mod servers;
mod sse;
mod stdio;
mod streamable;

pub use http::RemoteServer;
