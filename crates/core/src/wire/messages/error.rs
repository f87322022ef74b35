//! A failure as Anthropic's clients read it.

use std::borrow::Cow;

use serde::Serialize;

use crate::{
    error::{ErrorCode, TurnError},
    redact,
};

/// As a response body, and as the data of an `error` event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AnthropicErrorBody<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    error: AnthropicError<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct AnthropicError<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    message: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Details<'a>>,
}

/// What programs read of the few errors that they act upon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Details<'a> {
    error_code: &'static str,
    unsupported: Option<[&'a str; 1]>,
}

impl<'a> AnthropicErrorBody<'a> {
    #[must_use]
    pub fn new(error: &'a TurnError, request_id: Option<&'a str>) -> Self {
        let row = error.code.row();
        Self {
            kind: "error",
            error: AnthropicError {
                kind: row.anthropic_type,
                message: message(error),
                details: (error.code == ErrorCode::ThreadUnsupported).then(|| Details {
                    error_code: row.code,
                    unsupported: error.param.as_deref().map(|param| [param]),
                }),
            },
            request_id,
        }
    }
}

/// Clients know a prompt that is too long by these words, at the start.
const TOO_LONG: &str = "prompt is too long";

/// This shape has no place for the field at fault, so the message begins with it.
fn message(error: &TurnError) -> Cow<'_, str> {
    // It may quote what the client sent.
    let text = redact::text(&error.message);
    if error.code == ErrorCode::ContextTooLong {
        return if text.starts_with(TOO_LONG) {
            text
        } else {
            format!("{TOO_LONG}: {text}").into()
        };
    }
    match error.param.as_deref() {
        Some(param) if !text.contains(param) => format!("{param}: {text}").into(),
        _ => text,
    }
}

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;
