//! The crate `jsonschema` and our validator give the same verdicts: on random schemas, and
//! on the schemas that clients send.

use std::{cell::Cell, fs, path::PathBuf};

use ibeam_core::controls::JsonSchema;
use jsonschema::Validator;
use proptest::{
    prelude::*,
    sample::select,
    test_runner::{Config, RngSeed, TestCaseError, TestRunner},
};
use serde_json::{Map, Value, json};

const DRAFTS: [&str; 5] = [
    "http://json-schema.org/draft-04/schema#",
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
];
const NEWEST: &str = DRAFTS[4];

/// With formats as annotations, as they are here in every draft.
fn theirs(schema: &Value) -> Result<Validator, String> {
    let options = jsonschema::options().offline().should_validate_formats(false);
    options.build(schema).map_err(|error| error.to_string())
}

fn ours(schema: &Value) -> Result<JsonSchema, String> {
    JsonSchema::compile(&schema.to_string(), NEWEST)
}

// === random schemas ===

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2_i64..4).prop_map(Value::from),
        select(vec![0.1, 0.3, 0.5, 1.0, -0.0, 1.5, 2.0, 1e20, 1e300]).prop_map(Value::from),
        select(vec!["", "a", "ab", "abc", "b", "12", "é🐲", "a\n"]).prop_map(Value::from),
    ]
}

fn name() -> impl Strategy<Value = String> {
    select(vec!["a", "b", "c", "ab"]).prop_map(str::to_owned)
}

fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name(), inner), 0..4)
                .prop_map(|members| Value::from(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn type_name() -> impl Strategy<Value = Value> {
    select(vec!["null", "boolean", "integer", "number", "string", "array", "object"])
        .prop_map(Value::from)
}

fn pattern() -> impl Strategy<Value = String> {
    let patterns = [r"^a", r"b$", r"^[ab]+$", r"\d", r"^.$", r"^\w*$", "é", r"^[^\s]*$", r"a|c"];
    select(patterns.map(str::to_owned).to_vec())
}

/// Before `dependencies` was split, and what to make of it left to the validator.
fn is_old(draft: &str) -> bool {
    DRAFTS.iter().take(3).any(|old| *old == draft)
}

/// A keyword that looks at a value alone, with its value.
fn assertion(draft: &'static str) -> BoxedStrategy<(String, Value)> {
    let named = |names: &'static [&'static str]| select(names).prop_map(str::to_owned);
    let names = prop::collection::btree_set(name(), 1..3).prop_map(|names| json!(names));
    let sizes: &'static [&'static str] =
        &["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"];
    let numbers = select(vec![json!(-1), json!(0), json!(1), json!(1.5), json!(2), json!(1e20)]);
    let divisors = select(vec![json!(1), json!(2), json!(0.1), json!(0.5), json!(0.25)]);
    let bounds: &'static [&'static str] = if draft == DRAFTS[0] {
        &["minimum", "maximum"]
    } else {
        &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"]
    };
    // Older drafts want them to be unique.
    let values = (prop::collection::btree_set(0_i64..4, 1..3), prop::collection::vec(value(), 1))
        .prop_map(|(numbers, list)| {
            let others = [Value::from(list), json!(null), json!("a")];
            numbers.into_iter().map(Value::from).chain(others).collect()
        });
    prop_oneof![
        4 => type_name().prop_map(|name| ("type".to_owned(), name)),
        2 => prop::collection::btree_set(select(vec!["null", "integer", "string", "object"]), 1..3)
            .prop_map(|names| ("type".to_owned(), json!(names))),
        1 => values.prop_map(|values| ("enum".to_owned(), values)),
        1 => value().prop_map(|value| ("const".to_owned(), value)),
        2 => (named(bounds), numbers),
        1 => divisors.prop_map(|number| ("multipleOf".to_owned(), number)),
        2 => (named(sizes), 0_u64..4).prop_map(|(name, size)| (name, json!(size))),
        1 => pattern().prop_map(|pattern| ("pattern".to_owned(), json!(pattern))),
        2 => names.prop_map(|names| ("required".to_owned(), names)),
        1 => any::<bool>().prop_map(|unique| ("uniqueItems".to_owned(), json!(unique))),
        1 => (0_u64..3).prop_map(|count| ("minContains".to_owned(), json!(count))),
        1 => (0_u64..3).prop_map(|count| ("maxContains".to_owned(), json!(count))),
        1 => (name(), prop::collection::btree_set(name(), 1..3)).prop_map(move |(name, names)| {
            let keyword = if is_old(draft) { "dependencies" } else { "dependentRequired" };
            (keyword.to_owned(), json!({ name: names }))
        }),
        1 => select(vec!["date", "email", "regex"])
            .prop_map(|format| ("format".to_owned(), json!(format))),
    ]
    .boxed()
}

