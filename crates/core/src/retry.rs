//! How long to wait before another try. Only the waiting is decided here; whether a
//! try is allowed at all depends on how far the turn got, which its machine knows.

use std::time::Duration;

/// Waits that double up to a cap, with jitter so that many clients do not return at
/// the same moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The first wait, before jitter.
    pub base: Duration,
    /// No wait is longer, whatever the backend asks for.
    pub cap: Duration,
    /// How many tries may follow the first one.
    pub retries: u32,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { base: Duration::from_millis(500), cap: Duration::from_secs(8), retries: 3 }
    }
}

impl Backoff {
    /// No second try.
    pub const NEVER: Self = Self { base: Duration::ZERO, cap: Duration::ZERO, retries: 0 };

    /// The wait after `attempt` tries have failed before this one (0: the first try
    /// just failed). `jitter` is a random number in `0..1`. `None`: give up, either
    /// because the tries are used up or because the backend wants a longer wait than
    /// a client should sit through; it is then the client's to know.
    #[must_use]
    pub fn delay(
        &self,
        attempt: u32,
        jitter: f64,
        retry_after: Option<Duration>,
    ) -> Option<Duration> {
        if attempt >= self.retries || retry_after.is_some_and(|asked| asked > self.cap) {
            return None;
        }
        let factor = 1_u32.checked_shl(attempt).unwrap_or(u32::MAX);
        let full = self.base.saturating_mul(factor).min(self.cap);
        let jitter = if jitter.is_finite() { jitter.clamp(0.0, 1.0) } else { 0.0 };
        // Half of it is certain, so that a wait is never next to nothing.
        let wait = full / 2 + (full / 2).mul_f64(jitter);
        Some(wait.max(retry_after.unwrap_or_default()))
    }
}

#[cfg(test)]
#[path = "retry_tests.rs"]
mod tests;
