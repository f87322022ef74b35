//! When an unused gateway exits.

use std::{future::pending, time::Duration};

use tokio::time::{Instant, sleep_until};

/// Running work may end without an event, so it is checked this often.
const LOOK: Duration = Duration::from_secs(5);

/// More could not be added to a moment.
const LONGEST: Duration = Duration::from_secs(365 * 86_400);

/// The activity of the gateway at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traffic {
    /// A request is being answered, or a turn runs or waits for its tools.
    pub(super) busy: bool,
    /// When a request last came or ended.
    pub(super) last: Option<Instant>,
}

/// Tracks since when nothing has happened.
#[derive(Debug)]
struct IdleWatch {
    after: Duration,
    since: Instant,
}

impl IdleWatch {
    fn new(after: Duration, now: Instant) -> Self {
        Self { after: after.min(LONGEST), since: now }
    }

    /// When to check again. None: it is time to exit.
    fn look(&mut self, traffic: Traffic, now: Instant) -> Option<Instant> {
        if traffic.busy {
            self.since = now;
            return Some(now + LOOK.min(self.after));
        }
        self.since = self.since.max(traffic.last.unwrap_or(self.since));
        let end = self.since + self.after;
        (end > now).then_some(end)
    }
}

/// Waits until there has been no traffic for `after`. Never ends if that is zero.
pub(super) async fn unused(after: Duration, traffic: impl Fn() -> Traffic) {
    if after.is_zero() {
        return pending().await;
    }
    let mut idle = IdleWatch::new(after, Instant::now());
    while let Some(next) = idle.look(traffic(), Instant::now()) {
        sleep_until(next).await;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::time::timeout;

    use super::*;

    const HALF_AN_HOUR: Duration = Duration::from_secs(1800);
    const MINUTE: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn idle_time_counts_from_the_last_request() {
        let began = Instant::now();
        let mut idle = IdleWatch::new(HALF_AN_HOUR, began);
        let quiet = |last| Traffic { busy: false, last };
        assert_eq!(idle.look(quiet(None), began), Some(began + HALF_AN_HOUR));
        let called = began + MINUTE;
        let look = idle.look(quiet(Some(called)), began + HALF_AN_HOUR);
        assert_eq!(look, Some(called + HALF_AN_HOUR));
        assert_eq!(idle.look(quiet(Some(called)), called + HALF_AN_HOUR), None);
    }

    #[tokio::test(start_paused = true)]
    async fn running_work_is_not_idle() {
        let began = Instant::now();
        let mut idle = IdleWatch::new(HALF_AN_HOUR, began);
        let (busy, quiet) =
            (Traffic { busy: true, last: None }, Traffic { busy: false, last: Some(began) });
        let late = began + 10 * HALF_AN_HOUR;
        assert_eq!(idle.look(busy, late), Some(late + LOOK));
        // A parked turn has ended, and no request with it.
        let ended = late + LOOK;
        assert_eq!(idle.look(quiet, ended), Some(late + HALF_AN_HOUR));
        assert_eq!(idle.look(quiet, late + HALF_AN_HOUR), None);
        // A short time is not stretched.
        let mut idle = IdleWatch::new(Duration::from_secs(1), began);
        assert_eq!(idle.look(busy, began), Some(began + Duration::from_secs(1)));
        let mut idle = IdleWatch::new(Duration::MAX, began);
        assert!(idle.look(quiet, late).is_some_and(|next| next > late));
    }

    #[tokio::test(start_paused = true)]
    async fn requests_postpone_the_idle_exit() {
        let began = Instant::now();
        let last = Cell::new(None);
        let traffic = || Traffic { busy: false, last: last.get() };
        let waiting = unused(HALF_AN_HOUR, traffic);
        tokio::pin!(waiting);
        for _ in 0..4 {
            assert!(timeout(HALF_AN_HOUR - MINUTE, waiting.as_mut()).await.is_err());
            last.set(Some(Instant::now()));
        }
        let called = Instant::now();
        waiting.await;
        assert_eq!(Instant::now() - called, HALF_AN_HOUR);
        assert!(Instant::now() - began > 2 * HALF_AN_HOUR);
        let never = unused(Duration::ZERO, traffic);
        tokio::pin!(never);
        assert!(timeout(100 * HALF_AN_HOUR, never.as_mut()).await.is_err());
    }
}