/// A keyword with schemas in it.
fn applicator(draft: &'static str, inner: BoxedStrategy<Value>) -> BoxedStrategy<(String, Value)> {
    let mut one = vec![
        "not",
        "additionalProperties",
        "propertyNames",
        "if",
        "then",
        "else",
        "items",
        "unevaluatedItems",
        "unevaluatedProperties",
        "additionalItems",
    ];
    // In 2019-09 `contains` evaluates nothing for `unevaluatedItems`; they have it as in 2020-12.
    if draft != DRAFTS[3] {
        one.push("contains");
    }
    let list = prop::collection::vec(inner.clone(), 1..4).prop_map(Value::from);
    let members = prop::collection::vec((name(), inner.clone()), 1..4)
        .prop_map(|members| Value::from(members.into_iter().collect::<Map<_, _>>()));
    let patterns = prop::collection::vec((pattern(), inner.clone()), 1..3)
        .prop_map(|members| Value::from(members.into_iter().collect::<Map<_, _>>()));
    let dependent = if is_old(draft) { "dependencies" } else { "dependentSchemas" };
    let prefix = if draft == NEWEST { "prefixItems" } else { "items" };
    prop_oneof![
        4 => (select(one), inner).prop_map(|(name, schema)| (name.to_owned(), schema)),
        3 => (select(vec!["allOf", "anyOf", "oneOf"]), list.clone())
            .prop_map(|(name, schemas)| (name.to_owned(), schemas)),
        1 => list.prop_map(move |schemas| (prefix.to_owned(), schemas)),
        6 => (select(vec!["properties", "properties", dependent]), members)
            .prop_map(|(name, members)| (name.to_owned(), members)),
        1 => patterns.prop_map(|members| ("patternProperties".to_owned(), members)),
    ]
    .boxed()
}

fn object(keywords: Vec<(String, Value)>) -> Value {
    Value::from(keywords.into_iter().collect::<Map<_, _>>())
}

/// A schema with three definitions, which all of its parts may refer to.
fn schema(draft: &'static str) -> BoxedStrategy<Value> {
    let reference = select(vec!["#", "#/definitions/a", "#/definitions/b", "#/definitions/c"])
        .prop_map(|to| json!({ "$ref": to }));
    let plain = prop::collection::vec(assertion(draft), 0..4).prop_map(object);
    let leaf = if draft == DRAFTS[0] {
        prop_oneof![6 => plain, 1 => reference].boxed()
    } else {
        prop_oneof![6 => plain, 1 => reference, 1 => any::<bool>().prop_map(Value::from)].boxed()
    };
    let part = leaf.prop_recursive(4, 24, 4, move |inner| {
        let inner = inner.boxed();
        let some = prop::collection::vec(assertion(draft), 0..2);
        let more = prop::collection::vec(applicator(draft, inner), 1..4);
        (some, more).prop_map(|(some, more)| object(some.into_iter().chain(more).collect()))
    });
    let part = part.boxed();
    (part.clone().prop_filter("an object", Value::is_object), part.clone(), part.clone(), part)
        .prop_map(move |(mut root, a, b, c)| {
            root["definitions"] = json!({ "a": a, "b": b, "c": c });
            root["$schema"] = json!(draft);
            root
        })
        .boxed()
}

fn case() -> impl Strategy<Value = (Value, Vec<Value>)> {
    let schema = select(DRAFTS.to_vec()).prop_flat_map(schema);
    (schema, prop::collection::vec(value(), 8))
}

/// How many values were held against schemas, by verdict.
#[derive(Default)]
struct Verdicts {
    valid: Cell<u32>,
    invalid: Cell<u32>,
}

impl Verdicts {
    fn count(&self, valid: bool) {
        let count = if valid { &self.valid } else { &self.invalid };
        count.set(count.get() + 1);
    }
}

fn agree(schema: &Value, values: &[Value], verdicts: &Verdicts) -> Result<(), TestCaseError> {
    let ours = match ours(schema) {
        Ok(ours) => ours,
        // They follow such a schema until the stack ends.
        Err(what) if what.contains("reference cycle") => return Ok(()),
        Err(what) => {
            prop_assert!(theirs(schema).is_err(), "only we refuse it: {} {}", what, schema);
            return Ok(());
        }
    };
    let theirs = theirs(schema);
    prop_assert!(theirs.is_ok(), "only they refuse it: {:?} {}", theirs.err(), schema);
    let theirs = theirs.unwrap();
    for value in values {
        let found = ours.check(&value.to_string());
        let valid = theirs.is_valid(value);
        prop_assert_eq!(found.is_ok(), valid, "{:?}: {} in {}", found, value, schema);
        verdicts.count(valid);
    }
    Ok(())
}

/// The same cases in each run, so that a difference that others introduce in their validator
/// shows up with its new version, and not on some later day.
#[test]
fn verdicts_agree_on_random_schemas() {
    let verdicts = Verdicts::default();
    let mut runner = TestRunner::new(Config {
        cases: 2_000,
        rng_seed: RngSeed::Fixed(2020),
        failure_persistence: None,
        ..Config::default()
    });
    let result = runner.run(&case(), |(schema, values)| agree(&schema, &values, &verdicts));
    result.unwrap_or_else(|failure| panic!("{failure}"));
    let (valid, invalid) = (verdicts.valid.get(), verdicts.invalid.get());
    assert!(valid > 4_000 && invalid > 4_000, "{valid} valid, {invalid} invalid");
}

