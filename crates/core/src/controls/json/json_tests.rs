use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn schema(text: &Value) -> Json {
    let format = AnswerFormat::Schema(Schema { name: "test".to_owned(), text: text.to_string() });
    Json::new(&format).unwrap().unwrap()
}

fn any_object() -> Json {
    Json::new(&AnswerFormat::Json).unwrap().unwrap()
}

/// What the client sees, and what is wrong; one of the pieces may break it.
fn run(mut json: Json, pieces: &[&str]) -> (String, Result<(), String>) {
    let mut seen = String::new();
    for piece in pieces {
        if !json.is_broken() {
            let part = json.push(piece);
            seen.push_str(&piece[part]);
        }
    }
    (seen, json.finish())
}

fn person() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": { "type": "string" },
            "age": { "type": "integer", "minimum": 0 },
            "mood": { "enum": ["good", "bad", null] },
            "friends": { "type": "array", "items": { "$ref": "#" } },
        },
        "required": ["name", "age"],
        "additionalProperties": false,
    })
}

#[test]
fn fences_and_white_space_around_are_removed() {
    for text in [
        "{\"a\": [1, \"}\"]}",
        "\n  {\"a\": [1, \"}\"]}\n\n",
        "```json\n{\"a\": [1, \"}\"]}\n```\n",
        "```\n{\"a\": [1, \"}\"]}```",
        "``` {\"a\": [1, \"}\"]} ```",
        "`{\"a\": [1, \"}\"]}`",
    ] {
        let want = ("{\"a\": [1, \"}\"]}".to_owned(), Ok(()));
        assert_eq!(run(any_object(), &[text]), want, "{text}");
        let letters: Vec<String> = text.chars().map(String::from).collect();
        let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
        assert_eq!(run(any_object(), &letters), want, "{text}, letter by letter");
    }
}

#[test]
fn invalid_json_is_found_where_it_begins() {
    for (text, seen, why) in [
        ("Sure! {}", "", "the answer is not valid JSON"),
        ("{} and more", "{}", "the answer has text after its JSON"),
        ("{\"a\": tru}", "{\"a\": tru", "the value at `/a` is not valid JSON"),
        ("{\"a\": 1,}", "{\"a\": 1,", "expected a name in quotes, found `}`"),
        ("{\"a\": [1 2]}", "{\"a\": [1 ", "the value at `/a/0` is not valid JSON"),
        ("{\"a\": 1, \"a\": 2}", "{\"a\": 1, \"a", "the value at `/a` is there twice"),
        ("{\"a\": {\"a\": 1}, \"\\u0061\": 2}", "{\"a\": {\"a\": 1}, \"\\u0061", "is there twice"),
        ("{\"a\": 01}", "{\"a\": 01", "the value at `/a` is not valid JSON"),
        ("{\"a\": \"\u{1}\"}", "{\"a\": \"", "control character"),
        ("{\"a\": \"\\x\"}", "{\"a\": \"\\x", "the value at `/a` is not valid JSON"),
        ("[]", "", "the answer should be object but is array"),
        ("{\"a\": {", "{\"a\": {", "the value at `/a` ends too early"),
        ("", "", "the answer is empty"),
        ("```json\n", "", "the answer is empty"),
    ] {
        let (got, result) = run(any_object(), &[text]);
        let said = result.expect_err(text);
        assert!(got == seen && said.contains(why), "{text}: {got} / {said}");
    }
}

