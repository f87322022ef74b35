//! Values that were settings once. No user had a reason to change them, so each is a constant
//! with its reason.

use std::time::Duration;

/// Between our own heartbeats: the interval that Cursor's own client keeps.
pub const HEARTBEAT: Duration = Duration::from_secs(5);

/// For the end frame after `turn_ended`. It follows at once, or the stream is lost.
pub const END_WAIT: Duration = Duration::from_secs(2);

/// Some hosts store the answer and then neither end the turn nor the stream, but send heartbeats:
/// after this long the answer is complete. Five heartbeats, so that a slow one does not count.
pub const QUIET_END: Duration = Duration::from_secs(25);

/// For further tool calls of the same batch. Cursor sends them within a few milliseconds; more
/// would delay every tool call.
pub const TOOL_BATCH: Duration = Duration::from_millis(25);

/// For the TLS handshake of a client. A slower one holds a connection and never gets to a request.
pub const HANDSHAKE: Duration = Duration::from_secs(10);

/// Output that one parked turn may hold back. A model writes much less while its tools work, and
/// `sessions.parked_bytes` limits all of them together.
pub const PARKED_OUTPUT: usize = 1 << 20;

/// Stored responses. `responses.bytes` is what limits them; this keeps small ones countable.
pub const STORED_RESPONSES: usize = 10_000;

/// Headers of a request over HTTP/1.1. Clients send a dozen, and `limits.header_bytes` limits
/// their size.
pub const REQUEST_HEADERS: usize = 100;

/// Streams on one connection to Cursor: what HTTP/2 servers allow.
pub const UPSTREAM_STREAMS: usize = 100;

/// The names that these settings had, each with the reason that a warning gives.
pub const REMOVED: &[(&str, &str)] = &[
    ("clocks.heartbeat", "heartbeats are sent every 5 s, as Cursor expects"),
    ("clocks.end_wait", "the end frame of a turn always gets 2 s"),
    ("clocks.quiet_end", "an answer that is stored but not ended is complete after 25 s"),
    ("clocks.tool_batch", "tool calls within 25 ms are always one batch"),
    ("clocks.handshake", "the TLS handshake of a client always gets 10 s"),
    ("sessions.buffer", "a parked turn holds at most 1 MiB; see `sessions.parked_bytes`"),
    ("responses.max", "at most 10000 responses are stored; see `responses.bytes`"),
    ("limits.headers", "a request has at most 100 headers; see `limits.header_bytes`"),
    ("limits.upstream_streams", "a connection to Cursor has at most 100 streams"),
];

#[cfg(test)]
#[path = "fixed_tests.rs"]
mod tests;
