//! Byte codecs. Each is fed with whatever the transport delivers and gives whole
//! units back; how the bytes were split never matters.

pub(crate) mod canonical;
pub mod connect;
mod connect_error;
pub(crate) mod json;
pub mod jsonrpc;
pub mod ndjson;
pub mod pbwalk;
pub mod sse;
