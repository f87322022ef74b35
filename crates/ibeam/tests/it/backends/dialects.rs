//! Each API with a tool and an answer.

use serde_json::{Value, json};

use super::{Backend, Gateway, gateway::user, on_each_backend};
use crate::client::tool;

const QUESTION: &str = "Use the tool get_weather {\"city\":\"Oslo\"}";

fn schema() -> Value {
    json!({ "type": "object", "properties": { "city": { "type": "string" } } })
}

fn chat(backend: Backend) {
    let gateway = Gateway::start(backend, "");
    let body = |messages: &[Value]| {
        let tools = [tool("get_weather", &["city"])];
        json!({ "model": "auto", "messages": messages, "tools": tools })
    };
    let said = gateway.ask(&body(&[user(QUESTION)]));
    let next = [user(QUESTION), said.message(), said.calls[0].result("rain")];
    let said = gateway.ask(&body(&next));
    assert_eq!(said.text, "get_weather answered:\n```\nrain\n```");
    assert_eq!(gateway.runs(), 1);
}

fn responses(backend: Backend) {
    let gateway = Gateway::start(backend, "");
    let tools = json!([{ "type": "function", "name": "get_weather", "parameters": schema() }]);
    let body = json!({ "model": "auto", "input": QUESTION, "tools": tools });
    let first = gateway.post("/v1/responses", &[], &body).json();
    let output = first["output"].as_array().unwrap_or_else(|| panic!("{first}"));
    let call = output.iter().find(|item| item["type"] == "function_call").unwrap();
    let result =
        json!({ "type": "function_call_output", "call_id": call["call_id"], "output": "rain" });
    let body = json!({
        "model": "auto", "input": [result], "tools": tools, "stream": true,
        "previous_response_id": first["id"],
    });
    let reply = gateway.post("/v1/responses", &[], &body);
    let events = reply.events();
    let done = events.iter().find(|event| event["type"] == "response.completed");
    let done = done.unwrap_or_else(|| panic!("{reply:?}"));
    let items = done["response"]["output"].as_array().unwrap();
    let message = items.iter().find(|item| item["type"] == "message").unwrap();
    assert_eq!(message["content"][0]["text"], "get_weather answered:\n```\nrain\n```");
    assert_eq!(gateway.runs(), 1);
}

fn messages(backend: Backend) {
    let gateway = Gateway::start(backend, "");
    let tools = json!([{ "name": "get_weather", "input_schema": schema() }]);
    let body = |messages: &[Value], stream: bool| {
        json!({ "model": "auto", "max_tokens": 500, "tools": tools, "stream": stream,
                "messages": messages })
    };
    let first = gateway.post("/v1/messages", &[], &body(&[user(QUESTION)], false)).json();
    let parts = first["content"].as_array().unwrap_or_else(|| panic!("{first}"));
    let call = parts.iter().find(|part| part["type"] == "tool_use").unwrap();
    let result = json!({ "type": "tool_result", "tool_use_id": call["id"], "content": "rain" });
    let said = json!({ "role": "assistant", "content": parts });
    let next = [user(QUESTION), said, json!({ "role": "user", "content": [result] })];
    let reply = gateway.post("/v1/messages", &[], &body(&next, true));
    let events = reply.events();
    let text: String = events.iter().filter_map(|event| event["delta"]["text"].as_str()).collect();
    assert_eq!(text, "get_weather answered:\n```\nrain\n```", "{reply:?}");
    assert_eq!(events.last().unwrap()["type"], "message_stop");
    assert_eq!(gateway.runs(), 1);
}

on_each_backend!(chat, responses, messages);
