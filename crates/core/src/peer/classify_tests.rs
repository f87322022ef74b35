use ErrorCode as E;

use super::*;
use crate::codec::connect::CursorError;

fn detailed(code: Code, kind: Kind, title: &str, detail: &str) -> ConnectError {
    ConnectError {
        code,
        message: "Error".into(),
        detail: Some(Box::new(CursorError {
            kind,
            title: title.into(),
            detail: detail.into(),
            retryable: None,
            ..CursorError::default()
        })),
    }
}

#[test]
fn error_detail_wins_over_the_connect_code() {
    let code = Code::ResourceExhausted;
    for (kind, want) in [
        (Kind::ErrorNotLoggedIn, E::NotAuthenticated),
        (Kind::ErrorAuthTokenExpired, E::NotAuthenticated),
        (Kind::ErrorProUserOnly, E::PlanRequired),
        (Kind::ErrorUsagePricingRequired, E::PlanRequired),
        (Kind::ErrorUnsupportedRegion, E::RegionUnsupported),
        (Kind::ErrorSuspiciousUsageBlocked, E::PolicyDenied),
        (Kind::ErrorBadModelName, E::ModelNotFound),
        (Kind::ErrorFreeUserUsageLimit, E::InsufficientQuota),
        (Kind::ErrorRateLimited, E::RateLimited),
        (Kind::ErrorOutdatedClient, E::ClientOutdated),
        (Kind::ErrorConversationTooLong, E::ContextTooLong),
        (Kind::ErrorTimeout, E::Timeout),
        (Kind::ErrorProviderError, E::UpstreamError),
        // Says nothing: the code decides.
        (Kind::ErrorCustom, E::RateLimited),
        (Kind::ErrorUnspecified, E::RateLimited),
    ] {
        let failure = connect_error(&detailed(code, kind, "T", "D"));
        assert_eq!(failure.error.code, want, "{kind:?}");
        assert!(failure.error.message.contains("T: D"), "{}", failure.error.message);
    }
}

#[test]
fn message_of_a_429_is_checked_before_it_counts_as_quota() {
    for (words, want) in [
        ("Update Required: get the newest version", E::ClientOutdated),
        ("You have an unpaid invoice", E::InsufficientQuota),
        ("You hit your usage limit", E::InsufficientQuota),
        ("This model is not available in your country or region", E::RegionUnsupported),
        ("High Load: switch to Auto", E::Unavailable),
        ("Your prompt is too long", E::ContextTooLong),
        ("Please update to the latest version of Cursor", E::ClientOutdated),
        ("You reached your spend limit. Upgrade to Pro", E::InsufficientQuota),
        ("This model requires a paid plan", E::PlanRequired),
        ("Fast requests are not included in your plan", E::PlanRequired),
        ("The input is too long for this model", E::ContextTooLong),
        ("slow down", E::RateLimited),
    ] {
        let error = detailed(Code::ResourceExhausted, Kind::ErrorRateLimited, words, "");
        assert_eq!(connect_error(&error).error.code, want, "{words}");
    }
}

#[test]
fn connect_codes_without_details_are_classified() {
    for (code, want) in [
        (Code::Unauthenticated, E::NotAuthenticated),
        (Code::PermissionDenied, E::PolicyDenied),
        (Code::NotFound, E::UpstreamError),
        (Code::ResourceExhausted, E::RateLimited),
        (Code::InvalidArgument, E::InvalidValue),
        (Code::FailedPrecondition, E::InvalidValue),
        (Code::DeadlineExceeded, E::Timeout),
        (Code::Unavailable, E::Unavailable),
        (Code::Aborted, E::UpstreamClosed),
        (Code::Internal, E::UpstreamError),
    ] {
        assert_eq!(connect_error(&ConnectError::new(code, "x")).error.code, want, "{code:?}");
    }
}

#[test]
fn remedies_of_connect_errors() {
    for (error, want) in [
        (ConnectError::new(Code::Internal, "Blob not found"), Remedy::FreshConversation),
        (ConnectError::new(Code::Internal, "Conversation data missing"), Remedy::FreshConversation),
        (ConnectError::new(Code::ResourceExhausted, ""), Remedy::FreshConversation),
        (detailed(Code::ResourceExhausted, Kind::ErrorRateLimited, "", ""), Remedy::None),
        (ConnectError::new(Code::Unavailable, ""), Remedy::Retry),
        (ConnectError::new(Code::Unauthenticated, ""), Remedy::FreshToken),
        (detailed(Code::Unauthenticated, Kind::ErrorAuthTokenExpired, "", ""), Remedy::FreshToken),
        (detailed(Code::Unauthenticated, Kind::ErrorUnauthorized, "", ""), Remedy::FreshToken),
        (detailed(Code::Unauthenticated, Kind::ErrorBadUserApiKey, "", ""), Remedy::None),
        (detailed(Code::Unauthenticated, Kind::ErrorUserNotFound, "", ""), Remedy::None),
    ] {
        assert_eq!(connect_error(&error).remedy, want, "{error:?}");
    }
    assert_eq!(link_error(&LinkError::Reset("x".into())).remedy, Remedy::Resume);
    assert_eq!(link_error(&LinkError::Refused("x".into())).remedy, Remedy::Retry);
}

