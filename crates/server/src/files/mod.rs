//! Files between crashes, other processes and other users: replaced as a whole, locked, and
//! private where they hold secrets.

pub mod lock;
mod modes;
pub mod private;

pub(crate) use modes::{others_may_use, strangers_may_use};
