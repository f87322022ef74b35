//! The knobs of a turn. All time is configurable; the defaults are what live
//! traffic needs.

use std::{borrow::Cow, time::Duration};

use super::classify::SIGN_IN;
use crate::retry::Backoff;

/// When a turn loses patience, and with what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// Our own heartbeat.
    pub heartbeat: Duration,
    /// No frame at all, heartbeats included: the connection is dead.
    pub no_frame: Duration,
    /// Only heartbeats: the model is quiet. Five minutes before the first token
    /// have been seen on healthy turns.
    pub heartbeat_only: Duration,
    /// The whole turn, whatever happens.
    pub whole_turn: Duration,
    /// How long to wait for the end frame once the turn said it is over: an error
    /// may still follow.
    pub end_wait: Duration,
    /// Some hosts neither end the turn nor the stream. After text, then storage
    /// messages, then only heartbeats for this long, the answer is complete.
    pub quiet_end: Duration,
    /// How long to wait for further parallel tool calls.
    pub tool_batch: Duration,
}

impl Default for Clocks {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_secs(5),
            no_frame: Duration::from_secs(45),
            heartbeat_only: Duration::from_secs(600),
            whole_turn: Duration::from_secs(1800),
            end_wait: Duration::from_secs(2),
            quiet_end: Duration::from_secs(25),
            tool_batch: Duration::from_millis(25),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Settings {
    pub clocks: Clocks,
    pub backoff: Backoff,
    /// Send the request context with the first message instead of waiting to be
    /// asked for it.
    pub inline_context: bool,
    /// Keep the stream open while the client runs its tools.
    pub park: bool,
    /// How much of what the backend says meanwhile is kept for the next request.
    pub parked_bytes: usize,
    /// So many equal calls with equal outcomes are let through; 0 lets all.
    pub max_repeat: u32,
    /// The command that signs this profile in, for refusals of the sign-in.
    pub sign_in: Cow<'static, str>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            clocks: Clocks::default(),
            backoff: Backoff::default(),
            inline_context: false,
            park: true,
            parked_bytes: 1 << 20,
            max_repeat: 2,
            sign_in: SIGN_IN.into(),
        }
    }
}
