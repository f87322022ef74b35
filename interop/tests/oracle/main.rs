//! Both directions against `connectrpc`: our driver talks to its server, and its
//! client talks to our simulator. Sockets are real, messages are ours, and
//! everything between them is read once by code that nobody here wrote.

#[cfg(test)]
mod chat;
#[cfg(test)]
mod connectrpc_to_sim;
#[cfg(test)]
mod driver_to_connectrpc;
