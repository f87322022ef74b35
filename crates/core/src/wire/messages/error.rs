//! A failure as Anthropic's clients read it.

use std::borrow::Cow;

use serde::Serialize;

use crate::{error::TurnError, redact};

/// As a response body, and as the data of an `error` event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ErrorBody<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    error: ErrorObject<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct ErrorObject<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    message: Cow<'a, str>,
}

impl<'a> ErrorBody<'a> {
    #[must_use]
    pub fn new(error: &'a TurnError, request_id: Option<&'a str>) -> Self {
        Self {
            kind: "error",
            error: ErrorObject {
                kind: error.code.row().anthropic_type,
                // It may quote what the client sent.
                message: redact::text(&error.message),
            },
            request_id,
        }
    }
}
