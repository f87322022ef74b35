//! What a failure of the backend means for the caller. Cursor's own error enum is
//! looked at first; its words only where there is no enum or it is too coarse to
//! distinguish a quota from an old client; then the Connect code or the HTTP status.

use std::{borrow::Cow, time::Duration};

use ibeam_proto::aiserver::ErrorKind as Kind;

use super::{link::LinkError, words::ErrorWords};
use crate::{
    codec::connect::{Code, ConnectError},
    error::{ErrorCode, TurnError},
    redact,
};

/// What may be done about a failure, beside reporting it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Nothing: the same request would fail again.
    None,
    /// A passing fault: another try helps while nothing was sent on to the client.
    Retry,
    /// The stream is gone though the turn may live: resume it.
    Resume,
    /// This conversation id or its stored state is bad: a fresh one works.
    FreshConversation,
    /// The token is not taken (any more): another one may be.
    FreshToken,
    /// The provider does not take this prompt: the history in another form may pass.
    OtherForm,
    /// An argument is not valid: that may be the form of the history, or the fields for the model
    /// are at odds.
    OtherFields,
    /// The service wants a tool among the allowed ones.
    AllowTool,
    /// The model is served in its maximum mode only.
    MaxMode,
    /// The region is not served by this host; another one may.
    OtherHost,
    /// The schema of a tool was not understood; it may be as JSON text.
    SchemaText,
}

/// The command that messages name, for the profile that is used when none is named.
pub const SIGN_IN: &str = "ibeam login";

/// A failure, classified.
#[derive(Clone, Debug, PartialEq)]
pub struct PeerFailure {
    pub error: TurnError,
    pub remedy: Remedy,
}

impl PeerFailure {
    pub(crate) fn new(
        code: ErrorCode,
        message: impl Into<Cow<'static, str>>,
        remedy: Remedy,
    ) -> Self {
        Self { error: TurnError::new(code, message), remedy }
    }

    /// A stream that ended before it had begun.
    pub(crate) fn silent() -> Self {
        let text = "Cursor closed the stream without an answer. It does that, among other times, \
                    when the plan's limit is reached: see your plan at cursor.com.";
        Self::new(ErrorCode::UpstreamClosed, text, Remedy::Resume)
    }

    /// A stream that ended before its turn did.
    pub(crate) fn cut_short() -> Self {
        let text = "Cursor closed the stream before the answer was complete.";
        Self::new(ErrorCode::UpstreamClosed, text, Remedy::Resume)
    }

    /// Nothing was heard from the backend.
    fn unreachable(self) -> Self {
        Self { error: self.error.unreachable(), ..self }
    }

    /// With the command of another profile, where the message names one.
    pub(crate) fn for_profile(mut self, sign_in: &str) -> Self {
        let named = format!("`{SIGN_IN}`");
        if sign_in != SIGN_IN && self.error.message.contains(&named) {
            let message = self.error.message.replace(&named, &format!("`{sign_in}`"));
            self.error.message = message.into();
        }
        self
    }
}

