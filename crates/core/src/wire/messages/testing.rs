//! Requests for the tests of this API.

use super::{MessagesRequest, decode};
use crate::{
    error::ErrorCode,
    model::{Item, Message, Part, TurnRequest},
};

/// A request with one user message and `extra` fields.
pub(super) fn with(extra: &str) -> String {
    let comma = if extra.is_empty() { "" } else { "," };
    format!(
        r#"{{"model":"sonnet","max_tokens":10,"messages":[{{"role":"user","content":"hi"}}]{comma}{extra}}}"#
    )
}

pub(super) fn messages(list: &str) -> String {
    format!(r#"{{"model":"sonnet","max_tokens":10,"messages":[{list}]}}"#)
}

/// A user message of these blocks.
pub(super) fn user(blocks: &str) -> String {
    messages(&format!(r#"{{"role":"user","content":[{blocks}]}}"#))
}

pub(super) fn whole(body: &str) -> MessagesRequest {
    decode(body.as_bytes()).unwrap_or_else(|error| panic!("{error:?} for {body}"))
}

pub(super) fn ok(body: &str) -> TurnRequest {
    whole(body).turn
}

#[track_caller]
pub(super) fn refused(body: &str, code: ErrorCode, param: Option<&str>) -> String {
    let error = decode(body.as_bytes()).expect_err(body);
    assert_eq!((error.code, error.param.as_deref()), (code, param), "{error:?} for {body}");
    error.message.into_owned()
}

/// The texts of the last message.
pub(super) fn said(request: &TurnRequest) -> Vec<&str> {
    match request.items.last() {
        Some(Item::Message(Message { parts, .. })) => parts
            .iter()
            .map(|part| match part {
                Part::Text(text) => text.as_str(),
                Part::Image(_) => "(image)",
            })
            .collect(),
        other => panic!("{other:?}"),
    }
}
