//! The same behaviour from every backend. A scenario is a function that takes the backend,
//! and a test of its own for each of them: over the Agent API, `cursor-agent --print` and
//! `cursor-agent acp`, all of them simulated. The program is the real one, and so are its
//! processes.
//!
//! What the backends do not have in common is in one table, `ibeam_core::backend`,
//! which `docs/backends.md` repeats.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "processes are watched from outside, by the clock on the wall, which is shown"
)]

mod chats;
mod controls;
mod dialects;
mod gateway;
mod named;
mod restart;
mod speech;
mod table;
mod tools;
mod troubles;

pub(crate) use self::gateway::{Backend, Gateway, soon};

/// A test for each scenario and backend.
macro_rules! on_each_backend {
    ($($scenario:ident),+ $(,)?) => {
        mod agent {
            $(#[test] fn $scenario() { super::$scenario($crate::backends::Backend::Agent); })+
        }
        mod cli {
            $(#[test] fn $scenario() { super::$scenario($crate::backends::Backend::Cli); })+
        }
        mod acp {
            $(#[test] fn $scenario() { super::$scenario($crate::backends::Backend::Acp); })+
        }
    };
}
use on_each_backend;
