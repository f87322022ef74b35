use super::*;

#[cfg(feature = "tokens")]
#[test]
fn counts_are_the_public_tokenizers() {
    // Known o200k counts.
    assert_eq!(count("", Family::Gpt), 0);
    assert_eq!(count("hello world", Family::Gpt), 2);
    assert_eq!(count("tiktoken is great!", Family::Gpt), 6);
}

#[test]
fn other_families_count_a_little_more() {
    let text = "The quick brown fox jumps over the lazy dog. ".repeat(50);
    let gpt = count(&text, Family::Gpt);
    assert!(count(&text, Family::Claude) > gpt);
    assert!(count(&text, Family::Claude) < gpt * 2);
    assert_eq!(count("", Family::Claude), 0);
}

#[test]
fn pieces_are_the_whole_text_and_never_too_long() {
    let texts = [
        "word ".repeat(10_000),
        "x".repeat(50_000),
        "ä".repeat(30_000),
        format!(" {}", "y".repeat(20_000)),
        "𝄞".repeat(9_000),
    ];
    for text in texts {
        let pieces: Vec<&str> = Pieces(&text).collect();
        assert_eq!(pieces.concat(), text);
        assert!(pieces.iter().all(|piece| !piece.is_empty() && piece.len() <= PIECE));
    }
}

#[test]
fn text_beyond_the_cap_is_extrapolated() {
    let unit = "lorem ipsum dolor sit amet ";
    let text = unit.repeat(2 * INPUT_CAP / unit.len());
    let whole = count(&text, Family::Gpt);
    let half = count(&text[..INPUT_CAP], Family::Gpt);
    assert!(whole.abs_diff(half * 2) < half / 100, "{whole} against twice {half}");
}

#[test]
fn the_rule_of_thumb_rounds_up() {
    assert_eq!(rough("abcde"), 2);
    assert_eq!(rough(""), 0);
}
