use std::time::Duration;

use super::Seen;

fn check(pieces: &[&str], events: u64, delays: &[i64]) {
    let mut seen = Seen::default();
    for piece in pieces {
        seen.take(piece.as_bytes(), Duration::from_micros(1_000));
    }
    assert_eq!((seen.events, seen.delays.as_slice()), (events, delays));
}

#[test]
fn marks_are_counted_and_stamps_read() {
    check(&[r#"data: {"created":17,"content":"400@"}"#], 1, &[600]);
    check(&["4", "00", "@"], 1, &[600]);
    check(&["lorem @ ipsum @"], 2, &[]);
    check(&["900@990@"], 2, &[100, 10]);
}
