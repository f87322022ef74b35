//! Every way a request can fail, in one closed table. Code branches on
//! [`ErrorCode`], people read [`TurnError::message`], logs get
//! [`TurnError::cause`].

use std::{borrow::Cow, time::Duration};

/// How loud a failure is in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    Debug,
    Info,
    Warn,
    Error,
}

/// One line of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorRow {
    pub status: u16,
    pub openai_type: &'static str,
    pub code: &'static str,
    pub anthropic_type: &'static str,
    pub anthropic_status: u16,
    /// Whether the same request may work a little later.
    pub retryable: bool,
    pub level: LogLevel,
}

const INVALID: &str = "invalid_request_error";
const PERMISSION: &str = "permission_error";
const AUTHENTICATION: &str = "authentication_error";
const RATE_LIMIT: &str = "rate_limit_error";
const SERVER: &str = "server_error";
const NOT_FOUND: &str = "not_found_error";
const API: &str = "api_error";
const OVERLOADED: &str = "overloaded_error";
const TIMEOUT: &str = "timeout_error";
const TOO_LARGE: &str = "request_too_large";
const INTERNAL: &str = "internal_error";

/// Defines [`ErrorCode`] by its table.
macro_rules! error_codes {
    ($($(#[$doc:meta])* $name:ident: $status:literal $openai_type:ident $code:literal,
       $anthropic_status:literal $anthropic_type:ident, $retryable:literal, $level:ident;)*) => {
        /// What happened. [`ErrorCode::row`] has what each dialect shows for it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $($(#[$doc])* $name,)*
        }

        impl ErrorCode {
            pub const ALL: [Self; [$($status),*].len()] = [$(Self::$name),*];

            #[must_use]
            pub fn row(self) -> ErrorRow {
                match self {
                    $(Self::$name => ErrorRow {
                        status: $status,
                        openai_type: $openai_type,
                        code: $code,
                        anthropic_type: $anthropic_type,
                        anthropic_status: $anthropic_status,
                        retryable: $retryable,
                        level: LogLevel::$level,
                    },)*
                }
            }
        }
    };
}

// Status, type and code for OpenAI's clients; status and type for Anthropic's; whether the same
// request may work a little later; how loud it is in the log.
error_codes! {
    InvalidJson: 400 INVALID "invalid_json", 400 INVALID, false, Info;
    MissingMessages: 400 INVALID "missing_messages", 400 INVALID, false, Info;
    /// A field has a wrong type or value; `param` names it.
    InvalidValue: 400 INVALID "invalid_value", 400 INVALID, false, Info;
    /// A parameter we understand and cannot honour.
    UnsupportedParameter: 400 INVALID "unsupported_parameter", 400 INVALID, false, Info;
    /// A conversation that the server is to keep, in Anthropic's API. Its clients know this
    /// refusal, and send the whole conversation instead.
    ThreadUnsupported: 400 INVALID "thread_unsupported_request", 400 INVALID, false, Info;
    ModelNotFound: 400 INVALID "model_not_found", 404 NOT_FOUND, false, Info;
    /// The response that a request continues is not stored, or has expired.
    PreviousResponseNotFound: 400 INVALID "previous_response_not_found", 400 INVALID, false, Info;
    /// The response that is asked for is not kept, or no more.
    ResponseNotFound: 404 INVALID "response_not_found", 404 NOT_FOUND, false, Info;
    ContextTooLong: 400 INVALID "context_length_exceeded", 400 INVALID, false, Info;
    RequestTooLarge: 413 INVALID "request_too_large", 413 TOO_LARGE, false, Info;
    /// The model repeats itself and was stopped.
    ToolLoop: 422 INVALID "tool_loop", 400 INVALID, false, Warn;
    RouteNotFound: 404 INVALID "not_found", 404 NOT_FOUND, false, Info;
    MethodNotAllowed: 405 INVALID "method_not_allowed", 405 INVALID, false, Info;
    /// The request's `Host` or `Origin` is not ours.
    ForbiddenOrigin: 403 PERMISSION "forbidden_origin", 403 PERMISSION, false, Warn;
    InvalidApiKey: 401 AUTHENTICATION "invalid_api_key", 401 AUTHENTICATION, false, Warn;
    NotAuthenticated: 401 AUTHENTICATION "not_authenticated", 401 AUTHENTICATION, false, Warn;
    PlanRequired: 403 PERMISSION "plan_required", 403 PERMISSION, false, Warn;
    RegionUnsupported: 403 PERMISSION "region_unsupported", 403 PERMISSION, false, Warn;
    PolicyDenied: 403 PERMISSION "policy_denied", 403 PERMISSION, false, Warn;
    InsufficientQuota: 429 RATE_LIMIT "insufficient_quota", 429 RATE_LIMIT, false, Warn;
    RateLimited: 429 RATE_LIMIT "quota_exceeded", 429 RATE_LIMIT, true, Warn;
    /// Our own limit of concurrent turns.
    Overloaded: 429 RATE_LIMIT "quota_exceeded", 429 RATE_LIMIT, true, Warn;
    ClientOutdated: 502 SERVER "client_outdated", 502 API, false, Error;
    UpstreamError: 502 SERVER "upstream_error", 502 API, true, Warn;
    /// The backend's stream was cut.
    UpstreamClosed: 502 SERVER "upstream_closed", 502 API, true, Warn;
    /// The answer ended without the call that `tool_choice` demands.
    ToolChoiceUnmet: 502 SERVER "tool_choice_unmet", 502 API, false, Warn;
    /// The answer is not the JSON that the client asked for.
    FormatUnmet: 422 INVALID "format_unmet", 400 INVALID, false, Warn;
    Unavailable: 503 SERVER "unavailable", 503 OVERLOADED, true, Warn;
    Timeout: 504 SERVER "timeout", 504 TIMEOUT, true, Warn;
    /// The client disconnected; this error is not shown.
    Cancelled: 499 SERVER "cancelled", 499 API, false, Debug;
    Internal: 500 INTERNAL "server_error", 500 API, false, Error;
}

