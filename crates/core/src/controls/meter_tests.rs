use proptest::prelude::*;

use super::*;

/// All that goes out of one text, and whether it was too much.
fn run(limit: u64, pieces: &[&str]) -> (String, bool) {
    let mut meter = Meter::new(limit, Family::Gpt);
    let mut all = String::new();
    for piece in pieces {
        let Measured { give, over } = meter.push((*piece).to_owned());
        all.push_str(&give);
        if over {
            return (all, true);
        }
    }
    let Measured { give, over } = meter.close();
    all.push_str(&give);
    (all, over)
}

const TEXT: &str =
    "The quick brown fox jumps over the lazy dog, and then it doesn't; 12345 times.\n";

#[test]
fn output_is_cut_exactly_at_the_limit() {
    let whole = tokens::count(TEXT, Family::Gpt);
    for limit in 1..whole {
        let (given, over) = run(limit, &[TEXT]);
        assert!(over, "{limit}");
        assert_eq!(tokens::count(&given, Family::Gpt), limit, "{given:?}");
        assert!(TEXT.starts_with(&given));
    }
    assert_eq!(run(whole, &[TEXT]), (TEXT.to_owned(), false), "all of it fits");
}

#[test]
fn nothing_is_counted_while_the_bytes_fit() {
    let mut meter = Meter::new(100, Family::Gpt);
    assert!(!meter.is_slow(100));
    assert_eq!(meter.push("x".repeat(100)).give.len(), 100);
    assert!(!meter.warm);
    assert!(meter.is_slow(1), "the tokenizer has to be loaded first");
    meter.push("x".to_owned());
    assert!(meter.warm && !meter.is_slow(1));
    assert!(meter.is_slow(5000), "that much is counted elsewhere");
}

#[test]
fn other_families_have_a_smaller_budget_in_our_tokens() {
    let text = " word".repeat(1200);
    let words = |family, limit| {
        let mut meter = Meter::new(limit, family);
        meter.push(text.clone()).give.len() / 5
    };
    assert_eq!(words(Family::Gpt, 600), 600);
    assert_eq!(words(Family::Claude, 600), 500);
}

#[test]
fn texts_and_arguments_add_up() {
    let mut meter = Meter::new(6, Family::Gpt);
    // Two tokens each.
    assert_eq!(meter.push("one two".to_owned()).give, "one two");
    assert_eq!(meter.close(), Measured { give: String::new(), over: false });
    meter.note("one two");
    assert_eq!(meter.close(), Measured { give: String::new(), over: false });
    assert!(!meter.is_spent());
    assert_eq!(
        meter.push("one two three".to_owned()),
        Measured { give: "one two".into(), over: true }
    );
}

#[test]
fn arguments_are_not_cut_but_count_towards_the_budget() {
    let mut meter = Meter::new(3, Family::Gpt);
    meter.note("one two three four");
    assert!(meter.is_spent());
    assert_eq!(meter.push("x".to_owned()), Measured { give: String::new(), over: true });
}

#[test]
fn long_text_without_spaces_is_counted_in_pieces() {
    let run_on = "a".repeat(10 * LONGEST_RUN);
    let (one, over) = run(64, &[&run_on]);
    let pieces: Vec<&str> = (0..run_on.len() / 7).map(|at| &run_on[at * 7..at * 7 + 7]).collect();
    assert!(over);
    assert_eq!(run(64, &pieces), (one, true), "however it comes");
}

/// Texts of the sorts that models write, and odd ones.
fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(
        prop_oneof![
            Just(" the"),
            Just("Word"),
            Just("don't"),
            Just("'s"),
            Just(" "),
            Just("  "),
            Just("\n"),
            Just("\r\n"),
            Just("\t"),
            Just("12345"),
            Just("{\"a\":"),
            Just("!!"),
            Just("/*"),
            Just("//\n"),
            Just("日本語"),
            Just("。"),
            Just("한국"),
            Just("é"),
            Just("Ünï"),
            Just("e\u{301}"),
            Just("🙂"),
            Just("ИЗ"),
            Just("x_y"),
            Just("\u{a0}"),
        ],
        0..40,
    )
    .prop_map(|words| words.concat())
}

proptest! {
    #[test]
    fn chunking_does_not_change_where_output_is_cut(
        text in text(),
        limit in 1u64..40,
        cuts in prop::collection::vec(0usize..200, 0..12),
    ) {
        let mut cuts: Vec<usize> = cuts.into_iter().map(|at| text.floor_char_boundary(at)).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&str> = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
        let (given, over) = run(limit, &pieces);
        let (count, bytes) = tokens::measure(&text, limit);
        prop_assert_eq!(over, count > limit);
        prop_assert_eq!(given.as_str(), &text[..bytes]);
    }

    /// The places that count as settled are places where the tokenizer splits.
    #[test]
    fn split_points_match_the_tokenizer(text in text()) {
        for (at, before, after) in pairs(&text) {
            if splits(before, after) {
                let (whole, _) = tokens::measure(&text, 0);
                let (left, _) = tokens::measure(&text[..at], 0);
                let (right, _) = tokens::measure(&text[at..], 0);
                prop_assert_eq!(whole, left + right, "{:?} at {}", text, at);
            }
        }
    }
}
