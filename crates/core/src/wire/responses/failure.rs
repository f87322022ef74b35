//! A failed turn as `response.error`.

use std::borrow::Cow;

use super::types::ErrorPart;
use crate::{
    error::{ErrorCode, TurnError},
    redact,
};

/// The code decides what a client does next. Codex gives up on the first three, shows the
/// message of an invalid prompt and gives up as well, waits as long as the message of a rate
/// limit says, and tries everything else again at once (an answer in the wrong format may well
/// be in the right one then).
fn code(error: ErrorCode) -> &'static str {
    match error {
        ErrorCode::ContextTooLong => "context_length_exceeded",
        ErrorCode::InsufficientQuota => "insufficient_quota",
        ErrorCode::Unavailable => "server_is_overloaded",
        ErrorCode::RateLimited | ErrorCode::Overloaded => "rate_limit_exceeded",
        ErrorCode::FormatUnmet => "format_unmet",
        ErrorCode::Cancelled | ErrorCode::Internal => "server_error",
        other if other.row().retryable => "server_error",
        _ => "invalid_prompt",
    }
}

pub(super) fn describe(error: &TurnError) -> ErrorPart<'_> {
    let code = code(error.code);
    // It may quote what the client sent.
    let message = redact::text(&error.message);
    let wait = error.retry_after_header().filter(|_| code == "rate_limit_exceeded");
    let message = match wait {
        Some(wait) => Cow::Owned(format!("{message} (try again in {}s)", wait.as_secs().max(1))),
        None => message,
    };
    ErrorPart { code, message }
}
