use super::{BuildRow, dialect_rows, table};
use crate::{
    dialects::{DialectRace, DialectRow},
    lane::Column,
    load::BenchDialect,
    metric::Metric,
    stats::{Better, RowVerdict, Series},
};

/// Twelve rounds of a machine that gets slower and slower.
fn series(value: f64) -> Series {
    (0..12).map(|round| value / f64::from(round + 1)).collect()
}

fn row(better: Better, this: f64, earlier: f64, direct: Option<f64>) -> BuildRow {
    let direct = direct.map(series);
    BuildRow { name: String::new(), better, this: series(this), earlier: series(earlier), direct }
}

#[test]
fn builds_are_compared_round_by_round() {
    for (this, earlier, higher, lower) in [
        (100.0, 100.0, RowVerdict::Same, RowVerdict::Same),
        (110.0, 100.0, RowVerdict::Better, RowVerdict::Worse),
        (90.0, 100.0, RowVerdict::Worse, RowVerdict::Better),
    ] {
        assert_eq!(row(Better::Higher, this, earlier, None).verdict(), higher);
        assert_eq!(row(Better::Lower, this, earlier, None).verdict(), lower);
    }
}

#[test]
fn both_builds_need_a_simulator_that_is_fast_enough() {
    assert_eq!(row(Better::Higher, 90.0, 100.0, Some(200.0)).verdict(), RowVerdict::Worse);
    let slow = RowVerdict::SimulatorTooSlow;
    assert_eq!(row(Better::Higher, 90.0, 110.0, Some(200.0)).verdict(), slow);
    assert_eq!(row(Better::Higher, 110.0, 90.0, Some(200.0)).verdict(), slow);
}

#[test]
fn every_metric_and_every_dialect_has_a_row() {
    let gateway = || {
        let row = |dialect| DialectRow { dialect, column: Column::of(Metric::Events, series(1.0)) };
        BenchDialect::ALL.into_iter().map(row).collect()
    };
    let both = DialectRace { gateways: vec![gateway(), gateway()], direct: series(2.0) };
    let column = Column::of(Metric::Events, series(1.0));
    let text = table(200, &series(2.0), &column, &column, &both);
    for metric in Metric::ALL {
        assert!(text.contains(&format!("\n| {} |", metric.name())), "{text}");
    }
    for dialect in BenchDialect::ALL {
        for metric in [Metric::Events, Metric::Cpu] {
            let name = format!("\n| {}: {} |", dialect.name(), metric.name());
            assert!(text.contains(&name), "{text}");
        }
    }
    let alone = DialectRace { gateways: vec![gateway()], direct: series(2.0) };
    assert!(dialect_rows(&alone).is_empty());
}
