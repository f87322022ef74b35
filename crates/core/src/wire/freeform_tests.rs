use proptest::prelude::*;

use super::Freeform;

/// The input in these pieces of arguments, and how much of it was known before the end.
fn read<'a>(pieces: impl IntoIterator<Item = &'a str>) -> (String, usize) {
    let mut reader = Freeform::default();
    let mut text = String::new();
    for piece in pieces {
        reader.push(piece, &mut text);
    }
    let known = text.len();
    reader.finish(&mut text);
    (text, known)
}

#[test]
fn freeform_input_is_decoded_incrementally() {
    let mut reader = Freeform::default();
    let mut text = String::new();
    let mut seen = Vec::new();
    for piece in ["{\"in", "put\" : \"*** Be", "gin\\", "nPatch \\ud83e", "\\udd", "80\"", " }"] {
        reader.push(piece, &mut text);
        seen.push(text.clone());
    }
    let whole = "*** Begin\nPatch 🦀";
    let expected =
        ["", "*** Be", "*** Begin", "*** Begin\nPatch ", "*** Begin\nPatch ", whole, whole];
    assert_eq!(seen, expected);
}

#[test]
fn arguments_with_another_schema_are_kept() {
    for (arguments, input) in [
        ("", ""),
        ("{}", ""),
        ("\"just the text\"", "just the text"),
        ("{\"why\":\"x\",\"input\":\"the text\"}", "the text"),
        ("{\"\\u0069nput\":\"the text\"}", "the text"),
        ("{\"input\":[1]}", "{\"input\":[1]}"),
        ("{\"patch\":\"x\"}", "{\"patch\":\"x\"}"),
        ("*** Begin Patch", "*** Begin Patch"),
    ] {
        assert_eq!(read([arguments]).0, input, "{arguments}");
    }
}

#[test]
fn broken_strings_are_decoded_as_far_as_possible() {
    for (arguments, input) in [
        ("{\"input\":\"half", "half"),
        ("{\"input\":\"half\\", "half"),
        ("{\"input\":\"a\\ud83e b\"}", "a\u{fffd} b"),
        ("{\"input\":\"a\\ud83e\\ud83e\\udd80\"}", "a\u{fffd}🦀"),
        ("{\"input\":\"a\\udd80b\"}", "a\u{fffd}b"),
        ("{\"input\":\"a\\u12\"}", "a\u{fffd}"),
        ("{\"input\":\"a\\qb\"}", "aqb"),
        ("{\"input\":\"line\nend\"}", "line\nend"),
    ] {
        assert_eq!(read([arguments]).0, input, "{arguments}");
    }
}

fn any_text() -> impl Strategy<Value = String> {
    let odd = prop::sample::select(vec!["\\", "\"", "\n", "\u{1}", "🦀", "é", "\\u0041", "}", "{"]);
    prop::collection::vec(
        prop_oneof![".{0,8}".prop_map(String::from), odd.prop_map(String::from)],
        0..12,
    )
    .prop_map(|pieces| pieces.concat())
}

/// JSON of a text, with every character outside of ASCII escaped, if so wished.
fn json(text: &str, escaped: bool) -> String {
    let plain = serde_json::to_string(text).unwrap();
    if !escaped {
        return plain;
    }
    let mut out = String::new();
    for c in plain.chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    out
}

proptest! {
    #[test]
    fn any_split_gives_the_same_text(
        text in any_text(),
        escaped: bool,
        head in prop::sample::select(vec!["{\"input\":", " {\n \"input\" : "]),
        cuts in prop::collection::vec(0_usize..400, 0..20),
    ) {
        let arguments = format!("{head}{}}}", json(&text, escaped));
        let mut cuts: Vec<usize> =
            cuts.into_iter().map(|cut| arguments.floor_char_boundary(cut)).collect();
        cuts.extend([0, arguments.len()]);
        cuts.sort_unstable();
        let pieces = cuts.windows(2).map(|pair| &arguments[pair[0]..pair[1]]);
        let (read, known) = read(pieces);
        prop_assert_eq!(&read, &text);
        prop_assert_eq!(known, text.len(), "nothing waits for the end");
    }

    #[test]
    fn any_arguments_decode_the_same_however_they_are_split(
        arguments in "[\\\\\"ud83e{}:input a]{0,40}",
    ) {
        let whole = read([arguments.as_str()]).0;
        let single: Vec<String> = arguments.chars().map(String::from).collect();
        prop_assert_eq!(read(single.iter().map(String::as_str)).0, whole);
    }
}