/// A Connect error, from an end frame or a refused call.
pub(crate) fn connect_error(error: &ConnectError) -> PeerFailure {
    let words = ErrorWords::of(error);
    let kind = error.detail.as_ref().map(|detail| detail.kind);
    let code = words
        .code()
        .filter(|_| kind.is_none_or(is_coarse))
        .or_else(|| kind.and_then(by_kind))
        .unwrap_or_else(|| by_connect_code(error.code, &words));
    let retryable = error.detail.as_ref().and_then(|detail| detail.retryable);
    let provider = words.provider_status;
    let busy = provider.is_some_and(|status| status == 429 || status >= 500);
    let code = match code {
        _ if words.names_computers() => ErrorCode::InsufficientQuota,
        _ if words.names_region() => ErrorCode::RegionUnsupported,
        _ if words.needs_review() => ErrorCode::PolicyDenied,
        _ if kind == Some(Kind::ErrorRateLimitedChangeable) && words.is_about_plan() => {
            ErrorCode::PlanRequired
        }
        ErrorCode::UpstreamError if provider == Some(400) => ErrorCode::InvalidValue,
        ErrorCode::UpstreamError if kind == Some(Kind::ErrorProviderError) && busy => {
            ErrorCode::Unavailable
        }
        // A limit that waiting does not lift, such as that of a trial.
        ErrorCode::RateLimited if retryable == Some(false) => ErrorCode::InsufficientQuota,
        code => code,
    };
    let lost = words.says(&[
        "blob not found",
        "blobs missing",
        "missing blobs",
        "cannot be restored",
        "conversation data missing",
        "image not found",
    ]);
    let prompt = code == ErrorCode::InvalidValue
        && (provider == Some(400) || error.code == Code::InvalidArgument);
    // Where it says what is used up, a fresh conversation changes nothing.
    let final_words = words.code().is_some_and(|code| !code.row().retryable);
    let stuck = error.code == Code::ResourceExhausted && error.detail.is_none() && !final_words;
    let passing = match code {
        // Cursor calls a busy provider not retryable, and yet it passes.
        ErrorCode::Unavailable | ErrorCode::Timeout => busy || retryable != Some(false),
        ErrorCode::UpstreamError | ErrorCode::UpstreamClosed => busy || retryable == Some(true),
        _ => false,
    };
    let remedy = if words.says(&["not found in alltools"]) {
        Remedy::AllowTool
    } else if kind == Some(Kind::ErrorMaxModeRequired) {
        Remedy::MaxMode
    } else if code == ErrorCode::RegionUnsupported
        && error.code == Code::Unauthenticated
        && kind.is_none_or(is_about_token)
    {
        Remedy::OtherHost
    } else if words.names_schema_bytes() {
        Remedy::SchemaText
    } else if prompt && provider.is_none() {
        Remedy::OtherFields
    } else if prompt {
        Remedy::OtherForm
    } else if lost || stuck {
        Remedy::FreshConversation
    } else if code == ErrorCode::NotAuthenticated && kind.is_none_or(is_about_token) {
        Remedy::FreshToken
    } else if passing {
        Remedy::Retry
    } else {
        Remedy::None
    };
    let cause = format!("connect {}: {}", error.code.as_str(), words.public);
    let hint = if remedy == Remedy::OtherHost {
        Some(
            " The settings of your team at cursor.com decide about regions; another sign-in does not help.",
        )
    } else {
        hint_for_words(&words, kind).or_else(|| kind.and_then(hint_for_kind))
    };
    let mut turn_error = TurnError::new(code, message(code, hint, &words.public)).cause(cause);
    let lasting = retryable == Some(false) && !(busy && passing);
    turn_error.permanent = lasting || error.code == Code::Unimplemented;
    PeerFailure { error: turn_error, remedy }
}

/// A transport that failed.
pub(crate) fn link_error(error: &LinkError) -> PeerFailure {
    match error {
        LinkError::Connect(why) => {
            let text = format!(
                "ibeam cannot reach Cursor: {why}. Check the network, a proxy (HTTPS_PROXY) and \
                 CURSOR_API_URL."
            );
            PeerFailure::new(
                ErrorCode::Unavailable,
                redact::text(&text).into_owned(),
                Remedy::Retry,
            )
            .unreachable()
        }
        LinkError::ConnectTimeout => PeerFailure::new(
            ErrorCode::Timeout,
            "Connecting to Cursor took too long. Check the network, or raise the setting \
             `clocks.connect`.",
            Remedy::Retry,
        )
        .unreachable(),
        LinkError::Refused(why) => {
            let text = format!("Cursor refused the stream: {why}");
            PeerFailure::new(
                ErrorCode::Unavailable,
                redact::text(&text).into_owned(),
                Remedy::Retry,
            )
        }
        LinkError::Reset(why) => {
            let text = format!("The connection to Cursor broke: {why}");
            PeerFailure::new(
                ErrorCode::UpstreamClosed,
                redact::text(&text).into_owned(),
                Remedy::Resume,
            )
        }
        LinkError::Fault(error) => {
            PeerFailure { error: TurnError::clone(error), remedy: Remedy::None }
        }
        LinkError::Status { status, error: Some(error), retry_after } => {
            refused(*status, error, *retry_after)
        }
        LinkError::Status { status, error: None, retry_after } => {
            let failure = by_status(*status, *retry_after);
            // Without an error of Cursor's own, it is a proxy that says so.
            if matches!(status, 502..=504) { failure.unreachable() } else { failure }
        }
    }
}

