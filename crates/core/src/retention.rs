//! Time as retention counts it. Wall clocks are set, forwards by years where a battery is
//! empty or a time server is wrong, and what is deleted because of that does not come back.
//!
//! So ages are counted in a time of their own. It goes with the wall clock as long as that moves
//! by steps that are believable, and otherwise with the time that was measured to pass. A step
//! that is not believed may have been a pause: it counts later, and not in full.

use std::time::Duration;

/// Rounding to whole seconds is never taken for a jump.
const ROUNDING: i64 = 2;

/// All in seconds. What is stored is stamped with `time`, not with the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionClock {
    /// The wall clock at the last look.
    pub seen: u64,
    /// What that look made of it.
    pub time: u64,
    /// The sum of the steps that are not believed so far. What `time` has of it is not used to
    /// delete anything.
    pub doubted: i64,
    /// The wall clock after the last one of them.
    pub since: u64,
}

impl RetentionClock {
    /// For a store that has no clock yet.
    #[must_use]
    pub fn starting_at(wall: u64) -> Self {
        Self { seen: wall, time: wall, doubted: 0, since: wall }
    }

    /// The clock at the next look, `ran` after the last one as far as this process has
    /// measured that.
    ///
    /// A step of more than half the retention beyond `ran` is not believed, in either
    /// direction: it cannot be distinguished from a clock that was set. Forwards, it is taken for half
    /// the retention, which counts for what is stored from then on, and for what was stored
    /// before once the wall clock has advanced from there by another half: a pause must not keep
    /// things for ever, and a wrong clock must not delete what is in use. Steps that cancel each
    /// other out leave nothing behind.
    #[must_use]
    pub fn at(self, wall: u64, ran: Duration, retention: Duration) -> Self {
        let half = half(retention);
        let ran = signed(ran.as_secs());
        let step = signed(wall).saturating_sub(signed(self.seen));
        let confirmed = signed(wall) >= signed(self.since).saturating_add(half);
        let doubted = if confirmed { 0 } else { self.doubted };
        if (-half..=ran.saturating_add(half)).contains(&step) {
            return Self { seen: wall, time: moved(self.time, step), doubted, since: self.since };
        }
        let jump = step.saturating_sub(ran);
        let back = self.doubted.saturating_add(jump);
        let (doubted, counts) = if (-half..=half).contains(&back) {
            (0, back - counted(self.doubted, half))
        } else {
            let sum = doubted.saturating_add(jump);
            (sum, counted(sum, half) - counted(doubted, half))
        };
        let time = moved(self.time, ran.saturating_add(counts));
        Self { seen: wall, time, doubted, since: wall }
    }

    /// What was stamped before this is too old.
    #[must_use]
    pub fn oldest(self, retention: Duration) -> u64 {
        let believed = moved(self.time, -counted(self.doubted, half(retention)));
        believed.saturating_sub(retention.as_secs())
    }
}

/// The largest step that is believed.
fn half(retention: Duration) -> i64 {
    signed(retention.as_secs() / 2).max(ROUNDING)
}

/// What is made of steps that are not believed. A clock that was set back deletes nothing.
fn counted(doubted: i64, half: i64) -> i64 {
    doubted.clamp(0, half)
}

fn signed(seconds: u64) -> i64 {
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

fn moved(time: u64, by: i64) -> u64 {
    time.saturating_add_signed(by)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 24 * 3600;
    const WEEK: Duration = Duration::from_secs(7 * DAY);
    const NOW: u64 = 1_800_000_000;

    /// The clock after looks, each a wall clock and the seconds that were measured.
    fn clock(looks: &[(u64, u64)]) -> RetentionClock {
        let look = |clock: RetentionClock, (wall, ran): &(u64, u64)| {
            clock.at(*wall, Duration::from_secs(*ran), WEEK)
        };
        looks.iter().fold(RetentionClock::starting_at(NOW), look)
    }

    /// The time then, as far as it deletes anything.
    fn after(looks: &[(u64, u64)]) -> u64 {
        clock(looks).oldest(WEEK) + WEEK.as_secs()
    }

    #[test]
    fn small_steps_are_followed_in_both_directions() {
        assert_eq!(after(&[(NOW + 60, 60)]), NOW + 60);
        assert_eq!(after(&[(NOW + 3 * DAY, 0)]), NOW + 3 * DAY, "switched off over a weekend");
        assert_eq!(after(&[(NOW + DAY, 0), (NOW, 0), (NOW + DAY, 0), (NOW, 0)]), NOW);
    }

    #[test]
    fn clock_jump_counts_as_the_measured_time() {
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
    fn running_time_always_counts() {
        assert_eq!(after(&[(NOW + 30 * DAY, 30 * DAY)]), NOW + 30 * DAY);
        let day = |n: u64| (NOW + 1000 * DAY + n * DAY, DAY);
        let looks: Vec<_> = (1..=4).map(day).collect();
        assert_eq!(after(&looks), NOW + 4 * DAY, "a jump, and then three days");
    }

    #[test]
    fn long_pause_counts_as_half_the_retention() {
        for pause in [5 * DAY, 365 * DAY] {
            let day = |n: u64| (NOW + pause + n * DAY, if n == 0 { 0 } else { DAY });
            let looks: Vec<_> = (0..=3).map(day).collect();
            assert_eq!(after(&looks), NOW + 3 * DAY);
            let looks: Vec<_> = (0..=9).map(day).collect();
            assert_eq!(after(&looks), NOW + 9 * DAY + DAY * 7 / 2);
        }
        // Used for an hour every ten days.
        let hours = |times: u64| {
            let hour = |n: u64| [(NOW + n * 10 * DAY, 0), (NOW + n * 10 * DAY + 3600, 3600)];
            after(&(1..=times).flat_map(hour).collect::<Vec<_>>()) - NOW
        };
        assert_eq!([1, 2, 3].map(hours), [3600, DAY * 7 / 2 + 7200, 7 * DAY + 10_800]);
    }

    #[test]
    fn entries_after_a_long_pause_have_the_full_retention() {
        let day = |n: u64| (NOW + 30 * DAY + n * DAY, if n == 0 { 0 } else { DAY });
        let stored = clock(&[day(0)]).time;
        for days in 1..=9 {
            let looks: Vec<_> = (0..=days).map(day).collect();
            assert_eq!(stored < clock(&looks).oldest(WEEK), days > 7, "{days}");
        }
    }

    /// A machine whose clock has no battery starts in 1970 until it finds a network.
    #[test]
    fn temporary_wrong_clock_adds_no_time() {
        let start = |n: u64| [(60, 0), (NOW + n * 600, 60)];
        let looks: Vec<_> = (1..=50).flat_map(start).collect();
        assert_eq!(after(&looks), NOW + 50 * 600);
    }

    #[test]
    fn short_retention_accepts_a_clock_step_of_a_second() {
        let second = Duration::from_secs(1);
        let clock = RetentionClock::starting_at(NOW).at(NOW + 2, second, second);
        assert_eq!((clock.time, clock.oldest(second)), (NOW + 2, NOW + 1));
    }
}
