use serde_json::json;

use super::*;

fn masked(value: Value, kind: JsonKind) -> Value {
    Mask::redacted([7; 32]).json(value, kind)
}

#[test]
fn a_line_of_the_cli_keeps_its_structure() {
    let line = json!({
        "type": "assistant", "timestamp_ms": 12, "session_id": "abc-1",
        "message": {"role": "assistant", "content": [{"type": "text", "text": "My secret"}]},
    });
    let masked = masked(line, JsonKind::Line);
    assert_eq!(masked["type"], "assistant");
    assert_eq!(masked["message"]["content"][0]["type"], "text");
    assert_eq!(masked["timestamp_ms"], 12);
    let text = masked.to_string();
    assert!(!text.contains("secret") && !text.contains("abc-1"), "{text}");
    assert_eq!(masked["message"]["content"][0]["text"].as_str().unwrap().len(), 9);
}

#[test]
fn arguments_have_nothing_but_known_names() {
    let args = json!({
        "path": "/home/alice/x", "customer_mail": "alice@example.com", "count": 4711, "deep": [{"alice": true}],
    });
    let masked = masked(args, JsonKind::Content);
    let text = masked.to_string();
    for planted in ["alice", "example", "customer", "4711", "home"] {
        assert!(!text.contains(planted), "{planted} in {text}");
    }
    assert_eq!(masked["path"].as_str().unwrap().len(), "/home/alice/x".len());
}

#[test]
fn a_schema_stays_one() {
    let schema = json!({
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "where Alice keeps it"},
            "acme_id": {"type": "integer", "enum": [17, 4711]},
        },
        "required": ["path", "acme_id"],
    });
    let masked = masked(schema, JsonKind::Schema);
    assert_eq!(masked["properties"]["path"]["type"], "string");
    assert_eq!(masked["required"][0], "path");
    let name = masked["required"][1].as_str().unwrap();
    assert!(masked["properties"].get(name).is_some(), "a parameter has one placeholder: {masked}");
    let text = masked.to_string();
    for planted in ["Alice", "acme", "4711"] {
        assert!(!text.contains(planted), "{planted} in {text}");
    }
}

#[test]
fn hosted_calls_are_still_known_as_hosted() {
    let line = json!({
        "type": "tool_call", "subtype": "started", "call_id": "c1",
        "tool_call": {"mcpToolCall": {"args": {
            "providerIdentifier": "ibeam", "name": "ibeam-lookup_alice", "toolName": "lookup_alice",
            "args": {"who": "alice"},
        }}},
    });
    let masked = masked(line, JsonKind::Line);
    let args = &masked["tool_call"]["mcpToolCall"]["args"];
    assert_eq!(args["providerIdentifier"], "ibeam");
    assert!(args["name"].as_str().unwrap().starts_with("ibeam-"), "{masked}");
    assert!(!masked.to_string().contains("alice"), "{masked}");
}

#[test]
fn what_a_failure_says_is_still_understood() {
    let line = json!({"type": "result", "is_error": true, "result": "Not logged in, alice"});
    assert_eq!(
        masked(line, JsonKind::Line)["result"].as_str().unwrap().get(..14),
        Some("Not logged in,")
    );
    let line = json!({"type": "result", "is_error": false, "result": "Not logged in, alice"});
    let text = masked(line, JsonKind::Line).to_string();
    assert!(!text.contains("logged"), "an answer is not an error: {text}");
}

#[test]
fn very_deep_json_is_cut() {
    let mut value = json!("x");
    for _ in 0..100 {
        value = json!([value]);
    }
    assert!(masked(value, JsonKind::Content).to_string().contains("null"));
}
