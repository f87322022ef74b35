use proptest::prelude::*;
use serde_json::Value;

use super::{
    DEEPEST, DeferredJson, FEW, MOST_ELEMENTS, MOST_FIELDS, MOST_OBJECTS, PATH_CAP, WIDEST, check,
};
use crate::error::ErrorCode;

/// The path and the words of a refusal.
fn refused(body: &str) -> (String, String) {
    let error = check(body.as_bytes()).expect_err(body);
    assert_eq!(error.code, ErrorCode::InvalidJson);
    (error.param.expect("a place").into_owned(), error.message.into_owned())
}

fn nested(levels: usize) -> String {
    format!("{}{}", "[".repeat(levels), "]".repeat(levels))
}

#[test]
fn duplicate_field_is_refused_with_its_path() {
    for (body, path) in [
        (r#"{"model":"a","model":"b"}"#, "model"),
        (r#"{"a":{"x":1,"y":{},"x":[]}}"#, "a.x"),
        (
            r#"{"tools":[{},{"function":{"parameters":{"p":1,"p":2}}}]}"#,
            "tools[1].function.parameters.p",
        ),
        (r#"[1,[{"a":[],"b":{"c":1},"a":2}]]"#, "[1][0].a"),
        // Names are compared, not how they are written.
        (r#"{"abc":1,"\u0061b\u0063":2}"#, "abc"),
        (r#"{"\"":1,"\"":2}"#, "\""),
        (r#"{"":1,"":2}"#, ""),
        // A value that looks like a name does not count.
        (r#"{"a":"b","c":["b","b"],"b":"a","c":1}"#, "c"),
    ] {
        let (found, text) = refused(body);
        assert_eq!(found, path, "{body}");
        assert_eq!(text, format!("the request body cannot be used: `{path}` is given twice"));
    }
}

#[test]
fn same_name_in_different_objects_is_accepted() {
    for body in [
        r#"{"a":{"a":{"a":1}},"b":{"a":1}}"#,
        r#"[{"a":1},{"a":1}]"#,
        r#"{"a":"a","b":["a","a"],"A":"{\"a\":1,\"a\":2}"}"#,
        r#"{"a\\":1,"a":2,"a\"":3}"#,
    ] {
        assert!(check(body.as_bytes()).is_ok(), "{body}");
    }
}

#[test]
fn scan_cost_is_linear_in_the_fields() {
    for count in [2, FEW, FEW + 1, 500, WIDEST] {
        let fields: Vec<String> = (0..count).map(|n| format!("\"k{n}\":{n}")).collect();
        let body = |last: &str| format!("{{\"in\":{{{},\"{last}\":0}}}}", fields[1..].join(","));
        assert!(check(body("k0").as_bytes()).is_ok(), "{count}");
        assert_eq!(refused(&body(&format!("k{}", count / 2))).0, format!("in.k{}", count / 2));
    }
    let fields: Vec<String> = (0..=WIDEST).map(|n| format!("\"k{n}\":{n}")).collect();
    let (path, text) = refused(&format!("{{\"in\":{{{}}}}}", fields.join(",")));
    assert_eq!(path, format!("in.k{WIDEST}"));
    assert!(text.contains("more than 10000 fields"), "{text}");
}

#[test]
fn nesting_is_limited_everywhere() {
    assert!(check(nested(DEEPEST).as_bytes()).is_ok());
    assert!(check(format!("[{0},{0}]", nested(DEEPEST - 1)).as_bytes()).is_ok());
    let (path, text) = refused(&nested(DEEPEST + 1));
    assert!(path.starts_with("[0][0]"), "{path}");
    assert!(text.ends_with("nests deeper than 120 levels"), "{text}");
    // Not closed at all: millions of them cost nothing either.
    assert!(refused(&"[".repeat(1_000_000)).0.len() <= PATH_CAP + '…'.len_utf8());
    let (path, _) = refused(&format!(r#"{{"a":1,"tools":[0,{{"x":{}}}]}}"#, nested(200)));
    assert!(path.starts_with("tools[1].x[0][0]"), "{path}");
    let deep = format!("{}1{}", r#"{"é":"#.repeat(200), "}".repeat(200));
    assert!(refused(&deep).0.ends_with('…'));
}

#[test]
fn invalid_json_is_left_to_the_parser() {
    for body in ["", "nonsense", "{", "]", "}}}}", "{\"a", "{\"a\\", "\"\\\"", "{,,,}", "\u{0}"] {
        assert!(check(body.as_bytes()).is_ok(), "{body:?}");
    }
}

/// JSON text, with the doubles that a map could not hold.
fn json() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec!["a", "b", "", "\\u0061", "\\\"", "é", "long name"]);
    let leaf = prop_oneof![
        Just("null".to_owned()),
        "-?[1-9][0-9]{0,3}".prop_map(|n| n),
        word.clone().prop_map(|word| format!("\"{word}\"")),
    ];
    leaf.prop_recursive(6, 60, 5, move |inner| {
        let field = (word.clone(), inner.clone()).prop_map(|(k, v)| format!(" \"{k}\" : {v}"));
        prop_oneof![
            prop::collection::vec(inner, 0..5).prop_map(|all| format!("[{}]", all.join(", "))),
            prop::collection::vec(field, 0..5).prop_map(|all| format!("{{{}}}", all.join(","))),
        ]
    })
}

/// How many fields a parser keeps, and how many there are.
fn fields(text: &str) -> (usize, usize) {
    fn count(value: &Value) -> usize {
        match value {
            Value::Array(all) => all.iter().map(count).sum(),
            Value::Object(all) => all.len() + all.values().map(count).sum::<usize>(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
        }
    }
    // The generator writes ` : ` after names and nowhere else.
    (count(&serde_json::from_str(text).unwrap()), text.matches(" : ").count())
}

proptest! {
    /// Serde's own maps are the oracle: a name that is there twice is lost in one.
    #[test]
    fn duplicate_fields_are_those_a_map_would_drop(text in json()) {
        let (kept, written) = fields(&text);
        prop_assert_eq!(check(text.as_bytes()).is_ok(), kept == written, "{}", text);
    }

    #[test]
    fn scanning_arbitrary_bytes_does_not_panic(data in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = check(&data);
    }

    #[test]
    fn scanning_arbitrary_brackets_does_not_panic(data in "[\\[\\]{}\",:a\\\\]{0,60}") {
        let _ = check(data.as_bytes());
    }
}

/// A coding agent's request of about 100 kB: a prompt, tools with their schemas, and a
/// conversation of code and results.
fn agents_request() -> Vec<u8> {
    let code = "fn main() {\n\tprintln!(\"one line of some code\");\n}\n".repeat(40);
    let tools: Vec<Value> = (0..20)
        .map(|n| {
            let field = |about: &str| serde_json::json!({"type": "string", "description": about});
            let fields: serde_json::Map<String, Value> = (0..8)
                .map(|m| (format!("field_{m}"), field("what it is, in a sentence of some length")))
                .collect();
            let schema = serde_json::json!({"type": "object", "properties": fields,
                "required": ["field_0", "field_1"], "additionalProperties": false});
            serde_json::json!({"type": "function", "function": {"name": format!("tool_{n}"),
                "description": "does something useful. ".repeat(20), "parameters": schema}})
        })
        .collect();
    let mut messages = vec![serde_json::json!({"role": "system", "content": code.repeat(4)})];
    for n in 0..12 {
        let id = format!("call_{n}");
        messages.push(serde_json::json!({"role": "user", "content": "please go on with it"}));
        messages.push(serde_json::json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": id, "type": "function", "function": {"name": "tool_1", "arguments":
                serde_json::json!({"field_0": code}).to_string()}}]}));
        messages.push(serde_json::json!({"role": "tool", "tool_call_id": id, "content": code}));
    }
    let body = serde_json::json!({"model": "auto", "tools": tools, "messages": messages});
    serde_json::to_vec(&body).unwrap()
}

/// For `docs/dependencies.md`: run it by name, with `--release --ignored --nocapture`.
#[test]
#[ignore = "measures, and says nothing about right or wrong"]
#[expect(clippy::disallowed_methods, reason = "a measurement for a person")]
fn measure_the_scan() {
    let body = agents_request();
    let best = |work: &dyn Fn()| {
        let once = || {
            let started = std::time::Instant::now();
            work();
            started.elapsed()
        };
        (0..500).map(|_| once()).min().unwrap()
    };
    let look = best(&|| check(std::hint::black_box(&body)).unwrap());
    let all = best(&|| drop(crate::wire::chat::decode(std::hint::black_box(&body)).unwrap()));
    println!("{} bytes: the look {look:?}, the whole decoder {all:?}", body.len());
}

#[derive(Debug, serde::Deserialize)]
#[expect(dead_code, reason = "only how reading fails matters")]
struct Sample {
    name: Option<String>,
    #[serde(default)]
    list: Vec<Inner>,
    #[serde(default)]
    numbers: Vec<u8>,
}

#[derive(Debug, serde::Deserialize)]
#[expect(dead_code, reason = "only how reading fails matters")]
struct Inner {
    id: u8,
}

#[test]
fn parser_errors_name_the_path_of_the_value() {
    for (body, path) in [
        (r#"{"name": 5}"#, "name"),
        (r#"{"name": {"a": 1}}"#, "name"),
        (r#"{"name": ["a"]}"#, "name"),
        (r#"{"numbers": ["a"]}"#, "numbers[0]"),
        (r#"{"numbers": [1, {}]}"#, "numbers[1]"),
        (r#"{"numbers": [1, 2, 300, 4]}"#, "numbers[2]"),
        (r#"{"list": [{"id": 1}, {"id": "x"}]}"#, "list[1].id"),
        (r#"{"list": [{"id": 1}, {}]}"#, "list[1]"),
        (r#"{"list": 1, "name": "a"}"#, "list"),
        ("{\n  \"name\": \"a\",\n  \"list\": [\n    { \"id\": null }\n  ]\n}", "list[0].id"),
    ] {
        let error = serde_json::from_str::<Sample>(body).expect_err(body);
        assert_eq!(super::path_of(body.as_bytes(), &error), path, "{body}: {error}");
    }
}

/// Each element is three bytes here and hundreds once it is read.
#[test]
fn total_number_of_array_elements_is_limited() {
    let body = |elements: usize| {
        format!(r#"{{"tools":[{{"a":[]}}],"messages":[{}]}}"#, vec!["{}"; elements].join(","))
    };
    // Two arrays, and the elements of the third.
    assert!(check(body(MOST_ELEMENTS - 2).as_bytes()).is_ok());
    let error = check(body(MOST_ELEMENTS - 1).as_bytes()).unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidJson);
    assert!(error.message.contains("more than 50000 elements"), "{}", error.message);
    assert_eq!(error.param.as_deref(), Some("messages[49998]"));
    // However they are spread.
    let nested = format!("[{}]", vec!["[1]"; MOST_ELEMENTS].join(","));
    assert!(check(nested.as_bytes()).is_err());
    // Commas of objects and texts are none.
    let fields: Vec<String> = (0..30).map(|n| format!(r#""f{n}":",,,,""#)).collect();
    let objects = vec![format!("{{{}}}", fields.join(",")); 10_000];
    assert!(check(format!("[{}]", objects.join(",")).as_bytes()).is_ok());
}

/// `count` objects of one field in each other, a hundred levels deep.
fn deep_objects(count: usize) -> String {
    let chain = |levels: usize| format!("{}0{}", r#"{"a":"#.repeat(levels), "}".repeat(levels));
    let fields: Vec<String> =
        (0..count / 100).map(|n| format!(r#""k{n}":{}"#, chain(100))).collect();
    format!("{{{}}}", fields.join(","))
}

#[test]
fn total_number_of_objects_is_limited() {
    let body = |schema: &str| {
        format!(r#"{{"tools":[{{"type":"function","function":{{"parameters":{schema}}}}}]}}"#)
    };
    assert!(check(body(&deep_objects(MOST_OBJECTS - 100)).as_bytes()).is_ok());
    let (path, text) = refused(&body(&deep_objects(MOST_OBJECTS)));
    assert!(path.starts_with("tools[0].function.parameters.k499.a.a"), "{path}");
    assert!(text.contains("it has more than 50000 objects in total"), "{text}");
}

#[test]
fn total_number_of_fields_is_limited() {
    let object = |fields: usize| {
        let fields: Vec<String> = (0..fields).map(|n| format!(r#""k{n}":0"#)).collect();
        format!("{{{}}}", fields.join(","))
    };
    let objects = vec![object(WIDEST); MOST_FIELDS / WIDEST].join(",");
    assert!(check(format!("[{objects}]").as_bytes()).is_ok());
    let (path, text) = refused(&format!("[{objects},{}]", object(1)));
    assert_eq!(path, "[50].k0");
    assert!(text.contains("its objects have more than 500000 fields in total"), "{text}");
}

#[test]
fn arguments_in_strings_are_limited_in_total() {
    let text = deep_objects(MOST_OBJECTS / 2);
    let chat = |calls: usize| {
        let call = serde_json::json!({"id": "c", "type": "function",
            "function": {"name": "t", "arguments": text}});
        let message = serde_json::json!({"role": "assistant", "tool_calls": vec![call; calls]});
        serde_json::json!({"model": "auto", "messages":
            [{"role": "user", "content": "hi"}, message]})
    };
    let responses = |calls: usize| {
        let call = serde_json::json!({"type": "function_call", "call_id": "c", "name": "t",
            "arguments": text});
        serde_json::json!({"model": "auto", "input": vec![call; calls]})
    };
    let chat_error = |calls| crate::wire::chat::decode(chat(calls).to_string().as_bytes()).err();
    let responses_error =
        |calls| crate::wire::responses::decode(responses(calls).to_string().as_bytes()).err();
    assert_eq!(chat_error(1), None);
    assert_eq!(responses_error(1), None);
    for (error, path) in [
        (chat_error(2), "messages[1].tool_calls[1].function.arguments"),
        (responses_error(2), "input[1].arguments"),
    ] {
        let error = error.expect(path);
        assert_eq!(error.code, ErrorCode::InvalidJson);
        assert_eq!(error.param.as_deref(), Some(path));
        assert!(error.message.contains("more than 50000 objects"), "{}", error.message);
    }
    let code = "fn f() { g([1, 2]); }\n".repeat(MOST_OBJECTS);
    assert!(DeferredJson::default().add(&code, "arguments").is_ok());
}

/// Everything that a body may contain is later parsed, and not treated as a text.
#[test]
fn accepted_json_is_never_too_large_for_a_tree() {
    let text = deep_objects(MOST_OBJECTS - 100);
    assert!(check(text.as_bytes()).is_ok());
    assert!(crate::codec::json::JsonSize::CLIENT.fits(&text));
    let lists = format!("[{}]", vec!["[0]"; MOST_ELEMENTS / 2 - 1].join(","));
    assert!(check(lists.as_bytes()).is_ok());
    assert!(crate::codec::json::JsonSize::CLIENT.fits(&lists));
}
