//! Clients that leave, clients that do not read, and too many of them.

use std::{sync::Arc, time::Duration};

use http_body_util::BodyExt as _;
use ibeam_sim::{Scenario, SimConfig};
use tokio::time::{Instant, sleep};

use crate::{
    generations::Setup,
    lab::{Lab, chat},
};

const ENDLESS: &str =
    "[[rule]]\nsteps = [{ text = { text = \"tick \", repeat = 100000, pace_ms = 100 } }]";

#[tokio::test(start_paused = true)]
async fn disconnect_cancels_upstream_after_the_grace_period() {
    let lab = Lab::scenario(ENDLESS);
    let mut body = lab.open(chat("hi", true).to_string()).await.into_body();
    body.frame().await.unwrap().unwrap();
    drop(body);
    let left = Instant::now();
    sleep(Duration::from_millis(1500)).await;
    assert_eq!(lab.sim.stats().runs_cancelled, 0, "a retry could still attach");
    lab.assert_clean().await;
    assert!(left.elapsed() < Duration::from_secs(4));
    assert_eq!(lab.sim.stats().runs_cancelled, 1);
    assert_eq!(lab.app.sessions().cancelled, 1);
}

#[tokio::test(start_paused = true)]
async fn disconnect_before_the_answer_cancels_too() {
    let lab = Lab::scenario("[[rule]]\nsteps = [{ silence = 300 }, { text = \"late\" }]");
    let waiting = lab.open(chat("hi", false).to_string());
    assert!(tokio::time::timeout(Duration::from_secs(5), waiting).await.is_err());
    lab.assert_clean().await;
    assert_eq!(lab.app.sessions().cancelled, 1);
}

/// The client does not read: the backend must not be able to pour megabytes into our memory,
/// and after `client_stall` the client is given up.
#[tokio::test(start_paused = true)]
async fn client_that_does_not_read_slows_the_backend() {
    let scenario = Scenario::from_toml(&format!(
        "[[rule]]\nsteps = [{{ text = {{ text = \"{}\", repeat = 20000, pace_ms = 0 }} }}]",
        "x".repeat(1000)
    ));
    let lab = Lab::with(SimConfig::scenario(scenario.unwrap()), |_| {});
    let mut body = lab.open(chat("hi", true).to_string()).await.into_body();
    body.frame().await.unwrap().unwrap();
    sleep(Duration::from_secs(30)).await;
    let sent = lab.sim.stats().server_frames;
    assert!(sent < 3000, "{sent} frames of 20,000 left the backend");
    assert_eq!(lab.app.sessions().active, 1);
    sleep(Duration::from_secs(60)).await;
    lab.assert_clean().await;
    assert_eq!(lab.app.sessions().cancelled, 1);
    // Should it wake up after all, it reads why there is no more.
    let rest = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
    assert!(rest.contains("stopped reading for too long"), "{rest}");
    assert!(!rest.contains("[DONE]"));
}

#[tokio::test(start_paused = true)]
async fn slow_reader_gets_everything() {
    let lab = Lab::scenario(
        "[[rule]]\nsteps = [{ text = { text = \"0123456789\", repeat = 2000, pace_ms = 0 } }]",
    );
    let mut body = lab.open(chat("hi", true).to_string()).await.into_body();
    let mut text = String::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.unwrap().into_data() {
            text.push_str(std::str::from_utf8(&data).unwrap());
        }
        sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(text.matches("0123456789").count(), 2000);
    assert!(text.trim_end().ends_with("[DONE]"));
    lab.assert_clean().await;
}

