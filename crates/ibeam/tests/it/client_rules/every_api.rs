//! Rules 1 to 7 and 24, which hold for all three APIs.

use std::time::Duration;

use axum::body::Body;
use http::{Request, header};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{APIS, Api, Event, events, kinds, parse, post, post_with, whole};
use crate::lab::Lab;

/// An ordinary answer, one that is cut, one that calls a tool, and a failure.
const ENDINGS: &str = r#"
    [[rule]]
    when = { contains = "fail" }
    steps = [{ text = { text = "This sentence has no", chunk = 4 } }, { fault = { reset = "internal_error" } }]
"#;

/// How a stream ended, in one word.
fn ending(api: Api, events: &[Event]) -> String {
    let last = &events.last().unwrap().data;
    match api {
        Api::Chat if last.get("error").is_some() => "error".to_owned(),
        Api::Chat => last["choices"][0]["finish_reason"].as_str().unwrap_or("nothing").to_owned(),
        Api::Responses => last["type"].as_str().unwrap().to_owned(),
        Api::Messages => {
            let reason = &events.iter().rev().nth(1).unwrap().data["delta"]["stop_reason"];
            let reason = reason.as_str().unwrap_or("nothing");
            format!("{reason}, {}", last["type"].as_str().unwrap())
        }
    }
}

#[tokio::test(start_paused = true)]
async fn client_rule_01_every_stream_ends_with_its_marker() {
    let lab = Lab::scenario(ENDINGS);
    let cases = [
        ("Say hello", ["stop", "response.completed", "end_turn, message_stop"]),
        ("run `ls`", ["tool_calls", "response.completed", "tool_use, message_stop"]),
        ("fail", ["error", "response.failed", "nothing, error"]),
    ];
    for (text, expected) in cases {
        for (api, expected) in APIS.into_iter().zip(expected) {
            let reply = post(&lab, api.path(), &api.ask_with_tool(text, true)).await;
            assert_eq!(ending(api, &parse(&reply)), expected, "{api:?}: {}", reply.body);
            let done = reply.body.trim_end().ends_with("data: [DONE]");
            assert_eq!(done, api == Api::Chat && expected != "error", "{api:?}: {}", reply.body);
        }
    }
    lab.assert_clean().await;
}

#[tokio::test(start_paused = true)]
async fn client_rule_02_a_stream_is_never_answered_with_json() {
    let lab = Lab::new();
    for api in APIS {
        for stream in [true, false] {
            let reply = post(&lab, api.path(), &api.ask("Say hello", stream)).await;
            assert_eq!(reply.status, 200, "{api:?}: {}", reply.body);
            let kind = reply.headers[header::CONTENT_TYPE].to_str().unwrap();
            let expected = if stream { "text/event-stream" } else { "application/json" };
            assert!(kind.starts_with(expected), "{api:?}: {kind}");
            assert_eq!(reply.body.starts_with('{'), !stream, "{api:?}: {}", reply.body);
        }
    }
}

const BUSY: &str = r#"
    [[rule]]
    when = { contains = "slowly" }
    refuse = { status = 429, retry_after = 3, error = { kind = "RATE_LIMITED" } }

    [[rule]]
    when = { contains = "somehow" }
    refuse = { status = 429, error = { kind = "RATE_LIMITED" } }

    [[rule]]
    when = { contains = "used up" }
    steps = [{ error = { code = "resource_exhausted", kind = "PRO_USER_USAGE_LIMIT", retryable = false } }]
"#;

