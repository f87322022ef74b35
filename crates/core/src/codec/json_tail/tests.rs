use std::fmt::Write as _;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{same, tail};

#[track_caller]
fn completes(streamed: &str, whole: &Value) -> String {
    let rest = tail(streamed, whole).unwrap_or_else(|| panic!("no tail for {streamed} of {whole}"));
    let text = format!("{streamed}{rest}");
    let read: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e} in {text}"));
    assert!(same(&read, whole), "{text} is not {whole}");
    rest
}

#[test]
fn rest_of_the_value_is_compact_json() {
    let whole = json!({"path": "a.txt", "limit": 20});
    for (streamed, expect) in [
        ("", r#"{"limit":20,"path":"a.txt"}"#),
        (" \n", r#"{"limit":20,"path":"a.txt"}"#),
        ("{", r#""limit":20,"path":"a.txt"}"#),
        (r#"{"pa"#, r#"th":"a.txt","limit":20}"#),
        (r#"{"path""#, r#":"a.txt","limit":20}"#),
        (r#"{"path" : "#, r#""a.txt","limit":20}"#),
        (r#"{"path": "a."#, r#"txt","limit":20}"#),
        (r#"{"path": "a.txt""#, r#","limit":20}"#),
        (r#"{"path": "a.txt","#, r#""limit":20}"#),
        (r#"{"path": "a.txt", "limit": 2"#, "0}"),
        (r#"{"path": "a.txt", "limit": 20"#, "}"),
        (r#"{"path": "a.txt", "limit": 20}"#, ""),
        ("{\"limit\":2e1 , \"path\":\"a\\u002Etxt\"}\n", ""),
    ] {
        assert_eq!(completes(streamed, &whole), expect, "{streamed}");
    }
    assert_eq!(completes("{", &json!({})), "}");
    assert_eq!(completes(r#"{"a":["#, &json!({"a": []})), "]}");
    assert_eq!(completes(r#"{"a":[1,"#, &json!({"a": [1, null]})), "null]}");
    assert_eq!(completes(r#"{"a":[tr"#, &json!({"a": [true, false]})), "ue,false]}");
}

#[test]
fn escapes_may_be_cut_anywhere() {
    let whole = json!({"t": "\n/é\u{1}😀\"\\z"});
    for text in [
        r#"{"t":"\n\/\u00e9\u0001\ud83d\ude00\"\\z"}"#,
        r#"{"t":"\u000A\u002f\u00E9\u0001\uD83D\uDE00\u0022\u005cz"}"#,
        r#"{"t":"\n/é\u0001😀\"\\z"}"#,
    ] {
        for (at, _) in text.char_indices() {
            completes(&text[..at], &whole);
        }
    }
    for streamed in [r#"{"t":"\n/é\u0002"#, r#"{"t":"\n/é\u0001\ud83e"#, r#"{"t":"\n/\u00f"#] {
        assert_eq!(tail(streamed, &whole), None, "{streamed}");
    }
}

#[test]
fn numbers_are_continued_by_value() {
    for (streamed, whole, expect) in [
        ("1", json!(1.0), Some("")),
        ("1.0", json!(1), Some("")),
        ("1", json!(10), Some("0")),
        ("1.", json!(1), Some("0")),
        ("-", json!(-7), Some("7")),
        ("-", json!(7), None),
        ("1.50", json!(1.5), Some("")),
        ("1.5", json!(15_000_000_000_u64), Some("e10")),
        ("25", json!(2.5), Some("e-1")),
        ("2", json!(2.5), Some(".5")),
        ("1e", json!(100), Some("2")),
        ("1e+0", json!(100), Some("2")),
        ("1E-", json!(0.01), Some("2")),
        ("1e-", json!(100), None),
        ("10e", json!(100), Some("1")),
        ("1.0e", json!(0.1), Some("-1")),
        ("0", json!(0.25), Some(".25")),
        ("0.00", json!(12), Some("12e4")),
        ("0e", json!(0), Some("0")),
        ("0", json!(7), Some(".7e1")),
        ("3", json!(7), None),
        ("01", json!(1), None),
        ("12", json!(1), None),
        ("9007199254740993", json!(9_007_199_254_740_993_u64), Some("")),
        ("900719925474099", json!(9_007_199_254_740_993_u64), Some("3")),
        ("1", json!("1"), None),
    ] {
        let found = tail(streamed, &whole);
        assert_eq!(found.as_deref(), expect, "{streamed} of {whole}");
    }
}

#[test]
fn text_that_contradicts_the_value_has_no_tail() {
    let whole = json!({"path": "a.txt", "limit": 20});
    for streamed in [
        "x",
        "[",
        r#"{"other""#,
        r#"{"path":"b"#,
        r#"{"path":"a.txt","limit":30"#,
        r#"{"path":"a.txt","limit":20,"#,
        r#"{"path":"a.txt","limit":20} x"#,
        r#"{"path":"a.txt"}"#,
        r#"{"path":nu"#,
        r#"{"path" "a"#,
        r#"{"path":"a.txt",,"#,
        "{\"path\":\"a\n",
        r#"{"path":"\ud800x"#,
        r#"{"path":"\q"#,
    ] {
        assert_eq!(tail(streamed, &whole), None, "{streamed}");
    }
    let deep = "[".repeat(100_000);
    assert_eq!(tail(&deep, &whole), None);
}

#[test]
fn last_of_two_equal_keys_counts() {
    let whole = json!({"a": 2});
    assert_eq!(completes(r#"{"a":1,"a":2"#, &whole), "}");
    assert_eq!(completes(r#"{"a":1,"a":"#, &whole), "2}");
    assert_eq!(completes(r#"{"a":1,"a""#, &whole), ":2}");
    assert_eq!(completes(r#"{"a":1,"a":2}"#, &whole), "");
    assert_eq!(tail(r#"{"a":2,"a":1}"#, &whole), None);
    // A second key that the backend did not begin is not ours to write.
    assert_eq!(tail(r#"{"a":1 "#, &whole), None);
}

// === properties ===

fn value() -> impl Strategy<Value = Value> {
    let text = prop_oneof!["[a-c]{0,4}", "[\"\\\\/\n\t\u{1}\u{7f}é😀\u{2028}a]{0,6}"];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-2000_i32..2000).prop_map(|n| Value::from(f64::from(n) / 8.0)),
        prop::num::f64::NORMAL.prop_map(Value::from),
        text.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((text.clone(), inner), 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// A rendering that draws its spaces, key order and escapes from `choices`.
fn render(value: &Value, choices: &mut impl Iterator<Item = u8>, out: &mut String) {
    let space = |choice: Option<u8>, out: &mut String| {
        out.push_str(["", "", " ", "\n  ", "\t", "\r\n"][usize::from(choice.unwrap_or(0)) % 6]);
    };
    space(choices.next(), out);
    match value {
        Value::Array(items) => {
            out.push('[');
            for (place, item) in items.iter().enumerate() {
                out.push_str(if place > 0 { "," } else { "" });
                render(item, choices, out);
            }
            space(choices.next(), out);
            out.push(']');
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            let turn = usize::from(choices.next().unwrap_or(0)) % members.len().max(1);
            members.rotate_left(turn);
            out.push('{');
            for (place, (key, member)) in members.into_iter().enumerate() {
                out.push_str(if place > 0 { "," } else { "" });
                space(choices.next(), out);
                render_text(key, choices, out);
                space(choices.next(), out);
                out.push(':');
                render(member, choices, out);
            }
            space(choices.next(), out);
            out.push('}');
        }
        Value::String(text) => render_text(text, choices, out),
        Value::Number(number) => match (number.as_f64(), choices.next().unwrap_or(0) % 3) {
            (Some(value), 0) if number.is_f64() => write!(out, "{value:e}").unwrap(),
            (Some(value), 1) if number.is_f64() => match value.abs() {
                0.001.. => write!(out, "{value:.32}").unwrap(),
                _ => write!(out, "{value:.24e}").unwrap(),
            },
            _ => write!(out, "{number}").unwrap(),
        },
        Value::Null | Value::Bool(_) => write!(out, "{value}").unwrap(),
    }
    space(choices.next(), out);
}

fn render_text(text: &str, choices: &mut impl Iterator<Item = u8>, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match choices.next().unwrap_or(0) % 4 {
            0 => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(out, "\\u{unit:04x}").unwrap();
                }
            }
            1 => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(out, "\\u{unit:04X}").unwrap();
                }
            }
            _ => {
                let quoted = Value::from(c.to_string()).to_string();
                out.push_str(&quoted[1..quoted.len() - 1]);
            }
        }
    }
    out.push('"');
}

proptest! {
    #[test]
    fn every_cut_of_every_rendering_is_completed(
        value in value(),
        choices in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut text = String::new();
        render(&value, &mut choices.into_iter().cycle().take(2000), &mut text);
        prop_assert!(same(&serde_json::from_str(&text).unwrap(), &value), "{} / {}", text, value);
        for (at, _) in text.char_indices().chain([(text.len(), ' ')]) {
            let streamed = &text[..at];
            let rest = tail(streamed, &value);
            prop_assert!(rest.is_some(), "no tail for {} of {}", streamed, value);
            let whole = format!("{streamed}{}", rest.unwrap_or_default());
            let read: Value = serde_json::from_str(&whole)
                .map_err(|error| TestCaseError::fail(format!("{error} in {whole}")))?;
            prop_assert!(same(&read, &value), "{} is not {}", whole, value);
        }
    }

    #[test]
    fn tail_for_another_value_completes_to_that_value(
        value in value(),
        other in value(),
        choices in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let mut text = String::new();
        render(&value, &mut choices.into_iter().cycle().take(2000), &mut text);
        for (at, _) in text.char_indices() {
            let streamed = &text[..at];
            if let Some(rest) = tail(streamed, &other) {
                let read: Value = serde_json::from_str(&format!("{streamed}{rest}")).unwrap();
                prop_assert!(same(&read, &other), "{}|{} is not {}", streamed, rest, other);
            }
        }
    }
}
