//! Conversations that a client names, and of which it sends only what is new.

use serde_json::{Value, json};

use super::{
    Backend, Gateway,
    gateway::{Reply, user},
    on_each_backend,
};
use crate::client::{ask, tool};

/// Reads a file when it is asked to, and otherwise says what it knows.
const SCENARIO: &str = r#"
    [[rule]]
    when.contains = "Read file.txt"
    steps = [
      { exec = { arm = "mcp", args = { name = "read_file", args = { path = "file.txt" } } } },
      { text = "I read it." },
    ]
    [[rule]]
    steps = [{ text = "{system} / {history} / {prompt}" }]
"#;

fn marker() -> Value {
    json!({ "role": "system", "content": "Session: session-abc123" })
}

fn body(messages: &[Value], with_tools: bool) -> Value {
    let mut body = json!({ "model": "auto", "stream": true, "messages": messages });
    if with_tools {
        body["tools"] = json!([tool("read_file", &["path"])]);
    }
    body
}

/// Seed 001, section 5.3: the three requests as they stand there.
fn the_three_requests_of_a_named_session(backend: Backend) {
    let gateway = Gateway::start(backend, SCENARIO);
    let mut messages = vec![marker(), user("Read file.txt")];
    let said = gateway.ask(&body(&messages, true));
    assert_eq!(said.finish, "tool_calls", "{said:?}");
    messages.extend([said.message(), said.calls[0].result("file content")]);
    let said = gateway.ask(&body(&messages, true));
    assert_eq!((said.text.as_str(), said.finish.as_str()), ("I read it.", "stop"));
    assert_eq!(gateway.runs(), 1, "{}", gateway.log());
    // The seed shows no tools with the third. With or without them it is the same session.
    for with_tools in [true, false] {
        let said = gateway.ask(&body(&[marker(), user("Now modify it")], with_tools));
        for known in ["Read file.txt", "file content", "I read it.", "Now modify it"] {
            assert!(said.text.contains(known), "{known}, {with_tools}: {said:?}");
        }
    }
    let sessions = gateway.health()["sessions"].clone();
    assert_eq!(sessions["resumed"], 1, "{sessions}");
    assert_eq!(sessions["continued"], 2, "{sessions}");
    gateway.assert_idle();
}

fn a_header_continues_after_a_tool_turn(backend: Backend) {
    let gateway = Gateway::start(backend, SCENARIO);
    let session = [("x-session-id", "abc123")];
    let mut messages = vec![user("Read file.txt")];
    let said = ask(&gateway.url, &session, &body(&messages, true));
    messages.extend([said.message(), said.calls[0].result("file content")]);
    ask(&gateway.url, &session, &body(&messages, true));
    let said = ask(&gateway.url, &session, &body(&[user("Now modify it")], true));
    assert!(said.text.contains("file content"), "{said:?}");
    // Other tools: a header is only a hint.
    let said = ask(&gateway.url, &session, &body(&[user("Now modify it")], false));
    assert!(!said.text.contains("file content"), "{said:?}");
    let sessions = gateway.health()["sessions"].clone();
    assert_eq!((&sessions["continued"], &sessions["forked"]), (&json!(1), &json!(1)));
}

fn a_named_session_has_the_prompt_of_its_newest_request(backend: Backend) {
    let gateway = Gateway::start(backend, SCENARIO);
    gateway.ask(&body(&[marker(), user("My word is heliotrope.")], false));
    let brief = json!({ "role": "system", "content": "Be brief." });
    let said = gateway.ask(&body(&[marker(), brief, user("What is it?")], true));
    for known in ["heliotrope", "Be brief.", "What is it?"] {
        assert!(said.text.contains(known), "{known}: {said:?}");
    }
}

fn repeating_the_first_message_continues(backend: Backend) {
    let gateway = Gateway::start(backend, "");
    for _ in 0..2 {
        gateway.ask(&body(&[marker(), user("My word is heliotrope.")], false));
    }
    let said = gateway.ask(&body(&[marker(), user("What did I say?")], false));
    assert_eq!(said.text.matches("My word is heliotrope.").count(), 2, "{said:?}");
}

/// Answers slowly, unless it is asked for a word.
const SLOW: &str = r#"
    [[rule]]
    when.contains = "my word?"
    steps = [{ text = "{history} / {prompt}" }]
    [[rule]]
    steps = [{ text = "one two\n" }, { wait_ms = 3000 }, { text = "three" }]
"#;

/// How a request was matched, and what it was answered.
fn matched(gateway: &Gateway, text: &str) -> (String, String) {
    let reply = Reply::read(&gateway.chat(&body(&[marker(), user(text)], false)).rest());
    assert_eq!(reply.status, 200, "{}\n{}", reply.body, gateway.log());
    let head = reply.head.lines().find_map(|line| line.strip_prefix("x-ibeam-session: "));
    let events = reply.events();
    let texts = events.iter().filter_map(|event| event["choices"][0]["delta"]["content"].as_str());
    (head.unwrap().to_owned(), texts.collect())
}

fn next_message_after_a_cancelled_answer_continues(backend: Backend) {
    let gateway = Gateway::start(backend, SLOW);
    // The first answer of the session is cut as well as a later one.
    for said in ["My word is heliotrope.", "Count once more."] {
        let mut answer = gateway.chat(&body(&[marker(), user(said)], false));
        answer.until("one two");
        drop(answer);
        let (how, text) = matched(&gateway, "What is my word?");
        assert_eq!(how, "continued", "{}", gateway.log());
        assert!(text.contains(said) && text.contains("one two"), "{text}");
        assert!(text.contains("My word is heliotrope."), "{text}");
        assert!(!text.contains("three"), "it did not see that: {text}");
    }
    gateway.assert_idle();
}

fn messages_of_a_session_that_come_at_once_continue_each_other(backend: Backend) {
    let gateway = Gateway::start(backend, SLOW);
    let mut first = gateway.chat(&body(&[marker(), user("My word is heliotrope.")], false));
    first.until("one two");
    let (how, text) = matched(&gateway, "What is my word?");
    assert_eq!(how, "continued", "{}", gateway.log());
    assert!(text.contains("heliotrope") && text.contains("three"), "{text}");
    assert!(first.rest().contains("three"), "its answer was not cut");
    gateway.assert_idle();
}

on_each_backend!(
    next_message_after_a_cancelled_answer_continues,
    messages_of_a_session_that_come_at_once_continue_each_other,
    the_three_requests_of_a_named_session,
    a_header_continues_after_a_tool_turn,
    a_named_session_has_the_prompt_of_its_newest_request,
    repeating_the_first_message_continues,
);
