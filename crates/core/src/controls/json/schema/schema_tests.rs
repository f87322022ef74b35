use serde_json::{Map, json};

use super::*;

fn compiled(schema: &Value) -> CompiledSchema {
    CompiledSchema::compile(schema, Draft::default())
        .unwrap_or_else(|what| panic!("{what}: {schema}"))
}

fn refusal(schema: &Value) -> String {
    CompiledSchema::compile(schema, Draft::default()).map(|_| ()).expect_err("it is refused")
}

fn is_compiled(schema: &Value) -> bool {
    CompiledSchema::compile(schema, Draft::default()).is_ok()
}

fn steps(schema: &Value, value: &Value) -> u64 {
    check::check(&compiled(schema), value, check::STEPS).1
}

/// A schema that is the first of `count` parts, each made with the reference to the next.
fn chain(length: usize, part: impl Fn(Value) -> Value) -> Value {
    let next = |at: usize| json!({ "$ref": format!("#/$defs/{at}") });
    let parts = (0..length).map(|at| (at.to_string(), part(next(at + 1))));
    let mut parts: Map<String, Value> = parts.collect();
    parts.insert(length.to_string(), json!({ "type": "object" }));
    json!({ "$ref": "#/$defs/0", "$defs": parts })
}

/// Objects in objects, so many.
fn nested(depth: usize) -> Value {
    (0..depth).fold(json!({}), |inner, _| json!({ "a": inner }))
}

// === what a schema may ask for ===

#[test]
fn long_chains_for_one_value_are_refused() {
    let members = |next: Value| json!({ "properties": { "a": next } });
    assert!(refusal(&chain(40, |next| next)).contains("in a chain"));
    assert!(refusal(&chain(3_000, |next| next)).contains("in a chain"));
    assert!(is_compiled(&chain(20, |next| next)));
    assert!(is_compiled(&chain(3_000, members)));
}

#[test]
fn exponentially_many_paths_are_refused() {
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let doubled = |next: Value| json!({ keyword: [next, next] });
        assert!(refusal(&chain(14, doubled)).contains("more than 10000 subschemas"), "{keyword}");
        assert!(refusal(&chain(3_000, doubled)).contains("subschemas"), "{keyword}");
        assert!(is_compiled(&chain(6, doubled)), "{keyword}");
    }
    let branches = |next: Value| json!({ "if": next, "then": next, "else": { "not": next } });
    assert!(refusal(&chain(12, branches)).contains("more than 10000 subschemas"));
    let depends = |next: Value| json!({ "dependentSchemas": { "a": next, "b": next } });
    assert!(refusal(&chain(14, depends)).contains("more than 10000 subschemas"));
    // What was evaluated is collected on the way, not by looking again.
    let evaluated = |next: Value| json!({ "allOf": [next], "unevaluatedProperties": false });
    let value = json!({ "a": 1, "b": {} });
    assert!(steps(&chain(14, evaluated), &value) < 200);
}

#[test]
fn a_schema_that_refers_to_itself_must_descend_into_the_value() {
    for round in [
        json!({ "$ref": "#" }),
        json!({ "anyOf": [{ "type": "null" }, { "$ref": "#" }] }),
        json!({ "$anchor": "a", "not": { "$ref": "#a" } }),
        json!({ "$dynamicAnchor": "a", "allOf": [{ "$dynamicRef": "#a" }] }),
        json!({ "$id": "https://example.com/a", "allOf": [{ "$ref": "a#" }] }),
        json!({ "allOf": [{ "$id": "b", "$ref": "#/not", "not": { "$ref": "b" } }] }),
        json!({ "$ref": "#/$defs/a%20b", "$defs": { "a b": { "$ref": "#/$defs/a%20b" } } }),
        json!({
            "$schema": "https://json-schema.org/draft/2019-09/schema",
            "$recursiveAnchor": true,
            "anyOf": [{ "$recursiveRef": "#" }],
        }),
    ] {
        assert!(refusal(&round).contains("reference cycle"), "{round}");
    }
    let tree =
        json!({ "properties": { "inner": { "anyOf": [{ "$ref": "#" }, { "type": "null" }] } } });
    assert!(is_compiled(&tree));
    // A loop that nothing leads to does no harm.
    assert!(is_compiled(&json!({ "$defs": { "a": { "$ref": "#/$defs/a" } } })));
}

