//! Both wires against code that others wrote. Towards the backend that is
//! `connectrpc`: our driver talks to its server, and its client talks to our simulator.
//! Towards clients it is `async-openai`: all that we answer is read in its types. Towards
//! Cursor's CLI it is `agent-client-protocol-schema`: all that we say over ACP is, and all
//! that our stand-in for that CLI says. The validator of JSON Schema is held against the
//! official test suite and the crate `jsonschema`.

#[cfg(test)]
mod acp;
#[cfg(test)]
mod acp_agent;
#[cfg(test)]
mod chat;
#[cfg(test)]
mod connectrpc_to_sim;
#[cfg(test)]
mod driver_to_connectrpc;
#[cfg(test)]
mod openai;
#[cfg(test)]
mod schema;
