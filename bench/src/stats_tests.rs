use super::{
    Better, Bound, RowVerdict, Series, Spread, compare, cut, judge, judge_open, median, order,
    quantile,
};

fn series(values: &[f64]) -> Series {
    values.iter().copied().collect()
}

fn spread(median: f64, low: f64, high: f64) -> Option<Spread> {
    Some(Spread { median, low, high, rounds: 12 })
}

#[test]
fn median_is_the_middle_or_the_mean_of_the_two_in_the_middle() {
    assert_eq!(median(&[]), None);
    assert_eq!(median(&[3.0]), Some(3.0));
    assert_eq!(median(&[1.0, 2.0]), Some(1.5));
    assert_eq!(median(&[1.0, 2.0, 10.0]), Some(2.0));
}

#[test]
fn quantiles_are_values_that_were_seen() {
    let values: Vec<f64> = (0..=100).map(f64::from).collect();
    assert_eq!(quantile(&values, 0.99), Some(99.0));
    assert_eq!(quantile(&values, 0.5), Some(50.0));
    assert_eq!(quantile(&[], 0.5), None);
}

/// The known table of the sign test at 99 %.
#[test]
fn spread_leaves_out_as_many_values_as_the_sign_test_allows() {
    for (count, left_out) in
        [(0, 0), (1, 0), (6, 0), (8, 0), (11, 0), (12, 1), (15, 2), (20, 3), (25, 5)]
    {
        assert_eq!(cut(count), left_out, "{count} values");
    }
}

#[test]
fn one_bad_round_of_twelve_moves_neither_median_nor_spread() {
    let mut rounds: Vec<f64> = (1..=12).rev().map(f64::from).collect();
    let expected = Some(Spread { median: 6.5, low: 2.0, high: 11.0, rounds: 12 });
    assert_eq!(series(&rounds).spread(), expected);
    rounds[0] = 9_000.0;
    assert_eq!(series(&rounds).spread(), expected);
    assert_eq!(Series::default().spread(), None);
}

#[test]
fn ratios_pair_the_values_of_a_round() {
    // The machine is half as fast in the second round; the ratio of the medians would be 0.75.
    let relay = series(&[100.0, 50.0, 100.0]);
    let ibeam = series(&[50.0, 25.0, 75.0]);
    assert_eq!(ibeam.ratio(&relay), series(&[0.5, 0.5, 0.75]));
    assert_eq!(ibeam.ratio(&relay).spread().map(|ratio| ratio.median), Some(0.5));
}

#[test]
fn failed_rounds_have_no_ratio_and_shift_no_other() {
    let mut above = series(&[2.0]);
    above.push(None);
    above.push(Some(8.0));
    above.push(Some(f64::NAN));
    above.push(Some(6.0));
    let ratio = above.ratio(&series(&[1.0, 1.0, 2.0, 1.0, 0.0]));
    let mut expected = series(&[2.0]);
    expected.push(None);
    expected.push(Some(4.0));
    expected.push(None);
    expected.push(None);
    assert_eq!(ratio, expected);
    assert_eq!(ratio.spread().map(|ratio| (ratio.median, ratio.rounds)), Some((3.0, 2)));
}

#[test]
fn each_racer_runs_first_equally_often() {
    let two: Vec<Vec<usize>> = (0..4).map(|round| order(2, round)).collect();
    assert_eq!(two, [[0, 1], [1, 0], [1, 0], [0, 1]]);
    let three: Vec<Vec<usize>> = (0..6).map(|round| order(3, round)).collect();
    assert_eq!(three, [[0, 1, 2], [2, 1, 0], [1, 2, 0], [0, 2, 1], [2, 0, 1], [1, 0, 2]]);
    assert!(order(0, 3).is_empty());
}

#[test]
fn target_inside_the_spread_is_noise() {
    for (spread, at_least, at_most) in [
        (spread(0.7, 0.6, 0.8), RowVerdict::Met, RowVerdict::Missed),
        (spread(0.7, 0.5, 0.8), RowVerdict::Met, RowVerdict::Noise),
        (spread(0.7, 0.4, 0.8), RowVerdict::Noise, RowVerdict::Noise),
        (spread(0.4, 0.3, 0.5), RowVerdict::Noise, RowVerdict::Met),
        (spread(0.4, 0.3, 0.45), RowVerdict::Missed, RowVerdict::Met),
        (None, RowVerdict::NotMeasured, RowVerdict::NotMeasured),
    ] {
        assert_eq!(judge(spread, Bound::AtLeast(0.5)), at_least, "{spread:?}");
        assert_eq!(judge(spread, Bound::AtMost(0.5)), at_most, "{spread:?}");
    }
}

#[test]
fn wide_spread_of_a_row_without_target_is_noise() {
    assert_eq!(judge_open(spread(1.0, 0.8, 1.2)), RowVerdict::Open);
    assert_eq!(judge_open(spread(1.0, 0.7, 1.3)), RowVerdict::Noise);
    assert_eq!(judge_open(None), RowVerdict::NotMeasured);
}

#[test]
fn few_rounds_support_no_verdict() {
    let few = series(&[1.0; 7]).spread();
    assert_eq!(judge(few, Bound::AtLeast(0.5)), RowVerdict::TooFewRounds);
    assert_eq!(judge_open(few), RowVerdict::TooFewRounds);
    assert_eq!(compare(few, Better::Higher), RowVerdict::TooFewRounds);
    let enough = series(&[1.0; 8]).spread();
    assert_eq!(judge(enough, Bound::AtLeast(0.5)), RowVerdict::Met);
}

#[test]
fn builds_differ_when_the_spread_excludes_one_by_enough() {
    for (ratio, higher, lower) in [
        (spread(1.05, 0.99, 1.1), RowVerdict::Same, RowVerdict::Same),
        (spread(1.05, 1.03, 1.1), RowVerdict::Better, RowVerdict::Worse),
        (spread(0.9, 0.85, 0.95), RowVerdict::Worse, RowVerdict::Better),
        // Certain, and too small to matter.
        (spread(1.01, 1.005, 1.015), RowVerdict::Same, RowVerdict::Same),
        (spread(1.1, 0.7, 1.6), RowVerdict::Noise, RowVerdict::Noise),
        (None, RowVerdict::NotMeasured, RowVerdict::NotMeasured),
    ] {
        assert_eq!(compare(ratio, Better::Higher), higher, "{ratio:?}");
        assert_eq!(compare(ratio, Better::Lower), lower, "{ratio:?}");
    }
}