// === schemas of clients ===

/// The tools in the requests of coding clients, and the descriptions of all that the gateway takes
/// and answers, which are schemas of the APIs of others.
fn corpus() -> Vec<Value> {
    let crates = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let read = |folder: &str| {
        let files = fs::read_dir(crates.join(folder)).unwrap().map(|file| file.unwrap().path());
        let files = files.filter(|file| file.extension().is_some_and(|name| name == "json"));
        files.map(|file| serde_json::from_slice(&fs::read(file).unwrap()).unwrap()).collect()
    };
    let mut schemas = Vec::new();
    let requests: Vec<Value> = read("core/src/wire/responses/fixtures");
    requests.iter().for_each(|request| tools(request, &mut schemas));
    let pages: Vec<Value> = read("server/src/api/openapi");
    let mut components = Map::new();
    for page in &pages {
        components.extend(
            page["components"]["schemas"]
                .as_object()
                .into_iter()
                .flatten()
                .map(|(name, schema)| (name.clone(), schema.clone())),
        );
    }
    for name in components.keys() {
        let to = format!("#/components/schemas/{name}");
        schemas.push(json!({ "$ref": to, "components": { "schemas": components } }));
    }
    schemas
}

fn tools(value: &Value, found: &mut Vec<Value>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| tools(value, found)),
        Value::Object(members) => {
            found.extend(
                members.get("parameters").filter(|schema| schema["type"] == "object").cloned(),
            );
            members.values().for_each(|value| tools(value, found));
        }
        _ => {}
    }
}

/// A value that a schema describes, as far as its types, members and fixed values go.
fn sample(schema: &Value, root: &Value, depth: usize) -> Value {
    let first = |name: &str| schema[name].as_array().and_then(|all| all.first());
    if let Some(value) = schema.get("const").or(first("enum")) {
        return value.clone();
    }
    if depth == 0 {
        return Value::Null;
    }
    let reference = schema["$ref"].as_str().and_then(|to| root.pointer(to.strip_prefix('#')?));
    let inner = [first("anyOf"), first("oneOf"), first("allOf")].into_iter().flatten().next();
    if let Some(inner) = reference.or(inner) {
        return sample(inner, root, depth - 1);
    }
    let kind = schema["type"].as_str().or(first("type").and_then(Value::as_str));
    match kind {
        Some("object") => {
            let members = schema["properties"].as_object().into_iter().flatten();
            members.map(|(name, schema)| (name.clone(), sample(schema, root, depth - 1))).collect()
        }
        Some("array") => json!([sample(&schema["items"], root, depth - 1)]),
        Some("string") => json!("text"),
        Some("integer" | "number") => json!(1),
        Some("boolean") => json!(true),
        _ => Value::Null,
    }
}

/// The pointers to all values in one.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(members) => members.iter().for_each(|(name, value)| {
            places(value, &format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), found);
        }),
        Value::Array(values) => values.iter().enumerate().for_each(|(index, value)| {
            places(value, &format!("{at}/{index}"), found);
        }),
        _ => {}
    }
}

/// The value, and each of its parts replaced by something else, emptied or with something more.
fn variants(value: &Value) -> Vec<Value> {
    let mut all = vec![value.clone()];
    let mut found = Vec::new();
    places(value, "", &mut found);
    for at in found {
        for other in
            [json!(null), json!(true), json!(-1.5), json!(7), json!(""), json!([]), json!({})]
        {
            let mut changed = value.clone();
            *changed.pointer_mut(&at).unwrap() = other;
            all.push(changed);
        }
        let mut changed = value.clone();
        match changed.pointer_mut(&at).unwrap() {
            Value::Object(members) => drop(members.insert("one more".to_owned(), json!(1))),
            Value::Array(values) => values.push(json!({ "one": "more" })),
            _ => continue,
        }
        all.push(changed);
        let names = value.pointer(&at).and_then(Value::as_object).into_iter().flat_map(Map::keys);
        for name in names {
            let mut changed = value.clone();
            changed.pointer_mut(&at).unwrap().as_object_mut().unwrap().remove(name);
            all.push(changed);
        }
    }
    all
}

#[test]
fn verdicts_agree_on_the_schemas_of_clients() {
    let schemas = corpus();
    assert!(schemas.len() > 50, "{} schemas", schemas.len());
    let verdicts = Verdicts::default();
    for schema in schemas {
        let theirs = theirs(&schema).unwrap();
        let ours = ours(&schema).unwrap();
        for value in variants(&sample(&schema, &schema, 8)) {
            let found = ours.check(&value.to_string());
            assert_eq!(found.is_ok(), theirs.is_valid(&value), "{found:?}: {value} in {schema}");
            verdicts.count(found.is_ok());
        }
    }
    let (valid, invalid) = (verdicts.valid.get(), verdicts.invalid.get());
    assert!(valid > 500 && invalid > 500, "{valid} valid, {invalid} invalid");
}
