//! The simulated service on the wire: connections, routes, sign-in and unary calls.

pub(crate) mod append;
pub(crate) mod auth;
pub(crate) mod connections;
pub(crate) mod login;
pub(crate) mod responses;
mod routes;
