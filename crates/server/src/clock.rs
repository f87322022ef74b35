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

/// The day of a moment in Unix seconds, as `2026-11-15`.
#[must_use]
pub fn date(seconds: u64) -> String {
    // Years that begin in March have their leap day at the end, in eras of 400 of them.
    let days = seconds / 86_400 + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

/// The same with its time of day, as RFC 3339 has it: `2026-11-15T18:35:00Z`.
#[must_use]
pub fn rfc3339(seconds: u64) -> String {
    let of_day = seconds % 86_400;
    let (hours, minutes, seconds_left) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{}T{hours:02}:{minutes:02}:{seconds_left:02}Z", date(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_formatted() {
        for (seconds, expect) in [
            (0, "1970-01-01"),
            (86_399, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_709_164_800, "2024-02-29"),
            (1_767_225_599, "2025-12-31"),
            (1_767_225_600, "2026-01-01"),
        ] {
            assert_eq!(date(seconds), expect);
        }
        assert_eq!(rfc3339(1_767_225_599), "2025-12-31T23:59:59Z");
        assert_eq!(rfc3339(1_767_225_600), "2026-01-01T00:00:00Z");
    }
}
