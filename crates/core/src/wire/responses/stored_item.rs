//! Input items in the form that they are kept in: each with an id and a type, so that a
//! later request can continue from them or refer to them.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::RawValue;

use super::{ids::input_item, input::WireItem, types::to_raw};

/// A message whose content was a bare string.
#[derive(Serialize)]
struct PlainMessage<'a> {
    id: &'a str,
    r#type: &'static str,
    status: &'static str,
    role: &'a str,
    content: [PlainText<'a>; 1],
}

#[derive(Serialize)]
struct PlainText<'a> {
    r#type: &'static str,
    text: &'a str,
}

/// A string input, which is a message of the user.
pub(super) fn of_text(text: &str) -> Box<RawValue> {
    plain(&input_item("msg", 0, text), "user", text)
}

/// The item at `place` of the input.
pub(super) fn of_item(raw: &RawValue, item: &WireItem<'_>, place: usize) -> Box<RawValue> {
    let kind = item.kind();
    let prefix = match kind {
        Some("function_call") => "fc",
        Some("function_call_output") => "fco",
        Some("custom_tool_call") => "ctc",
        Some("custom_tool_call_output") => "ctco",
        Some("tool_search_call") => "tsc",
        Some("tool_search_output") => "tso",
        Some("reasoning") => "rs",
        Some("compaction") => "cmp",
        _ => "msg",
    };
    let made;
    let id = match item.id() {
        Some(id) => id,
        None => {
            made = input_item(prefix, place, raw.get());
            &made
        }
    };
    let text = item.content.and_then(|content| serde_json::from_str::<String>(content.get()).ok());
    if let (Some("message"), Some(role), Some(text)) = (kind, item.role(), text) {
        return plain(id, role, &text);
    }
    if item.id().is_some() && item.written_kind().is_some() {
        return raw.to_owned();
    }
    let Ok(mut members) = serde_json::from_str::<BTreeMap<String, &RawValue>>(raw.get()) else {
        return raw.to_owned();
    };
    let (id, kind) = (to_raw(&id), kind.map(|kind| to_raw(&kind)));
    members.insert("id".to_owned(), &id);
    if let Some(kind) = &kind {
        members.insert("type".to_owned(), kind);
    }
    to_raw(&members)
}

fn plain(id: &str, role: &str, text: &str) -> Box<RawValue> {
    let kind = if role == "assistant" { "output_text" } else { "input_text" };
    to_raw(&PlainMessage {
        id,
        r#type: "message",
        status: "completed",
        role,
        content: [PlainText { r#type: kind, text }],
    })
}
