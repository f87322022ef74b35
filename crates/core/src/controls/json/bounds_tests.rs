use std::fmt::Write as _;

use serde_json::json;

use super::*;

fn refusal(schema: &Value) -> String {
    Bounds::of(schema).map(|bounds| bounds.in_place).expect_err("it is too much")
}

fn cost(schema: &Value, answer: &Value) -> Cost {
    Bounds::of(schema).unwrap().cost(answer)
}

/// A schema that is the first of so many parts, each made with the reference to the next.
fn chain(length: usize, part: impl Fn(Value) -> Value) -> Value {
    let next = |at: usize| json!({ "$ref": format!("#/$defs/{at}") });
    let parts = (0..length).map(|at| (at.to_string(), part(next(at + 1))));
    let mut parts: Map<String, Value> = parts.collect();
    parts.insert(length.to_string(), json!({ "type": "object" }));
    json!({ "$ref": "#/$defs/0", "$defs": parts })
}

#[test]
fn long_chains_are_refused() {
    let members = |next: Value| json!({ "properties": { "a": next } });
    assert!(refusal(&chain(3000, members)).contains("64 parts away"));
    assert!(refusal(&chain(40, |next| next)).contains("in a row"));
    assert!(Bounds::of(&chain(20, members)).is_ok());
    assert!(Bounds::of(&chain(20, |next| next)).is_ok());
}

#[test]
fn ways_that_double_are_refused() {
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let doubled = |next: Value| json!({ keyword: [next, next] });
        assert!(refusal(&chain(14, doubled)).contains("more than 10000 parts"), "{keyword}");
        assert!(refusal(&chain(3000, doubled)).contains("parts"), "{keyword}");
        assert!(Bounds::of(&chain(6, doubled)).is_ok(), "{keyword}");
    }
    let branches = |next: Value| json!({ "if": next, "then": next, "else": { "not": next } });
    assert!(refusal(&chain(12, branches)).contains("more than 10000 parts"));
    let depends = |next: Value| json!({ "dependentSchemas": { "a": next, "b": next } });
    assert!(refusal(&chain(14, depends)).contains("more than 10000 parts"));
    let evaluated = |next: Value| json!({ "allOf": [next], "unevaluatedProperties": false });
    assert!(refusal(&chain(14, evaluated)).contains("more than 10000 parts"));
}

#[test]
fn what_refers_to_itself_must_go_into_the_value() {
    for round in [
        json!({ "$ref": "#" }),
        json!({ "anyOf": [{ "type": "null" }, { "$ref": "#" }] }),
        json!({ "$anchor": "a", "not": { "$ref": "#a" } }),
        json!({ "$dynamicAnchor": "a", "allOf": [{ "$dynamicRef": "#a" }] }),
        json!({ "$id": "https://example.com/a", "allOf": [{ "$ref": "a#" }] }),
        json!({ "allOf": [{ "$id": "b", "$ref": "#/not", "not": { "$ref": "b" } }] }),
        json!({ "$ref": "#/$defs/a%20b", "$defs": { "a b": { "$ref": "#/$defs/a%20b" } } }),
    ] {
        assert!(refusal(&round).contains("refers back to itself"), "{round}");
    }
    let tree =
        json!({ "properties": { "inner": { "anyOf": [{ "$ref": "#" }, { "type": "null" }] } } });
    assert!(Bounds::of(&tree).is_ok());
}

#[test]
fn references_that_lead_out_are_refused() {
    for out in ["#/nowhere", "#nobody", "https://json-schema.org/draft/2020-12/schema"] {
        assert!(refusal(&json!({ "$ref": out })).contains(out));
    }
    // Here it is no reference, but a value.
    assert!(Bounds::of(&json!({ "const": { "$ref": "#/nowhere" } })).is_ok());
    assert!(Bounds::of(&json!({ "properties": { "$ref": { "type": "string" } } })).is_ok());
}

#[test]
fn patterns_have_a_budget() {
    let patterns = |count: usize, length: usize| -> Value {
        let texts = (0..count).map(|at| {
            let mut pattern = String::new();
            write!(pattern, "{at:0>length$}").unwrap();
            (pattern.clone(), json!({ "pattern": pattern }))
        });
        let parts: Map<String, Value> = texts.collect();
        json!({ "properties": parts })
    };
    assert!(Bounds::of(&patterns(100, 10)).is_ok());
    assert!(refusal(&patterns(101, 10)).contains("100 patterns"));
    assert!(refusal(&patterns(10, 2 << 10)).contains("16 KiB"));
    let names: Map<String, Value> = (0..101).map(|at| (at.to_string(), json!({}))).collect();
    assert!(refusal(&json!({ "patternProperties": names })).contains("100 patterns"));
}

/// Objects in objects, so many.
fn nested(depth: usize) -> Value {
    (0..depth).fold(json!({}), |inner, _| json!({ "a": inner }))
}

#[test]
fn the_cost_of_an_answer_is_known_before_it_is_checked() {
    let once = json!({ "properties": { "a": { "$ref": "#" } } });
    assert_eq!(cost(&once, &nested(100)), Cost::Little);
    // Each level is looked at twice as often as the one around it.
    let twice = json!({ "allOf": [once.clone(), once] });
    assert_eq!(cost(&twice, &nested(3)), Cost::Little);
    assert_eq!(cost(&twice, &nested(17)), Cost::Much);
    assert_eq!(cost(&twice, &nested(100)), Cost::TooMuch);
    let both = json!({ "properties": { "a": { "$ref": "#" } }, "patternProperties": { "a": { "$ref": "#" } } });
    assert_eq!(cost(&both, &nested(100)), Cost::TooMuch);
    let lists = json!({ "items": { "$ref": "#" }, "contains": { "$ref": "#" } });
    let list = (0..100).fold(json!([]), |inner, _| json!([inner]));
    assert_eq!(cost(&lists, &list), Cost::TooMuch);
}

#[test]
fn deep_answers_to_long_chains_are_too_much() {
    let long = chain(20, |next| next);
    let mut schema = long.clone();
    schema["$defs"]["20"] = json!({ "properties": { "a": { "$ref": "#" } } });
    assert_eq!(cost(&schema, &nested(10)), Cost::Little);
    assert_eq!(cost(&schema, &nested(100)), Cost::TooMuch);
}

#[test]
fn long_texts_and_hard_patterns_cost_more() {
    let texts = |count: usize| json!(vec!["x".repeat(64); count]);
    let items = |pattern: &str| json!({ "items": { "pattern": pattern } });
    assert_eq!(cost(&items("^a+$"), &texts(5_000)), Cost::Little);
    assert_eq!(cost(&items("^(?=a)"), &texts(200)), Cost::Much);
    assert_eq!(cost(&items("(a)\\1"), &texts(6_000)), Cost::TooMuch);
    let long = json!(["x".repeat(7 << 20)]);
    assert_eq!(cost(&items("^a+$"), &long), Cost::Much);
}
