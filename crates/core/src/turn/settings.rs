//! The settings of a turn. All times are configurable; the defaults are what live traffic needs.

use std::borrow::Cow;

use crate::{
    peer::{SIGN_IN, TurnClocks},
    retry::Backoff,
};

#[derive(Clone, Debug)]
pub struct Settings {
    pub clocks: TurnClocks,
    pub backoff: Backoff,
    /// Keep the link open while the client runs its tools.
    pub park: bool,
    /// How much output of the backend is kept meanwhile for the next request.
    pub parked_bytes: usize,
    /// How many equal calls with equal outcomes are allowed; 0 allows any number.
    pub max_repeat: u32,
    /// The command that signs this profile in, for refusals of the sign-in.
    pub sign_in: Cow<'static, str>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            clocks: TurnClocks::default(),
            backoff: Backoff::default(),
            park: true,
            parked_bytes: 1 << 20,
            max_repeat: 2,
            sign_in: SIGN_IN.into(),
        }
    }
}
