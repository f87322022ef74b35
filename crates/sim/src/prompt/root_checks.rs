//! What the service's workers refuse in the history of a client, after they have fetched it.

use std::collections::HashMap;

use ibeam_proto::agent::AgentConversationTurnStructure;
use serde_json::Value;

use super::validate;
use crate::{
    behaviour::{Behaviour, RootChecks},
    blobs::id_of,
    protobuf::hex,
};

/// The number of results of each call, by its id.
type Results<'a> = HashMap<&'a str, usize>;

/// The reason to refuse root entries and turns; `external`: the model is not Cursor's own.
pub(crate) fn refuse(
    entries: &[Value],
    turns: &[AgentConversationTurnStructure],
    external: bool,
    behaviour: &Behaviour,
) -> Option<String> {
    if behaviour.roots_max.is_some_and(|max| entries.len() >= max) {
        return Some(format!("{} root entries", entries.len()));
    }
    if behaviour.roots_validate == RootChecks::Off {
        return None;
    }
    // The service's own turns have a request id.
    let foreign = |turn: &&AgentConversationTurnStructure| turn.request_id.is_none();
    if external && turns.iter().filter(foreign).any(|turn| !turn.steps.is_empty()) {
        return Some("a turn of the client has steps".to_owned());
    }
    let mut results = Results::new();
    for entry in entries {
        if let Some(reason) = refuse_entry(entry, external, &mut results) {
            return Some(reason);
        }
    }
    let open = results.into_iter().find(|(_, count)| *count != 1);
    open.map(|(id, count)| format!("the call {id} has {count} results"))
}

fn refuse_entry<'a>(entry: &'a Value, external: bool, results: &mut Results<'a>) -> Option<String> {
    let text = |value: &'a Value, name: &str| value.get(name).and_then(Value::as_str);
    let role = text(entry, "role").unwrap_or_default();
    let parts = match (role, entry.get("content")) {
        ("system", Some(Value::String(_))) => return None,
        ("user" | "assistant", Some(Value::String(_))) if !external => return None,
        ("system" | "user" | "assistant" | "tool", Some(Value::Array(parts))) => parts,
        _ => return Some(format!("the content of a {role} entry is not a list")),
    };
    for part in parts {
        let kind = text(part, "type").unwrap_or_default();
        if !matches!(kind, "tool-call" | "tool-result") {
            continue;
        }
        let Some(id) = text(part, "toolCallId") else {
            return Some(format!("a {kind} without an id"));
        };
        // The service's own ids have two halves.
        if !id.split('\n').all(validate::good_call_id) {
            return Some(format!("the id {id:?} of a {kind}"));
        }
        if kind == "tool-call" {
            if !part.get("args").is_some_and(Value::is_object) {
                return Some(format!("the arguments of {id} are not an object"));
            }
            if results.insert(id, 0).is_some() {
                return Some(format!("two calls have the id {id}"));
            }
        } else {
            match results.get_mut(id) {
                Some(count) => *count += 1,
                None => return Some(format!("a result without a call: {id}")),
            }
        }
    }
    None
}

/// The signature of what a model thought.
pub(crate) fn signature(model: &str, text: &str) -> String {
    hex(&id_of(format!("{model}\n{text}").as_bytes()))
}

/// The reason for which the provider of this model refuses reasoning: it is not what that model
/// signed.
pub(crate) fn refuse_reasoning(entries: &[Value], model: &str) -> Option<&'static str> {
    let text = |value: &Value, path: &str| {
        value.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    reasoning(entries).find_map(|part| {
        if part.get("signature").is_none() {
            Some("reasoning without a signature")
        } else if text(part, "/providerOptions/cursor/modelName") != model {
            Some("reasoning of another model")
        } else if text(part, "/signature") != signature(model, &text(part, "/text")) {
            Some("reasoning with a wrong signature")
        } else {
            None
        }
    })
}

/// The same where no reasoning may be replayed.
pub(crate) fn refuse_all_reasoning(entries: &[Value]) -> Option<&'static str> {
    reasoning(entries).next().map(|_| "replayed reasoning")
}

pub(super) fn reasoning(entries: &[Value]) -> impl Iterator<Item = &Value> {
    let parts = entries.iter().filter_map(|entry| entry.get("content")?.as_array()).flatten();
    parts.filter(|part| part.get("type").and_then(Value::as_str) == Some("reasoning"))
}

/// Whether a system or user entry has no text.
pub(crate) fn has_empty_slot(entries: &[Value]) -> bool {
    let empty = |entry: &Value| match entry.get("content") {
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Array(parts)) => parts.iter().all(|part| {
            part.get("type").and_then(Value::as_str) == Some("text")
                && part.get("text").and_then(Value::as_str).is_none_or(str::is_empty)
        }),
        _ => true,
    };
    entries.iter().any(|entry| {
        let role = entry.get("role").and_then(Value::as_str);
        matches!(role, Some("system" | "user")) && empty(entry)
    })
}

#[cfg(test)]
#[path = "root_checks_tests.rs"]
mod tests;
