//! The Model Context Protocol, on both sides: servers that the user configured, and the
//! server that offers a client's tools to Cursor's CLI.

pub mod host;
