//! The racers of a table: all run from the start of the race to its end, and take turns in every
//! round, so that what disturbs the machine disturbs them alike.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use anyhow::Context as _;

use crate::{
    child::Racer,
    load::Target,
    measure::{self, Clock},
    metric::Metric,
    page::say,
    raw,
    recipe::Recipe,
    rules::Size,
    stats::{Series, order},
};

/// How much is done in a table.
#[derive(Clone, Copy)]
pub(crate) struct Heat {
    pub(crate) simulator: SocketAddr,
    pub(crate) clock: Clock,
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

    fn take(&mut self, lap: Lap, counted: bool) {
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
enum Kind {
    Speed,
    Latency,
    FirstEvent,
    ColdStart,
    Memory,
}

impl Kind {
    const ALL: [Self; 5] =
        [Self::Speed, Self::Latency, Self::FirstEvent, Self::ColdStart, Self::Memory];
}

/// What came of it. Every metric of the kind is listed, also when it could not be measured, so
/// that the series of all racers stay in step.
struct Lap {
    values: Vec<(Metric, Option<f64>)>,
    errors: Vec<String>,
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

    async fn lap(&self, kind: Kind, heat: &Heat) -> anyhow::Result<Lap> {
        let Heat { clock, size, streams, firsts, starts, rest, .. } = *heat;
        let target = Target::Http(self.racer.address);
        Ok(match kind {
            Kind::Speed => {
                let speed = measure::speed(&target, &self.racer, streams, size).await;
                Lap {
                    values: vec![
                        (Metric::Events, speed.events_per_second),
                        (Metric::Cpu, speed.cpu_per_million),
                    ],
                    errors: speed.errors,
                }
            }
            Kind::Latency => {
                let latency = measure::latency(&target, streams, size, clock).await;
                Lap {
                    values: vec![
                        (Metric::LatencyP50, latency.p50),
                        (Metric::LatencyP99, latency.p99),
                    ],
                    errors: latency.errors,
                }
            }
            Kind::FirstEvent => {
                let first = measure::first_event(&target, firsts).await;
                Lap { values: vec![(Metric::FirstEvent, first.value)], errors: first.errors }
            }
            Kind::ColdStart => {
                let cold = measure::cold_start(&self.recipe, starts).await.context(self.name)?;
                Lap { values: vec![(Metric::ColdStart, cold.value)], errors: cold.errors }
            }
            Kind::Memory => {
                let memory =
                    measure::memory(&self.recipe, streams, rest).await.context(self.name)?;
                Lap {
                    values: vec![
                        (Metric::RssIdle, Some(memory.idle)),
                        (Metric::RssStream, memory.per_stream),
                    ],
                    errors: memory.errors,
                }
            }
        })
    }
}

/// Runs all rounds. Gives the rate of the simulator itself in each of them, in events/s.
pub(crate) async fn race(lanes: &mut [Lane], heat: &Heat) -> anyhow::Result<Series> {
    let mut direct = Series::default();
    for round in 0..=heat.rounds {
        progress(&format!("{} streams", heat.streams), round, heat.rounds);
        let counted = round > 0;
        let rate = raw::speed(heat.simulator, heat.streams, heat.size).await?;
        if counted {
            direct.push(Some(rate));
        }
        for kind in Kind::ALL {
            for at in order(lanes.len(), round) {
                if let Some(lane) = lanes.get_mut(at) {
                    let lap = lane.lap(kind, heat).await?;
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
