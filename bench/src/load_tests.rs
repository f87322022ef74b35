use std::time::Duration;

use super::{BenchDialect, StreamLoad};

fn check(pieces: &[&str], events: u64, delays: &[i64]) {
    let mut seen = StreamLoad::default();
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

/// Text that is repeated at the end of a stream is not counted again.
#[test]
fn only_deltas_count_where_a_dialect_has_them() {
    let mut seen = StreamLoad::default();
    for line in [
        "event: response.output_text.delta\n",
        "data: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"delta\":\"400@\"}\n",
        "\n",
        "data: {\"type\":\"response.output_text.done\",\"text\":\"400@\"}\n",
        "data: {\"type\":\"response.output_text.delta\",\"delta\":\"lorem @900@\"}\n",
        "data: {\"type\":\"response.completed\",\"response\":{\"output\":[\"400@400@\"]}}\n",
    ] {
        seen.take_line(line.as_bytes(), BenchDialect::Responses, Duration::from_micros(1_000));
    }
    assert_eq!((seen.events, seen.delays.as_slice()), (3, [600, 100].as_slice()));
}
