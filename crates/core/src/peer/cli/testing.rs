//! Events as the CLI writes them, and how they are read.

use serde_json::{Value, json};

use super::hear;
use crate::{peer::PeerFailure, peer::child::ChildEvent};

pub(super) fn lines(events: &[Value]) -> String {
    events.iter().map(|event| format!("{event}\n")).collect()
}

pub(super) fn heard(events: &[Value]) -> Vec<ChildEvent> {
    hear(&[lines(events).as_bytes()])
}

/// A message in the long form, with the marks that are given.
pub(super) fn message(text: &str, marks: &Value) -> Value {
    let content = json!([{ "type": "text", "text": text }]);
    let mut event = json!({
        "type": "assistant",
        "message": { "role": "assistant", "content": content },
        "session_id": "s-1",
    });
    for (key, value) in marks.as_object().unwrap() {
        event[key] = value.clone();
    }
    event
}

pub(super) fn delta(text: &str) -> Value {
    message(text, &json!({ "timestamp_ms": 1 }))
}

pub(super) fn flush(text: &str) -> Value {
    message(text, &json!({ "timestamp_ms": 1, "model_call_id": "m" }))
}

pub(super) fn bare(text: &str) -> Value {
    message(text, &json!({}))
}

pub(super) fn success(text: &str) -> Value {
    json!({ "type": "result", "subtype": "success", "is_error": false, "result": text })
}

pub(super) fn call(subtype: &str, call: &Value) -> Value {
    json!({ "type": "tool_call", "subtype": subtype, "call_id": "c", "tool_call": call })
}

pub(super) fn shell() -> Value {
    call("started", &json!({ "shellToolCall": { "args": { "command": "ls -la" } } }))
}

pub(super) fn text(heard: &[ChildEvent]) -> String {
    let texts = heard.iter().filter_map(|heard| match heard {
        ChildEvent::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

pub(super) fn failure(heard: &[ChildEvent]) -> &PeerFailure {
    match heard.last() {
        Some(ChildEvent::Failed(failure)) => failure,
        other => panic!("{other:?}"),
    }
}

pub(super) fn ends(heard: &[ChildEvent]) -> usize {
    heard
        .iter()
        .filter(|heard| matches!(heard, ChildEvent::Ended(_) | ChildEvent::Failed(_)))
        .count()
}
