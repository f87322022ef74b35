//! What ibeam does in the place of backends that cannot: the end of an answer, and its form.

use serde_json::{Value, json};

use super::{
    Backend, Gateway,
    gateway::{plain, user},
    on_each_backend,
};

const STORY: &str = r#"
    [[rule]]
    when.contains = "story"
    steps = [{ text = { text = "one two three four five six seven eight nine ten ", chunk = 4,
                        pace_ms = 20, repeat = 200 } }]
"#;

fn with(name: &str, value: Value) -> Value {
    let mut body = plain(&[user("A story")], false);
    body[name] = value;
    body
}

fn max_tokens_end_the_answer(backend: Backend) {
    let gateway = Gateway::start(backend, STORY);
    let said = gateway.ask(&with("max_tokens", json!(5)));
    assert_eq!(said.finish, "length", "{said:?}");
    assert!(said.text.starts_with("one two") && said.text.len() < 60, "{said:?}");
    // The run is over with it, long before the story is.
    gateway.assert_idle();
}

fn stop_sequences_end_the_answer(backend: Backend) {
    let gateway = Gateway::start(backend, STORY);
    let said = gateway.ask(&with("stop", json!(["four", "seven"])));
    assert_eq!((said.text.as_str(), said.finish.as_str()), ("one two three ", "stop"));
    gateway.assert_idle();
}

fn the_fence_around_json_is_taken_away(backend: Backend) {
    let scenario = r#"
        [[rule]]
        steps = [{ text = "```json\n{\"number\": 6}\n```\n" }]
    "#;
    let gateway = Gateway::start(backend, scenario);
    let schema = json!({
        "type": "object", "properties": { "number": { "type": "integer" } },
        "required": ["number"], "additionalProperties": false,
    });
    let format = json!({
        "type": "json_schema",
        "json_schema": { "name": "number", "strict": true, "schema": schema },
    });
    let said = gateway.ask(&with("response_format", format));
    let value: Value = serde_json::from_str(&said.text).unwrap();
    assert_eq!(value, json!({ "number": 6 }));
}

on_each_backend!(
    max_tokens_end_the_answer,
    stop_sequences_end_the_answer,
    the_fence_around_json_is_taken_away,
);
