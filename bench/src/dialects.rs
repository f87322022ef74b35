//! The same turns through every API of ibeam: what a dialect costs beside chat.

use std::fmt::Write as _;

use crate::{
    child::Racer,
    lane::{Heat, progress},
    load::{Dialect, Target},
    measure::speed,
    page::{error_lines, ratio_cell, spread_cell},
    raw,
    recipe::Recipe,
    report::counts,
    stats::{Bound, Series, Verdict, judge, judge_open, order},
};

/// As a share of chat's events/s.
const TARGET: Bound = Bound::AtLeast(0.9);
const TARGET_WORDS: &str = "at least 0.9 of chat";

/// One row of the table.
pub(crate) struct Row {
    pub(crate) dialect: Dialect,
    pub(crate) rate: Series,
    pub(crate) cpu: Series,
    pub(crate) errors: Vec<String>,
}

/// The rows of each gateway, in the order of the recipes.
pub(crate) struct Dialects {
    pub(crate) gateways: Vec<Vec<Row>>,
    /// What the simulator did by itself in these rounds, in events/s.
    pub(crate) direct: Series,
}

/// All dialects on one process of each recipe. The gateways take turns within a dialect, so that
/// the two values of a comparison are as close in time as they can be.
pub(crate) async fn race(recipes: &[&Recipe], heat: &Heat) -> anyhow::Result<Dialects> {
    let mut racers: Vec<Racer> = Vec::new();
    for recipe in recipes {
        racers.push(recipe.start().await?);
    }
    let mut gateways: Vec<Vec<Row>> =
        racers.iter().map(|_| Dialect::ALL.into_iter().map(Row::new).collect()).collect();
    let mut direct = Series::default();
    for round in 0..=heat.rounds {
        progress("dialects", round, heat.rounds);
        let counted = round > 0;
        let rate = raw::speed(heat.simulator, heat.streams, heat.size).await?;
        if counted {
            direct.push(Some(rate));
        }
        for dialect in order(Dialect::ALL.len(), round) {
            for gateway in order(racers.len(), round) {
                let racer = racers.get(gateway);
                let row = gateways.get_mut(gateway).and_then(|rows| rows.get_mut(dialect));
                if let Some((racer, row)) = racer.zip(row) {
                    row.measure(racer, heat, counted).await;
                }
            }
        }
    }
    for racer in racers {
        racer.stop().await;
    }
    Ok(Dialects { gateways, direct })
}

impl Row {
    fn new(dialect: Dialect) -> Self {
        Self { dialect, rate: Series::default(), cpu: Series::default(), errors: Vec::new() }
    }

    async fn measure(&mut self, racer: &Racer, heat: &Heat, counted: bool) {
        let target = Target::Spoken(racer.address, self.dialect);
        let seen = speed(&target, racer, heat.streams, heat.size).await;
        self.errors.extend(seen.errors);
        if counted {
            self.rate.push(seen.events_per_second);
            self.cpu.push(seen.cpu_per_million);
        }
    }
}

pub(crate) fn table(streams: usize, rows: &[Row], direct: &Series) -> String {
    let mut out = String::new();
    let chat = rows.first().map(|row| row.rate.clone()).unwrap_or_default();
    // Writing to a string cannot fail, hence the ignored results below.
    let _ = writeln!(
        out,
        "| {streams} streams through ibeam | events/s | of chat | CPU s per million events | errors | target | |\n\
         |---|---:|---:|---:|---:|---|---|"
    );
    for Row { dialect, rate, cpu, errors } in rows {
        let of_chat = rate.ratio(&chat).spread();
        let (target, verdict) = match dialect {
            Dialect::Chat => ("", judge_open(rate.spread())),
            // The store is not part of a dialect; this row shows what it costs.
            Dialect::ResponsesKept => ("", judge_open(of_chat)),
            Dialect::Responses | Dialect::Messages => (TARGET_WORDS, judge(of_chat, TARGET)),
        };
        let verdict = if counts(direct, rate) { verdict } else { Verdict::SimulatorTooSlow };
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {target} | {} |",
            dialect.name(),
            spread_cell(rate.spread()),
            ratio_cell(of_chat),
            spread_cell(cpu.spread()),
            errors.len(),
            verdict.words(),
        );
    }
    out += &error_lines(rows.iter().map(|row| (row.dialect.name(), row.errors.as_slice())));
    out
}