/// A call that was refused with a status and a body.
fn refused(status: u16, error: &ConnectError, retry_after: Option<Duration>) -> PeerFailure {
    let mut failure = connect_error(error);
    let words = ErrorWords::of(error);
    if error.code == Code::Unknown && error.detail.is_none() && words.code().is_none() {
        // Neither a code of Connect nor known words: the status says more.
        let plain = by_status(status, None);
        failure.error.code = plain.error.code;
        failure.error.permanent |= plain.error.permanent;
        failure.error.message = message(plain.error.code, None, &words.public).into();
        failure.remedy = plain.remedy;
    }
    // A refused call never looked at the conversation: this one is a limit.
    let of_prompt = matches!(failure.remedy, Remedy::OtherForm | Remedy::OtherFields);
    if error.code == Code::ResourceExhausted || of_prompt {
        failure.remedy = Remedy::None;
    }
    if status >= 500 && failure.remedy == Remedy::None && !failure.error.forbids_retry() {
        failure.remedy = Remedy::Retry;
    }
    failure.error.retry_after = retry_after;
    let cause = failure.error.cause.take().unwrap_or_default();
    failure.error.cause = Some(format!("HTTP {status}, {cause}"));
    failure
}

fn by_status(status: u16, retry_after: Option<Duration>) -> PeerFailure {
    let (code, remedy) = match status {
        401 => (ErrorCode::NotAuthenticated, Remedy::FreshToken),
        402 => (ErrorCode::PlanRequired, Remedy::None),
        403 => (ErrorCode::PolicyDenied, Remedy::None),
        451 => (ErrorCode::RegionUnsupported, Remedy::None),
        426 => (ErrorCode::ClientOutdated, Remedy::None),
        413 => (ErrorCode::ContextTooLong, Remedy::None),
        429 => (ErrorCode::RateLimited, Remedy::None),
        503 => (ErrorCode::Unavailable, Remedy::Retry),
        504 => (ErrorCode::Timeout, Remedy::Retry),
        500..=599 => (ErrorCode::UpstreamError, Remedy::Retry),
        _ => (ErrorCode::UpstreamError, Remedy::None),
    };
    let text = message(code, None, &format!("HTTP status {status}"));
    let mut failure = PeerFailure::new(code, text, remedy);
    failure.error.retry_after = retry_after;
    // Another service, or a form that it does not take; but not a conflict or a time-out.
    failure.error.permanent = matches!(status, 400 | 404..=407 | 410..=424);
    failure
}

/// Kinds that blame the token, not the account behind it or a key of the user's.
fn is_about_token(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::ErrorUnspecified
            | Kind::ErrorCustom
            | Kind::ErrorCustomMessage
            | Kind::ErrorNotLoggedIn
            | Kind::ErrorAgentRequiresLogin
            | Kind::ErrorAuthTokenNotFound
            | Kind::ErrorAuthTokenExpired
            | Kind::ErrorUnauthorized
    )
}

