//! Requests for the tests of this API.

use super::decode;
use crate::{error::ErrorCode, model::TurnRequest};

/// A request with one user message and `extra` fields.
pub(super) fn with(extra: &str) -> String {
    let comma = if extra.is_empty() { "" } else { "," };
    format!(r#"{{"model":"auto","messages":[{{"role":"user","content":"hi"}}]{comma}{extra}}}"#)
}

pub(super) fn messages(list: &str) -> String {
    format!(r#"{{"model":"auto","messages":[{list}]}}"#)
}

pub(super) fn ok(body: &str) -> TurnRequest {
    decode(body.as_bytes()).unwrap_or_else(|error| panic!("{error:?} for {body}"))
}

#[track_caller]
pub(super) fn refused(body: &str, code: ErrorCode, param: Option<&str>) -> String {
    let error = decode(body.as_bytes()).expect_err(body);
    assert_eq!((error.code, error.param.as_deref()), (code, param), "{error:?} for {body}");
    error.message.into_owned()
}
