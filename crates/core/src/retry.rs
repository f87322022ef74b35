//! How often a failure is retried, and how long to wait before. Whether a retry is allowed at
//! all depends on how far the turn got, which its machine knows.

use std::{collections::HashMap, time::Duration};

use crate::model::Millis;

/// How many runs one leg may take: the first one, all retries and all remedies.
pub const MAX_RUNS: u32 = 5;

/// The retries of a conversation are counted for this long after the first one.
const WINDOW: Duration = Duration::from_secs(60);

/// How many retries a request gets that is itself a retry of its client.
const CLIENT_RETRY: u32 = 1;

/// Conversations whose retries are counted at once. Beyond that the newest is not counted, and
/// gets as many retries as one that never failed.
const CONVERSATIONS: usize = 4096;

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

/// The runs and retries of one leg.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunAttempts {
    runs: u32,
    retries: u32,
}

impl RunAttempts {
    /// A leg that begins on a stream which is already open.
    pub const ON_OPEN_STREAM: Self = Self { runs: 1, retries: 0 };

    /// A run begins.
    pub const fn begin_run(&mut self) {
        self.runs += 1;
    }

    /// Whether the leg may take another run.
    #[must_use]
    pub const fn may_run(&self) -> bool {
        self.runs < MAX_RUNS
    }

    /// The wait before the next retry of a temporary failure. `None`: give up.
    pub fn retry(
        &mut self,
        backoff: &Backoff,
        jitter: f64,
        retry_after: Option<Duration>,
    ) -> Option<Duration> {
        let wait = backoff.delay(self.retries, jitter, retry_after)?;
        self.retries += 1;
        Some(wait).filter(|_| self.may_run())
    }

    /// The same leg is answered once more: its retries are counted from zero, its runs are not.
    #[must_use]
    pub const fn once_more(self) -> Self {
        Self { retries: 0, ..self }
    }
}

/// The retries that conversations have left in this minute. A client that sees a failure often
/// sends the request again by itself; without a common budget its retries and ours multiply.
#[derive(Debug, Default)]
pub struct RetryBudget {
    spent: HashMap<u64, Spent>,
}

#[derive(Clone, Copy, Debug)]
struct Spent {
    since: Millis,
    retries: u32,
}

impl RetryBudget {
    /// How many of `retries` a new request of this conversation gets.
    #[must_use]
    pub fn left(&self, conversation: u64, retries: u32, client_retries: bool, now: Millis) -> u32 {
        let spent = self.spent.get(&conversation).filter(|spent| spent.counts(now));
        let left = retries.saturating_sub(spent.map_or(0, |spent| spent.retries));
        if client_retries { left.min(CLIENT_RETRY) } else { left }
    }

    /// A request failed after `retries` retries. Those of a request that worked in the end
    /// are not counted: its client has no reason to send it again.
    pub fn failed(&mut self, conversation: u64, retries: u32, now: Millis) {
        if retries == 0 {
            return;
        }
        if self.spent.len() >= CONVERSATIONS {
            self.spent.retain(|_, spent| spent.counts(now));
        }
        let room = self.spent.len() < CONVERSATIONS;
        match self.spent.get_mut(&conversation) {
            Some(spent) if spent.counts(now) => {
                spent.retries = spent.retries.saturating_add(retries);
            }
            Some(spent) => *spent = Spent { since: now, retries },
            None if room => {
                self.spent.insert(conversation, Spent { since: now, retries });
            }
            None => {}
        }
    }
}

impl Spent {
    fn counts(&self, now: Millis) -> bool {
        now < self.since + WINDOW
    }
}

#[cfg(test)]
#[path = "retry_tests.rs"]
mod tests;
