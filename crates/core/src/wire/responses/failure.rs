//! A failed turn as `response.error`.

use std::borrow::Cow;

use super::types::ErrorPart;
use crate::{
    error::{ErrorCode, TurnError},
    redact,
};

/// The code decides what a client does next. Codex gives up on the first two and on
/// `server_is_overloaded`, which is therefore never sent: what is unavailable now may be there
/// in a moment. It shows the message of an invalid prompt and gives up as well, waits as long
/// as the message of a rate limit says, and retries everything else (an answer in the wrong
/// format may well be in the right one then).
fn code(error: &TurnError) -> &'static str {
    match error.code {
        ErrorCode::ContextTooLong => "context_length_exceeded",
        ErrorCode::InsufficientQuota => "insufficient_quota",
        ErrorCode::RateLimited | ErrorCode::Overloaded => "rate_limit_exceeded",
        ErrorCode::FormatUnmet => "format_unmet",
        ErrorCode::Cancelled | ErrorCode::Internal => "server_error",
        _ if !error.forbids_retry() => "server_error",
        _ => "invalid_prompt",
    }
}

/// Whether Codex makes more of this failure in the stream than of a status. It shows the body
/// of a 400 as it is, retries a 5xx four times for each of its own five retries, and gives up
/// on a 429 without its message. It knows all of them as codes of `response.failed`.
#[must_use]
pub fn codex_reads_in_stream(error: ErrorCode) -> bool {
    error == ErrorCode::ContextTooLong
        || error == ErrorCode::InsufficientQuota
        || error.row().retryable
}

pub(super) fn describe(error: &TurnError) -> ErrorPart<'_> {
    let code = code(error);
    // It may quote what the client sent.
    let message = redact::text(&error.message);
    let wait = error.retry_after_header().filter(|_| code == "rate_limit_exceeded");
    let message = match wait {
        Some(wait) => Cow::Owned(format!("{message} (try again in {}s)", wait.as_secs().max(1))),
        None => message,
    };
    ErrorPart { code, message }
}
