use super::{error_lines, number, ratio_cell, replaced, spread_cell};
use crate::stats::Spread;

#[test]
fn numbers_have_three_significant_digits() {
    for (value, shown) in [
        (0.1234, "0.123"),
        (1.0, "1"),
        (1.25, "1.25"),
        (12.34, "12.3"),
        (1_234_567.8, "1,234,568"),
        (-2_500.0, "-2,500"),
    ] {
        assert_eq!(number(value), shown);
    }
}

#[test]
fn cells_show_median_and_spread() {
    let spread = Some(Spread { median: 1_234.0, low: 0.5, high: 2_000.0, rounds: 12 });
    assert_eq!(spread_cell(spread), "1,234 (0.500–2,000)");
    let ratio = Some(Spread { median: 0.714, low: 0.7, high: 0.72, rounds: 12 });
    assert_eq!(ratio_cell(ratio), "0.71 (0.70–0.72)");
    assert_eq!((spread_cell(None), ratio_cell(None)), ("not measured".to_owned(), String::new()));
}

#[test]
fn errors_of_each_racer_are_listed() {
    let errors = ["hung".to_owned(), "status 500".to_owned()];
    assert_eq!(
        error_lines([("relay", &[][..]), ("ibeam", &errors[..])]),
        "\nErrors of ibeam: 2, the first: hung\n"
    );
}

#[test]
fn each_table_is_written_between_its_own_marks() {
    let page = "a <!-- x:begin -->1<!-- x:end --> b <!-- y:begin -->2<!-- y:end --> c";
    assert_eq!(
        replaced(page, "y", "new\n").unwrap(),
        "a <!-- x:begin -->1<!-- x:end --> b <!-- y:begin -->\n\nnew\n\n<!-- y:end --> c"
    );
    assert!(replaced(page, "z", "new").is_err());
}
