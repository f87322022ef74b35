//! The Model Context Protocol without its transports. [`client`] speaks to the servers of
//! the user, [`server`] answers Cursor's CLI. Both read and write whole JSON-RPC messages;
//! pipes, HTTP and time belong to the gateway.

pub mod client;
pub mod server;
pub mod version;
