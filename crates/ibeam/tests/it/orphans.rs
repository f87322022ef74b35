//! Tool results that answer no call.

use axum::body::Body;
use http::Request;
use serde_json::{Value, json};

use crate::lab::{Lab, Reply, Talk};

const SCENARIO: &str = r#"
    [[rule]]
    when.contains = "look"
    steps = [
      { exec = { arm = "mcp", args = { name = "bash", args = { command = "ls" } } } },
      { text = "It says: {result}" },
    ]
    [[rule]]
    when.contains = "twice"
    steps = [
      { exec = { arm = "mcp", args = { name = "bash", args = { command = "ls" } } } },
      { exec = { arm = "mcp", args = { name = "bash", args = { command = "ls -l" } } } },
      { text = "It says: {result}" },
    ]
    [[rule]]
    steps = [{ text = "{history} {result}" }]
"#;

/// An id as ours are, of a session that never was.
const NOWHERE: &str = "sess_0123456789abcdef01234567__call_1";

async fn post(lab: &Lab, path: &str, body: &Value) -> Reply {
    let request = Request::post(path)
        .header("host", "localhost")
        .header("content-type", "application/json")
        .body(Body::from(body.to_string()))
        .unwrap();
    Reply::read(lab.send(request).await).await
}

#[tokio::test(start_paused = true)]
async fn a_result_without_a_call_is_refused_in_each_dialect() {
    let lab = Lab::scenario(SCENARIO);
    for id in ["call_abc", NOWHERE] {
        let hi = json!({ "role": "user", "content": "hi" });
        let tool = json!({ "role": "tool", "tool_call_id": id, "content": "a b c" });
        let block = json!({ "type": "tool_result", "tool_use_id": id, "content": "a b c" });
        let output = json!({ "type": "function_call_output", "call_id": id, "output": "a b c" });
        for (path, body, param) in [
            ("/v1/chat/completions", json!({ "messages": [hi, tool] }), Some("messages")),
            ("/v1/chat/completions", json!({ "messages": [tool] }), Some("messages")),
            (
                "/v1/messages",
                json!({ "max_tokens": 9, "messages": [{ "role": "user", "content": [block] }] }),
                None,
            ),
            ("/v1/responses", json!({ "input": [hi, output] }), Some("input")),
        ] {
            let mut body = body;
            body["model"] = "auto".into();
            let reply = post(&lab, path, &body).await;
            assert_eq!(reply.status, 400, "{path}: {}", reply.body);
            let error = reply.json()["error"].clone();
            assert_eq!(error["type"], "invalid_request_error", "{path}: {error}");
            assert!(error["message"].as_str().unwrap().contains(id), "{path}: {error}");
            if let Some(param) = param {
                assert_eq!(error["param"], param, "{path}: {error}");
            }
        }
    }
    assert_eq!(lab.sim.stats().runs_started, 0);
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn orphan_next_to_awaited_results_is_refused_and_the_run_stays_parked() {
    let lab = Lab::scenario(SCENARIO);
    let mut talk = Talk::new("look");
    let call = talk.ask(&lab).await.call();
    talk.result(&call, "a b c");
    let mut with_other = talk.clone();
    with_other.push(json!({ "role": "tool", "tool_call_id": "call_abc", "content": "x" }));
    assert_eq!(with_other.send(&lab).await.status, 400);
    assert_eq!(lab.app.sessions().parked, 1);
    assert_eq!(talk.ask(&lab).await.text(), "It says: a b c");
    lab.assert_gone().await;
}

/// The table in `docs/sessions.md` says what becomes of each.
#[tokio::test(start_paused = true)]
async fn results_that_match_no_call() {
    let page = include_str!("../../../../docs/sessions.md");
    let (_, table) = page.split_once("| a result | answer |").unwrap();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let mut names = Vec::new();
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [name, answer, fate] = cells[..] else { panic!("{row}") };
        names.push(name);
        let lab = Lab::scenario(SCENARIO);
        let mut talk = Talk::new("look");
        let call = talk.ask(&lab).await.call();
        let orphan = |id: &str| json!({ "role": "tool", "tool_call_id": id, "content": "x y z" });
        let awaited = json!({ "role": "tool", "tool_call_id": call.id, "content": "a b c" });
        match name {
            "of an unknown session" => {
                talk.push(awaited);
                talk.push(orphan(NOWHERE));
            }
            "of a call that was never made" => {
                talk.push(awaited);
                talk.push(orphan(&call.id.replace("__call_1", "__call_77")));
            }
            "of an earlier call, beside awaited ones" => {
                talk = Talk::new("twice");
                let first = talk.ask(&lab).await.call();
                talk.result(&first, "a b c");
                let second = talk.ask(&lab).await.call();
                talk.forget_past();
                talk.push(orphan(&first.id));
                talk.result(&second, "d e f");
            }
            "of an earlier call, after its turn" => {
                talk.push(awaited);
                talk.ask(&lab).await;
                talk.forget_past();
                talk.push(orphan(&call.id));
            }
            "before the last assistant message" => {
                talk = Talk::new("unused");
                talk.body["messages"] = json!([
                    orphan("call_abc"),
                    { "role": "assistant", "content": "I see." },
                    { "role": "user", "content": "And now?" },
                ]);
            }
            other => panic!("no test for {other}"),
        }
        let reply = talk.send(&lab).await;
        let ignored = reply
            .headers
            .get("x-ibeam-controls")
            .is_some_and(|controls| controls.to_str().unwrap().contains("ignored=(tool_results)"));
        match answer {
            "400" => {
                assert_eq!(reply.status, 400, "{name}: {}", reply.body);
                assert_eq!(lab.app.sessions().parked, 1, "{name}");
            }
            "`tool_results` ignored" => {
                assert_eq!((reply.status.as_u16(), ignored), (200, true), "{name}: {reply:?}");
                let text = reply.text();
                let shown = text.contains("[Tool Result]") && text.contains("x y z");
                assert_eq!(shown, fate != "left out", "{name}: {text}");
            }
            other => panic!("{name}: {other}"),
        }
    }
    assert_eq!(names.len(), 5, "{names:?}");
}