#[test]
fn schema_is_checked_while_the_answer_streams() {
    let good =
        r#"{"name": "Ann", "age": 7.0, "friends": [{"age": 1, "name": "\u0042"}], "mood": null}"#;
    assert_eq!(run(schema(&person()), &[good]), (good.to_owned(), Ok(())));
    for (text, seen, why) in [
        (r#"{"name": 5, "age": 1}"#, r#"{"name": "#, "`/name` should be string but is number"),
        (r#"{"nam": "A"}"#, r#"{"nam"#, "`/nam` is not in the schema"),
        (r#"{"age": 1.5}"#, r#"{"age": 1.5"#, "`/age` should be a whole number"),
        (r#"{"mood": "so so"}"#, r#"{"mood": "so so"#, "`/mood` is not one of the allowed values"),
        (r#"{"mood": 1}"#, r#"{"mood": "#, "`/mood` is not one of the allowed values"),
        (r#"{"name": "A"} "#, r#"{"name": "A""#, "the answer lacks the required property \"age\""),
        (
            r#"{"friends": [{"name": "B", "age": 1}, {"name": []"#,
            r#"{"friends": [{"name": "B", "age": 1}, {"name": "#,
            "`/friends/1/name` should be string but is array",
        ),
    ] {
        let (got, result) = run(schema(&person()), &[text]);
        let said = result.expect_err(text);
        assert!(got == seen && said.contains(why), "{text}: {got} / {said}");
    }
}

#[test]
fn remaining_keywords_are_checked_on_the_whole_answer() {
    let text = r#"{"name": "A", "age": -1}"#;
    let (seen, result) = run(schema(&person()), &[text]);
    assert_eq!(seen, text);
    assert_eq!(
        result.unwrap_err(),
        "the value at `/age` does not fit: value is less than the minimum of 0"
    );
    let either = schema(&json!({ "anyOf": [{ "type": "object" }, { "type": "string" }] }));
    assert_eq!(run(either, &["\"a\""]), ("\"a\"".to_owned(), Ok(())));
}

#[test]
fn valid_answers_of_unusual_schemas_pass() {
    for (odd, text) in [
        (
            json!({ "$ref": "#/$defs/a", "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "type": "array" } } }),
            "[1]",
        ),
        (
            json!({ "patternProperties": { "^x": {} }, "additionalProperties": false }),
            "{\"xy\": 1}",
        ),
        (
            json!({ "type": "array", "prefixItems": [{ "type": "string" }], "items": { "type": "number" } }),
            "[\"a\", 1]",
        ),
        (json!({ "type": ["integer", "null"] }), "null"),
        (json!({ "enum": [1, { "a": 1 }] }), "{\"a\": 1}"),
        (json!({ "const": 1 }), "1.0"),
        (json!({}), "3"),
    ] {
        assert_eq!(run(schema(&odd), &[text]), (text.to_owned(), Ok(())), "{odd}");
    }
}

#[test]
fn schemas_that_cannot_be_used_are_refused() {
    let long = format!("{{\"description\": \"{}\"}}", "x".repeat(300 << 10));
    for (text, why) in [
        ("{\"type\": \"strin\"}", "strin"),
        ("[]", "not an object"),
        ("{\"$ref\": \"#/nowhere\"}", "nowhere"),
        ("{\"$ref\": \"https://example.com/a.json\"}", "example.com"),
        ("{\"pattern\": \"(\"}", "("),
        ("{\"anyOf\": [{\"$ref\": \"#\"}]}", "reference cycle"),
        (long.as_str(), "larger than 256 KiB"),
    ] {
        let format =
            AnswerFormat::Schema(Schema { name: "test".to_owned(), text: text.to_owned() });
        let said = Json::new(&format).expect_err(why);
        assert!(said.contains(why), "{said}");
    }
}

/// Parts that each refer to the next, all of them near the root.
fn flat_chain(length: usize) -> Value {
    let next = |at: usize| json!({ "$ref": format!("#/$defs/{at}") });
    let part = |at: usize| json!({ "properties": { "a": next((at + 1) % length) } });
    let parts = (0..length).map(|at| (at.to_string(), part(at)));
    let parts: serde_json::Map<String, Value> = parts.collect();
    let all: serde_json::Map<String, Value> =
        (0..length).map(|at| (format!("p{at}"), next(at))).collect();
    json!({ "properties": all, "$defs": parts })
}

#[test]
fn long_reference_chain_uses_no_stack() {
    let deep = (0..100).fold("{}".to_owned(), |inner, _| format!("{{\"a\": {inner}}}"));
    let text = format!("{{\"p7\": {deep}}}");
    assert_eq!(run(schema(&flat_chain(3000)), &[&text]), (text, Ok(())));
}

#[test]
fn deepest_allowed_value_fits_the_stack() {
    // Ten parts speak of each value, on each of a hundred levels.
    let mut inner = json!({ "properties": { "a": { "$ref": "#" } }, "required": ["b"] });
    for _ in 0..8 {
        inner = json!({ "anyOf": [inner] });
    }
    let deep = (0..98).fold("{}".to_owned(), |inner, _| format!("{{\"a\": {inner}}}"));
    let (_, result) = run(schema(&inner), &[&deep]);
    assert!(result.unwrap_err().contains("does not fit"));
}

#[test]
fn answer_that_takes_too_long_to_check_is_invalid() {
    let again = json!({ "properties": { "a": { "$ref": "#" } } });
    let doubled = json!({ "allOf": [again, again] });
    let nested = |depth| (0..depth).fold("{}".to_owned(), |inner, _| format!("{{\"a\":{inner}}}"));
    assert_eq!(run(schema(&doubled), &[&nested(3)]).1, Ok(()));
    let said = run(schema(&doubled), &[&nested(100)]).1.unwrap_err();
    assert!(said.contains("takes too long"), "{said}");
}

/// JSON that is right but for a character, or not even that.
fn nearly_json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        Just("-1.5e3".to_owned()),
        Just("0".to_owned()),
        Just("\"a\\n\\u00e9\"".to_owned()),
        Just("\"é\"".to_owned()),
        Just("{}".to_owned()),
        Just("[]".to_owned()),
    ];
    let tree = leaf.prop_recursive(3, 16, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3)
                .prop_map(|items| format!("[{}]", items.join(", "))),
            prop::collection::vec(inner, 0..3).prop_map(|items| {
                // A change below makes no name twice, which is refused: it puts none of these letters.
                let named = ["x", "y", "z"].iter().zip(&items);
                let fields: Vec<String> =
                    named.map(|(name, item)| format!("\"{name}\" : {item}")).collect();
                format!("{{{}}}", fields.join(","))
            }),
        ]
    });
    (tree, any::<prop::sample::Index>(), "[]\\[{}\",:0-9ntae.+ \\\\-]{0,2}", 0usize..2).prop_map(
        |(text, at, put, cut)| {
            let at = text.floor_char_boundary(at.index(text.len() + 1));
            let end = text.floor_char_boundary((at + cut).min(text.len())).max(at);
            format!("{}{put}{}", &text[..at], &text[end..])
        },
    )
}

proptest! {
    /// The parser that reads the whole is the oracle for the one that reads it comes.
    #[test]
    fn incremental_parser_accepts_the_same_texts_as_serde(text in nearly_json(), cut in any::<prop::sample::Index>()) {
        let at = text.floor_char_boundary(cut.index(text.len() + 1));
        let whole = serde_json::from_str::<Value>(&text);
        let (seen, result) = run(schema(&json!({})), &[&text[..at], &text[at..]]);
        let fenced = text.contains('`');
        prop_assert_eq!(result.is_ok(), whole.is_ok() || fenced, "{} / {:?}", text, result);
        if result.is_ok() {
            prop_assert_eq!(seen.as_str(), text.trim());
        }
        prop_assert_eq!(run(schema(&json!({})), &[&text]), (seen, result), "one piece or two");
    }
}