#[test]
fn external_references_are_refused() {
    for out in [
        "#/nowhere",
        "#nowhere",
        "other.json",
        "https://json-schema.org/draft/2020-12/schema",
        "http://json-schema.org/draft-07/schema#",
    ] {
        assert!(refusal(&json!({ "$ref": out })).contains(out));
        assert!(refusal(&json!({ "$defs": { "a": { "$ref": out } } })).contains(out));
    }
    // A value and the name of a member are not references.
    assert!(is_compiled(&json!({ "const": { "$ref": "#/nowhere" } })));
    assert!(is_compiled(&json!({ "properties": { "$ref": { "type": "string" } } })));
}

#[test]
fn total_size_of_patterns_is_limited() {
    let patterns = |count: usize, length: usize| -> Value {
        let parts = (0..count).map(|at| {
            let pattern = format!("{at:0>length$}");
            (pattern.clone(), json!({ "pattern": pattern }))
        });
        json!({ "properties": parts.collect::<Map<_, _>>() })
    };
    assert!(is_compiled(&patterns(100, 10)));
    assert!(refusal(&patterns(101, 10)).contains("100 patterns"));
    assert!(refusal(&patterns(10, 2 << 10)).contains("16 KiB"));
    let names: Map<String, Value> = (0..101).map(|at| (at.to_string(), json!({}))).collect();
    assert!(refusal(&json!({ "patternProperties": names })).contains("100 patterns"));
}

#[test]
fn length_of_an_id_is_limited() {
    let schema =
        |length: usize| json!({ "$id": format!("https://example.com/{}", "a".repeat(length)) });
    assert!(is_compiled(&schema(2_000)));
    assert!(refusal(&schema(3_000)).contains("2048 bytes"));
}

#[test]
fn keywords_with_a_value_of_the_wrong_type_are_refused_by_name_and_place() {
    for (schema, wanted) in [
        (json!({ "type": "strin" }), "`type` has \"strin\""),
        (json!({ "type": [] }), "`type` must be"),
        (json!({ "type": 1 }), "`type` has 1"),
        (json!({ "enum": 1 }), "`enum` must be a list"),
        (json!({ "minimum": "1" }), "`minimum` must be a number"),
        (json!({ "exclusiveMaximum": true }), "`exclusiveMaximum` must be a number"),
        (json!({ "multipleOf": 0 }), "`multipleOf` must be greater than 0"),
        (json!({ "minLength": -1 }), "`minLength` must be a non-negative integer"),
        (json!({ "maxItems": 1.5 }), "`maxItems` must be a non-negative integer"),
        (json!({ "maxContains": "a" }), "`maxContains` must be a non-negative integer"),
        (json!({ "pattern": 1 }), "`pattern` must be a string"),
        (json!({ "uniqueItems": 1 }), "`uniqueItems` must be a boolean"),
        (json!({ "required": "a" }), "`required` must be a list of strings"),
        (json!({ "required": [1] }), "`required` must be a list of strings"),
        (json!({ "dependentRequired": { "a": 1 } }), "`dependentRequired` must be"),
        (json!({ "dependencies": { "a": 1 } }), "`dependencies` must be"),
        (json!({ "properties": [] }), "`properties` must be an object of schemas"),
        (json!({ "properties": { "a": 1 } }), "`properties` must be an object of schemas"),
        (json!({ "patternProperties": { "(": {} } }), "pattern \"(\""),
        (json!({ "items": [{}] }), "`items` must be a schema"),
        (json!({ "allOf": {} }), "`allOf` must be a list of schemas"),
        (json!({ "anyOf": [] }), "`anyOf` must be a list of at least one schema"),
        (json!({ "oneOf": [1] }), "`oneOf` must be a list of schemas"),
        (json!({ "not": 1 }), "`not` must be a schema"),
        (json!({ "$ref": 1 }), "`$ref` must be a string"),
        (json!({ "$id": 1 }), "`$id` must be a string"),
    ] {
        let said = refusal(&schema);
        assert!(said.contains(wanted) && !said.contains("(at"), "{schema}: {said}");
        let inside = json!({ "$defs": { "a/b": { "not": schema } } });
        let said = refusal(&inside);
        assert!(said.contains(wanted) && said.ends_with("(at `/$defs/a~1b/not`)"), "{said}");
    }
    assert!(refusal(&json!({ "$schema": "https://example.com/own" })).contains("supported drafts"));
    assert!(refusal(&json!({ "$schema": 1 })).contains("not a string"));
    assert!(refusal(&json!(1)).contains("neither"));
}

