//! The program: its commands, and what they need besides a running gateway (the setup of clients,
//! the doctor, the system service, instances that start on demand). What serves a request is in
//! `ibeam-server`. All of it is a library so that tests can reach it.

pub mod cli;
mod clients;
pub mod doctor;
pub mod harden;
pub mod instance;
mod memory;
mod notify;
mod service;
pub mod telemetry;
