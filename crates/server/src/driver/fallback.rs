//! Remembers that the host refuses HTTP/2, so that not every turn has to find out.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// After this long HTTP/2 gets another chance: networks change.
pub(super) const MEMORY: Duration = Duration::from_secs(600);

#[derive(Debug)]
pub(super) struct Fallback {
    /// False when the user chose a transport.
    allowed: bool,
    until: Mutex<Option<Instant>>,
}

impl Fallback {
    pub(super) fn new(allowed: bool) -> Self {
        Self { allowed, until: Mutex::new(None) }
    }

    /// HTTP/2 was refused before anything was processed. Says whether the next
    /// stream goes another way.
    pub(super) fn remember(&self, why: &str) -> bool {
        if self.allowed {
            tracing::info!(why, "HTTP/2 is refused, using HTTP/1.1 for a while");
            *self.until.lock() = Some(Instant::now() + MEMORY);
        }
        self.allowed
    }

    /// HTTP/1.1 was refused as well: do not insist on it. Says whether the next
    /// stream goes another way.
    pub(super) fn forget(&self) -> bool {
        self.until.lock().take().is_some()
    }

    pub(super) fn active(&self) -> bool {
        self.until.lock().is_some_and(|until| Instant::now() < until)
    }
}
