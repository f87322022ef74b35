//! Rules 17 to 23: messages.

use axum::body::Body;
use http::Method;
use serde_json::{Value, json};

use super::{Api, Event, events, kinds, of, post, send, whole};
use crate::lab::Lab;

const MESSAGES: Api = Api::Messages;

fn has_usage(value: &Value, names: &[&str]) -> bool {
    names.iter().all(|name| value["usage"][*name].is_u64())
}

#[tokio::test(start_paused = true)]
async fn client_rule_17_usage_is_there_and_every_block_is_closed() {
    let lab = Lab::new();
    for text in ["Say hello", "run `ls`", "in parallel run `echo one` and run `echo two`"] {
        let events = events(&lab, MESSAGES, &MESSAGES.ask_with_tool(text, true)).await;
        let start = &of(&events, "message_start")[0]["message"];
        assert!(has_usage(start, &["input_tokens", "output_tokens"]), "{start}");
        let delta = of(&events, "message_delta");
        assert_eq!(delta.len(), 1);
        assert!(has_usage(delta[0], &["output_tokens"]), "{}", delta[0]);
        // One block at a time, in order, each closed before the next.
        let mut open = None;
        let mut next = 0;
        for Event { data, .. } in &events {
            match data["type"].as_str().unwrap() {
                "content_block_start" => {
                    assert_eq!((open, data["index"].as_u64()), (None, Some(next)), "{data}");
                    open = Some(next);
                    next += 1;
                }
                "content_block_delta" => assert_eq!(data["index"].as_u64(), open, "{data}"),
                "content_block_stop" => assert_eq!(data["index"].as_u64(), open.take(), "{data}"),
                _ => {}
            }
        }
        assert_eq!(open, None);
        assert!(next > 0);
    }
}

#[tokio::test(start_paused = true)]
async fn client_rule_18_events_are_named_and_input_comes_in_deltas() {
    let lab = Lab::new();
    let events = events(&lab, MESSAGES, &MESSAGES.ask_with_tool("run `echo hi`", true)).await;
    for event in &events {
        assert_eq!(event.name.as_deref(), event.data["type"].as_str(), "{event:?}");
    }
    let starts = of(&events, "content_block_start");
    let call = starts.iter().find(|start| start["content_block"]["type"] == "tool_use").unwrap();
    assert_eq!(call["content_block"]["input"], json!({}));
    let input: String = of(&events, "content_block_delta")
        .iter()
        .filter(|delta| delta["index"] == call["index"])
        .map(|delta| delta["delta"]["partial_json"].as_str().unwrap())
        .collect();
    assert_eq!(serde_json::from_str::<Value>(&input).unwrap()["command"], "echo hi");
}

/// A client that meets a broken stream may ask again in silence, so what counts is how
/// often it was asked. Here it is asked once, and the stream must have everything.
#[tokio::test(start_paused = true)]
async fn client_rule_19_a_stream_has_all_that_a_whole_answer_has() {
    let lab = Lab::new();
    let whole = whole(&lab, MESSAGES, &MESSAGES.ask_with_tool("run `echo hi`", false)).await;
    let runs = lab.sim.stats().runs_started;
    let events = events(&lab, MESSAGES, &MESSAGES.ask_with_tool("run `echo hi`", true)).await;
    assert_eq!(lab.sim.stats().runs_started, runs + 1);
    let mut blocks = Vec::new();
    for Event { data, .. } in &events {
        match data["type"].as_str().unwrap() {
            "content_block_start" => {
                blocks.push((data["content_block"]["type"].clone(), String::new()))
            }
            "content_block_delta" => {
                let piece = ["text", "thinking", "partial_json"]
                    .iter()
                    .find_map(|name| data["delta"][*name].as_str());
                blocks.last_mut().unwrap().1.push_str(piece.unwrap_or_default());
            }
            _ => {}
        }
    }
    let told: Vec<_> = whole["content"]
        .as_array()
        .unwrap()
        .iter()
        .map(|block| {
            let text = match block["type"].as_str().unwrap() {
                "tool_use" => block["input"].to_string(),
                kind => block[kind].as_str().unwrap().to_owned(),
            };
            (block["type"].clone(), text)
        })
        .collect();
    let plain = |blocks: &[(Value, String)]| -> Vec<(Value, Value)> {
        // Arguments are JSON, and may be spaced otherwise.
        let read = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| json!(text));
        blocks.iter().map(|(kind, text)| (kind.clone(), read(text))).collect()
    };
    assert_eq!(plain(&blocks), plain(&told));
    assert_eq!(of(&events, "message_delta")[0]["delta"]["stop_reason"], whole["stop_reason"]);
}

