use super::*;

#[cfg(feature = "tokens")]
#[test]
fn counts_match_the_public_tokenizer() {
    // Known o200k counts.
    assert_eq!(count("", Family::Gpt), 0);
    assert_eq!(count("hello world", Family::Gpt), 2);
    assert_eq!(count("tiktoken is great!", Family::Gpt), 6);
}

#[test]
fn other_families_count_slightly_more() {
    let text = "The quick brown fox jumps over the lazy dog. ".repeat(50);
    let gpt = count(&text, Family::Gpt);
    assert!(count(&text, Family::Claude) > gpt);
    assert!(count(&text, Family::Claude) < gpt * 2);
    assert_eq!(count("", Family::Claude), 0);
}

#[cfg(feature = "tokens")]
#[test]
fn count_is_marked_as_exact_or_estimated() {
    for (model, exact) in [
        ("gpt-5.5", true),
        ("gpt-4o", true),
        ("gpt-4", true),
        ("o3-mini", true),
        ("gpt-5.3-codex", true),
        ("claude-4.6-sonnet", false),
        ("composer-2", false),
        ("default", false),
        ("gemini-3-pro", false),
        ("something-new", false),
    ] {
        let measure = TokenMeasure::of(Family::of(model), model);
        let counted = measure.count("hello world");
        assert_eq!(counted.exact, exact, "{model}");
        assert!(counted.tokens >= 2, "{model}");
        assert_eq!(measure.is_estimate(), !exact, "{model}");
        assert_eq!(measure.count(""), Count::NONE, "{model}");
    }
}

#[test]
fn sum_is_exact_if_all_parts_are() {
    let exact = Count { tokens: 3, exact: true };
    assert_eq!(exact.plus(exact), Count { tokens: 6, exact: true });
    assert_eq!(exact.plus(Count::guess(4)), Count { tokens: 7, exact: false });
    assert_eq!(exact.plus(Count::guess(0)), exact);
    assert_eq!(Count::guess(u64::MAX).plus(exact).tokens, u64::MAX);
}

#[test]
fn encode_and_decode_round_trip() {
    for family in [Family::Gpt, Family::Claude, Family::Auto] {
        for count in [0, 1, 10, 999, 1 << 40] {
            let inside = in_vocabulary(count, family);
            assert!(inside <= count);
            assert!(scale(inside, u64::from(per_mille(family)), 1000) <= count + 1);
        }
    }
}

#[test]
fn measured_prefix_ends_at_a_character() {
    let text = "Grüße aus München 🙂 und viel mehr Text";
    let (all, end) = measure(text, u64::MAX);
    assert_eq!(end, text.len());
    for most in 0..=all {
        let (count, bytes) = measure(text, most);
        assert_eq!(count, all);
        assert!(text.is_char_boundary(bytes));
    }
    assert_eq!(measure(text, 0).1, 0);
}
