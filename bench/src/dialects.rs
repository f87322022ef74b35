//! The same turns through every API of ibeam: what a dialect costs compared with chat.

use std::fmt::Write as _;

use crate::{
    child::Racer,
    lane::{Column, RaceSize, progress},
    load::{BenchDialect, LoadTarget},
    measure::speed,
    metric::Metric,
    page::{error_lines, ratio_cell, spread_cell},
    raw,
    recipe::Recipe,
    report::counts,
    stats::{Bound, RowVerdict, Series, judge, judge_open, order},
};

/// As a share of chat's events/s.
const TARGET: Bound = Bound::AtLeast(0.9);
const TARGET_WORDS: &str = "at least 0.9 of chat";

/// One row of the table.
pub(crate) struct DialectRow {
    pub(crate) dialect: BenchDialect,
    pub(crate) column: Column,
}

/// The rows of each gateway, in the order of the recipes.
pub(crate) struct DialectRace {
    pub(crate) gateways: Vec<Vec<DialectRow>>,
    /// What the simulator did by itself in these rounds, in events/s.
    pub(crate) direct: Series,
}

/// All dialects on one process of each recipe. The gateways take turns within a dialect, so that
/// the two values of a comparison are as close in time as they can be.
pub(crate) async fn race(recipes: &[&Recipe], race_size: &RaceSize) -> anyhow::Result<DialectRace> {
    let mut racers: Vec<Racer> = Vec::new();
    for recipe in recipes {
        racers.push(recipe.start().await?);
    }
    let mut gateways: Vec<Vec<DialectRow>> = racers
        .iter()
        .map(|_| BenchDialect::ALL.into_iter().map(DialectRow::new).collect())
        .collect();
    let mut direct = Series::default();
    for round in 0..=race_size.rounds {
        progress("dialects", round, race_size.rounds);
        let counted = round > 0;
        let rate = raw::speed(race_size.simulator, race_size.streams, race_size.size).await?;
        if counted {
            direct.push(Some(rate));
        }
        for dialect in order(BenchDialect::ALL.len(), round) {
            for gateway in order(racers.len(), round) {
                let racer = racers.get(gateway);
                let row = gateways.get_mut(gateway).and_then(|rows| rows.get_mut(dialect));
                if let Some((racer, row)) = racer.zip(row) {
                    let target = LoadTarget::Dialect(racer.address, row.dialect);
                    let lap = speed(&target, racer, race_size.streams, race_size.size).await;
                    row.column.take(lap, counted);
                }
            }
        }
    }
    for racer in racers {
        racer.stop().await;
    }
    Ok(DialectRace { gateways, direct })
}

impl DialectRow {
    fn new(dialect: BenchDialect) -> Self {
        Self { dialect, column: Column::default() }
    }
}

pub(crate) fn table(streams: usize, rows: &[DialectRow], direct: &Series) -> String {
    let mut out = String::new();
    let chat = rows.first().map(|row| row.column.series(Metric::Events)).unwrap_or_default();
    // Writing to a string cannot fail, hence the ignored results below.
    let _ = writeln!(
        out,
        "| {streams} streams through ibeam | events/s | of chat | CPU s per million events | errors | target | |\n\
         |---|---:|---:|---:|---:|---|---|"
    );
    for DialectRow { dialect, column } in rows {
        let rate = column.series(Metric::Events);
        let of_chat = rate.ratio(&chat).spread();
        let (target, verdict) = match dialect {
            BenchDialect::Chat => ("", judge_open(rate.spread())),
            // The store is not part of a dialect; this row shows what it costs.
            BenchDialect::ResponsesKept => ("", judge_open(of_chat)),
            BenchDialect::Responses | BenchDialect::Messages => {
                (TARGET_WORDS, judge(of_chat, TARGET))
            }
        };
        let verdict = if counts(direct, &rate) { verdict } else { RowVerdict::SimulatorTooSlow };
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {target} | {} |",
            dialect.name(),
            spread_cell(rate.spread()),
            ratio_cell(of_chat),
            spread_cell(column.series(Metric::Cpu).spread()),
            column.errors.len(),
            verdict.words(),
        );
    }
    out += &error_lines(rows.iter().map(|row| (row.dialect.name(), row.column.errors.as_slice())));
    out
}
