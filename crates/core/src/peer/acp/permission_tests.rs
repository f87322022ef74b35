use serde_json::{Value, json};

use super::*;

fn raw(value: &Value) -> Box<RawValue> {
    RawValue::from_string(value.to_string()).unwrap()
}

fn all() -> Value {
    json!([
        {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
        {"optionId": "ever", "name": "Ever", "kind": "allow_always"},
        {"optionId": "no", "name": "No", "kind": "reject_once"},
        {"optionId": "never", "name": "Never", "kind": "reject_always"},
    ])
}

fn asked(own_tools: bool, calls: &AcpCalls, call: &Value, options: &Value) -> Value {
    let params = raw(&json!({"sessionId": "s", "toolCall": call, "options": options}));
    let id = RpcId::Text("7".to_owned());
    let policy = ToolPolicy { own_tools };
    let reply = reply(policy, false, calls, &id, "session/request_permission", Some(&params));
    assert!(reply.known);
    let answer: Value = serde_json::from_slice(&reply.line).unwrap();
    assert_eq!(answer["id"], "7");
    answer["result"]["outcome"].clone()
}

fn selected(id: &str) -> Value {
    json!({"outcome": "selected", "optionId": id})
}

const HOSTED: &str =
    r#"{"toolCallId":"h\n1","rawInput":{"providerIdentifier":"ibeam","toolName":"x","args":{}}}"#;
const FOREIGN: &str =
    r#"{"toolCallId":"f","rawInput":{"providerIdentifier":"files","toolName":"x","args":{}}}"#;

#[test]
fn permission_depends_on_tool_and_policy() {
    let calls = AcpCalls::default();
    let hosted: Value = serde_json::from_str(HOSTED).unwrap();
    let foreign: Value = serde_json::from_str(FOREIGN).unwrap();
    let kind = |kind: &str| json!({"toolCallId": "k", "kind": kind, "rawInput": {"x": 1}});
    for (call, off, on) in [
        (hosted, "yes", "yes"),
        (foreign, "no", "yes"),
        (kind("read"), "no", "yes"),
        (kind("edit"), "no", "yes"),
        (kind("delete"), "no", "yes"),
        (kind("move"), "no", "yes"),
        (kind("search"), "no", "yes"),
        (kind("execute"), "no", "yes"),
        (kind("fetch"), "no", "yes"),
        (kind("switch_mode"), "no", "yes"),
        (kind("other"), "no", "yes"),
        (kind("a_new_one"), "no", "yes"),
        (json!({"toolCallId": "k", "title": "ibeam: x"}), "no", "yes"),
        (json!({}), "no", "yes"),
        (json!(null), "no", "yes"),
    ] {
        assert_eq!(asked(false, &calls, &call, &all()), selected(off), "off: {call}");
        assert_eq!(asked(true, &calls, &call, &all()), selected(on), "on: {call}");
    }
}

#[test]
fn permission_uses_what_earlier_updates_said() {
    let mut calls = AcpCalls::default();
    calls.begin(&raw(&serde_json::from_str(HOSTED).unwrap()));
    calls.begin(&raw(&serde_json::from_str(FOREIGN).unwrap()));
    let by_id = |id: &str| json!({"toolCallId": id, "title": "MCP: tool"});
    assert_eq!(asked(false, &calls, &by_id("h\n1"), &all()), selected("yes"));
    assert_eq!(asked(false, &calls, &by_id("f"), &all()), selected("no"));
    assert_eq!(asked(false, &calls, &by_id("h"), &all()), selected("no"));
}

#[test]
fn permission_answer_uses_an_offered_option() {
    let calls = AcpCalls::default();
    let hosted: Value = serde_json::from_str(HOSTED).unwrap();
    let own = json!({"toolCallId": "k", "kind": "execute"});
    let cancelled = json!({"outcome": "cancelled"});
    let always = json!([{"optionId": "ever", "kind": "allow_always"}, {"optionId": "never", "kind": "reject_always"}]);
    assert_eq!(asked(false, &calls, &hosted, &always), selected("ever"));
    assert_eq!(asked(false, &calls, &own, &always), cancelled, "not refused for good");
    let bare = json!([{"optionId": "allow-once"}, {"optionId": "reject-once"}, 7]);
    assert_eq!(asked(false, &calls, &hosted, &bare), selected("allow-once"));
    assert_eq!(asked(false, &calls, &own, &bare), selected("reject-once"));
    for nothing in [json!([]), json!(null), json!("x")] {
        assert_eq!(asked(true, &calls, &hosted, &nothing), cancelled);
    }
}

#[test]
fn permissions_are_refused_after_a_cancel() {
    let params = raw(&json!({"toolCall": {}, "options": all()}));
    let id = RpcId::Number(1.into());
    let policy = ToolPolicy { own_tools: true };
    let method = "session/request_permission";
    let reply = reply(policy, true, &AcpCalls::default(), &id, method, Some(&params));
    let answer: Value = serde_json::from_slice(&reply.line).unwrap();
    assert_eq!(answer["result"], json!({"outcome": {"outcome": "cancelled"}}));
}

#[test]
fn section_9_questions_plans_and_images_are_declined_and_notices_confirmed() {
    let calls = AcpCalls::default();
    for (method, want) in [
        ("cursor/ask_question", json!("skipped")),
        ("cursor/create_plan", json!("rejected")),
        ("cursor/generate_image", json!("rejected")),
        ("cursor/update_todos", Value::Null),
        ("cursor/task", Value::Null),
    ] {
        let id = RpcId::Text("7".to_owned());
        let reply = reply(ToolPolicy::default(), false, &calls, &id, method, None);
        assert!(reply.known, "{method}");
        let answer: Value = serde_json::from_slice(&reply.line).unwrap();
        let outcome = &answer["result"]["outcome"];
        assert_eq!(outcome["outcome"], want, "{method}");
        assert_eq!(outcome["reason"].is_string(), !want.is_null(), "{method}");
    }
}
