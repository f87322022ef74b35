//! What clients ask for and the backend does not do: where to stop, how long to be, JSON.

use std::time::Duration;

use http_body_util::BodyExt as _;
use ibeam_core::{models::Family, tokens};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::lab::{Call, Lab, Reply, Talk, chat};

/// Says something, then takes its time.
fn says(text: &str, chunk: usize) -> Lab {
    let text = Value::from(text);
    Lab::scenario(&format!(
        "[[rule]]\nwhen = {{ nth = 1 }}\nsteps = [\n\
         {{ text = {{ text = {text}, chunk = {chunk} }} }},\n{{ wait_ms = 60000 }},\n\
         {{ text = \"too late\" }}]\n[[rule]]\nsteps = [{{ text = \"{{history}}|{{prompt}}\" }}]"
    ))
}

fn with(mut body: Value, extra: &Value) -> Value {
    body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    body
}

/// Text, finish reason and output tokens, streamed or not.
fn outcome(reply: &Reply, stream: bool) -> (String, String, u64) {
    assert_eq!(reply.status, 200, "{}", reply.body);
    if stream {
        let chunks = reply.chunks();
        let usage = chunks.last().unwrap()["usage"]["completion_tokens"].as_u64();
        let reason = reply.finish_reason().unwrap_or_else(|| panic!("{}", reply.body));
        return (reply.text(), reason, usage.unwrap());
    }
    let reply = reply.json();
    let choice = &reply["choices"][0];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let usage = reply["usage"]["completion_tokens"].as_u64().unwrap();
    (text(&choice["message"]["content"]), text(&choice["finish_reason"]), usage)
}

/// Asks, and checks that the run was cancelled at once.
async fn asked(lab: &Lab, extra: &Value, stream: bool) -> (String, String, u64) {
    let mut body = with(chat("hi", stream), extra);
    body["stream_options"] = json!({ "include_usage": true });
    let start = Instant::now();
    let reply = lab.post(body.to_string()).await;
    let took = start.elapsed();
    assert!(took < Duration::from_millis(500), "the answer was over after {took:?}");
    sleep(Duration::from_millis(1200)).await;
    let stats = lab.sim.stats();
    assert_eq!((stats.runs_started, stats.runs_cancelled), (1, 1), "sooner than the grace");
    assert_eq!(lab.sim.runs()[0].ended, "cancelled");
    outcome(&reply, stream)
}

#[tokio::test(start_paused = true)]
async fn a_stop_sequence_ends_the_answer_and_the_run() {
    for (chunk, stream) in [(1, true), (3, true), (0, true), (2, false)] {
        let lab = says("One. Two.\nSTOP Three.", chunk);
        let (text, reason, _) = asked(&lab, &json!({ "stop": ["##", "\nSTOP"] }), stream).await;
        assert_eq!((text.as_str(), reason.as_str()), ("One. Two.", "stop"), "{chunk} {stream}");
        lab.assert_gone().await;
    }
}

