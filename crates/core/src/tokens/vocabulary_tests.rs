use super::*;

#[test]
fn vocabulary_depends_on_the_model() {
    for model in ["gpt-5.5", "gpt-4o", "gpt-4o-mini", "gpt-4.1", "gpt-4.5-preview", "o3", "codex"] {
        assert_eq!(Vocabulary::of(model), Vocabulary::O200k, "{model}");
    }
    for model in ["gpt-4", "gpt-4-turbo", "gpt-4-0613", "gpt-3.5-turbo", "gpt-35-turbo"] {
        assert_eq!(Vocabulary::of(model), Vocabulary::Cl100k, "{model}");
    }
}

#[cfg(feature = "tokens")]
#[test]
fn both_vocabularies_match_tiktoken() {
    // The two differ in how they see this.
    let text = "안녕하세요 세계, antidisestablishmentarianism 123456";
    let counts = [Vocabulary::O200k, Vocabulary::Cl100k].map(|all| all.count(text));
    assert_eq!(
        counts[0].tokens,
        tiktoken_rs::o200k_base().unwrap().encode_ordinary(text).len() as u64
    );
    assert_eq!(
        counts[1].tokens,
        tiktoken_rs::cl100k_base().unwrap().encode_ordinary(text).len() as u64
    );
    assert!(counts.iter().all(|count| count.exact));
    assert_ne!(counts[0], counts[1]);
    assert!(Vocabulary::O200k.is_loaded() && Vocabulary::Cl100k.is_loaded());
}

/// tiktoken-rs does not export this pattern, so our copy is compared by what it does.
#[cfg(feature = "tokens")]
mod pattern {
    use std::sync::LazyLock;

    use proptest::prelude::*;
    use tiktoken_rs::CoreBPE;

    use super::super::*;

    static BOTH: LazyLock<[CoreBPE; 2]> =
        LazyLock::new(|| [Vocabulary::Cl100k.load().unwrap(), tiktoken_rs::cl100k_base().unwrap()]);

    proptest! {
        #[test]
        fn cl100k_splits_words_as_tiktoken_does(
            text in r"([a-zA-Z]{1,4}|'(s|D|ll|Ve|RE)|[0-9½٣]{1,4}|[ \t\u{a0}]{1,3}|[\r\n]{1,3}|[!./'_]{1,3}|[éßǄ日한🙂\u{301}]|\PC){0,40}"
        ) {
            let [ours, theirs] = &*BOTH;
            prop_assert_eq!(ours.encode_ordinary(&text), theirs.encode_ordinary(&text));
        }
    }
}

#[cfg(feature = "tokens")]
#[test]
fn special_token_names_are_counted_as_text() {
    assert!(Vocabulary::O200k.count("<|endoftext|>").tokens > 1);
}

#[test]
fn text_beyond_the_cap_is_extrapolated() {
    let unit = "lorem ipsum dolor sit amet ";
    let text = unit.repeat(2 * INPUT_CAP / unit.len());
    let whole = Vocabulary::O200k.count(&text);
    let half = Vocabulary::O200k.count(&text[..INPUT_CAP]).tokens;
    assert!(!whole.exact);
    assert!(whole.tokens.abs_diff(half * 2) < half / 100, "{whole:?} against twice {half}");
}

#[test]
fn the_rule_of_thumb_rounds_up() {
    assert_eq!(rough("abcde"), 2);
    assert_eq!(rough(""), 0);
    assert_eq!(measure_rough("abcdefghij", 2), (3, 8));
    assert_eq!(measure_rough("ää", 9), (1, 4));
}

/// `cargo test --release -p ibeam-core tokens:: -- --ignored --nocapture`
#[cfg(feature = "tokens")]
#[test]
#[ignore = "a measurement, which means something in a release build on an idle machine only"]
#[expect(clippy::disallowed_methods, reason = "it measures")]
fn measure_counting_ten_kilobytes() {
    use std::time::Instant;
    let begun = Instant::now();
    // The first count loads it.
    let _ = Vocabulary::O200k.count("a");
    println!("loading: {:?}", begun.elapsed());
    let code = include_str!("../error.rs").repeat(2);
    let prose = include_str!("../../../../README.md").repeat(2);
    let han = "这是一个很长的中文句子，没有空格。".repeat(300);
    for (name, text) in [("code", code), ("prose", prose), ("Han", han)] {
        let text = &text[..floor_boundary(&text, 10_000)];
        let times = (0..100).map(|_| {
            let begun = Instant::now();
            assert!(Vocabulary::O200k.count(text).exact);
            begun.elapsed()
        });
        let mut times: Vec<_> = times.collect();
        times.sort_unstable();
        println!("10 kB of {name}: {:?} (the slowest of 100: {:?})", times[50], times[99]);
        assert!(times[50].as_millis() < 3, "{name}: {:?}", times[50]);
    }
}

#[test]
fn a_cancelled_count_ends_between_pieces() {
    let text = "word ".repeat(10 * super::super::pieces::PIECE / 5);
    let mut asked = 0;
    let counted = Vocabulary::O200k.count_while(&text, || {
        asked += 1;
        asked < 3
    });
    assert_eq!((counted, asked), (None, 3));
    assert_eq!(Vocabulary::O200k.count_while(&text, || true), Some(Vocabulary::O200k.count(&text)));
}
