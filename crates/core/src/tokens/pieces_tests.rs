use super::*;

fn pieces(text: &str) -> (Vec<&str>, bool) {
    let mut pieces = TextPieces::new(text);
    let all = pieces.by_ref().collect();
    (all, pieces.is_clean())
}

#[test]
fn pieces_cover_the_text_and_have_a_maximum_size() {
    for (text, clean) in [
        (String::new(), true),
        ("word ".repeat(10_000), true),
        ("eine Zeile\n".repeat(10_000), true),
        ("x".repeat(LONGEST_RUN), true),
        ("x".repeat(LONGEST_RUN + 1), false),
        ("ä".repeat(LONGEST_RUN), false),
        (format!(" {}", "y".repeat(LONGEST_RUN * 2)), false),
        ("𝄞".repeat(9_000), true),
        (" ".repeat(LONGEST_RUN * 2), false),
    ] {
        let (all, is_clean) = pieces(&text);
        assert_eq!(all.concat(), text);
        assert_eq!(is_clean, clean, "{:?}", text.chars().next());
        assert!(all.iter().all(|piece| !piece.is_empty() && piece.len() <= LONGEST_RUN));
    }
}

#[test]
fn text_is_cut_at_the_first_border_after_the_target_size() {
    let text = "some words and a number 12345, then a line\nand another\t".repeat(1000);
    let (all, clean) = pieces(&text);
    assert!(clean && all.len() > 5);
    assert!(all.iter().all(|piece| piece.len() < PIECE + 100));
}

#[cfg(feature = "tokens")]
mod exact {
    use std::sync::LazyLock;

    use proptest::prelude::*;
    use tiktoken_rs::CoreBPE;

    use super::super::*;

    static BOTH: LazyLock<[CoreBPE; 2]> =
        LazyLock::new(|| [tiktoken_rs::o200k_base().unwrap(), tiktoken_rs::cl100k_base().unwrap()]);

    /// Whatever a pattern may see as one word, or nearly.
    fn text() -> impl Strategy<Value = String> {
        let words = prop::sample::select(vec![
            "a",
            "The",
            "HTTPServer",
            "camelCase",
            "it's",
            "WE'LL",
            "'s",
            "d'",
            "1",
            "1234567",
            "½",
            " ",
            "  ",
            "\t",
            "\n",
            "\r\n",
            "\n\n",
            " \n",
            "\n ",
            "\u{a0}",
            "\u{3000}",
            "\u{2028}",
            "\u{b}",
            "!",
            "!!",
            "//",
            "/",
            "/\n",
            "-->",
            "{\"a\":",
            "。",
            "、",
            "“",
            "'",
            "_",
            "日本語",
            "한국",
            "é",
            "e\u{301}",
            "\u{301}",
            "ИЗ",
            "ß",
            "Ǆ",
            "ʰ",
            "🙂",
            "👩‍💻",
            "\0",
            "<|endoftext|>",
            "x_y",
            "0x1F",
            "٣",
            "ا",
            "ไทย",
        ]);
        prop::collection::vec(words, 0..60).prop_map(|words| words.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 300 } else { 5000 }))]

        /// At every border, and for both vocabularies, the two sides are what the whole is:
        /// the same tokens, not only as many.
        #[test]
        fn cutting_at_a_border_keeps_the_tokens(text in text()) {
            let after = text.char_indices().skip(1);
            let borders: Vec<usize> = text.chars().zip(after)
                .filter(|(before, (_, after))| ends_word(*before, *after))
                .map(|(_, (at, _))| at)
                .collect();
            for bpe in &*BOTH {
                let whole = bpe.encode_ordinary(&text);
                for at in &borders {
                    let mut sides = bpe.encode_ordinary(&text[..*at]);
                    sides.extend(bpe.encode_ordinary(&text[*at..]));
                    prop_assert_eq!(&sides, &whole, "{:?} at {}", text, at);
                }
            }
        }
    }

    /// Real texts, long enough to be cut many times.
    #[test]
    fn counting_in_pieces_equals_counting_the_whole() {
        let sources = [
            include_str!("../../../../README.md"),
            include_str!("../../../../ARCHITECTURE.md"),
            include_str!("../peer/classify.rs"),
            include_str!("../../../../Cargo.lock"),
        ];
        let mixed = sources.concat();
        let han = "第一行，没有空格。\n第二行：也没有/\n/第三行\n".repeat(2000);
        let minified = mixed.replace([' ', '\n'], "");
        let crlf = mixed.replace('\n', "\r\n");
        let mut cut = 0;
        for text in
            sources.iter().map(|text| (*text).to_owned()).chain([mixed, han, minified, crlf])
        {
            cut += TextPieces::new(&text).count() - 1;
            for (bpe, vocabulary) in BOTH
                .iter()
                .zip([crate::tokens::Vocabulary::O200k, crate::tokens::Vocabulary::Cl100k])
            {
                let whole = bpe.encode_ordinary(&text).len() as u64;
                let counted = vocabulary.count(&text);
                assert_eq!(counted.tokens, whole);
                assert!(counted.exact);
            }
        }
        assert!(cut > 50, "only {cut} cuts");
    }
}
