use super::{counts, relay_table};
use crate::{lane::Column, metric::Metric, stats::Series};

fn column(metric: Metric, value: f64) -> Column {
    Column::of(metric, series(value))
}

/// Twelve rounds, nearly alike.
fn series(value: f64) -> Series {
    (0..12).map(|round| value * (1.0 + f64::from(round) / 1_000.0)).collect()
}

fn row(table: &str, metric: Metric) -> String {
    let start = format!("| {} |", metric.name());
    table.lines().find(|line| line.starts_with(&start)).unwrap().to_owned()
}

#[test]
fn simulator_has_to_be_twice_as_fast() {
    assert!(counts(&series(200.0), &series(100.0)));
    assert!(!counts(&series(199.0), &series(100.0)));
    assert!(!counts(&Series::default(), &series(100.0)));
}

#[test]
fn events_do_not_count_beside_a_slow_simulator() {
    let (relay, ibeam) = (column(Metric::Events, 100.0), column(Metric::Events, 80.0));
    let fast = row(&relay_table(200, &series(400.0), &relay, &ibeam), Metric::Events);
    assert!(fast.ends_with("| 0.80 (0.80–0.80) | at least 0.5 of the relay | met |"), "{fast}");
    let slow = row(&relay_table(200, &series(120.0), &relay, &ibeam), Metric::Events);
    assert!(slow.ends_with("| does not count |"), "{slow}");
}

/// The relay needs little memory, so a ratio would say nothing about ibeam.
#[test]
fn idle_memory_is_judged_by_itself() {
    for (megabytes, verdict) in [(9.0, "met"), (9.95, "noise"), (11.0, "MISSED")] {
        let (relay, ibeam) = (column(Metric::RssIdle, 2.0), column(Metric::RssIdle, megabytes));
        let row = row(&relay_table(200, &series(1.0), &relay, &ibeam), Metric::RssIdle);
        assert!(row.ends_with(&format!("| at most 10 MB | {verdict} |")), "{row}");
    }
}

#[test]
fn rows_without_values_are_not_measured() {
    let table = relay_table(200, &series(1.0), &Column::default(), &Column::default());
    let row = row(&table, Metric::LatencyP50);
    assert_eq!(row, "| added latency p50, µs | not measured | not measured |  |  | not measured |");
}
