use serde_json::{Value, json};

use super::*;

fn raw(value: &Value) -> Box<RawValue> {
    RawValue::from_string(value.to_string()).unwrap()
}

fn did(line: &str) -> ChildEvent {
    ChildEvent::Did(line.to_owned())
}

fn hosted() -> Value {
    json!({"providerIdentifier": "ibeam", "toolName": "x", "args": {}})
}

#[test]
fn own_tool_calls_are_one_line_of_reasoning() {
    let mut calls = AcpCalls::default();
    let call =
        json!({"toolCallId": "a\n1", "kind": "execute", "title": "`ls`\n-l", "status": "pending"});
    assert_eq!(calls.begin(&raw(&call)), did("execute: `ls` -l"));
    let update = |status: &str| raw(&json!({"toolCallId": "a\n1", "status": status}));
    assert_eq!(calls.update(&update("in_progress")), ChildEvent::Alive);
    assert_eq!(calls.update(&update("failed")), did("execute failed: `ls` -l"));
    assert_eq!(calls.update(&update("failed")), ChildEvent::Alive, "it is forgotten");

    let read = json!({"toolCallId": "b", "kind": "read", "status": "completed"});
    assert_eq!(calls.begin(&raw(&read)), did("read"));
    let failed = json!({"toolCallId": "c", "kind": "edit", "title": "x", "status": "failed"});
    assert_eq!(calls.begin(&raw(&failed)), did("edit failed: x"));
    assert!(calls.open.is_empty());
}

#[test]
fn a_long_title_is_cut() {
    let mut calls = AcpCalls::default();
    let call = json!({"toolCallId": "a", "kind": "k".repeat(999), "title": "ü".repeat(999)});
    let ChildEvent::Did(line) = calls.begin(&raw(&call)) else { panic!("nothing told") };
    assert!(line.chars().count() <= 2 * (LINE + 1) + 2, "{}", line.chars().count());
}

#[test]
fn hosted_call_is_announced_once() {
    let mut calls = AcpCalls::default();
    let named = json!({"toolCallId": "a", "kind": "other", "rawInput": hosted()});
    assert_eq!(calls.begin(&raw(&named)), ChildEvent::Announced);
    assert!(calls.is_hosted("a") && !calls.is_hosted("b"));
    assert_eq!(calls.begin(&raw(&named)), ChildEvent::Alive, "told twice");
    assert_eq!(calls.update(&raw(&named)), ChildEvent::Alive);
    let failed = json!({"toolCallId": "a", "status": "failed"});
    assert_eq!(calls.update(&raw(&failed)), ChildEvent::Alive, "the client knows");
    assert!(!calls.is_hosted("a"));
}

#[test]
fn called_tool_may_be_named_in_an_update() {
    let begun = json!({"toolCallId": "a", "kind": "other", "title": "MCP: tool", "rawInput": {}, "status": "pending"});
    let update = |more: Value| {
        let mut update = json!({"toolCallId": "a"});
        update.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        raw(&update)
    };
    let foreign = json!({"providerIdentifier": "files", "toolName": "x"});
    for (more, heard) in [
        (json!({"rawInput": hosted()}), ChildEvent::Announced),
        (json!({"rawInput": hosted(), "status": "in_progress"}), ChildEvent::Announced),
        (json!({"rawInput": foreign, "title": "files: x"}), did("other: files: x")),
        (json!({"rawInput": {"q": 1}}), did("other: MCP: tool")),
        (json!({"status": "in_progress"}), did("other: MCP: tool")),
        (json!({"status": "completed"}), did("other: MCP: tool")),
        (json!({"status": "failed"}), did("other failed: MCP: tool")),
    ] {
        let mut calls = AcpCalls::default();
        assert_eq!(calls.begin(&raw(&begun)), ChildEvent::Alive);
        assert_eq!(calls.update(&update(json!({"status": "pending"}))), ChildEvent::Alive);
        assert_eq!(calls.update(&update(more.clone())), heard, "{more}");
    }
}

#[test]
fn number_of_open_calls_is_limited() {
    let mut calls = AcpCalls::default();
    for id in 0..CALLS + 10 {
        calls.begin(&raw(&json!({"toolCallId": id.to_string(), "rawInput": hosted()})));
    }
    assert_eq!(calls.open.len(), CALLS);
    assert!(!calls.is_hosted("9") && calls.is_hosted("10"));
    let long = "x".repeat(ID + 1);
    let call = json!({"toolCallId": long, "rawInput": hosted()});
    assert_eq!(calls.begin(&raw(&call)), ChildEvent::Alive);
    assert!(!calls.is_hosted(&long));
    for noise in [json!({}), json!(7), json!({"toolCallId": 7})] {
        assert_eq!(calls.begin(&raw(&noise)), ChildEvent::Alive);
        assert_eq!(calls.update(&raw(&noise)), ChildEvent::Alive);
    }
}
