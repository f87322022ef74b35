//! `POST /v1/responses/compact`: a conversation shrunk to its user messages and a summary.

use serde::Serialize;
use serde_json::value::RawValue;

use super::{
    ids::output_item,
    input::WireItem,
    token::TokenKind,
    types::{OutputItem, ResponsesUsage, to_raw},
};
use crate::{model::Usage, wire::json::to_json};

#[derive(Serialize)]
struct Compaction<'a> {
    id: &'a str,
    object: &'static str,
    created_at: u64,
    output: Vec<&'a RawValue>,
    usage: ResponsesUsage,
}

/// The reply: the messages that are kept, then the item that holds `summary`. A client that
/// sends these items as its next input continues from there. `created` is in Unix seconds.
#[must_use]
pub fn compaction(
    id: &str,
    created: u64,
    summary: &str,
    kept: &[Box<RawValue>],
    usage: Usage,
) -> Vec<u8> {
    let token = TokenKind::Summary.seal(summary);
    let item_id = output_item("cmp", id, kept.len());
    let item = to_raw(&OutputItem::Compaction { id: &item_id, encrypted_content: &token });
    let kept = kept.iter().map(|item| &**item);
    to_json(&Compaction {
        id,
        object: "response.compaction",
        created_at: created,
        output: kept.chain([&*item]).collect(),
        usage: usage.into(),
    })
}

/// The messages of the user among these items.
#[must_use]
pub fn user_messages(items: &[Box<RawValue>]) -> Vec<Box<RawValue>> {
    let is_users = |raw: &RawValue| {
        WireItem::read(raw, "item")
            .is_ok_and(|item| item.kind() == Some("message") && item.role() == Some("user"))
    };
    items.iter().filter(|raw| is_users(raw)).cloned().collect()
}
