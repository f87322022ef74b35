//! This build beside an earlier one, raced in the same rounds: what a change has brought.

use std::fmt::Write as _;

use crate::{
    dialects::DialectRace,
    lane::Column,
    metric::Metric,
    page::{error_lines, ratio_cell, spread_cell},
    report::counts,
    stats::{Better, RowVerdict, Series, compare},
};

/// One number of both builds.
struct BuildRow {
    name: String,
    better: Better,
    this: Series,
    earlier: Series,
    /// The simulator's own rate, where that could be the limit.
    direct: Option<Series>,
}

impl BuildRow {
    fn new(name: String, metric: Metric, direct: &Series, this: &Column, earlier: &Column) -> Self {
        Self {
            name,
            better: metric.better(),
            this: this.series(metric),
            earlier: earlier.series(metric),
            direct: (metric == Metric::Events).then(|| direct.clone()),
        }
    }

    fn verdict(&self) -> RowVerdict {
        match &self.direct {
            Some(direct) if !(counts(direct, &self.this) && counts(direct, &self.earlier)) => {
                RowVerdict::SimulatorTooSlow
            }
            _ => compare(self.this.ratio(&self.earlier).spread(), self.better),
        }
    }
}

pub(crate) fn table(
    streams: usize,
    direct: &Series,
    this: &Column,
    earlier: &Column,
    dialects: &DialectRace,
) -> String {
    let mut rows = race_rows(direct, this, earlier);
    rows.extend(dialect_rows(dialects));
    let mut out = format!(
        "| {streams} streams | this | earlier | this / earlier | |\n|---|---:|---:|---:|---|\n"
    );
    for row in rows {
        // Writing to a string cannot fail, hence the ignored results below.
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} |",
            row.name,
            spread_cell(row.this.spread()),
            spread_cell(row.earlier.spread()),
            ratio_cell(row.this.ratio(&row.earlier).spread()),
            row.verdict().words(),
        );
    }
    let [this, earlier] =
        [(this, 0), (earlier, 1)].map(|(column, at)| errors(column, dialects, at));
    let _ = writeln!(out, "| errors | {} | {} | | |", this.len(), earlier.len());
    out += &error_lines([("this", this.as_slice()), ("earlier", earlier.as_slice())]);
    out
}

/// All errors of one build, in the race and in the tables of dialects.
fn errors(column: &Column, dialects: &DialectRace, at: usize) -> Vec<String> {
    let rows = dialects.gateways.get(at).into_iter().flatten();
    column.errors.iter().chain(rows.flat_map(|row| &row.column.errors)).cloned().collect()
}

fn race_rows(direct: &Series, this: &Column, earlier: &Column) -> Vec<BuildRow> {
    let row =
        |metric: Metric| BuildRow::new(metric.name().to_owned(), metric, direct, this, earlier);
    Metric::ALL.into_iter().map(row).collect()
}

fn dialect_rows(dialects: &DialectRace) -> Vec<BuildRow> {
    let mut rows = Vec::new();
    let [this, earlier] = dialects.gateways.as_slice() else { return rows };
    for (this, earlier) in this.iter().zip(earlier) {
        let name = this.dialect.name();
        for metric in [Metric::Events, Metric::Cpu] {
            let title = format!("{name}: {}", metric.name());
            rows.push(BuildRow::new(
                title,
                metric,
                &dialects.direct,
                &this.column,
                &earlier.column,
            ));
        }
    }
    rows
}

#[cfg(test)]
#[path = "against_tests.rs"]
mod tests;
