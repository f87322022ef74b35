//! Every way a request can fail, in one closed table. Code branches on
//! [`ErrorCode`], people read [`TurnError::message`], logs get
//! [`TurnError::cause`].

use std::{borrow::Cow, time::Duration};

/// What happened. A new variant does not compile until [`ErrorCode::row`] says
/// what each dialect shows for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    InvalidJson,
    MissingMessages,
    /// A field has a wrong type or value; `param` names it.
    InvalidValue,
    /// A parameter we understand and cannot honour.
    UnsupportedParameter,
    /// A conversation that the server is to keep, in Anthropic's API. Its clients know this
    /// refusal, and send the whole conversation instead.
    ThreadUnsupported,
    ModelNotFound,
    /// The response that a request continues is not stored, or has expired.
    PreviousResponseNotFound,
    /// The response that is asked for is not kept, or no more.
    ResponseNotFound,
    ContextTooLong,
    RequestTooLarge,
    /// The model repeats itself and was stopped.
    ToolLoop,
    RouteNotFound,
    MethodNotAllowed,
    /// The request's `Host` or `Origin` is not ours.
    ForbiddenOrigin,
    InvalidApiKey,
    NotAuthenticated,
    PlanRequired,
    RegionUnsupported,
    PolicyDenied,
    InsufficientQuota,
    RateLimited,
    /// Our own limit of concurrent turns.
    Overloaded,
    ClientOutdated,
    UpstreamError,
    /// The backend's stream was cut.
    UpstreamClosed,
    /// The answer ended without the call that `tool_choice` demands.
    ToolChoiceUnmet,
    /// The answer is not the JSON that the client asked for.
    FormatUnmet,
    Unavailable,
    Timeout,
    /// The client disconnected; this error is not shown.
    Cancelled,
    Internal,
}

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

impl ErrorCode {
    pub const ALL: [Self; 31] = [
        Self::InvalidJson,
        Self::MissingMessages,
        Self::InvalidValue,
        Self::UnsupportedParameter,
        Self::ThreadUnsupported,
        Self::ModelNotFound,
        Self::PreviousResponseNotFound,
        Self::ResponseNotFound,
        Self::ContextTooLong,
        Self::RequestTooLarge,
        Self::ToolLoop,
        Self::RouteNotFound,
        Self::MethodNotAllowed,
        Self::ForbiddenOrigin,
        Self::InvalidApiKey,
        Self::NotAuthenticated,
        Self::PlanRequired,
        Self::RegionUnsupported,
        Self::PolicyDenied,
        Self::InsufficientQuota,
        Self::RateLimited,
        Self::Overloaded,
        Self::ClientOutdated,
        Self::UpstreamError,
        Self::UpstreamClosed,
        Self::ToolChoiceUnmet,
        Self::FormatUnmet,
        Self::Unavailable,
        Self::Timeout,
        Self::Cancelled,
        Self::Internal,
    ];

    #[must_use]
    pub fn row(self) -> ErrorRow {
        use LogLevel::{Debug, Error, Info, Warn};
        let row = |status, openai_type, code, anthropic_type, retryable, level| ErrorRow {
            status,
            openai_type,
            code,
            anthropic_type,
            anthropic_status: status,
            retryable,
            level,
        };
        match self {
            Self::InvalidJson => row(400, INVALID, "invalid_json", INVALID, false, Info),
            Self::MissingMessages => row(400, INVALID, "missing_messages", INVALID, false, Info),
            Self::InvalidValue => row(400, INVALID, "invalid_value", INVALID, false, Info),
            Self::UnsupportedParameter => {
                row(400, INVALID, "unsupported_parameter", INVALID, false, Info)
            }
            Self::ThreadUnsupported => {
                row(400, INVALID, "thread_unsupported_request", INVALID, false, Info)
            }
            Self::ModelNotFound => ErrorRow {
                anthropic_status: 404,
                ..row(400, INVALID, "model_not_found", "not_found_error", false, Info)
            },
            Self::PreviousResponseNotFound => {
                row(400, INVALID, "previous_response_not_found", INVALID, false, Info)
            }
            Self::ResponseNotFound => {
                row(404, INVALID, "response_not_found", "not_found_error", false, Info)
            }
            Self::ContextTooLong => {
                row(400, INVALID, "context_length_exceeded", INVALID, false, Info)
            }
            Self::RequestTooLarge => {
                row(413, INVALID, "request_too_large", "request_too_large", false, Info)
            }
            Self::ToolLoop => ErrorRow {
                anthropic_status: 400,
                ..row(422, INVALID, "tool_loop", INVALID, false, Warn)
            },
            Self::RouteNotFound => row(404, INVALID, "not_found", "not_found_error", false, Info),
            Self::MethodNotAllowed => row(405, INVALID, "method_not_allowed", INVALID, false, Info),
            Self::ForbiddenOrigin => {
                row(403, "permission_error", "forbidden_origin", "permission_error", false, Warn)
            }
            Self::InvalidApiKey => {
                let kind = "authentication_error";
                row(401, kind, "invalid_api_key", kind, false, Warn)
            }
            Self::NotAuthenticated => {
                let kind = "authentication_error";
                row(401, kind, "not_authenticated", kind, false, Warn)
            }
            Self::PlanRequired => {
                row(403, "permission_error", "plan_required", "permission_error", false, Warn)
            }
            Self::RegionUnsupported => {
                row(403, "permission_error", "region_unsupported", "permission_error", false, Warn)
            }
            Self::PolicyDenied => {
                row(403, "permission_error", "policy_denied", "permission_error", false, Warn)
            }
            Self::InsufficientQuota => {
                row(429, "rate_limit_error", "insufficient_quota", "rate_limit_error", false, Warn)
            }
            Self::RateLimited | Self::Overloaded => {
                row(429, "rate_limit_error", "quota_exceeded", "rate_limit_error", true, Warn)
            }
            Self::ClientOutdated => {
                row(502, "server_error", "client_outdated", "api_error", false, Error)
            }
            Self::UpstreamError => {
                row(502, "server_error", "upstream_error", "api_error", true, Warn)
            }
            Self::UpstreamClosed => {
                row(502, "server_error", "upstream_closed", "api_error", true, Warn)
            }
            Self::ToolChoiceUnmet => {
                row(502, "server_error", "tool_choice_unmet", "api_error", false, Warn)
            }
            Self::FormatUnmet => ErrorRow {
                anthropic_status: 400,
                ..row(422, INVALID, "format_unmet", INVALID, false, Warn)
            },
            Self::Unavailable => {
                row(503, "server_error", "unavailable", "overloaded_error", true, Warn)
            }
            Self::Timeout => row(504, "server_error", "timeout", "timeout_error", true, Warn),
            Self::Cancelled => row(499, "server_error", "cancelled", "api_error", false, Debug),
            Self::Internal => row(500, "internal_error", "server_error", "api_error", false, Error),
        }
    }
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
