//! Custom tools: offered as functions of one string, called with raw text.

use serde_json::{Value, json};

use super::{
    ChatCollector, ChatEncoder, decode_request,
    testing::{messages, ok, refused, with},
};
use crate::{
    error::ErrorCode::InvalidValue,
    model::{FinishReason, Item, ToolChoice, TurnEvent},
    wire::{
        Collect as _,
        testing::{args, begin, end, stream},
    },
};

const PATCH: &str = r#"{"type":"custom","custom":{"name":"patch","description":"Changes files",
    "format":{"type":"grammar","grammar":{"syntax":"lark","definition":"start: LINE"}}}}"#;

#[test]
fn custom_tool_becomes_a_function_with_one_string() {
    let body = with(&format!(
        r#""tools":[{PATCH},{{"type":"function","function":{{"name":"bash"}}}},
        {{"type":"custom","custom":{{"name":"note","format":{{"type":"text"}}}}}}]"#
    ));
    let request = decode_request(body.as_bytes()).unwrap();
    assert_eq!(request.custom, ["patch", "note"]);
    let names: Vec<&str> = request.turn.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["patch", "bash", "note"]);
    let patch = &request.turn.tools[0];
    assert!(patch.description.starts_with("Changes files\n\nThe tool takes raw text."));
    assert!(patch.description.ends_with("this lark grammar:\nstart: LINE"), "{patch:?}");
    let schema: Value = serde_json::from_str(patch.schema.as_ref().unwrap().get()).unwrap();
    assert_eq!(schema["required"], json!(["input"]));
    assert!(request.turn.sampling.params.ignored.is_empty());
    for (tool, param) in [
        (r#"{"type":"custom"}"#, "tools[0].custom"),
        (r#"{"type":"custom","custom":{}}"#, "tools[0].custom.name"),
    ] {
        refused(&with(&format!(r#""tools":[{tool}]"#)), InvalidValue, Some(param));
    }
}

#[test]
fn a_custom_tool_can_be_chosen() {
    let choose = |choice: &str| {
        ok(&with(&format!(
            r#""tools":[{PATCH},{{"type":"function","function":{{"name":"bash"}}}}],"tool_choice":{choice}"#
        )))
    };
    let named = choose(r#"{"type":"custom","custom":{"name":"patch"}}"#);
    assert_eq!(named.tool_choice, ToolChoice::Named("patch".to_owned()));
    let allowed = choose(
        r#"{"type":"allowed_tools","allowed_tools":{"mode":"required",
        "tools":[{"type":"custom","custom":{"name":"patch"}}]}}"#,
    );
    assert_eq!(allowed.tool_choice, ToolChoice::Required);
    assert_eq!(allowed.tools.len(), 1);
}

#[test]
fn calls_of_custom_tools_and_their_results_are_history() {
    let request = ok(&messages(
        r#"{"role":"user","content":"go"},{"role":"assistant","tool_calls":[
        {"id":"1","type":"custom","custom":{"name":"patch","input":"a \"line\"\n"}}]},
        {"role":"tool","tool_call_id":"1","content":"done"}"#,
    ));
    let Item::ToolCall(call) = &request.items[1] else { panic!("{request:?}") };
    assert_eq!((call.name.as_str(), call.id.as_str()), ("patch", "1"));
    let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
    assert_eq!(arguments, json!({ "input": "a \"line\"\n" }));
    assert!(matches!(&request.items[2], Item::ToolResult(result) if result.text() == "done"));
    refused(
        &messages(r#"{"role":"assistant","tool_calls":[{"id":"1","type":"custom"}]}"#),
        InvalidValue,
        Some("messages[0].tool_calls[0].custom.name"),
    );
}

/// A call of a custom tool, cut inside an escape, and one of a function.
fn calls() -> Vec<TurnEvent> {
    vec![
        begin("c1", "patch"),
        args("c1", r#"{"input":"first\"#),
        args("c1", r#"nsecond \u00e"#),
        args("c1", r#"9"}"#),
        end("c1"),
        begin("c2", "bash"),
        args("c2", r#"{"command":"ls"}"#),
        end("c2"),
        TurnEvent::Finished(FinishReason::ToolCalls),
    ]
}

#[test]
fn stream_has_the_raw_input_of_a_custom_call() {
    let encoder = ChatEncoder::new("chatcmpl-x", 1, "auto", false);
    let stream = stream(encoder.with_custom(vec!["patch".to_owned()]), &calls());
    let deltas: Vec<Value> = stream
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok())
        .filter_map(|chunk| chunk.pointer("/choices/0/delta/tool_calls/0").cloned())
        .collect();
    assert_eq!(
        deltas,
        [
            json!({ "index": 0, "id": "c1", "type": "custom", "custom": { "name": "patch", "input": "" } }),
            json!({ "index": 0, "custom": { "input": "first" } }),
            json!({ "index": 0, "custom": { "input": "\nsecond " } }),
            json!({ "index": 0, "custom": { "input": "é" } }),
            json!({ "index": 1, "id": "c2", "type": "function",
                "function": { "name": "bash", "arguments": "" } }),
            json!({ "index": 1, "function": { "arguments": "{\"command\":\"ls\"}" } }),
        ]
    );
}

#[test]
fn completion_has_the_raw_input_of_a_custom_call() {
    let custom = vec!["patch".to_owned()];
    let collector = ChatCollector::new("chatcmpl-x".to_owned(), 1, "auto".to_owned(), custom);
    let mut collector = Box::new(collector);
    for event in calls() {
        collector.on_event(event);
    }
    let reply: Value = serde_json::from_slice(&collector.finish().unwrap()).unwrap();
    assert_eq!(
        reply["choices"][0]["message"]["tool_calls"],
        json!([
            { "id": "c1", "type": "custom", "custom": { "name": "patch", "input": "first\nsecond é" } },
            { "id": "c2", "type": "function",
                "function": { "name": "bash", "arguments": "{\"command\":\"ls\"}" } },
        ])
    );
    assert_eq!(reply["choices"][0]["finish_reason"], "tool_calls");
}
