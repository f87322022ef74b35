//! The sans-IO heart of ibeam. Everything here is a plain function or a state
//! machine fed with bytes, messages and `now`: no socket, no clock, no randomness,
//! no task. The gateway gives the machines their inputs and carries out what they
//! ask for.
//!
//! *Invariant:* this crate does not depend on tokio.

mod answer;
pub mod auth;
pub mod backend;
pub mod challenge;
pub mod codec;
pub mod constant_time;
pub mod controls;
pub mod error;
mod guard;
pub mod history;
pub mod jsonc;
pub mod leg;
pub mod limits;
pub mod mcp;
pub mod model;
pub mod models;
pub mod peer;
pub mod recording;
pub mod redact;
pub mod retention;
pub mod retry;
pub mod tokens;
pub mod turn;
pub mod visible;
pub mod wire;
