//! This build beside an earlier one, raced in the same rounds: what a change has brought.

use std::fmt::Write as _;

use crate::{
    dialects::Dialects,
    lane::Column,
    metric::Metric,
    page::{error_lines, ratio_cell, spread_cell},
    report::counts,
    stats::{Better, Series, Verdict, compare},
};

/// One number of both builds.
struct Row {
    name: String,
    better: Better,
    this: Series,
    earlier: Series,
    /// The simulator's own rate, where that could be the limit.
    direct: Option<Series>,
}

impl Row {
    fn verdict(&self) -> Verdict {
        match &self.direct {
            Some(direct) if !(counts(direct, &self.this) && counts(direct, &self.earlier)) => {
                Verdict::SimulatorTooSlow
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
    dialects: &Dialects,
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

/// All errors of one build, in the race and in the dialects.
fn errors(column: &Column, dialects: &Dialects, at: usize) -> Vec<String> {
    let rows = dialects.gateways.get(at).into_iter().flatten();
    column.errors.iter().chain(rows.flat_map(|row| &row.errors)).cloned().collect()
}

fn race_rows(direct: &Series, this: &Column, earlier: &Column) -> Vec<Row> {
    let rows = Metric::ALL.into_iter().map(|metric| Row {
        name: metric.name().to_owned(),
        better: metric.better(),
        this: this.series(metric),
        earlier: earlier.series(metric),
        direct: (metric == Metric::Events).then(|| direct.clone()),
    });
    rows.collect()
}

fn dialect_rows(dialects: &Dialects) -> Vec<Row> {
    let mut rows = Vec::new();
    let [this, earlier] = dialects.gateways.as_slice() else { return rows };
    for (this, earlier) in this.iter().zip(earlier) {
        let name = this.dialect.name();
        rows.push(Row {
            name: format!("{name}: {}", Metric::Events.name()),
            better: Metric::Events.better(),
            this: this.rate.clone(),
            earlier: earlier.rate.clone(),
            direct: Some(dialects.direct.clone()),
        });
        rows.push(Row {
            name: format!("{name}: {}", Metric::Cpu.name()),
            better: Metric::Cpu.better(),
            this: this.cpu.clone(),
            earlier: earlier.cpu.clone(),
            direct: None,
        });
    }
    rows
}

#[cfg(test)]
#[path = "against_tests.rs"]
mod tests;
