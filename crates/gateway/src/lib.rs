//! The gateway: everything of ibeam that touches the world. The binary is a thin shell
//! around this library, and a program can have a gateway inside it, too:
//!
//! ```
//! # async fn answer() -> Result<(), ibeam::GatewayError> {
//! let gateway = ibeam::Gateway::builder()
//!     .simulator() // without it, the account that is signed in
//!     .start()
//!     .await?;
//! println!("serving at {}", gateway.base_url());
//! gateway.stop().await;
//! # Ok(())
//! # }
//! # tokio::runtime::Runtime::new().unwrap().block_on(answer()).unwrap();
//! ```
//!
//! [`Gateway`], [`GatewayBuilder`], [`Running`] and [`GatewayError`] are meant for that, and
//! change as a version's number says. The modules are there for the binary, the tests and
//! the bench, and change with them; [`server::Server`] is what all of them start.
//!
//! The library sets up no logging ([`telemetry::init`]) and does not change the process
//! ([`harden::harden`]): that is up to the program.

pub mod api;
pub mod app;
pub mod audit;
pub mod auth;
pub mod catalog;
mod checks;
pub mod cli;
mod clients;
pub mod clock;
pub mod config;
mod counter;
pub mod doctor;
pub mod driver;
mod embed;
pub mod harden;
pub mod instance;
pub mod keys;
mod limits;
pub mod mcp;
pub mod net;
mod notify;
pub mod random;
pub mod server;
mod service;
pub mod session;
pub mod shutdown;
mod stamp;
pub mod store;
pub mod tasks;
pub mod telemetry;

pub use embed::{Gateway, GatewayBuilder, GatewayError, Running};
