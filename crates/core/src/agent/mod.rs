//! The Agent API: one turn of it as a state machine, and the messages it is made
//! of. Every fact about this wire is in here or in the `proto` crate.

mod blobs;
pub(crate) mod classify;
mod drift;
mod exec;
mod link;
mod native;
mod query;
mod request;
mod settings;
mod state;
mod tools;
mod turn;

pub use blobs::BlobLimits;
pub use drift::DriftReport;
pub use link::LinkError;
pub use request::{Environment, Kept, ModelPick, Permissions, Plan, Surroundings};
pub use settings::{Clocks, Settings};
pub use turn::{Turn, Uncounted};
