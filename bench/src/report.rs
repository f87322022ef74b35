//! The tables of the race.

use std::fmt::Write as _;

use crate::{
    lane::Column,
    metric::{Metric, TargetBasis},
    page::{error_lines, number, ratio_cell, spread_cell, verdict},
    stats::{RowVerdict, Series, judge, judge_open},
};

/// How many times faster than ibeam the simulator must be; otherwise a row would measure the
/// simulator.
const SIMULATOR_FACTOR: f64 = 2.0;

/// Whether the events/s of a gateway count, compared with those of the simulator alone.
pub(crate) fn counts(direct: &Series, gateway: &Series) -> bool {
    direct.ratio(gateway).spread().is_some_and(|ratio| ratio.median >= SIMULATOR_FACTOR)
}

/// The line above a table: the simulator's own rate.
pub(crate) fn simulator_line(direct: &Series, ibeam: &Column) -> String {
    let own = ibeam.series(Metric::Events);
    let words = if counts(direct, &own) { "so the rows count" } else { "so events/s DO NOT COUNT" };
    format!(
        "Simulator read directly: {} events/s, {} times ibeam's, {words}.\n",
        spread_cell(direct.spread()),
        ratio_cell(direct.ratio(&own).spread()),
    )
}

/// ibeam beside the relay.
pub(crate) fn relay_table(
    streams: usize,
    direct: &Series,
    relay: &Column,
    ibeam: &Column,
) -> String {
    let mut out = format!(
        "| {streams} streams | relay | ibeam | ibeam / relay | target | |\n|---|---:|---:|---:|---|---|\n"
    );
    for metric in Metric::ALL {
        let (a, b) = (relay.series(metric), ibeam.series(metric));
        let ratio = b.ratio(&a).spread();
        let (target, verdict) = match metric.target() {
            None => ("", judge_open(ratio)),
            Some(target) => {
                let judged = match target.of {
                    TargetBasis::Relay => ratio,
                    TargetBasis::Ibeam => b.spread(),
                };
                (target.words, judge(judged, target.bound))
            }
        };
        let verdict = if metric == Metric::Events && !counts(direct, &b) {
            RowVerdict::SimulatorTooSlow
        } else {
            verdict
        };
        // Writing to a string cannot fail, hence the ignored results below.
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {target} | {} |",
            metric.name(),
            spread_cell(a.spread()),
            spread_cell(b.spread()),
            ratio_cell(ratio),
            verdict.words(),
        );
    }
    let _ = writeln!(
        out,
        "| errors | {} | {} | | none | {} |",
        relay.errors.len(),
        ibeam.errors.len(),
        verdict(ibeam.errors.is_empty()),
    );
    out += &error_lines([("relay", relay.errors.as_slice()), ("ibeam", ibeam.errors.as_slice())]);
    out
}

/// The public peer beside both. It has no targets, so only medians are shown of the values
/// themselves.
pub(crate) fn peer_table(
    streams: usize,
    peer_name: &str,
    relay: &Column,
    ibeam: &Column,
    peer: &Column,
) -> String {
    let mut out = format!(
        "| {streams} streams | relay | ibeam | {peer_name} | ibeam / relay | peer / relay | peer / ibeam |\n|---|---:|---:|---:|---:|---:|---:|\n"
    );
    for metric in Metric::ALL {
        let (a, b, c) = (relay.series(metric), ibeam.series(metric), peer.series(metric));
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} |",
            metric.name(),
            median_cell(&a),
            median_cell(&b),
            median_cell(&c),
            noted(&b.ratio(&a)),
            noted(&c.ratio(&a)),
            noted(&c.ratio(&b)),
        );
    }
    let _ = writeln!(
        out,
        "| errors | {} | {} | {} | | | |",
        relay.errors.len(),
        ibeam.errors.len(),
        peer.errors.len(),
    );
    out += &error_lines([
        ("relay", relay.errors.as_slice()),
        ("ibeam", ibeam.errors.as_slice()),
        (peer_name, peer.errors.as_slice()),
    ]);
    out
}

fn median_cell(series: &Series) -> String {
    series.spread().map_or_else(|| "not measured".to_owned(), |spread| number(spread.median))
}

/// A ratio, marked where it is noise.
fn noted(ratio: &Series) -> String {
    let spread = ratio.spread();
    let mark = if spread.is_some_and(|spread| spread.is_wide()) { " noise" } else { "" };
    ratio_cell(spread) + mark
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
