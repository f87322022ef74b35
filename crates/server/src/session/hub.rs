//! What all turns share.

use std::time::Duration;

use ibeam_core::model::Millis;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{leg_index::LegIndex, registry::Registry, retries::Retries};
use crate::{
    auth::AccessTokens, catalog::Catalog, checks::SchemaChecks, counter::Counter, large::LargeWork,
    limits::TurnSlots, tasks::Tasks,
};

/// How long a turn waits for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// After the last reader left, the turn runs this long before it is cancelled.
    pub cancel_grace: Duration,
    /// A reader that takes no event for this long is cut.
    pub client_stall: Duration,
    /// A parked turn waits this long for its results.
    pub parked: Duration,
}

#[derive(Debug)]
pub(crate) struct Hub {
    pub(crate) tokens: AccessTokens,
    pub(crate) patience: Patience,
    pub(crate) registry: Registry,
    pub(crate) leg_index: LegIndex,
    pub(crate) retries: Retries,
    /// For turns that generate with a reader attached.
    pub(crate) slots: TurnSlots,
    /// Ends every turn.
    pub(crate) stop: CancellationToken,
    /// Once cancelled, no turn is parked any more.
    pub(crate) drain: CancellationToken,
    pub(crate) catalog: Catalog,
    pub(crate) counter: Counter,
    pub(crate) checks: SchemaChecks,
    pub(crate) large_work: LargeWork,
    pub(crate) tasks: Tasks,
}

/// The clock of a turn, which counts from its start.
pub(super) fn millis_since(started: Instant) -> Millis {
    Millis(u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX))
}
