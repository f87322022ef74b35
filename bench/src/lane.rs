//! The racers of a table: all run from the start of the race to its end, and take turns in every
//! round, so that what disturbs the machine disturbs them alike.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use anyhow::Context as _;

use crate::{
    child::Racer,
    load::LoadTarget,
    measure::{self, Lap, SimulatorClock},
    metric::Metric,
    page::say,
    raw,
    recipe::Recipe,
    rules::Size,
    stats::{Series, order},
};

/// How much is done in a table.
#[derive(Clone, Copy)]
pub(crate) struct RaceSize {
    pub(crate) simulator: SocketAddr,
    pub(crate) clock: SimulatorClock,
    pub(crate) size: Size,
    pub(crate) streams: usize,
    /// Those that count; one more goes before them.
    pub(crate) rounds: usize,
    /// Requests for one time to first event.
    pub(crate) firsts: usize,
    /// Starts for one cold start.
    pub(crate) starts: usize,
    /// After a start or after the last stream was opened, before memory is read.
    pub(crate) rest: Duration,
}

/// One racer and its numbers.
pub(crate) struct Lane {
    name: &'static str,
    recipe: Recipe,
    racer: Racer,
    pub(crate) column: Column,
}

/// The numbers of a racer, round by round.
#[derive(Default)]
pub(crate) struct Column {
    series: BTreeMap<Metric, Series>,
    pub(crate) errors: Vec<String>,
}

impl Column {
    pub(crate) fn series(&self, metric: Metric) -> Series {
        self.series.get(&metric).cloned().unwrap_or_default()
    }

    #[cfg(test)]
    pub(crate) fn of(metric: Metric, series: Series) -> Self {
        Self { series: BTreeMap::from([(metric, series)]), errors: Vec::new() }
    }

    pub(crate) fn take(&mut self, lap: Lap, counted: bool) {
        self.errors.extend(lap.errors);
        if counted {
            for (metric, value) in lap.values {
                self.series.entry(metric).or_default().push(value);
            }
        }
    }
}

/// What a racer does at a time, before the next one does the same.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LapKind {
    Speed,
    Latency,
    FirstEvent,
    ColdStart,
    Memory,
}

impl LapKind {
    const ALL: [Self; 5] =
        [Self::Speed, Self::Latency, Self::FirstEvent, Self::ColdStart, Self::Memory];
}

impl Lane {
    pub(crate) async fn start(name: &'static str, recipe: Recipe) -> anyhow::Result<Self> {
        let racer = recipe.start().await.context(name)?;
        Ok(Self { name, recipe, racer, column: Column::default() })
    }

    pub(crate) async fn stop(self) -> Column {
        self.racer.stop().await;
        self.column
    }

    async fn lap(&self, kind: LapKind, race_size: &RaceSize) -> anyhow::Result<Lap> {
        let RaceSize { clock, size, streams, firsts, starts, rest, .. } = *race_size;
        let target = LoadTarget::Http(self.racer.address);
        Ok(match kind {
            LapKind::Speed => measure::speed(&target, &self.racer, streams, size).await,
            LapKind::Latency => measure::latency(&target, streams, size, clock).await,
            LapKind::FirstEvent => measure::first_event(&target, firsts).await,
            LapKind::ColdStart => {
                measure::cold_start(&self.recipe, starts).await.context(self.name)?
            }
            LapKind::Memory => {
                measure::memory(&self.recipe, streams, rest).await.context(self.name)?
            }
        })
    }
}

/// Runs all rounds. Returns the rate of the simulator itself in each of them, in events/s.
pub(crate) async fn race(lanes: &mut [Lane], race_size: &RaceSize) -> anyhow::Result<Series> {
    let mut direct = Series::default();
    for round in 0..=race_size.rounds {
        progress(&format!("{} streams", race_size.streams), round, race_size.rounds);
        let counted = round > 0;
        let rate = raw::speed(race_size.simulator, race_size.streams, race_size.size).await?;
        if counted {
            direct.push(Some(rate));
        }
        for kind in LapKind::ALL {
            for at in order(lanes.len(), round) {
                if let Some(lane) = lanes.get_mut(at) {
                    let lap = lane.lap(kind, race_size).await?;
                    lane.column.take(lap, counted);
                }
            }
        }
    }
    Ok(direct)
}

pub(crate) fn progress(table: &str, round: usize, rounds: usize) {
    match round {
        0 => say(&format!("{table}: warm-up")),
        _ => say(&format!("{table}: round {round} of {rounds}")),
    }
}