#[tokio::test(start_paused = true)]
async fn client_rule_20_a_system_message_among_the_others_is_accepted() {
    let lab = Lab::scenario("[[rule]]\nsteps = [{ text = \"{system}|{history}\" }]");
    for content in [json!("SESAME"), json!([{ "type": "text", "text": "SESAME" }])] {
        let mut body = MESSAGES.ask("hi", false);
        body["system"] = json!("Be brief.");
        body["messages"] = json!([
            { "role": "user", "content": "My name is Ada." },
            { "role": "system", "content": content },
            { "role": "assistant", "content": "Hello Ada." },
            { "role": "user", "content": "Go on" },
        ]);
        let text = MESSAGES.text(&whole(&lab, MESSAGES, &body).await);
        for word in ["SESAME", "Be brief.", "Hello Ada."] {
            assert!(text.contains(word), "{word} is missing in {text}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn client_rule_21_a_thought_is_signed() {
    let lab = Lab::new();
    let mut body = MESSAGES.ask("Say hello", true);
    body["thinking"] = json!({ "type": "enabled", "budget_tokens": 1024 });
    body["max_tokens"] = json!(4000);
    let events = events(&lab, MESSAGES, &body).await;
    let starts = of(&events, "content_block_start");
    let thought = starts.iter().find(|start| start["content_block"]["type"] == "thinking").unwrap();
    let deltas: Vec<_> = of(&events, "content_block_delta")
        .into_iter()
        .filter(|delta| delta["index"] == thought["index"])
        .collect();
    let (last, before) = deltas.split_last().unwrap();
    assert_eq!(last["delta"]["type"], "signature_delta");
    assert!(last["delta"]["signature"].as_str().is_some_and(|text| !text.is_empty()), "{last}");
    assert!(before.iter().all(|delta| delta["delta"]["type"] == "thinking_delta"), "{before:?}");
    assert!(!before.is_empty());
}

#[tokio::test(start_paused = true)]
async fn client_rule_22_a_thread_is_refused_so_that_the_history_is_sent() {
    let lab = Lab::new();
    for stream in [true, false] {
        let mut body = MESSAGES.ask_with_tool("run `ls`", stream);
        body["thread"] = json!({ "type": "create" });
        let reply = post(&lab, "/v1/messages?beta=true", &body).await;
        assert_eq!(reply.status, 400, "{}", reply.body);
        let error = reply.json();
        assert_eq!(error["type"], "error");
        assert_eq!(error["error"]["type"], "invalid_request_error");
        let details =
            json!({ "error_code": "thread_unsupported_request", "unsupported": ["thread"] });
        assert_eq!(error["error"]["details"], details);
        assert_eq!(lab.sim.stats().runs_started, 0);
    }
    // Nothing is asked for by this.
    let mut body = MESSAGES.ask("Say hello", false);
    body["thread"] = Value::Null;
    whole(&lab, MESSAGES, &body).await;
}

#[tokio::test(start_paused = true)]
async fn client_rule_23_the_smaller_endpoints_answer() {
    let lab = Lab::new();
    let hello = send(&lab, Method::HEAD, "/api/hello", Body::empty(), &[]).await;
    assert!(hello.status == 200 || hello.status == 404, "{}", hello.status);
    let mut body = MESSAGES.ask_with_tool("Say hello", false);
    body.as_object_mut().unwrap().remove("max_tokens");
    body.as_object_mut().unwrap().remove("stream");
    let count = post(&lab, "/v1/messages/count_tokens?beta=true", &body).await;
    assert_eq!(count.status, 200, "{}", count.body);
    let short = count.json()["input_tokens"].as_u64().unwrap();
    body["messages"][0]["content"] = json!("Say hello ".repeat(100));
    let long = post(&lab, "/v1/messages/count_tokens", &body).await.json()["input_tokens"]
        .as_u64()
        .unwrap();
    assert!(short > 0 && long > short + 100, "{short} {long}");
    assert_eq!(lab.sim.stats().runs_started, 0, "counted here, not there");
    let events = events(&lab, MESSAGES, &MESSAGES.ask("Say hello", true)).await;
    assert_eq!(kinds(&events)[0], "message_start");
}
