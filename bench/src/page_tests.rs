use super::{number, replaced};

#[test]
fn numbers_have_three_digits_that_matter() {
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
fn each_table_has_marks_of_its_own() {
    let page = "a <!-- x:begin -->1<!-- x:end --> b <!-- y:begin -->2<!-- y:end --> c";
    assert_eq!(
        replaced(page, "y", "new\n").unwrap(),
        "a <!-- x:begin -->1<!-- x:end --> b <!-- y:begin -->\n\nnew\n\n<!-- y:end --> c"
    );
    assert!(replaced(page, "z", "new").is_err());
}