#[test]
fn precise_error_detail_wins_over_the_message() {
    for (kind, words, want) in [
        (Kind::ErrorMaxModeRequired, "needs a larger context window", E::PlanRequired),
        (Kind::ErrorUsagePricingRequired, "you hit your usage limit", E::PlanRequired),
        (Kind::ErrorBadModelName, "context window", E::ModelNotFound),
        (Kind::ErrorRateLimited, "you hit your usage limit", E::InsufficientQuota),
        (Kind::ErrorProviderError, "Unable to reach the model provider", E::Unavailable),
    ] {
        let error = detailed(Code::ResourceExhausted, kind, words, "");
        assert_eq!(connect_error(&error).error.code, want, "{kind:?}");
    }
    let model = ConnectError::new(Code::NotFound, "Model not found: gpt-9");
    assert_eq!(connect_error(&model).error.code, E::ModelNotFound);
}

#[test]
fn retryable_flag_of_the_backend_is_used() {
    for (kind, retryable, want) in [
        (Kind::ErrorProviderError, Some(true), Remedy::Retry),
        (Kind::ErrorProviderError, None, Remedy::None),
        (Kind::ErrorTimeout, Some(false), Remedy::None),
        (Kind::ErrorTimeout, None, Remedy::Retry),
        (Kind::ErrorFreeUserUsageLimit, Some(true), Remedy::None),
        (Kind::ErrorNotLoggedIn, Some(true), Remedy::FreshToken),
    ] {
        let mut error = detailed(Code::Internal, kind, "", "");
        error.detail.as_mut().unwrap().retryable = retryable;
        assert_eq!(connect_error(&error).remedy, want, "{kind:?} {retryable:?}");
    }
}

#[test]
fn exhausted_plan_has_no_retry_after() {
    for (words, wait) in [("Usage limit", None), ("Slow down", Some(Duration::from_secs(17)))] {
        let error = ConnectError::new(Code::ResourceExhausted, words);
        let retry_after = Some(Duration::from_secs(17));
        let refused = LinkError::Status { status: 429, error: Some(error), retry_after };
        let failure = link_error(&refused).error;
        assert_eq!(failure.retry_after_header(), wait, "{words}");
        assert_eq!(failure.forbids_retry(), wait.is_none(), "{words}");
    }
}