#[test]
fn schema_keyword_selects_the_draft() {
    let bound = |draft: &str| json!({ "$schema": draft, "minimum": 1, "exclusiveMinimum": true, "const": 2 });
    assert!(is_compiled(&bound("http://json-schema.org/draft-04/schema#")));
    for newer in [
        "http://json-schema.org/draft-06/schema#",
        "http://json-schema.org/draft-07/schema",
        "https://json-schema.org/draft/2019-09/schema",
        "https://json-schema.org/draft/2020-12/schema#",
        "https://json-schema.org/schema",
    ] {
        assert!(refusal(&bound(newer)).contains("exclusiveMinimum"), "{newer}");
    }
    let list = |draft: &str| json!({ "$schema": draft, "items": [{ "type": "string" }] });
    assert!(is_compiled(&list("http://json-schema.org/draft-07/schema#")));
    assert!(!is_compiled(&list("https://json-schema.org/draft/2020-12/schema")));
}

// === what a check may take ===

#[test]
fn steps_of_a_check_are_limited() {
    let once = json!({ "properties": { "a": { "$ref": "#" } } });
    assert!(steps(&once, &nested(100)) < 1_000);
    // Each level is looked at twice as often as the one around it.
    let twice = json!({ "allOf": [once.clone(), once] });
    assert_eq!(compiled(&twice).check(&nested(10)), Ok(()));
    assert_eq!(compiled(&twice).check(&nested(100)), Err(Misfit::TooMuch));
    let both = json!({
        "properties": { "a": { "$ref": "#" } },
        "patternProperties": { "a": { "$ref": "#" } },
    });
    assert_eq!(compiled(&both).check(&nested(100)), Err(Misfit::TooMuch));
    let lists = json!({ "items": { "$ref": "#" }, "contains": { "$ref": "#" } });
    let list = (0..100).fold(json!([]), |inner, _| json!([inner]));
    assert_eq!(compiled(&lists).check(&list).map_err(|_| ()), Err(()));
}

#[test]
fn deep_values_with_long_chains_are_refused() {
    let mut schema = chain(20, |next| next);
    schema["$defs"]["20"] = json!({ "properties": { "a": { "$ref": "#" } } });
    assert_eq!(compiled(&schema).check(&nested(10)), Ok(()));
    assert_eq!(compiled(&schema).check(&nested(100)), Err(Misfit::TooMuch));
}

#[test]
fn the_deepest_check_fits_the_stack() {
    // Ten parts for each of 98 levels, with branches and with marks to collect.
    let mut part = json!({ "properties": { "a": { "$ref": "#" } } });
    for _ in 0..8 {
        part = json!({ "anyOf": [part], "unevaluatedProperties": false });
    }
    assert_eq!(compiled(&part).check(&nested(98)), Ok(()));
    assert_eq!(compiled(&part).check(&nested(120)), Err(Misfit::TooMuch));
}

#[test]
fn long_texts_and_hard_patterns_take_more_steps() {
    let texts = |count: usize| json!(vec!["x".repeat(64); count]);
    let items = |pattern: &str| json!({ "items": { "pattern": pattern } });
    let all = "^x+$";
    assert!(steps(&items(all), &texts(5_000)) < 200_000);
    assert!(steps(&items("^(?=x)"), &texts(200)) > 1_000_000);
    assert_eq!(compiled(&items("(x)\\1")).check(&texts(6_000)), Err(Misfit::TooMuch));
    let long = json!(["x".repeat(7 << 20)]);
    assert!(steps(&items(all), &long) > 1_000_000);
}

#[test]
fn pattern_over_its_limit_fails_the_check() {
    let hard = r"^(a|aa)+(?!b)\1c$";
    let text = "a".repeat(5_000);
    let negated = json!({ "not": { "pattern": hard } });
    assert_eq!(compiled(&negated).check(&json!(text)), Err(Misfit::TooMuch));
    let names = json!({ "patternProperties": { hard: false } });
    assert_eq!(compiled(&names).check(&json!({ text: 1 })), Err(Misfit::TooMuch));
}

#[test]
fn cost_of_one_of_is_linear_in_its_branches() {
    let branches: Vec<Value> = (0..5_000).map(|at| json!({ "const": at })).collect();
    let schema = json!({ "oneOf": branches });
    assert!(steps(&schema, &json!(4_999)) < 30_000);
    assert!(compiled(&schema).check(&json!("none")).is_err());
}

#[test]
fn unique_items_check_is_not_quadratic() {
    let unique = json!({ "uniqueItems": true });
    let numbers: Vec<u32> = (0..200_000).collect();
    assert!(steps(&unique, &json!(numbers)) < 500_000);
    let mut twice: Vec<Value> = (0..10_000).map(|at| json!({ "a": [at, "x"] })).collect();
    assert_eq!(compiled(&unique).check(&json!(twice)), Ok(()));
    twice.push(json!({ "a": [77.0, "x"] }));
    assert!(compiled(&unique).check(&json!(twice)).is_err());
}