#[tokio::test(start_paused = true)]
async fn client_rule_03_a_429_has_retry_after() {
    let lab = Lab::scenario(BUSY);
    for api in APIS {
        for (text, wait) in [("slowly", "3"), ("somehow", "5")] {
            for stream in [true, false] {
                let reply = post(&lab, api.path(), &api.ask(text, stream)).await;
                assert_eq!(reply.status, 429, "{api:?}: {}", reply.body);
                assert_eq!(reply.headers[header::RETRY_AFTER], wait, "{api:?} {text}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn client_rule_04_permanent_errors_forbid_a_retry() {
    let lab = Lab::scenario(BUSY);
    for api in APIS {
        let reply = post(&lab, api.path(), &api.ask("used up", true)).await;
        assert_eq!(reply.status, 429, "{api:?}: {}", reply.body);
        assert_eq!(reply.headers["x-should-retry"], "false", "{api:?}");
        let expected = if api == Api::Messages { "rate_limit_error" } else { "insufficient_quota" };
        assert_eq!(api.error(&reply.json()), expected);
        // What may be tried again does not say that it must not.
        let reply = post(&lab, api.path(), &api.ask("slowly", true)).await;
        assert!(
            reply.headers.get("x-should-retry").is_none_or(|value| value != "false"),
            "{api:?}"
        );
        // A request that can never work is refused in the same way.
        let reply = post(&lab, api.path(), &json!({ "model": "auto" })).await;
        assert_eq!(reply.status, 400, "{api:?}: {}", reply.body);
        assert_eq!(reply.headers["x-should-retry"], "false", "{api:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn client_rule_05_unknown_fields_and_headers_are_accepted() {
    let lab = Lab::new();
    let headers = [
        ("anthropic-beta", "a-beta-of-tomorrow-2031-01-01,another-one"),
        ("anthropic-version", "2031-01-01"),
        ("openai-beta", "something=v9"),
        ("x-stainless-lang", "js"),
        ("x-something-else", "1"),
    ];
    for api in APIS {
        let mut body = api.ask_with_tool("Say hello", false);
        body["a_field_of_tomorrow"] = json!({ "deep": [1, null] });
        body["metadata"] = json!({ "user_id": "u", "a_key_of_tomorrow": "v" });
        body["tools"][0]["a_field_of_tomorrow"] = json!(true);
        body["tools"]
            .as_array_mut()
            .unwrap()
            .push(json!({ "type": "a_tool_of_tomorrow", "name": "t" }));
        let content = if api == Api::Responses { "input" } else { "messages" };
        body[content] =
            json!([{ "role": "user", "content": "Say hello", "a_field_of_tomorrow": 1 }]);
        let reply = post_with(&lab, api.path(), &body, &headers).await;
        assert_eq!(reply.status, 200, "{api:?}: {}", reply.body);
        assert!(api.text(&reply.json()).contains("Say hello"), "{api:?}: {}", reply.body);
    }
}

/// Clients were seen to bear 12 s without a byte; nothing is known of more.
const BORNE: Duration = Duration::from_secs(12);

#[tokio::test(start_paused = true)]
async fn client_rule_06_no_stream_is_silent_for_long() {
    let lab = Lab::scenario("[[rule]]\nsteps = [{ silence = 300 }, { text = \"Late.\" }]");
    for api in APIS {
        let request = Request::post(api.path())
            .header("host", "localhost")
            .header("content-type", "application/json")
            .body(Body::from(api.ask("hi", true).to_string()))
            .unwrap();
        let mut last = Instant::now();
        let started = last;
        let response = lab.send(request).await;
        assert_eq!(response.status(), 200, "{api:?}");
        let mut body = response.into_body();
        let mut text = String::new();
        loop {
            assert!(
                last.elapsed() <= BORNE,
                "{api:?}: silent for {:?} after {text}",
                last.elapsed()
            );
            last = Instant::now();
            let Some(frame) = body.frame().await else { break };
            text.push_str(std::str::from_utf8(frame.unwrap().data_ref().unwrap()).unwrap());
        }
        assert!(started.elapsed() >= Duration::from_secs(300), "{api:?}");
        assert!(text.contains("Late."), "{api:?}: {text}");
    }
}

/// Words first, then two calls at once, whose arguments come piece by piece.
const MIXED: &str = r#"
    [[rule]]
    steps = [
        { text = "Let me see." },
        { execs = [
            { arm = "mcp", args = { name = "bash", args = { command = "echo one" } }, partial = 3 },
            { arm = "mcp", args = { name = "bash", args = { command = "echo two" } }, partial = 3 },
        ] },
        { text = "Done." },
    ]
"#;

#[tokio::test(start_paused = true)]
async fn client_rule_07_text_and_parallel_calls_in_one_answer() {
    let lab = Lab::scenario(MIXED);
    for api in APIS {
        let answer = whole(&lab, api, &api.ask_with_tool("go", false)).await;
        assert_eq!(api.text(&answer), "Let me see.", "{answer}");
        assert_eq!(whole_calls(api, &answer), ["echo one", "echo two"], "{answer}");
        let streamed = events(&lab, api, &api.ask_with_tool("go", true)).await;
        assert_eq!(streamed_calls(api, &streamed), ["echo one", "echo two"], "{streamed:?}");
        let said = kinds(&streamed).len();
        assert!(said > 4, "{streamed:?}");
    }
}

fn command(arguments: &Value) -> String {
    let parsed = match arguments {
        Value::String(text) => serde_json::from_str(text).unwrap(),
        other => other.clone(),
    };
    parsed["command"].as_str().unwrap().to_owned()
}

fn whole_calls(api: Api, answer: &Value) -> Vec<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    match api {
        Api::Chat => list(&answer["choices"][0]["message"]["tool_calls"])
            .iter()
            .map(|call| command(&call["function"]["arguments"]))
            .collect(),
        Api::Responses => list(&answer["output"])
            .iter()
            .filter(|item| item["type"] == "function_call")
            .map(|call| command(&call["arguments"]))
            .collect(),
        Api::Messages => list(&answer["content"])
            .iter()
            .filter(|block| block["type"] == "tool_use")
            .map(|call| command(&call["input"]))
            .collect(),
    }
}

/// The commands, put together from the deltas as a client would.
fn streamed_calls(api: Api, events: &[Event]) -> Vec<String> {
    let mut calls: Vec<(Value, String)> = Vec::new();
    let mut grow = |key: &Value, piece: &Value| {
        let piece = piece.as_str().unwrap_or_default();
        match calls.iter_mut().find(|(known, _)| known == key) {
            Some((_, text)) => text.push_str(piece),
            None => calls.push((key.clone(), piece.to_owned())),
        }
    };
    for Event { data, .. } in events {
        match api {
            Api::Chat => {
                for call in
                    data["choices"][0]["delta"]["tool_calls"].as_array().into_iter().flatten()
                {
                    grow(&call["index"], &call["function"]["arguments"]);
                }
            }
            Api::Responses if data["type"] == "response.function_call_arguments.delta" => {
                grow(&data["item_id"], &data["delta"]);
            }
            Api::Messages if data["delta"]["type"] == "input_json_delta" => {
                grow(&data["index"], &data["delta"]["partial_json"]);
            }
            Api::Responses | Api::Messages => {}
        }
    }
    calls.iter().map(|(_, text)| command(&Value::String(text.clone()))).collect()
}

/// Programs that sit between a client and the gateway add headers of their own.
#[tokio::test(start_paused = true)]
async fn client_rule_24_the_path_decides_the_shape_of_errors() {
    let lab = Lab::scenario(BUSY);
    for api in APIS {
        for headers in [&[][..], &[("anthropic-version", "2023-06-01")]] {
            let reply = post_with(&lab, api.path(), &api.ask("used up", true), headers).await;
            assert_eq!(reply.status, 429, "{api:?}: {}", reply.body);
            let anthropic = reply.json()["type"] == "error";
            assert_eq!(anthropic, api == Api::Messages, "{api:?} {headers:?}: {}", reply.body);
        }
    }
}
