//! Time as retention counts it. Wall clocks are set, forwards by years where a battery is
//! empty or a time server is wrong, and what is deleted because of that does not come back.
//!
//! So ages are counted in a time of their own. It goes with the wall clock as long as that moves
//! by steps that are believable, and otherwise with the time that was measured to pass.

use std::time::Duration;

/// Rounding to whole seconds is never taken for a jump.
const ROUNDING: u64 = 2;

/// All in seconds. What is stored is stamped with `time`, not with the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionClock {
    /// The wall clock at the last look.
    pub seen: u64,
    /// What that look made of it.
    pub time: u64,
}

impl RetentionClock {
    /// For a store that has no clock yet.
    #[must_use]
    pub fn starting_at(wall: u64) -> Self {
        Self { seen: wall, time: wall }
    }

    /// The clock at the next look, `ran` after the last one as far as this process has
    /// measured that.
    ///
    /// A step of more than half the retention beyond `ran` is not believed, in either
    /// direction: it cannot be distinguished from a clock that was set. A step back within that is
    /// followed, so that a small jump and its correction cancel out.
    #[must_use]
    pub fn at(self, wall: u64, ran: Duration, retention: Duration) -> Self {
        let ran = ran.as_secs();
        let doubt = (retention.as_secs() / 2).max(ROUNDING);
        let time = match wall.checked_sub(self.seen) {
            Some(step) if step <= ran.saturating_add(doubt) => self.time.saturating_add(step),
            Some(_) => self.time.saturating_add(ran),
            None if self.seen - wall <= doubt => self.time.saturating_sub(self.seen - wall),
            None => self.time.saturating_add(ran),
        };
        Self { seen: wall, time }
    }

    /// What was stamped before this is too old.
    #[must_use]
    pub fn oldest(self, retention: Duration) -> u64 {
        self.time.saturating_sub(retention.as_secs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 24 * 3600;
    const WEEK: Duration = Duration::from_secs(7 * DAY);
    const NOW: u64 = 1_800_000_000;

    /// What the time is after looks, each a wall clock and the seconds that were measured.
    fn after(looks: &[(u64, u64)]) -> u64 {
        let look = |clock: RetentionClock, (wall, ran): &(u64, u64)| {
            clock.at(*wall, Duration::from_secs(*ran), WEEK)
        };
        looks.iter().fold(RetentionClock::starting_at(NOW), look).time
    }

    #[test]
    fn small_steps_are_followed_in_both_directions() {
        assert_eq!(after(&[(NOW + 60, 60)]), NOW + 60);
        assert_eq!(after(&[(NOW + 3 * DAY, 0)]), NOW + 3 * DAY, "switched off over a weekend");
        assert_eq!(after(&[(NOW + DAY, 0), (NOW, 0), (NOW + DAY, 0), (NOW, 0)]), NOW);
    }

    #[test]
    fn a_jump_counts_as_the_time_that_was_measured() {
        for jump in [4 * DAY, 8 * DAY, 365 * DAY, 1 << 40] {
            assert_eq!(after(&[(NOW + jump, 60)]), NOW + 60);
            assert_eq!(after(&[(NOW + jump, 60), (NOW + jump + 60, 60)]), NOW + 120);
            // It was a mistake.
            assert_eq!(after(&[(NOW + jump, 60), (NOW + 120, 60)]), NOW + 120);
        }
        assert_eq!(after(&[(0, 60)]), NOW + 60);
        assert_eq!(after(&[(0, 60), (60, 60), (NOW + 180, 60)]), NOW + 180);
    }

    #[test]
    fn time_that_passed_while_running_always_counts() {
        assert_eq!(after(&[(NOW + 30 * DAY, 30 * DAY)]), NOW + 30 * DAY);
        let day = |n: u64| (NOW + 1000 * DAY + n * DAY, DAY);
        let looks: Vec<_> = (1..=9).map(day).collect();
        assert_eq!(after(&looks), NOW + 9 * DAY, "a jump, and then nine days");
    }

    #[test]
    fn a_short_retention_accepts_a_step_of_a_second() {
        let second = Duration::from_secs(1);
        let clock = RetentionClock::starting_at(NOW).at(NOW + 2, second, second);
        assert_eq!((clock.time, clock.oldest(second)), (NOW + 2, NOW + 1));
    }
}