#[test]
fn unknown_connect_code_falls_back_to_the_status() {
    for (status, want) in
        [(401, E::NotAuthenticated), (403, E::PolicyDenied), (429, E::RateLimited)]
    {
        let error = ConnectError::from_json(br#"{"code":"unauthorized","message":"who?"}"#);
        let failure = link_error(&LinkError::Status { status, error, retry_after: None });
        assert_eq!(failure.error.code, want);
        assert!(failure.error.message.contains("who?"), "{}", failure.error.message);
    }
}

/// Every status the sign-in can end in, and what the caller of ibeam sees of it.
#[test]
fn sign_in_errors_have_status_and_hint() {
    for (kind, status, says) in [
        (Kind::ErrorNotLoggedIn, 401, "ibeam login"),
        (Kind::ErrorAuthTokenNotFound, 401, "ibeam login"),
        (Kind::ErrorAuthTokenExpired, 401, "ibeam login"),
        (Kind::ErrorUnauthorized, 401, "ibeam login"),
        (Kind::ErrorAgentRequiresLogin, 401, "ibeam login"),
        (Kind::ErrorProUserOnly, 403, "plan"),
        (Kind::ErrorUsagePricingRequired, 403, "plan"),
        (Kind::ErrorUnsupportedRegion, 403, "Another model"),
        (Kind::ErrorAccountClosed, 403, "closed"),
        (Kind::ErrorSuspiciousUsageBlocked, 403, "closed"),
        (Kind::ErrorFreeUserUsageLimit, 429, "Waiting does not help"),
        (Kind::ErrorRateLimited, 429, "closed"),
    ] {
        let error = detailed(Code::Unauthenticated, kind, "closed", "");
        let error = connect_error(&error).error;
        assert_eq!(error.code.row().status, status, "{kind:?}");
        assert!(error.message.contains(says), "{kind:?}: {}", error.message);
    }
    for (status, want) in [(402, E::PlanRequired), (426, E::ClientOutdated)] {
        let failure = link_error(&LinkError::Status { status, error: None, retry_after: None });
        assert_eq!(failure.error.code, want);
    }
}

#[test]
fn messages_name_the_command_and_keep_secrets_out() {
    let error =
        ConnectError::new(Code::Unauthenticated, "bad token crsr_0123456789abcdef0123456789");
    let message = connect_error(&error).error.message;
    assert!(message.contains("ibeam login"), "{message}");
    assert!(message.contains("CURSOR_ACCESS_TOKEN"), "{message}");
    assert!(!message.contains("0123456789abcdef"), "{message}");
    let outdated = detailed(Code::Internal, Kind::ErrorOutdatedClient, "Update Required", "");
    assert!(connect_error(&outdated).error.message.contains("CURSOR_CLIENT_VERSION"));
}

#[test]
fn retry_after_of_the_backend_is_kept() {
    let wait = Some(Duration::from_secs(7));
    let failure = link_error(&LinkError::Status { status: 429, error: None, retry_after: wait });
    assert_eq!(failure.error.code, E::RateLimited);
    assert_eq!(failure.error.retry_after, wait);
}

#[test]
fn sign_in_hint_names_the_profile() {
    let refused = || connect_error(&ConnectError::new(Code::Unauthenticated, "who?"));
    let message = refused().for_profile("ibeam login --profile work").error.message;
    assert!(message.contains("Run `ibeam login --profile work`"), "{message}");
    assert_eq!(refused().for_profile(SIGN_IN).error, refused().error);
    let other = || connect_error(&ConnectError::new(Code::Unavailable, "later"));
    assert_eq!(other().for_profile("ibeam login --profile work").error, other().error);
}

/// A backend that answers can be reached, whatever it answers, and so may one that our own
/// limits kept us from asking.
#[test]
fn only_a_failed_connection_is_unreachable() {
    let status = |status, error| LinkError::Status { status, error, retry_after: None };
    let unavailable = ConnectError::new(Code::Unavailable, "down");
    let local = TurnError::new(E::Unavailable, "the program cannot be started");
    for (error, unreachable) in [
        (LinkError::Connect("refused".into()), true),
        (LinkError::ConnectTimeout, true),
        (status(502, None), true),
        (status(503, None), true),
        (status(504, None), true),
        (status(429, None), false),
        (status(500, None), false),
        (status(503, Some(unavailable.clone())), false),
        (LinkError::Refused("GOAWAY".into()), false),
        (LinkError::Reset("by the server".into()), false),
        (LinkError::Fault(Box::new(local)), false),
    ] {
        assert_eq!(link_error(&error).error.unreachable, unreachable, "{error:?}");
    }
    assert!(!connect_error(&unavailable).error.unreachable);
}

/// Cursor says so, or the service does not know what was asked for.
#[test]
fn permanent_errors_are_marked_whatever_their_code() {
    let told = |code, kind, retryable| {
        let mut error = detailed(code, kind, "Trial limit", "");
        error.detail.as_mut().unwrap().retryable = Some(retryable);
        connect_error(&error)
    };
    for kind in [Kind::ErrorProviderError, Kind::ErrorTimeout, Kind::ErrorResourceExhausted] {
        let failure = told(Code::Internal, kind, false);
        assert_eq!(failure.remedy, Remedy::None, "{kind:?}");
        assert!(failure.error.forbids_retry(), "{kind:?}");
        assert_eq!(failure.error.retry_after_header(), None, "{kind:?}");
        assert!(!told(Code::Internal, kind, true).error.forbids_retry(), "{kind:?}");
    }
    let limit = |retryable| told(Code::ResourceExhausted, Kind::ErrorRateLimited, retryable).error;
    assert_eq!(limit(false).code, E::InsufficientQuota);
    assert_eq!(limit(true).code, E::RateLimited);

    assert!(connect_error(&ConnectError::new(Code::Unimplemented, "?")).error.forbids_retry());
    for (status, permanent) in [
        (400, true),
        (404, true),
        (405, true),
        (415, true),
        (408, false),
        (409, false),
        (429, false),
        (500, false),
        (502, false),
        (503, false),
    ] {
        for error in [None, ConnectError::from_json(br#"{"code":"?","message":"what?"}"#)] {
            let refused = LinkError::Status { status, error, retry_after: None };
            let failure = link_error(&refused);
            assert_eq!(failure.error.forbids_retry(), permanent, "{refused:?}");
            assert!(!permanent || failure.remedy == Remedy::None, "{refused:?}");
        }
    }
}

#[test]
fn token_limit_error_about_the_context_is_permanent() {
    let error = |title: &str| {
        connect_error(&detailed(Code::ResourceExhausted, Kind::ErrorMaxTokens, title, ""))
    };
    let failure = error("This exceeds the context window of the model");
    assert_eq!((failure.error.code, failure.remedy), (E::ContextTooLong, Remedy::None));
    assert_eq!(error("Try later").remedy, Remedy::Retry);
}

#[test]
fn retry_delay_of_more_than_a_day_is_shortened() {
    let retry_after = Some(Duration::from_secs(u64::MAX));
    let failure = link_error(&LinkError::Status { status: 429, error: None, retry_after });
    assert_eq!(failure.error.retry_after_header(), Some(Duration::from_secs(86_400)));
}