/// One failure of one request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TurnError {
    pub code: ErrorCode,
    /// For the caller: what happened, why, and what helps. Never a secret.
    pub message: Cow<'static, str>,
    /// Which request field is wrong.
    pub param: Option<Cow<'static, str>>,
    /// When it is worth trying again, if the backend said so.
    pub retry_after: Option<Duration>,
    /// Nothing was heard from the backend, which is more than that it failed.
    pub unreachable: bool,
    /// The same request would fail again, though others with this code may not.
    pub permanent: bool,
    /// For the log only.
    pub cause: Option<String>,
}

/// How long a caller should wait when the backend did not say.
pub const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(5);

/// No caller is asked to wait for longer, whatever the backend says: a wrong number must not stop
/// a client for good.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(24 * 3600);

impl TurnError {
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            message: message.into(),
            param: None,
            retry_after: None,
            unreachable: false,
            permanent: false,
            cause: None,
        }
    }

    #[must_use]
    pub fn param(mut self, param: impl Into<Cow<'static, str>>) -> Self {
        self.param = Some(param.into());
        self
    }

    #[must_use]
    pub fn cause(mut self, cause: impl Into<String>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// Nothing was heard from the backend.
    #[must_use]
    pub fn unreachable(mut self) -> Self {
        self.unreachable = true;
        self
    }

    /// The value of `Retry-After`: always there for rate limits and 503, never where a retry
    /// cannot help.
    #[must_use]
    pub fn retry_after_header(&self) -> Option<Duration> {
        let wait = match self.code {
            _ if self.forbids_retry() => None,
            ErrorCode::RateLimited | ErrorCode::Overloaded | ErrorCode::Unavailable => {
                Some(self.retry_after.unwrap_or(DEFAULT_RETRY_AFTER))
            }
            _ => self.retry_after,
        };
        wait.map(|wait| wait.min(MAX_RETRY_AFTER))
    }

    /// Whether a response says `x-should-retry: false`. The status alone is not enough: some
    /// clients retry a 401 or a 403 for minutes before they show its message.
    #[must_use]
    pub fn forbids_retry(&self) -> bool {
        self.permanent || !self.code.row().retryable
    }
}
