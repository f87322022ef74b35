//! What the model says, and when.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::{
    Backend, Gateway,
    gateway::{Reply, plain, user},
    on_each_backend,
};
use crate::client::{Said, ask};

const PATH: &str = "/v1/chat/completions";

fn text(backend: Backend) {
    let gateway = Gateway::start(
        backend,
        r#"
        [[rule]]
        steps = [
          { text = { text = "Grüße an 世界, \"and\" <all> of it.\n", chunk = 3 } },
          { usage = { input = 120, output = 9 } },
        ]
        "#,
    );
    let want = "Grüße an 世界, \"and\" <all> of it.\n";
    let reply = gateway.post(PATH, &[], &plain(&[user("Hello")], false));
    assert_eq!(reply.status, 200, "{reply:?}");
    let whole = reply.json();
    assert_eq!(whole["choices"][0]["message"]["content"], want);
    assert_eq!(whole["choices"][0]["finish_reason"], "stop");
    counted(&whole["usage"]);
    let mut body = plain(&[user("Hello again")], true);
    body["stream_options"] = serde_json::json!({ "include_usage": true });
    let reply = gateway.post(PATH, &[], &body);
    let said = Said::read(&format!("{}\r\n\r\n{}", reply.head, reply.body));
    assert_eq!((said.text.as_str(), said.finish.as_str()), (want, "stop"));
    assert!(reply.body.trim_end().ends_with("data: [DONE]"), "{reply:?}");
    counted(&reply.events().last().unwrap()["usage"]);
    gateway.assert_idle();
}

fn counted(usage: &Value) {
    let number = |name: &str| usage[name].as_u64().unwrap_or_else(|| panic!("{name} in {usage}"));
    let (prompt, completion) = (number("prompt_tokens"), number("completion_tokens"));
    assert!(prompt > 0 && completion > 0, "{usage}");
    assert_eq!(number("total_tokens"), prompt + completion);
}

fn thinking(backend: Backend) {
    let gateway = Gateway::start(
        backend,
        r#"
        [[rule]]
        steps = [{ thinking = { text = "Let me see.", chunk = 4 } }, { text = "It is six." }]
        "#,
    );
    let reply = gateway.post(PATH, &[], &plain(&[user("Think")], true));
    let mut order = Vec::new();
    for event in reply.events() {
        let delta = &event["choices"][0]["delta"];
        for part in ["reasoning_content", "content"] {
            if let Some(text) = delta[part].as_str().filter(|text| !text.is_empty()) {
                order.push((part, text.to_owned()));
            }
        }
    }
    let joined = |of: &str| -> String {
        order.iter().filter(|(part, _)| *part == of).map(|(_, text)| text.as_str()).collect()
    };
    assert_eq!(joined("reasoning_content"), "Let me see.");
    assert_eq!(joined("content"), "It is six.");
    assert!(order.is_sorted_by_key(|(part, _)| *part == "content"), "{order:?}");
}

/// Pieces reach the client as they are said, not all at the end. The gaps are printed.
fn pieces_come_as_they_are_said(backend: Backend) {
    let gateway = Gateway::start(
        backend,
        r#"
        [[rule]]
        steps = [{ text = { text = "0123456789", chunk = 1, pace_ms = 100 } }]
        "#,
    );
    let mut incoming = gateway.chat(&plain(&[user("Count")], true));
    let mut came: Vec<(Instant, String)> = Vec::new();
    while let Some(line) = incoming.line() {
        let Some(data) = line.trim_end().strip_prefix("data: {") else { continue };
        let event: Value = serde_json::from_str(&format!("{{{data}")).unwrap();
        let text = event["choices"][0]["delta"]["content"].as_str().unwrap_or_default();
        if !text.is_empty() {
            came.push((Instant::now(), text.to_owned()));
        }
    }
    let said: String = came.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(said, "0123456789");
    let mut gaps: Vec<Duration> =
        came.windows(2).map(|pair| pair[1].0.duration_since(pair[0].0)).collect();
    let shown: Vec<String> = gaps.iter().map(|gap| gap.as_millis().to_string()).collect();
    println!("{backend:?}: 100 ms apart at the backend, at the client {} ms", shown.join(" "));
    let whole: Duration = gaps.iter().sum();
    assert!(whole >= Duration::from_millis(500), "all at once: {shown:?}");
    gaps.sort_unstable();
    let median = gaps[gaps.len() / 2].as_millis();
    assert!((80..=150).contains(&median), "{median} ms: {shown:?}");
}

/// The same request again gets the same answer, without asking the backend.
fn a_retry_gets_the_same_answer(backend: Backend) {
    let gateway = Gateway::start(backend, "[[rule]]\nsteps = [{ text = \"Run {uptime_us}.\" }]");
    let (key, other) = ([("idempotency-key", "k-1")], [("idempotency-key", "k-2")]);
    let body = plain(&[user("Hello")], false);
    let text = |reply: Reply| {
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
    };
    let first = text(gateway.post(PATH, &key, &body));
    assert_eq!(text(gateway.post(PATH, &key, &body)), first);
    assert_eq!(gateway.runs(), 1);
    assert!(text(gateway.post(PATH, &other, &body)).starts_with("Run "));
    assert_eq!(gateway.runs(), 2);
}

/// A client that names the conversation sends only what is new, and may be quick about it.
fn a_named_conversation_is_remembered(backend: Backend) {
    let gateway = Gateway::start(backend, "");
    let session = [("x-session-id", "remembered")];
    for text in ["My word is heliotrope.", "My number is six."] {
        let said = ask(&gateway.url, &session, &plain(&[user(text)], true));
        assert_eq!(said.finish, "stop", "{said:?}");
    }
    let said = ask(&gateway.url, &session, &plain(&[user("What did I say?")], false));
    assert_eq!(said.text, "Earlier you said:\n- My word is heliotrope.\n- My number is six.");
    assert_eq!(gateway.runs(), 3, "{}", gateway.log());
}

on_each_backend!(
    text,
    thinking,
    pieces_come_as_they_are_said,
    a_retry_gets_the_same_answer,
    a_named_conversation_is_remembered,
);