#[tokio::test(start_paused = true)]
async fn turns_over_the_limit_wait_and_then_are_refused() {
    let scenario = Scenario::from_toml(ENDLESS).unwrap();
    let lab = Arc::new(Lab::with(SimConfig::scenario(scenario), |config| {
        config.limits.turns = 2;
        config.limits.queue = 1;
        config.clocks.queue = Duration::from_secs(3);
    }));
    let first = lab.open(chat("hi", true).to_string()).await;
    let second = lab.open(chat("hi", true).to_string()).await;
    assert_eq!((first.status().as_u16(), second.status().as_u16()), (200, 200));
    let third = lab.stream("hi").await;
    assert_eq!((third.status.as_u16(), third.error().as_deref()), (429, Some("quota_exceeded")));
    assert_eq!(third.headers["retry-after"], "5");
    // One leaves: the one in the queue gets its place.
    let mut waiting = tokio::task::JoinSet::new();
    waiting.spawn({
        let lab = Arc::clone(&lab);
        async move { lab.open(chat("hi", true).to_string()).await.status() }
    });
    sleep(Duration::from_millis(100)).await;
    drop(first);
    assert_eq!(waiting.join_next().await.unwrap().unwrap(), 200);
    drop(second);
    lab.assert_clean().await;
}

#[tokio::test(start_paused = true)]
async fn conversation_keeps_its_id_across_turns() {
    let lab = Lab::scenario("[[rule]]\nsteps = [{ text = \"{conversation}\" }]");
    let first = lab.ask("hi").await;
    assert_ne!(first, lab.ask("hi").await, "two windows never meet");
    let body = serde_json::json!({
        "model": "auto",
        "messages": [
            { "role": "user", "content": "hi" },
            { "role": "assistant", "content": first },
            { "role": "user", "content": "go on" },
        ],
    });
    let second = lab.post(body.to_string()).await.json();
    assert_eq!(second["choices"][0]["message"]["content"], first);
}

/// The backend ignores our cancel: the client is not kept waiting.
#[tokio::test(start_paused = true)]
async fn tool_call_is_sent_at_once() {
    let lab = Lab::scenario(
        r#"
        [[rule]]
        steps = [
          { exec = { arm = "mcp", args = { name = "bash", args = { command = "ls" } },
                     forget = true } },
          { fault = "black_hole" },
        ]
        "#,
    );
    let mut body = chat("hi", true);
    body["tools"] = serde_json::json!([{ "type": "function", "function": { "name": "bash" } }]);
    body["stream_options"] = serde_json::json!({ "include_usage": true });
    let start = Instant::now();
    let reply = lab.post(body.to_string()).await;
    assert!(start.elapsed() < Duration::from_millis(500), "{:?}", start.elapsed());
    assert_eq!(reply.finish_reason().as_deref(), Some("tool_calls"), "{}", reply.body);
    let chunks = reply.chunks();
    let usage = &chunks.last().unwrap()["usage"];
    assert!(usage["prompt_tokens"].as_u64().unwrap() > 0, "{usage}");
    assert!(usage["completion_tokens"].as_u64().unwrap() > 0, "{usage}");
    lab.assert_clean().await;
}

#[tokio::test(start_paused = true)]
async fn replaced_conversation_id_is_kept() {
    let lab =
        Lab::scenario("[[rule]]\nquirks = [\"stuck_conversation\"]\nsteps = [{ text = \"ok\" }]");
    let body = serde_json::json!({
        "model": "auto",
        "messages": [
            { "role": "user", "content": "a" },
            { "role": "assistant", "content": "b" },
            { "role": "user", "content": "c" },
        ],
    });
    for _ in 0..3 {
        assert_eq!(lab.post(body.to_string()).await.status, 200);
    }
    assert_eq!(lab.sim.stats().runs_started, 4, "one run was lost, not one per turn");
}

/// More blobs than fit into one read, asked for all at once. The service of the summer took every
/// message as an entry of its own.
#[tokio::test(start_paused = true)]
async fn long_history_is_fetched_completely() {
    let lab = Setup::SUMMER.lab("[[rule]]\nsteps = [{ text = \"ok\" }]");
    let mut messages = Vec::new();
    for n in 0..600 {
        messages.push(serde_json::json!({ "role": "user", "content": format!("question {n}") }));
        messages.push(serde_json::json!({ "role": "assistant", "content": format!("answer {n}") }));
    }
    messages.push(serde_json::json!({ "role": "user", "content": "and now?" }));
    let body = serde_json::json!({ "model": "auto", "messages": messages });
    let reply = lab.post(body.to_string()).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert!(lab.sim.stats().kv_gets >= 1200);
    lab.assert_clean().await;
}
