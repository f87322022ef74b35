//! How a transport reports to the turn machine that it failed.

use std::time::Duration;

use crate::{codec::connect::ConnectError, error::TurnError};

/// Why there is no stream, or no longer one. The variants differ in the possible remedies, not in
/// wording.
#[derive(Clone, Debug, PartialEq)]
pub enum LinkError {
    /// No connection came about (DNS, TCP, TLS, proxy): nothing was sent.
    Connect(String),
    /// The connection did not come about in time: nothing was sent.
    ConnectTimeout,
    /// The server answered with a status instead of a stream.
    Status { status: u16, error: Option<ConnectError>, retry_after: Option<Duration> },
    /// The peer refused the stream before it looked at it (GOAWAY, REFUSED_STREAM).
    Refused(String),
    /// The driver knows the cause, and another attempt would not help.
    Fault(Box<TurnError>),
    /// The stream was reset or the connection died after it was open.
    Reset(String),
}

impl LinkError {
    /// HTTP/2 reset the stream because of a fault of its own.
    pub(crate) fn is_internal_reset(&self) -> bool {
        matches!(self, Self::Reset(why) if why.contains("INTERNAL_ERROR"))
    }

    /// The error for the caller of a plain request, such as the model list.
    #[must_use]
    pub fn to_turn_error(&self) -> TurnError {
        super::classify::link_error(self).error
    }
}
