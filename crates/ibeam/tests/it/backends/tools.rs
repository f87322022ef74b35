//! Tools of the client: one run from the question to the answer, whatever happens between.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{
    Backend, Gateway,
    gateway::{Reply, user},
    on_each_backend,
};
use crate::client::{Said, tool};

fn body(messages: &[Value], stream: bool) -> Value {
    let tools = [tool("step", &["n"]), tool("look", &["at"])];
    json!({ "model": "auto", "stream": stream, "messages": messages, "tools": tools })
}

fn step(n: usize) -> String {
    format!(r#"{{ exec = {{ arm = "mcp", args = {{ name = "step", args = {{ n = "{n}" }} }} }} }}"#)
}

fn a_chain_of_ten_is_one_run(backend: Backend) {
    let steps: Vec<String> = (1..=10).map(step).collect();
    let scenario =
        format!("[[rule]]\nsteps = [{}, {{ text = \"Last: {{result}}\" }}]", steps.join(", "));
    let gateway = Gateway::start(backend, &scenario);
    let mut messages = vec![user("Ten steps, please")];
    let mut ids = HashSet::new();
    for n in 1..=10 {
        let said = gateway.ask(&body(&messages, n % 2 == 0));
        assert_eq!(said.finish, "tool_calls", "{said:?}");
        let call = said.calls[0].clone();
        assert_eq!((said.calls.len(), call.name.as_str()), (1, "step"));
        let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
        assert_eq!(arguments, json!({ "n": n.to_string() }));
        assert!(ids.insert(call.id.clone()), "{} twice", call.id);
        messages.extend([said.message(), call.result(&format!("result {n}"))]);
    }
    let said = gateway.ask(&body(&messages, true));
    assert_eq!((said.text.as_str(), said.finish.as_str()), ("Last: result 10", "stop"));
    assert_eq!(gateway.runs(), 1, "{}", gateway.log());
    gateway.assert_idle();
}

fn parallel_results_may_come_in_any_order(backend: Backend) {
    let call =
        |n| format!(r#"{{ arm = "mcp", args = {{ name = "step", args = {{ n = "{n}" }} }} }}"#);
    let calls: Vec<String> = ["one", "two", "three"].map(call).to_vec();
    let scenario = format!(
        "[[rule]]\nsteps = [{{ execs = [{}] }}, {{ text = \"{{result}}\" }}]",
        calls.join(", ")
    );
    let gateway = Gateway::start(backend, &scenario);
    let question = user("Three at once");
    let said = gateway.ask(&body(std::slice::from_ref(&question), true));
    assert_eq!((said.calls.len(), said.finish.as_str()), (3, "tool_calls"), "{said:?}");
    let mut messages = vec![question, said.message()];
    messages.extend(said.calls.iter().rev().map(|call| {
        let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
        call.result(&format!("done {}", arguments["n"].as_str().unwrap()))
    }));
    let said = gateway.ask(&body(&messages, false));
    assert_eq!(said.text, "done one\ndone two\ndone three");
    assert_eq!(gateway.runs(), 1);
}

/// Messages has a mark for a failure, and pictures in results.
fn failures_and_pictures_reach_the_model(backend: Backend) {
    const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9\
                         awAAAABJRU5ErkJggg==";
    let look = r#"{ exec = { arm = "mcp", args = { name = "look", args = { at = "it" } } } }"#;
    let scenario = format!(
        "[[rule]]\nwhen.contains = \"picture\"\nsteps = [{look}, {{ text = \"Saw {{result}}\" }}]"
    );
    let gateway = Gateway::start(backend, &scenario);
    let schema = json!({ "type": "object", "properties": { "at": { "type": "string" } } });
    let look = json!({ "name": "look", "description": "Looks", "input_schema": schema });
    let ask = |messages: &[Value]| {
        let body = json!({
            "model": "auto", "max_tokens": 1000, "messages": messages, "tools": [look],
        });
        let reply = gateway.post("/v1/messages", &[], &body);
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()
    };
    let answer = |question: &str, content: Value, failed: bool| {
        let first = ask(&[user(question)]);
        assert_eq!(first["stop_reason"], "tool_use", "{first}");
        let parts = first["content"].as_array().unwrap();
        let call = parts.iter().find(|part| part["type"] == "tool_use").unwrap();
        let result = json!({
            "type": "tool_result", "tool_use_id": call["id"], "content": content,
            "is_error": failed,
        });
        let said = json!({ "role": "assistant", "content": parts });
        let last = ask(&[user(question), said, json!({ "role": "user", "content": [result] })]);
        assert_eq!(last["stop_reason"], "end_turn", "{last}");
        let parts = last["content"].as_array().unwrap();
        parts.iter().filter_map(|part| part["text"].as_str()).collect::<String>()
    };
    let text = answer("Use the tool look {\"at\":\"it\"}", json!("it is too dark"), true);
    assert!(text.contains("look failed") && text.contains("it is too dark"), "{text}");
    let source = json!({ "type": "base64", "media_type": "image/png", "data": PIXEL });
    let picture =
        json!([{ "type": "text", "text": "here:" }, { "type": "image", "source": source }]);
    let text = answer("A picture, please", picture, false);
    assert!(text.contains("here:") && text.contains("[image image/png, "), "{text}");
    assert_eq!(gateway.runs(), 2);
}

fn the_third_equal_call_ends_the_turn(backend: Backend) {
    let steps = [step(1), step(1), step(1)].join(", ");
    let gateway =
        Gateway::start(backend, &format!("[[rule]]\nsteps = [{steps}, {{ text = \"never\" }}]"));
    let mut messages = vec![user("Round and round")];
    for _ in 0..2 {
        let said: Said = gateway.ask(&body(&messages, false));
        assert_eq!(said.calls.len(), 1, "{said:?}");
        messages.extend([said.message(), said.calls[0].result("nothing new")]);
    }
    let reply: Reply = gateway.post("/v1/chat/completions", &[], &body(&messages, false));
    assert_eq!(reply.status, 422, "{reply:?}");
    assert_eq!(reply.json()["error"]["code"], "tool_loop");
    assert_eq!(gateway.runs(), 1);
    gateway.assert_idle();
}

/// One limit for all backends, and an error that names it in every API. The largest result that
/// is allowed works also when every byte of it takes two in JSON.
fn a_result_beyond_the_limit_is_refused_by_name(backend: Backend) {
    let steps = format!("[[rule]]\nsteps = [{}, {{ text = \"Thanks\" }}]", step(1));
    let gateway = Gateway::start(backend, &steps);
    let question = user("One large step");
    let said = gateway.ask(&body(std::slice::from_ref(&question), false));
    assert_eq!(said.calls.len(), 1, "{said:?}");
    let limit = 20 << 20;
    let (id, large) = (&said.calls[0].id, "x".repeat(limit + 1));
    let chat = [question.clone(), said.message(), said.calls[0].result(&large)];
    let used = json!([{ "type": "tool_use", "id": id, "name": "step", "input": {} }]);
    let result = json!([{ "type": "tool_result", "tool_use_id": id, "content": large }]);
    let messages = json!({ "model": "auto", "max_tokens": 100, "messages": [
        question,
        { "role": "assistant", "content": used },
        { "role": "user", "content": result },
    ]});
    let responses = json!({ "model": "auto", "input": [
        question,
        { "type": "function_call", "call_id": id, "name": "step", "arguments": "{}" },
        { "type": "function_call_output", "call_id": id, "output": large },
    ]});
    for (path, refused) in [
        ("/v1/chat/completions", body(&chat, false)),
        ("/v1/messages", messages),
        ("/v1/responses", responses),
    ] {
        let reply: Reply = gateway.post(path, &[], &refused);
        assert_eq!(reply.status, 413, "{path}: {reply:?}");
        assert!(reply.head.contains("x-should-retry: false"), "{path}: {}", reply.head);
        let error = &reply.json()["error"];
        let name = if path == "/v1/messages" { &error["type"] } else { &error["code"] };
        assert_eq!(name, "request_too_large", "{path}");
        let message = error["message"].as_str().unwrap();
        for part in ["20971521 bytes", "the limit is 20 MiB", "`limits.tool_result`", id] {
            assert!(message.contains(part), "{path}: {message}");
        }
    }
    let quotes = said.calls[0].result(&"\"".repeat(limit));
    let said = gateway.ask(&body(&[question, said.message(), quotes], false));
    assert_eq!((said.text.as_str(), said.finish.as_str()), ("Thanks", "stop"));
    gateway.assert_idle();
}

on_each_backend!(
    a_result_beyond_the_limit_is_refused_by_name,
    a_chain_of_ten_is_one_run,
    parallel_results_may_come_in_any_order,
    failures_and_pictures_reach_the_model,
    the_third_equal_call_ends_the_turn,
);
