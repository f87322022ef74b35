//! Many windows at once that all look the same.

use std::{collections::HashSet, sync::Arc, time::Duration};

use ibeam_server::config::Transport;
use ibeam_sim::{Scenario, SimConfig};
use serde_json::{Value, json};
use tokio::{task::JoinSet, time::sleep};

use crate::lab::Lab;

const WINDOWS: u64 = 200;
const CALLS: u64 = 3;

/// The model says each result before it asks for the next.
const SCRIPT: &str = r#"
    [[rule]]
    steps = [
      { exec = { arm = "mcp", args = { name = "bash", args = { command = "next" } } } },
      { text = "{result} in {conversation}; " },
      { exec = { arm = "mcp", args = { name = "bash", args = { command = "next" } } } },
      { text = "{result} in {conversation}; " },
      { exec = { arm = "mcp", args = { name = "bash", args = { command = "next" } } } },
      { text = "{result} in {conversation}" },
    ]
"#;

fn body(messages: &[Value]) -> String {
    let tools = json!([{ "type": "function", "function": { "name": "bash", "parameters": {
        "type": "object", "properties": { "command": { "type": "string" } },
    } } }]);
    json!({ "model": "auto", "messages": messages, "tools": tools }).to_string()
}

/// One window's whole conversation. Returns the id of the conversation upstream.
async fn window(lab: Arc<Lab>, me: u64) -> String {
    let mut messages = vec![json!({ "role": "user", "content": "do the same as everybody" })];
    let mut heard = String::new();
    for turn in 0..=CALLS {
        // Anything but in step, and the same in every run.
        sleep(Duration::from_millis((me * 7919 + turn * 104_729) % 977)).await;
        let reply = lab.post(body(&messages)).await;
        assert_eq!(reply.status, 200, "window {me}, turn {turn}: {}", reply.body);
        let message = reply.json()["choices"][0]["message"].clone();
        heard.push_str(message["content"].as_str().unwrap_or_default());
        let calls = message["tool_calls"].as_array().cloned().unwrap_or_default();
        assert_eq!(calls.len(), usize::from(turn < CALLS), "window {me}, turn {turn}: {message}");
        messages.push(message);
        for call in calls {
            messages.push(json!({
                "role": "tool",
                "tool_call_id": call["id"],
                "content": format!("window {me} result {turn}"),
            }));
        }
    }
    let parts: Vec<(&str, &str)> =
        heard.split("; ").map(|part| part.split_once(" in ").unwrap()).collect();
    let results: Vec<String> = parts.iter().map(|part| part.0.to_owned()).collect();
    let want: Vec<String> = (0..CALLS).map(|turn| format!("window {me} result {turn}")).collect();
    assert_eq!(results, want, "window {me}");
    let conversation = parts[0].1;
    assert!(parts.iter().all(|part| part.1 == conversation), "window {me}: {heard}");
    conversation.to_owned()
}

async fn crowd(transport: Transport) {
    let scenario = Scenario::from_toml(SCRIPT).unwrap();
    let lab =
        Lab::with(SimConfig::scenario(scenario), |config| config.upstream.transport = transport);
    let lab = Arc::new(lab);
    let mut windows = JoinSet::new();
    for me in 0..WINDOWS {
        windows.spawn(window(Arc::clone(&lab), me));
    }
    let conversations: HashSet<String> = windows.join_all().await.into_iter().collect();
    assert_eq!(conversations.len() as u64, WINDOWS, "two windows met");
    let stats = lab.sim.stats();
    assert_eq!(stats.runs_started, WINDOWS, "one run for each window's chain");
    let asked = 3 * WINDOWS;
    assert_eq!(stats.exec_results, WINDOWS * CALLS + asked, "context, and twice the MCP servers");
    assert_eq!(stats.violations, [""; 0]);
    Arc::into_inner(lab).unwrap().assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn two_hundred_identical_conversations_stay_apart_over_http2() {
    crowd(Transport::H2).await;
}

#[tokio::test(start_paused = true)]
async fn two_hundred_identical_conversations_stay_apart_over_http1() {
    crowd(Transport::H1).await;
}
