//! The one place that reads the wall clock. Everything that waits or measures uses
//! tokio's clock instead, which tests can pause.

use std::time::{Duration, UNIX_EPOCH};

/// Time since 1970.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub fn unix_now() -> Duration {
    // A clock before 1970 is a machine that has no time yet.
    std::time::SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Whole seconds since 1970, as most formats want them.
#[must_use]
pub fn unix_seconds() -> u64 {
    unix_now().as_secs()
}
