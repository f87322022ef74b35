use serde_json::json;

use super::*;
use crate::behaviour::Preset;

fn strict() -> Behaviour {
    Behaviour::preset(Preset::Autumn)
}

fn call(id: &str, args: &Value) -> Value {
    json!({"role": "assistant", "content": [
        {"type": "tool-call", "toolCallId": id, "toolName": "t", "args": args}]})
}

fn result(id: &str) -> Value {
    json!({"role": "tool", "content": [
        {"type": "tool-result", "toolCallId": id, "toolName": "t", "result": "ok"}]})
}

fn reason(entries: &[Value]) -> Option<String> {
    refuse(entries, &[], true, &strict())
}

#[test]
fn well_formed_entries_pass() {
    let entries = [
        json!({"role": "system", "content": "Be brief"}),
        json!({"role": "user", "content": [{"type": "text", "text": "hi"}]}),
        call("call_1\nfc_1", &json!({})),
        result("call_1\nfc_1"),
    ];
    assert_eq!(reason(&entries), None);
}

#[test]
fn each_malformed_entry_has_its_reason() {
    for (entries, part) in [
        (vec![json!({"role": "user", "content": "hi"})], "not a list"),
        (vec![call("a", &json!("text")), result("a")], "not an object"),
        (vec![call("a", &json!({}))], "has 0 results"),
        (vec![call("a", &json!({})), result("a"), result("a")], "has 2 results"),
        (vec![result("a")], "without a call"),
        (vec![call("a/b", &json!({})), result("a/b")], "the id"),
        (vec![call("a", &json!({})), call("a", &json!({}))], "two calls"),
    ] {
        let reason = reason(&entries).unwrap_or_default();
        assert!(reason.contains(part), "{reason} for {part}");
        let lenient = Behaviour { roots_validate: RootChecks::Off, ..strict() };
        assert_eq!(refuse(&entries, &[], true, &lenient), None);
    }
    // Cursor's own models accept a bare text.
    let bare = [json!({"role": "user", "content": "hi"})];
    assert_eq!(refuse(&bare, &[], false, &strict()), None);
}

#[test]
fn steps_are_accepted_in_the_services_own_turns_only() {
    let own = AgentConversationTurnStructure {
        steps: vec![bytes::Bytes::from_static(b"id")],
        request_id: Some("r".to_owned()),
        ..AgentConversationTurnStructure::default()
    };
    let foreign = AgentConversationTurnStructure { request_id: None, ..own.clone() };
    assert_eq!(refuse(&[], std::slice::from_ref(&own), true, &strict()), None);
    assert!(refuse(&[], std::slice::from_ref(&foreign), true, &strict()).is_some());
    assert_eq!(refuse(&[], &[foreign], false, &strict()), None);
}

#[test]
fn number_of_entries_is_limited() {
    let entries = vec![json!({"role": "system", "content": "x"}); 208];
    assert!(reason(&entries).is_some());
    assert_eq!(reason(&entries[..207]), None);
}

#[test]
fn empty_slots_are_found() {
    assert!(has_empty_slot(&[json!({"role": "system", "content": ""})]));
    let user = |text: &str| json!({"role": "user", "content": [{"type": "text", "text": text}]});
    assert!(has_empty_slot(&[user("")]));
    assert!(!has_empty_slot(&[user("hi")]));
}

#[test]
fn reasoning_is_taken_only_from_the_model_that_signed_it() {
    let thought = |model: &str, text: &str, signature: Option<String>| {
        let mut part = json!({
            "type": "reasoning", "text": text,
            "providerOptions": { "cursor": { "modelName": model } },
        });
        if let Some(signature) = signature {
            part["signature"] = signature.into();
        }
        [json!({ "role": "assistant", "content": [part] })]
    };
    let good = || Some(signature("a", "hm"));
    for (entries, reason) in [
        (thought("a", "hm", good()), None),
        (thought("a", "hm", None), Some("reasoning without a signature")),
        (thought("b", "hm", good()), Some("reasoning of another model")),
        (thought("a", "Hm", good()), Some("reasoning with a wrong signature")),
    ] {
        assert_eq!(refuse_reasoning(&entries, "a"), reason);
        assert!(refuse_all_reasoning(&entries).is_some());
    }
}
