//! Everything of ibeam that serves a request: the dialects over HTTP, sessions, the links to
//! the backends, credentials, the store and the configuration. The program `ibeam` is built on
//! it, and another program can have a gateway inside it:
//!
//! ```
//! # async fn answer() -> Result<(), ibeam_server::GatewayError> {
//! let gateway = ibeam_server::Gateway::builder()
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
//! [`Gateway`], [`GatewayBuilder`], [`Running`] and [`GatewayError`] are the stable interface
//! for that and follow semantic versioning. The modules are public for the program, the tests
//! and the bench, and change with them; [`server::Server`] is what all of them start.
//!
//! The library sets up no logging and does not change the process: that is up to the program.

pub mod api;
pub mod app;
pub mod auth;
pub mod catalog;
mod checks;
pub mod clock;
pub mod config;
mod counter;
pub mod driver;
mod embed;
pub mod files;
pub mod findings;
pub mod keys;
mod large;
mod limits;
pub mod mcp;
pub mod net;
pub mod random;
pub mod recorder;
pub mod server;
pub mod session;
pub mod shutdown;
pub mod stamp;
pub mod store;
pub mod tasks;

pub use embed::{Gateway, GatewayBuilder, GatewayError, Running};
