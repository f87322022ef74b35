//! How many retries each conversation has left.

use ibeam_core::retry::RetryBudget;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{
    admission::{RequestOutline, hashed},
    hub::millis_since,
    parked::TurnIdentity,
};

#[derive(Debug)]
pub(crate) struct Retries {
    budget: Mutex<RetryBudget>,
    /// The number of retries of a request whose conversation has used none.
    most: u32,
    started: Instant,
}

/// What decides how many retries a request gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RetryClaim {
    pub(crate) key: RetryKey,
    /// Its client sends it again.
    pub(crate) by_client: bool,
}

/// What the retries of a request are counted under.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RetryKey(u64);

impl RetryKey {
    /// The conversation by its name, or by the content of the request if it has none. The bytes of
    /// the body would not do: Codex writes the fields in another order each time.
    pub(crate) fn new(outline: &RequestOutline) -> Self {
        let TurnIdentity { scope, setup, .. } = &outline.identity;
        let said = outline.said.chain.fingerprint().0;
        let hash = match outline.name() {
            Some(name) => hashed("retries", (scope, name)),
            None => hashed("retries", (scope, setup, said)),
        };
        Self(hash.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes)))
    }
}

impl Retries {
    pub(crate) fn new(most: u32) -> Self {
        Self { budget: Mutex::default(), most, started: Instant::now() }
    }

    /// The number of retries for a request that begins now.
    pub(crate) fn left(&self, claim: RetryClaim) -> u32 {
        let now = millis_since(self.started);
        self.budget.lock().left(claim.key.0, self.most, claim.by_client, now)
    }

    /// A request failed after `retries` retries.
    pub(crate) fn failed(&self, key: RetryKey, retries: u32) {
        let now = millis_since(self.started);
        self.budget.lock().failed(key.0, retries, now);
    }
}
