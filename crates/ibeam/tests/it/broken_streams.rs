//! A chain of tools whose upstream stream breaks, at every frame in turn. Whatever
//! happens to it, the client gets the answer with the results in it: at once, or after
//! an error that it can read and one more try of the same request.

use ibeam_server::config::Transport;
use ibeam_sim::{Scenario, SimConfig};
use serde_json::{Value, json};

use crate::lab::{Lab, Reply};

const TASK: &str = "Run `echo one` and then run `echo two`.";

fn body(messages: &[Value]) -> String {
    let tools = json!([{ "type": "function", "function": { "name": "bash", "parameters": {
        "type": "object",
        "properties": { "command": { "type": "string" } },
        "required": ["command"],
    } } }]);
    json!({ "model": "auto", "messages": messages, "tools": tools, "stream": true }).to_string()
}

/// The calls of a streamed answer: id, name, arguments.
fn calls(reply: &Reply) -> Vec<(String, String, String)> {
    let mut calls: Vec<(String, String, String)> = Vec::new();
    for chunk in reply.chunks() {
        for delta in chunk["choices"][0]["delta"]["tool_calls"].as_array().into_iter().flatten() {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            if delta["id"].is_string() {
                calls.push((text(&delta["id"]), text(&delta["function"]["name"]), String::new()));
            }
            let more = text(&delta["function"]["arguments"]);
            calls.last_mut().unwrap().2.push_str(&more);
        }
    }
    calls
}

/// What a client does: answers calls, and tries again once after an error. Returns the last answer
/// and how many errors there were.
async fn drive(lab: &Lab) -> (String, usize) {
    let mut messages = vec![json!({ "role": "user", "content": TASK })];
    let (mut failures, mut rounds) = (0, 0);
    loop {
        rounds += 1;
        assert!(rounds < 12, "no end: {messages:?}");
        let reply = lab.post(body(&messages)).await;
        match reply.finish_reason().as_deref() {
            Some("stop") => return (reply.text(), failures),
            Some("tool_calls") => {
                let calls = calls(&reply);
                assert!(!calls.is_empty());
                let made: Vec<Value> = calls
                    .iter()
                    .map(|(id, name, arguments)| {
                        json!({ "id": id, "type": "function",
                                "function": { "name": name, "arguments": arguments } })
                    })
                    .collect();
                messages.push(json!({
                    "role": "assistant", "content": reply.text(), "tool_calls": made,
                }));
                for (id, _, arguments) in calls {
                    let arguments: Value = serde_json::from_str(&arguments).unwrap();
                    let command = arguments["command"].as_str().unwrap();
                    let output = command.replace("echo", "printed");
                    messages.push(json!({
                        "role": "tool", "tool_call_id": id, "content": output,
                    }));
                }
            }
            _ => {
                assert!(reply.error().is_some(), "neither an ending nor an error: {}", reply.body);
                failures += 1;
            }
        }
    }
}

fn lab(transport: Transport, cut: Option<(u64, &str)>) -> Lab {
    let rule = cut.map_or_else(String::new, |(frames, how)| {
        format!("[[rule]]\ntimes = 1\ncut = {{ after_frames = {frames}, how = {how} }}")
    });
    let scenario = Scenario::from_toml(&rule).unwrap();
    Lab::with(SimConfig::scenario(scenario), |config| config.upstream.transport = transport)
}

async fn at_every_frame(transport: Transport, how: &str) {
    let whole = lab(transport, None);
    let (answer, failures) = drive(&whole).await;
    assert!(answer.contains("printed two"), "{answer}");
    assert_eq!((failures, whole.sim.stats().runs_started), (0, 1));
    let frames = whole.sim.stats().server_frames;
    assert!(frames > 20, "{frames} frames");
    let mut invisible = 0;
    for at in 0..frames {
        let lab = lab(transport, Some((at, how)));
        let (answer, failures) = drive(&lab).await;
        assert!(answer.contains("printed two"), "cut at {at} ({how}): {answer}");
        assert!(failures <= 1, "cut at {at} ({how}): {failures} errors");
        invisible += usize::from(failures == 0);
        lab.assert_clean().await;
    }
    assert!(invisible > 10, "nearly every cut was seen by the client: {invisible} of {frames}");
}

#[tokio::test(start_paused = true)]
async fn a_reset_at_any_frame_loses_no_result() {
    at_every_frame(Transport::H2, "{ reset = \"internal_error\" }").await;
}

#[tokio::test(start_paused = true)]
async fn an_end_at_any_frame_loses_no_result() {
    at_every_frame(Transport::H2, "\"eof\"").await;
}

#[tokio::test(start_paused = true)]
async fn a_cut_frame_loses_no_result() {
    at_every_frame(Transport::H2, "\"truncate\"").await;
}

#[tokio::test(start_paused = true)]
async fn an_end_at_any_frame_of_http1_loses_no_result() {
    at_every_frame(Transport::H1, "\"eof\"").await;
}