/// What is awaited, or is part of the history, is not reported.
#[tokio::test(start_paused = true)]
async fn results_of_calls_are_not_reported() {
    let lab = Lab::scenario(SCENARIO);
    let mut talk = Talk::new("look");
    let call = talk.ask(&lab).await.call();
    talk.result(&call, "a b c");
    let controls = |reply: &Reply| {
        let value = reply.headers.get("x-ibeam-controls");
        value.map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
    };
    let reply = talk.ask(&lab).await;
    assert!(!controls(&reply).contains("tool_results"), "{reply:?}");
    talk.say("And now?");
    let reply = talk.ask(&lab).await;
    assert!(!controls(&reply).contains("tool_results"), "{reply:?}");
    lab.assert_gone().await;
}

/// A client that trims its history leaves results behind whose calls it dropped.
#[tokio::test(start_paused = true)]
async fn old_orphan_is_sent_as_text() {
    let lab = Lab::scenario(SCENARIO);
    let mut talk = Talk::new("unused");
    talk.body["messages"] = json!([
        { "role": "tool", "tool_call_id": "call_abc", "content": "a b c" },
        { "role": "assistant", "content": "I see." },
        { "role": "user", "content": "And now?" },
    ]);
    let text = talk.ask(&lab).await.text();
    assert!(text.contains("[Tool Result]") && text.contains("a b c"), "{text}");
    lab.assert_gone().await;
}

/// A request that wants nothing from before has to bring the call itself.
#[tokio::test(start_paused = true)]
async fn without_reuse_the_call_must_be_in_the_request() {
    let lab = Lab::scenario(SCENARIO);
    let mut talk = Talk::new("look");
    let call = talk.ask(&lab).await.call();
    talk.result(&call, "a b c");
    talk.headers.push(("x-ibeam-session-reuse", "off".to_owned()));
    let mut bare = talk.clone();
    bare.forget_past();
    assert_eq!(bare.send(&lab).await.status, 400);
    assert_eq!(talk.send(&lab).await.status, 200);
    lab.assert_clean().await;
}
