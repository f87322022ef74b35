//! What all turns share.

use std::{sync::Arc, time::Duration};

use ibeam_core::model::Millis;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{legs::Legs, registry::Registry};
use crate::{auth::Tokens, driver::Driver, limits::Turns, tasks::Tasks};

/// The wake-ups of parked turns on one connection fall on moments that are so far apart,
/// so that the heartbeats of many streams leave in one write.
const GRID: Duration = Duration::from_secs(1);

/// How many connections have moments of their own: not all turns are to wake at once.
const SHIFTS: u64 = 100;

/// How long a turn waits for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// After the last reader left, the turn lives on this long before it is cancelled.
    pub cancel_grace: Duration,
    /// A reader that takes no event for this long is given up.
    pub client_stall: Duration,
    /// A parked turn waits this long for its results.
    pub parked: Duration,
}

#[derive(Debug)]
pub(crate) struct Hub {
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) tokens: Tokens,
    pub(crate) patience: Patience,
    pub(crate) registry: Registry,
    pub(crate) legs: Legs,
    /// Places for turns that generate with a reader attached.
    pub(crate) turns: Turns,
    /// Ends every turn when the program does.
    pub(crate) stop: CancellationToken,
    /// From then on nothing is parked any more.
    pub(crate) drain: CancellationToken,
    pub(crate) tasks: Tasks,
    /// Where the grid begins.
    pub(crate) epoch: Instant,
}

/// The first moment of the connection's grid that is not before `due`.
pub(super) fn on_grid(epoch: Instant, connection: u64, due: Instant) -> Instant {
    let shift = u32::try_from(connection % SHIFTS).unwrap_or(0);
    let epoch = epoch + GRID * shift / (SHIFTS as u32);
    let step = GRID.as_nanos();
    let steps = due.saturating_duration_since(epoch).as_nanos().div_ceil(step);
    let at = GRID.saturating_mul(u32::try_from(steps).unwrap_or(u32::MAX));
    (epoch + at).max(due)
}

/// The clock of a turn, which counts from its start.
pub(super) fn millis_since(started: Instant) -> Millis {
    Millis(u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn wake_ups_fall_together_and_never_early() {
        let epoch = Instant::now();
        let at = |ms: u64| epoch + Duration::from_millis(ms);
        for (connection, due, want) in [
            (0, 0, 0),
            (0, 1, 1_000),
            (0, 1_000, 1_000),
            (0, 5_001, 6_000),
            (1, 0, 10),
            (1, 11, 1_010),
            (101, 11, 1_010),
            (99, 5_990, 5_990),
        ] {
            assert_eq!(on_grid(epoch, connection, at(due)), at(want), "{connection}, {due}");
        }
        let fine = at(1_000) + Duration::from_nanos(1);
        assert_eq!(on_grid(epoch, 0, fine), at(2_000));
    }
}
