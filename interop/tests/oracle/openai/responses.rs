//! The Responses API, whole and event by event.

use async_openai::types::responses::{OutputItem, Response, ResponseStreamEvent, Status};
use serde_json::{Value, json};

use super::{gate::Gate, read};

const PATH: &str = "/v1/responses";

fn tools() -> Value {
    let parameters = json!({
        "type": "object",
        "properties": { "path": { "type": "string" } },
        "required": ["path"],
        "additionalProperties": false,
    });
    json!([
        { "type": "function", "name": "read_file", "parameters": parameters, "strict": true },
        { "type": "custom", "name": "shell", "description": "Runs a command" },
    ])
}

fn person() -> Value {
    let schema = json!({
        "type": "object",
        "properties": { "name": { "type": "string" }, "age": { "type": "integer" } },
        "required": ["name", "age"],
        "additionalProperties": false,
    });
    json!({ "format": { "type": "json_schema", "name": "person", "schema": schema, "strict": true } })
}

/// Requests of every kind, and how their answers end.
fn cases() -> Vec<(Value, Status)> {
    let ask = |input: Value, more: Value| {
        let mut body = json!({ "model": "gpt-5.4", "input": input });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let all = json!({
        "instructions": "Be brief.",
        "metadata": { "k": "v" },
        "reasoning": { "effort": "high", "summary": "auto" },
        "include": ["reasoning.encrypted_content"],
        "store": false,
        "parallel_tool_calls": false,
        "prompt_cache_key": "key",
        "truncation": "auto",
        "tools": tools(),
        "tool_choice": "auto",
    });
    vec![
        (ask(json!("Say hello"), json!({})), Status::Completed),
        (ask(json!([{ "role": "user", "content": "Say hello" }]), all), Status::Completed),
        (ask(json!("count in words"), json!({ "max_output_tokens": 3 })), Status::Incomplete),
        (ask(json!("describe a person"), json!({ "text": person() })), Status::Completed),
        (ask(json!("read `a.txt`"), json!({ "tools": tools() })), Status::Completed),
        (ask(json!("run `ls`"), json!({ "tools": tools() })), Status::Completed),
    ]
}

#[tokio::test(start_paused = true)]
async fn whole_responses() {
    let gate = Gate::new();
    for (body, status) in cases() {
        let reply = gate.post(PATH, &body).await.good();
        let response: Response = read(&reply);
        assert_eq!((response.object.as_str(), response.status), ("response", status), "{body}");
        assert!(response.usage.is_some(), "{body}");
    }
}

#[tokio::test(start_paused = true)]
async fn streamed_responses() {
    let gate = Gate::new();
    for (mut body, status) in cases() {
        body["stream"] = json!(true);
        let events = gate.post(PATH, &body).await.events();
        for event in &events {
            read::<ResponseStreamEvent>(event);
        }
        let last: Response = read(&events.last().unwrap()["response"]);
        assert_eq!(last.status, status, "{body}");
        let numbers: Vec<_> =
            events.iter().map(|event| event["sequence_number"].as_u64()).collect();
        let wanted: Vec<_> = (0..events.len() as u64).map(Some).collect();
        assert_eq!(numbers, wanted, "{body}");
    }
}

#[tokio::test(start_paused = true)]
async fn failure_during_a_stream() {
    let gate = Gate::new();
    let body = json!({ "model": "gpt-5.4", "input": "break off", "stream": true });
    let events = gate.post(PATH, &body).await.events();
    for event in &events {
        read::<ResponseStreamEvent>(event);
    }
    let last: Response = read(&events.last().unwrap()["response"]);
    assert_eq!(last.status, Status::Failed);
    assert!(last.error.is_some());
}

/// Calls of both kinds, answered by the id of the response that made them.
#[tokio::test(start_paused = true)]
async fn tool_chains() {
    let gate = Gate::new();
    for (text, kind) in [("read `a.txt`", "function_call"), ("run `ls`", "custom_tool_call")] {
        let body = json!({ "model": "gpt-5.4", "input": text, "tools": tools() });
        let first: Response = read(&gate.post(PATH, &body).await.good());
        let call_id = first
            .output
            .iter()
            .find_map(|item| match item {
                OutputItem::FunctionCall(call) => Some(call.call_id.clone()),
                OutputItem::CustomToolCall(call) => Some(call.call_id.clone()),
                _ => None,
            })
            .unwrap_or_else(|| panic!("no call: {:?}", first.output));
        let result =
            json!({ "type": format!("{kind}_output"), "call_id": call_id, "output": "SESAME" });
        let body = json!({
            "model": "gpt-5.4",
            "input": [result],
            "previous_response_id": first.id,
            "tools": tools(),
        });
        let reply = gate.post(PATH, &body).await.good();
        let second: Response = read(&reply);
        assert_eq!(second.previous_response_id.as_deref(), Some(first.id.as_str()));
        assert!(reply["output"].to_string().contains("SESAME"), "{reply}");
    }
}

#[tokio::test(start_paused = true)]
async fn stored_response() {
    let gate = Gate::new();
    let made = gate.post(PATH, &json!({ "model": "gpt-5.4", "input": "Say hello" })).await.good();
    let id = made["id"].as_str().unwrap();
    let kept = gate.get(&format!("{PATH}/{id}")).await.good();
    read::<Response>(&kept);
    assert_eq!(kept, made);
}
