use serde_json::{Value, json};

use super::*;

fn raw(value: &Value) -> Box<RawValue> {
    RawValue::from_string(value.to_string()).unwrap()
}

#[test]
fn capabilities_are_read_from_initialize() {
    let full = raw(&json!({
        "protocolVersion": 1,
        "agentCapabilities": {
            "loadSession": true,
            "promptCapabilities": {"image": true, "audio": false},
            "mcpCapabilities": {"http": true, "sse": true},
        },
        "authMethods": [{"id": "api_key", "name": "Key"}, {"id": "cursor_login", "name": "Cursor"}],
        "agentInfo": {"name": "cursor-agent"},
    }));
    assert_eq!(Agent::read(Some(&full)), Agent::default());
    let other = raw(
        &json!({"authMethods": [{"id": "api_key"}], "agentCapabilities": {"loadSession": "x"}}),
    );
    let expected = Agent {
        loads: false,
        images: false,
        http_servers: true,
        sign_in: "api_key".to_owned(),
        protocol: 1,
    };
    assert_eq!(Agent::read(Some(&other)), expected);
    let nothing = Agent { sign_in: "cursor_login".to_owned(), ..expected };
    assert_eq!(Agent::read(None), nothing);
}

#[test]
fn session_without_an_id_is_refused() {
    let name = |value: Value| session_name(Some(&raw(&value)));
    assert_eq!(name(json!({"sessionId": "s"})), Some("s".to_owned()));
    for value in [json!({"sessionId": ""}), json!({"sessionId": 1}), json!({}), json!(null)] {
        assert_eq!(name(value.clone()), None, "{value}");
    }
}

#[test]
fn usage_is_read_from_reported_numbers_only() {
    let read = |value: Value| PromptEnding::read(Some(&raw(&value)));
    assert_eq!(read(json!({"stopReason": "end_turn"})).usage, None);
    assert_eq!(read(json!({"usage": {"totalTokens": 7}})), PromptEnding::default());
    assert_eq!(read(json!({"usage": "many"})), PromptEnding::default());
    // The cached part may have been left out of the prompt, and thoughts are of the output.
    let usage =
        json!({"inputTokens": 3, "outputTokens": 2, "cachedReadTokens": 100, "thoughtTokens": 9});
    let usage = read(json!({"usage": usage})).usage.unwrap();
    assert_eq!((usage.input, usage.cache_read, usage.output, usage.reasoning), (103, 100, 2, 2));
}