/// Kinds that cover several causes, or none.
fn is_coarse(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::ErrorUnspecified
            | Kind::ErrorCustom
            | Kind::ErrorCustomMessage
            | Kind::ErrorFreeUserRateLimitExceeded
            | Kind::ErrorProUserRateLimitExceeded
            | Kind::ErrorOpenaiRateLimitExceeded
            | Kind::ErrorGenericRateLimitExceeded
            | Kind::ErrorGpt4VisionPreviewRateLimit
            | Kind::ErrorApiKeyRateLimit
            | Kind::ErrorRateLimited
            | Kind::ErrorRateLimitedChangeable
            | Kind::ErrorResourceExhausted
            | Kind::ErrorMaxTokens
            | Kind::ErrorOpenai
            | Kind::ErrorProviderError
            | Kind::ErrorInternal
            | Kind::ErrorBadRequest
    )
}

fn by_kind(kind: Kind) -> Option<ErrorCode> {
    Some(match kind {
        Kind::ErrorBadApiKey
        | Kind::ErrorNotLoggedIn
        | Kind::ErrorInvalidAuthId
        | Kind::ErrorUserNotFound
        | Kind::ErrorAuthTokenNotFound
        | Kind::ErrorAuthTokenExpired
        | Kind::ErrorAgentRequiresLogin
        | Kind::ErrorUnauthorized
        | Kind::ErrorBadUserApiKey => ErrorCode::NotAuthenticated,
        Kind::ErrorProUserOnly
        | Kind::ErrorUsagePricingRequired
        | Kind::ErrorUsagePricingRequiredChangeable
        | Kind::ErrorMaxModeRequired => ErrorCode::PlanRequired,
        Kind::ErrorNotHighEnoughPermissions
        | Kind::ErrorApiKeyNotSupported
        | Kind::ErrorHooksBlocked
        | Kind::ErrorSuspiciousUsageBlocked
        | Kind::ErrorModelBlocked
        | Kind::ErrorAccountClosed
        | Kind::ErrorTaskNoPermissions => ErrorCode::PolicyDenied,
        Kind::ErrorUnsupportedRegion => ErrorCode::RegionUnsupported,
        Kind::ErrorBadModelName | Kind::ErrorModelNoLongerSupported => ErrorCode::ModelNotFound,
        Kind::ErrorFreeUserUsageLimit
        | Kind::ErrorProUserUsageLimit
        | Kind::ErrorOpenaiAccountLimitExceeded => ErrorCode::InsufficientQuota,
        Kind::ErrorFreeUserRateLimitExceeded
        | Kind::ErrorProUserRateLimitExceeded
        | Kind::ErrorOpenaiRateLimitExceeded
        | Kind::ErrorGenericRateLimitExceeded
        | Kind::ErrorGpt4VisionPreviewRateLimit
        | Kind::ErrorApiKeyRateLimit
        | Kind::ErrorDebounced
        | Kind::ErrorRateLimited
        | Kind::ErrorRateLimitedChangeable
        | Kind::ErrorSlowPool => ErrorCode::RateLimited,
        Kind::ErrorOutdatedClient | Kind::ErrorDeprecated => ErrorCode::ClientOutdated,
        Kind::ErrorConversationTooLong | Kind::ErrorSlashEditFileTooLong => {
            ErrorCode::ContextTooLong
        }
        Kind::ErrorClaudeImageTooLarge | Kind::ErrorFileUnsupported | Kind::ErrorBadRequest => {
            ErrorCode::InvalidValue
        }
        Kind::ErrorTimeout | Kind::ErrorExtensionHostTimeout => ErrorCode::Timeout,
        Kind::ErrorResourceExhausted | Kind::ErrorMaxTokens => ErrorCode::Unavailable,
        Kind::ErrorProviderError
        | Kind::ErrorNetworkError
        | Kind::ErrorOpenai
        | Kind::ErrorInternal => ErrorCode::UpstreamError,
        // Too general, or nothing a chat can cause: the Connect code decides.
        _ => return None,
    })
}

