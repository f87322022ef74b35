//! What `x-ibeam-session` says of a request, and that `/health` counts the same.

use axum::body::Body;
use http::{HeaderMap, Request};
use serde_json::{Value, json};

use crate::lab::{Lab, Reply, Talk, chat, tools};

const SCENARIO: &str = r#"
    [[rule]]
    when.contains = "look"
    steps = [
      { exec = { arm = "mcp", args = { name = "bash", args = { command = "ls" } } } },
      { text = "It says: {result}" },
    ]
    [[rule]]
    when.contains = "slowly"
    steps = [{ text = "one" }, { silence = 5 }, { text = "two" }]
    [[rule]]
    steps = [{ text = "ok" }]
"#;

fn session(headers: &HeaderMap) -> &str {
    headers["x-ibeam-session"].to_str().unwrap()
}

fn matched(reply: &Reply) -> &str {
    session(&reply.headers)
}

async fn counters(lab: &Lab) -> Value {
    lab.get("/health").await.json()["sessions"].clone()
}

/// The value of the header without the id, and the id.
fn split(value: &str) -> (&str, &str) {
    let (how, id) = value.split_once(";id=").unwrap_or_else(|| panic!("no id: {value}"));
    (how, id.trim_matches('"'))
}

#[tokio::test(start_paused = true)]
async fn each_way_to_match_a_request_is_reported_and_counted() {
    let lab = Lab::scenario(SCENARIO);
    let mut said: Vec<String> = Vec::new();
    let mut note = |want: &str, got: &str| {
        assert_eq!(got, want);
        said.push(got.to_owned());
    };

    let mut talk = Talk::new("look");
    let first = talk.ask(&lab).await;
    note("new", matched(&first));
    talk.result(&first.call(), "a b c");
    note("resumed", matched(&talk.ask(&lab).await));

    let mut talk = Talk::new("hi");
    note("new", matched(&talk.ask(&lab).await));
    talk.say("go on");
    note("continued", matched(&talk.ask(&lab).await));
    talk.say("and on");
    talk.body["tools"] = tools(&["bash", "read"]);
    note("forked", matched(&talk.ask(&lab).await));

    let mut talk = Talk::new("hi there");
    talk.push(json!({ "role": "assistant", "content": "Nothing of this was said here." }));
    talk.say("go on");
    note("rebuilt", matched(&talk.ask(&lab).await));

    let (body, key) = (chat("slowly", true), [("idempotency-key", "k-1")]);
    let running = lab.open_with(body.to_string(), &key).await;
    note("new", session(running.headers()));
    let second = lab.open_with(body.to_string(), &key).await;
    note("attached", session(second.headers()));
    assert_eq!(Reply::read(running).await.text(), "onetwo");
    assert_eq!(Reply::read(second).await.text(), "onetwo");
    note("replayed", matched(&lab.post_with(&body, &key).await));

    let counters = counters(&lab).await;
    for name in ["new", "continued", "resumed", "rebuilt", "forked", "attached", "replayed"] {
        let count = said.iter().filter(|value| *value == name).count();
        assert_eq!(counters[name], count, "{name}: {counters}");
    }
    lab.assert_gone().await;
}

/// Also without a name: the beginning of the history shows which conversation was edited.
#[tokio::test(start_paused = true)]
async fn edited_history_is_reported_as_a_fork() {
    for store in [true, false] {
        let lab = Lab::scenario(SCENARIO);
        let mut talk = Talk::new("hi");
        if store {
            assert_eq!(matched(&talk.ask(&lab).await), "new");
        } else {
            talk.push(json!({ "role": "assistant", "content": "ok" }));
        }
        let mut edited = talk.clone();
        talk.say("go on");
        edited.body["messages"][1]["content"] = "something else".into();
        edited.say("go on");
        let (expected, edited_as) =
            if store { ("continued", "forked") } else { ("rebuilt", "forked") };
        assert_eq!(matched(&talk.ask(&lab).await), expected);
        assert_eq!(matched(&edited.ask(&lab).await), edited_as);
        lab.assert_gone().await;
    }
}

/// A header that names the conversation, and another prompt: nothing is continued.
#[tokio::test(start_paused = true)]
async fn hint_that_does_not_match_is_reported_as_a_fork() {
    let lab = Lab::scenario(SCENARIO);
    let ask = async |offered: &[&str]| {
        let mut body = chat("hi", false);
        body["tools"] = tools(offered);
        matched(&lab.post_with(&body, &[("x-session-id", "a")]).await).to_owned()
    };
    assert_eq!(ask(&["bash"]).await, "new");
    assert_eq!(ask(&["bash", "read"]).await, "forked");
    assert_eq!(ask(&["bash"]).await, "continued");
    assert_eq!((lab.fates().new, lab.fates().forked, lab.fates().continued), (1, 1, 1));
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn conversation_id_is_returned_on_request() {
    let lab = Lab::scenario(SCENARIO);
    let mut talk = Talk::new("look");
    talk.headers.push(("x-ibeam-session", "id".to_owned()));
    talk.headers.push(("idempotency-key", "k-1".to_owned()));
    let first = talk.ask(&lab).await;
    let (how, id) = split(matched(&first));
    assert_eq!((how, id.len()), ("new", 36));
    talk.result(&first.call(), "a b c");
    talk.headers[1].1 = "k-2".to_owned();
    let results = talk.clone();
    assert_eq!(split(matched(&talk.ask(&lab).await)), ("resumed", id));
    assert_eq!(split(matched(&results.send(&lab).await)), ("replayed", id));
    let mut other = Talk::new("hi");
    other.headers.push(("x-ibeam-session", "id".to_owned()));
    assert_ne!(split(matched(&other.ask(&lab).await)), ("new", id));

    let reply = lab.post_with(&chat("hi", false), &[("x-ibeam-session", "yes")]).await;
    assert_eq!((reply.status.as_u16(), reply.error().as_deref()), (400, Some("invalid_value")));
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn every_dialect_reports_the_match() {
    let lab = Lab::scenario(SCENARIO);
    let messages = json!([{ "role": "user", "content": "hi" }]);
    for stream in [false, true] {
        for (path, mut body) in [
            ("/v1/chat/completions", json!({ "messages": messages })),
            ("/v1/messages", json!({ "messages": messages, "max_tokens": 100 })),
            ("/v1/responses", json!({ "input": "hi" })),
            ("/v1/completions", json!({ "prompt": "hi" })),
        ] {
            body["model"] = "auto".into();
            body["stream"] = stream.into();
            let request = Request::post(path)
                .header("host", "localhost")
                .header("content-type", "application/json")
                .body(Body::from(body.to_string()))
                .unwrap();
            let reply = Reply::read(lab.send(request).await).await;
            assert_eq!(reply.status, 200, "{path}: {}", reply.body);
            assert_eq!(matched(&reply), "new", "{path}");
        }
    }
    assert_eq!(lab.fates().new, 8);
    lab.assert_gone().await;
}