#[test]
fn comparing_a_large_enum_takes_steps() {
    let part = json!(vec![0; 1_000]);
    let mut values = vec![part; 100];
    for (at, value) in values.iter_mut().enumerate() {
        value[999] = json!(at + 1);
    }
    let schema = json!({ "items": { "enum": values } });
    let answer = json!(vec![vec![0; 1_000]; 10]);
    assert!(steps(&schema, &answer) > 1_000);
    let answer = json!(vec![
        {
            let mut last = vec![0; 1_000];
            last[999] = 100;
            last
        };
        2_000
    ]);
    assert_eq!(compiled(&schema).check(&answer), Err(Misfit::TooMuch));
}

#[test]
fn format_and_content_keywords_are_not_asserted() {
    for draft in ["draft-04/schema#", "draft-07/schema#", "draft/2019-09/schema"] {
        let schema = json!({
            "$schema": format!("http://json-schema.org/{draft}"),
            "format": "date-time",
            "contentEncoding": "base64",
            "contentMediaType": "application/json",
        });
        assert_eq!(compiled(&schema).check(&json!("neither")), Ok(()));
    }
}

// === what is said ===

#[test]
fn the_first_violation_is_reported_with_its_place_and_without_the_value() {
    let schema = json!({
        "properties": {
            "a": { "items": { "properties": { "b/c": { "maxLength": 3 }, "d~": { "enum": [1] } } } },
            "k": { "const": "secret" },
            "n": { "multipleOf": 0.5, "exclusiveMinimum": 1, "maximum": 9.5 },
            "o": { "required": ["x"], "minProperties": 1, "propertyNames": { "maxLength": 2 } },
            "p": { "pattern": "^a$", "minLength": 1 },
            "q": { "dependentRequired": { "x": ["y"] }, "unevaluatedProperties": false,
                   "properties": { "x": true } },
            "r": { "contains": { "const": 1 }, "maxContains": 2, "uniqueItems": true },
            "s": { "anyOf": [{ "type": "string" }, { "type": ["null", "integer"] }] },
            "t": { "oneOf": [{ "type": "integer" }, { "minimum": 1 }] },
            "u": { "not": { "type": "string" } },
            "v": { "type": ["string", "array"], "minItems": 2 },
            "w": { "if": { "type": "string" }, "then": { "minLength": 2 } },
        },
        "additionalProperties": false,
    });
    let schema = compiled(&schema);
    for (value, at, words) in [
        (json!({ "a": [{}, { "b/c": "long" }] }), "/a/1/b~1c", "value has more than 3 characters"),
        (json!({ "a": [{ "d~": 2 }] }), "/a/0/d~0", "value is not one of those that `enum` allows"),
        (json!({ "k": "other" }), "/k", "value is not the one that `const` allows"),
        (json!({ "n": 1.3 }), "/n", "value is not a multiple of 0.5"),
        (json!({ "n": 1 }), "/n", "value is not greater than 1"),
        (json!({ "n": 10 }), "/n", "value is greater than the maximum of 9.5"),
        (json!({ "o": {} }), "/o", "value has fewer than 1 member"),
        (json!({ "o": { "y": 1 } }), "/o", "the required property \"x\" is missing"),
        (json!({ "o": { "x": 1, "xyz": 1 } }), "/o", "the name \"xyz\" does not fit"),
        (json!({ "p": "b" }), "/p", "value does not match the pattern ^a$"),
        (json!({ "p": "" }), "/p", "value has fewer than 1 character"),
        (json!({ "q": { "x": 1 } }), "/q", "the property \"y\", which \"x\" requires, is missing"),
        (json!({ "q": { "z": 1 } }), "/q/z", "no value is allowed here"),
        (json!({ "r": [] }), "/r", "fewer than 1 elements fit the schema in `contains`"),
        (json!({ "r": [1, 1.0] }), "/r", "two elements are the same"),
        (json!({ "s": [] }), "/s", "value fits none of the schemas in `anyOf`"),
        (json!({ "t": 0.5 }), "/t", "value fits none"),
        (json!({ "t": 1 }), "/t", "value fits more than one of the schemas in `oneOf`"),
        (json!({ "u": "a" }), "/u", "value fits the schema in `not`"),
        (json!({ "v": 1 }), "/v", "value is not of type string or array"),
        (json!({ "v": [1] }), "/v", "value has fewer than 2 elements"),
        (json!({ "w": "a" }), "/w", "value has fewer than 2 characters"),
        (json!({ "x": 1 }), "/x", "no value is allowed here"),
    ] {
        match schema.check(&value) {
            Err(Misfit::Invalid { path, what }) => {
                assert!(path == at && what.starts_with(words), "{value}: {path}: {what}");
            }
            other => panic!("{value}: {other:?}"),
        }
    }
}