#[tokio::test(start_paused = true)]
async fn token_limit_is_exact() {
    let words = "The quick brown fox doesn't jump over 12345 lazy dogs. ".repeat(5);
    for (chunk, stream) in [(1, true), (7, true), (0, false)] {
        for name in ["max_tokens", "max_completion_tokens"] {
            let lab = says(&words, chunk);
            let extra = json!({ "model": "gpt-5.4", name: 17 });
            let (text, reason, output) = asked(&lab, &extra, stream).await;
            assert!(words.starts_with(&text), "{text}");
            assert_eq!(tokens::count(&text, Family::Gpt), 17, "{text}");
            assert_eq!((reason.as_str(), output), ("length", 17));
            lab.assert_gone().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn limit_that_is_not_reached_changes_nothing() {
    let lab =
        Lab::scenario("[[rule]]\nsteps = [{ text = { text = \"A few words.\", chunk = 2 } }]");
    let body = with(chat("hi", true), &json!({ "max_tokens": 32000, "stop": ["###"] }));
    let reply = lab.post(body.to_string()).await;
    assert_eq!(reply.headers["x-ibeam-controls"], "emulated=(max_tokens stop)");
    assert_eq!(
        (reply.text().as_str(), reply.finish_reason().as_deref()),
        ("A few words.", Some("stop"))
    );
    assert_eq!(lab.sim.stats().runs_cancelled, 0);
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn next_request_continues_from_what_the_client_saw() {
    for past in [false, true] {
        let lab = says("One. Two. STOP Three.", 0);
        let mut talk = Talk::new(if past { "before" } else { "count" });
        if past {
            talk.push(json!({ "role": "assistant", "content": "yes" }));
            talk.say("count");
        }
        talk.body["stop"] = json!(["STOP"]);
        assert_eq!(talk.ask(&lab).await.text(), "One. Two. ");
        talk.body["stop"] = json!([]);
        talk.say("and then?");
        let next = talk.ask(&lab).await.text();
        assert!(next.contains("count") && next.contains("One. Two."), "{next}");
        assert!(next.ends_with("|and then?") && !next.contains("STOP"), "{next}");
        // The client sends again what it has; the rest is stored as it was shown.
        let fates = (lab.fates().rebuilt, lab.fates().continued);
        assert_eq!(fates, if past { (2, 0) } else { (0, 1) });
        lab.assert_gone().await;
    }
}

#[tokio::test(start_paused = true)]
async fn client_that_sends_only_new_messages_continues_too() {
    let lab = says("One. Two. STOP Three.", 0);
    let mut talk = Talk::new("count");
    talk.headers.push(("x-session-id", "named".to_owned()));
    talk.body["stop"] = json!(["STOP"]);
    assert_eq!(talk.ask(&lab).await.text(), "One. Two. ");
    talk.body["stop"] = json!([]);
    talk.say("and then?");
    talk.forget_past();
    let next = talk.ask(&lab).await.text();
    assert!(
        next.contains("count") && next.contains("One. Two.") && next.ends_with("|and then?"),
        "{next}"
    );
    assert!(!next.contains("STOP") && !next.contains("Three"), "{next}");
    assert_eq!(lab.fates().continued, 1);
    lab.assert_gone().await;
}

const KEY: &[(&str, &str)] = &[("idempotency-key", "k-1")];

#[tokio::test(start_paused = true)]
async fn a_retry_gets_the_same_answer() {
    let lab = says("One. Two. STOP Three.", 1);
    let body = with(chat("hi", true), &json!({ "stop": ["STOP"] }));
    let first = lab.post_with(&body, KEY).await;
    let again = lab.post_with(&body, KEY).await;
    assert_eq!((first.text().as_str(), again.text().as_str()), ("One. Two. ", "One. Two. "));
    assert_eq!(again.finish_reason().as_deref(), Some("stop"));
    assert_eq!((lab.sim.stats().runs_started, lab.fates().replayed), (1, 1));
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn a_second_reader_gets_the_same_answer() {
    let lab = Lab::scenario(
        "[[rule]]\nsteps = [{ text = { text = \"tick tock END\", chunk = 1, pace_ms = 500 } }, { wait_ms = 60000 }]",
    );
    let body = with(chat("hi", true), &json!({ "stop": ["END"] }));
    let second = async {
        sleep(Duration::from_secs(3)).await;
        lab.post_with(&body, KEY).await
    };
    let (first, second) = tokio::join!(lab.post_with(&body, KEY), second);
    assert_eq!((first.text(), second.text()), ("tick tock ".to_owned(), "tick tock ".to_owned()));
    assert_eq!((lab.sim.stats().runs_started, lab.fates().attached), (1, 1));
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn every_leg_has_the_controls_of_its_own_request() {
    let lab = Lab::scenario(
        r#"
        [[rule]]
        steps = [
          { text = "One END two." },
          { exec = { arm = "mcp", args = { name = "bash", args = { command = "ls" } } } },
          { text = { text = "Three END four.", chunk = 1 } },
          { wait_ms = 60000 },
        ]
        "#,
    );
    let mut talk = Talk::new("look");
    let first = talk.ask(&lab).await;
    assert_eq!(first.text(), "One END two.");
    talk.result(&first.call(), "a b c");
    talk.body["stop"] = json!(["END"]);
    let reply = talk.ask(&lab).await;
    assert_eq!((reply.text().as_str(), reply.finish_reason().as_deref()), ("Three ", Some("stop")));
    sleep(Duration::from_millis(1200)).await;
    let stats = lab.sim.stats();
    assert_eq!((stats.runs_started, stats.runs_cancelled), (1, 1));
    lab.assert_gone().await;
}

// === JSON ===

fn number(stream: bool) -> Value {
    let schema = json!({
        "type": "object", "properties": { "n": { "type": "integer", "minimum": 1 } },
        "required": ["n"], "additionalProperties": false,
    });
    with(
        chat("a number", stream),
        &json!({ "response_format": {
        "type": "json_schema", "json_schema": { "name": "number", "strict": true, "schema": schema },
    } }),
    )
}

/// Answers wrongly, and then with `second` to a message that says what is wrong.
fn wrong_first(second: &str) -> Lab {
    let second = Value::from(second);
    Lab::scenario(&format!(
        "[[rule]]\nwhen = {{ nth = 1 }}\nsteps = [{{ text = '{{\"n\": 0}}' }}, {{ usage = {{ input = 100, output = 5 }} }}]\n\
         [[rule]]\nwhen = {{ contains = \"cannot be used: the value at `/n`\" }}\n\
         steps = [{{ text = {second} }}, {{ usage = {{ input = 120, output = 6 }} }}]\n\
         [[rule]]\nsteps = [{{ text = \"{{system}}|{{history}}\" }}]"
    ))
}

#[tokio::test(start_paused = true)]
async fn wrong_answer_is_repaired_once() {
    let lab = wrong_first("```json\n{\"n\": 7}\n```");
    let reply = lab.post(number(false).to_string()).await;
    assert_eq!(reply.headers["x-ibeam-controls"], "emulated=(response_format)");
    let body = reply.json();
    assert_eq!(body["choices"][0]["message"]["content"], "{\"n\": 7}", "{body}");
    assert_eq!(
        (&body["usage"]["prompt_tokens"], &body["usage"]["completion_tokens"]),
        (&json!(220), &json!(11))
    );
    let stats = lab.sim.stats();
    assert_eq!((stats.runs_started, stats.runs_cancelled), (2, 0));
    // The conversation continues from what the client saw, and the model knows the schema.
    let mut next = number(false);
    next["response_format"] = json!({ "type": "text" });
    let messages = next["messages"].as_array_mut().unwrap();
    messages.push(json!({ "role": "assistant", "content": "{\"n\": 7}" }));
    messages.push(json!({ "role": "user", "content": "and?" }));
    let told = lab.post(next.to_string()).await.json();
    let told = told["choices"][0]["message"]["content"].as_str().unwrap();
    assert!(told.contains("{\"n\": 7}"), "{told}");
    assert!(!told.contains("\"n\": 0") && !told.contains("cannot be used"), "{told}");
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn answer_that_is_wrong_twice_is_an_error() {
    let lab = wrong_first("{\"n\": \"seven\"}");
    let reply = lab.post(number(false).to_string()).await;
    assert_eq!((reply.status.as_u16(), reply.error().as_deref()), (422, Some("format_unmet")));
    let message = reply.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("`/n` should be integer but is string"), "{message}");
    assert_eq!(lab.sim.stats().runs_started, 2);
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn a_streamed_answer_fails_at_the_first_violation() {
    for chunk in [0, 1, 4] {
        let lab = says("```json\n{\"n\": 7, \"m\": 8}\n```", chunk);
        let start = Instant::now();
        let reply = lab.post(number(true).to_string()).await;
        assert!(start.elapsed() < Duration::from_millis(500));
        assert_eq!(reply.error().as_deref(), Some("format_unmet"), "{}", reply.body);
        assert!(reply.body.contains("the value at `/m` is not in the schema"), "{}", reply.body);
        assert_eq!((reply.text().as_str(), reply.finish_reason()), ("{\"n\": 7, \"m", None));
        sleep(Duration::from_millis(1200)).await;
        assert_eq!(lab.sim.stats().runs_cancelled, 1);
        lab.assert_gone().await;
    }
}

#[tokio::test(start_paused = true)]
async fn streamed_json_comes_without_its_fence() {
    let lab = Lab::scenario(
        "[[rule]]\nsteps = [{ text = { text = \"```json\\n{\\\"n\\\": 7}\\n```\\n\", chunk = 2 } }]",
    );
    let reply = lab.post(number(true).to_string()).await;
    assert_eq!(
        (reply.text().as_str(), reply.finish_reason().as_deref()),
        ("{\"n\": 7}", Some("stop"))
    );
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn tools_are_called_with_any_format() {
    for stream in [true, false] {
        let lab = Lab::scenario(
            r#"
            [[rule]]
            steps = [
              { text = "Let me look." },
              { exec = { arm = "mcp", args = { name = "bash", args = { command = "ls" } } } },
              { text = "{\"n\": 7}" },
            ]
            "#,
        );
        let mut body = number(stream);
        body["tools"] = crate::lab::tools(&["bash"]);
        let reply = lab.post(body.to_string()).await;
        let call = if stream {
            reply.call()
        } else {
            let call = &reply.json()["choices"][0]["message"]["tool_calls"][0];
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            Call {
                id: text(&call["id"]),
                name: text(&call["function"]["name"]),
                arguments: text(&call["function"]["arguments"]),
            }
        };
        let mut talk = Talk { body, headers: Vec::new() };
        talk.push(json!({ "role": "assistant", "content": "Let me look.", "tool_calls": [{
            "id": call.id, "type": "function",
            "function": { "name": call.name, "arguments": call.arguments } }] }));
        talk.result(&call, "a b c");
        let reply = talk.send(&lab).await;
        assert!(reply.body.contains("7}") && reply.error().is_none(), "{}", reply.body);
        assert_eq!(lab.sim.stats().runs_started, 1);
        lab.assert_gone().await;
    }
}

#[tokio::test(start_paused = true)]
async fn unsupported_controls_are_refused_before_the_backend_is_asked() {
    let lab = Lab::new();
    let mut bad = number(true);
    bad["response_format"]["json_schema"]["schema"] = json!({ "type": "objekt" });
    let many = with(chat("hi", true), &json!({ "stop": vec!["x"; 17] }));
    let none = with(chat("hi", true), &json!({ "max_tokens": 0 }));
    for (body, param) in
        [(bad, "response_format.json_schema.schema"), (many, "stop"), (none, "max_tokens")]
    {
        let reply = lab.post(body.to_string()).await;
        assert_eq!(reply.status, 400, "{}", reply.body);
        assert_eq!(reply.json()["error"]["param"], param);
    }
    assert_eq!(lab.sim.stats().runs_started, 0);
    lab.assert_gone().await;
}

/// A client that leaves in the middle is treated like one that stays: the run continues for
/// the grace, and a retry reads along.
#[tokio::test(start_paused = true)]
async fn held_back_text_is_not_lost_in_a_retry() {
    let lab = Lab::scenario(
        "[[rule]]\nsteps = [{ text = \"one EN\" }, { wait_ms = 1500 }, { text = \"TER two\" }]",
    );
    let body = with(chat("hi", true), &json!({ "stop": ["END"] }));
    let mut left = lab.open_with(body.to_string(), KEY).await.into_body();
    left.frame().await.unwrap().unwrap();
    drop(left);
    let reply = lab.post_with(&body, KEY).await;
    assert_eq!(reply.text(), "one ENTER two");
    assert_eq!(lab.sim.stats().runs_started, 1);
    lab.assert_gone().await;
}
