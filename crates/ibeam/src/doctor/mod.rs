//! What is wrong, if anything is: everything between a client and its answer is looked at,
//! and the first red line names the cause.
//!
//! Looking ([`look`]) and judging ([`judge`]) are apart. What was found is plain data
//! ([`findings`]), so that every judgement can be tested without the fault.
//!
//! [`audit`] is the part of it that needs no connection: what ibeam may do on this machine.
//!
//! *Invariant:* each look has a time-out, so that an examination always ends.

pub mod audit;
pub mod bundle;
pub mod findings;
pub mod judge;
mod look;
mod report;
pub mod secrets;
mod version;

pub(crate) use self::judge::span;
pub use self::{
    look::{DoctorSubject, examine},
    report::{Check, CheckLine, CheckState, Code, DoctorReport},
};

#[cfg(test)]
#[path = "doctor_tests.rs"]
mod tests;