fn by_connect_code(code: Code, words: &ErrorWords) -> ErrorCode {
    match code {
        Code::Unauthenticated => ErrorCode::NotAuthenticated,
        Code::PermissionDenied => ErrorCode::PolicyDenied,
        // The Agent API says this for a model it does not know, and other services
        // for other things.
        Code::NotFound if words.says(&["model"]) => ErrorCode::ModelNotFound,
        Code::ResourceExhausted => ErrorCode::RateLimited,
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => {
            ErrorCode::InvalidValue
        }
        Code::DeadlineExceeded => ErrorCode::Timeout,
        Code::Unavailable => ErrorCode::Unavailable,
        Code::Canceled | Code::Aborted => ErrorCode::UpstreamClosed,
        Code::Unknown
        | Code::NotFound
        | Code::AlreadyExists
        | Code::Unimplemented
        | Code::Internal
        | Code::DataLoss => ErrorCode::UpstreamError,
    }
}

/// Cursor's words, and what helps: `hint`, else what is usual for the code.
fn message(code: ErrorCode, hint: Option<&'static str>, words: &str) -> String {
    let hint = hint.unwrap_or_else(|| hint_for_code(code));
    let words = words.trim_end_matches('.');
    format!("Cursor answered: {words}.{hint}")
}

/// Where neither the code nor the kind says what helps.
fn hint_for_words(words: &ErrorWords, kind: Option<Kind>) -> Option<&'static str> {
    if words.names_computers() {
        Some(" Cursor serves this account again within a day.")
    } else if kind == Some(Kind::ErrorRateLimitedChangeable) && words.is_about_plan() {
        Some(" Your plan includes only the model `auto`.")
    } else {
        None
    }
}

/// Where one code has several ways out.
fn hint_for_kind(kind: Kind) -> Option<&'static str> {
    Some(match kind {
        Kind::ErrorBadApiKey | Kind::ErrorBadUserApiKey => {
            " Make a new key in the dashboard at cursor.com and set CURSOR_API_KEY to it, or run \
             `ibeam login`."
        }
        Kind::ErrorApiKeyNotSupported => {
            " An API key is not enough for this: unset CURSOR_API_KEY and run `ibeam login`."
        }
        Kind::ErrorNotHighEnoughPermissions | Kind::ErrorTaskNoPermissions => {
            " Your role does not allow this; ask an administrator of your Cursor team."
        }
        Kind::ErrorUsagePricingRequired | Kind::ErrorUsagePricingRequiredChangeable => {
            " Your plan does not include this: enable usage-based pricing at cursor.com, or choose \
             another model."
        }
        Kind::ErrorDeprecated => {
            " Cursor no longer serves this kind of request, whatever the client version. Update \
             ibeam."
        }
        Kind::ErrorMaxModeRequired => " Choose another model; `ibeam models` lists them.",
        Kind::ErrorModelBlocked => {
            " Agree to the terms of this model at cursor.com, or choose another model; `ibeam \
             models` lists them."
        }
        _ => return None,
    })
}

fn hint_for_code(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::NotAuthenticated => {
            " Run `ibeam login`, or give a valid token in CURSOR_ACCESS_TOKEN."
        }
        ErrorCode::ModelNotFound => " `ibeam models` lists the models of your plan.",
        ErrorCode::ClientOutdated => {
            " Set a newer version for ibeam to report: `client_version`, or CURSOR_CLIENT_VERSION."
        }
        ErrorCode::ContextTooLong => " The prompt is too long for this model.",
        ErrorCode::InsufficientQuota => " Waiting does not help; see your plan at cursor.com.",
        ErrorCode::PlanRequired => " Your plan at cursor.com does not include this.",
        ErrorCode::RegionUnsupported => " Another model may be available in your region.",
        ErrorCode::PolicyDenied => {
            " Check your account at cursor.com, or ask an administrator of your team."
        }
        ErrorCode::RateLimited | ErrorCode::Timeout => " Try again later.",
        ErrorCode::Unavailable => " Try again later, or choose another model.",
        _ => "",
    }
}

#[cfg(test)]
#[path = "classify_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "classify_table_tests.rs"]
mod table_tests;

#[cfg(test)]
#[path = "classify_section_7_tests.rs"]
mod section_7_tests;
