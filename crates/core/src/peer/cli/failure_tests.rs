use super::*;

fn exit(code: Option<i32>, stderr: &str) -> Exit {
    Exit { code, stderr: stderr.to_owned() }
}

fn of(stderr: &str) -> PeerFailure {
    of_exit(&exit(Some(1), stderr), "", false)
}

#[test]
fn stderr_is_classified_by_its_words() {
    use ErrorCode as Code;
    let rows = [
        ("\x1b[31mError: Not logged in\x1b[0m", Code::NotAuthenticated, Remedy::None),
        ("Unauthorized", Code::NotAuthenticated, Remedy::None),
        ("auth error", Code::NotAuthenticated, Remedy::None),
        ("auth", Code::NotAuthenticated, Remedy::None),
        ("Error: auth check did not pass", Code::NotAuthenticated, Remedy::None),
        ("E_AUTH_EXPIRED", Code::NotAuthenticated, Remedy::None),
        ("OAuth: refresh was denied", Code::NotAuthenticated, Remedy::None),
        ("connect ECONNREFUSED auth.example:443", Code::Unavailable, Remedy::Retry),
        ("unknown author of the commit", Code::UpstreamError, Remedy::None),
        (
            "⚠ Authentication required. Run 'agent login', or set CURSOR_API_KEY.",
            Code::NotAuthenticated,
            Remedy::None,
        ),
        ("b: You've hit your usage limit", Code::InsufficientQuota, Remedy::None),
        ("quota exceeded, upgrade to pro", Code::InsufficientQuota, Remedy::None),
        ("Rate limit reached", Code::RateLimited, Remedy::None),
        ("Cannot use this model: x. Available models: a", Code::ModelNotFound, Remedy::None),
        ("unknown model gpt-9", Code::ModelNotFound, Remedy::None),
        ("invalid model", Code::ModelNotFound, Remedy::None),
        ("Error: model not found", Code::ModelNotFound, Remedy::None),
        ("connect ECONNREFUSED 127.0.0.1:443", Code::Unavailable, Remedy::Retry),
        ("TypeError: fetch failed", Code::Unavailable, Remedy::Retry),
        ("A network error", Code::Unavailable, Remedy::Retry),
        ("self-signed certificate is untrusted", Code::Unavailable, Remedy::Retry),
        ("Model is not available in your region", Code::RegionUnsupported, Remedy::None),
        ("This is not available in your country or region", Code::RegionUnsupported, Remedy::None),
        ("Free plans can only use Auto", Code::PlanRequired, Remedy::None),
        ("Update required", Code::ClientOutdated, Remedy::None),
        ("The prompt is too long", Code::ContextTooLong, Remedy::None),
        ("⚠ Workspace Trust Required", Code::PolicyDenied, Remedy::None),
        ("something odd", Code::UpstreamError, Remedy::None),
    ];
    for (stderr, code, remedy) in rows {
        let failure = of(stderr);
        assert_eq!((failure.error.code, failure.remedy), (code, remedy), "{stderr}");
    }
}

#[test]
fn messages_have_a_hint() {
    let login = of("not logged in").error;
    assert_eq!(
        login.message,
        "cursor-agent said: not logged in. Run `cursor-agent login` or `ibeam login --backend \
         cli`."
    );
    assert_eq!(login.code.row().status, 401);
    let quota = of("Error: You've hit your usage limit\nYou've saved $12 on API usage.\n\
         Your usage limits reset on 3/14/2026. Or continue with composer-2.\n");
    assert_eq!(
        quota.error.message,
        "cursor-agent said: Error: You've hit your usage limit You've saved $12 on API usage. Your \
         usage limits reset on 3/14/2026. Or continue with composer-2. Waiting does not help; see \
         your plan at cursor.com."
    );
}

#[test]
fn list_of_models_in_a_message_is_shortened() {
    let names: Vec<String> = (0..40).map(|n| format!("gpt-{n}")).collect();
    let failure = of(&format!("Cannot use this model: x. Available models: {}", names.join(", ")));
    assert_eq!(
        failure.error.message,
        "cursor-agent said: Cannot use this model: x. Available models: gpt-0, gpt-1, gpt-2, \
         gpt-3, gpt-4, gpt-5, gpt-6, gpt-7 and 32 more. `ibeam models` lists the models of your \
         plan."
    );
}

#[test]
fn lost_session_needs_a_resumed_run() {
    for stderr in [
        "Chat 1234 not found",
        "Session expired",
        "Error: invalid conversation id",
        "could not resume session 12",
    ] {
        let failure = of_exit(&exit(Some(1), stderr), "", true);
        assert_eq!(failure.remedy, Remedy::FreshConversation, "{stderr}");
        assert_eq!(of(stderr).remedy, Remedy::None, "{stderr}");
    }
    let other = of_exit(&exit(Some(1), "Your session has expired. Please log in."), "", true);
    assert_eq!(other.error.code, ErrorCode::NotAuthenticated);
}

#[test]
fn exit_without_output_is_not_a_clean_stop() {
    let row = |code| {
        let failure = of_exit(&exit(code, " \n\x1b[0m"), "", false);
        (failure.error.code, failure.remedy, failure.error.message.into_owned())
    };
    let closed = ErrorCode::UpstreamClosed;
    let text = "cursor-agent exited before its answer was complete.".to_owned();
    assert_eq!(row(Some(0)), (closed, Remedy::Retry, text));
    let text = "cursor-agent was killed by a signal before its answer was complete.".to_owned();
    assert_eq!(row(None), (closed, Remedy::Retry, text));
    let text = "cursor-agent failed with exit code 7.".to_owned();
    assert_eq!(row(Some(7)), (ErrorCode::UpstreamError, Remedy::None, text));
}

#[test]
fn prompts_on_stdout_are_recognised_with_any_exit_code() {
    let trust = "⚠ Workspace Trust Required\n\n  Do you trust the contents of this directory?\n\
                 • Pass --trust, --yolo, or -f if you trust this directory\n";
    let login = "\x1b[2KPress any key to log in...\n";
    for code in [Some(0), Some(1), None] {
        let of = |noise| of_exit(&exit(code, ""), noise, false).error.code;
        assert_eq!(of(trust), ErrorCode::PolicyDenied);
        assert_eq!(of(login), ErrorCode::NotAuthenticated);
    }
}

#[test]
fn warnings_traces_and_events_are_not_error_messages() {
    let stderr = "(node:12) ExperimentalWarning: fetch failed\n\
                  (Use `node --trace-warnings ...` to show where)\n\
                  {\"type\":\"assistant\",\"message\":{\"content\":\"not logged in\"}}\n\
                  said unauthorized\"}]},\"session_id\":\"s\"}\n\
                  T: Something broke\n    at network (file.js:1)\n^\n";
    let failure = of(stderr);
    assert_eq!(failure.error.code, ErrorCode::UpstreamError);
    assert_eq!(failure.error.message, "cursor-agent failed with exit code 1: Something broke.");
}

#[test]
fn messages_are_short_and_without_secrets() {
    let failure = of(&format!("odd crsr_0123456789abcdef0123 {}", "x".repeat(10_000)));
    assert!(!failure.error.message.contains("0123456789abcdef"), "{}", failure.error.message);
    assert!(failure.error.message.chars().count() < SHOWN + 100);
}

#[test]
fn error_without_a_message_is_still_an_error() {
    let failure = of_complaint("", false);
    assert_eq!(failure.error.code, ErrorCode::UpstreamError);
    assert_eq!(failure.error.message, "cursor-agent said: an error without a message.");
}

#[test]
fn network_errors_are_marked_unreachable() {
    for (stderr, unreachable) in [
        ("connect ECONNREFUSED 127.0.0.1:443", true),
        ("TypeError: fetch failed", true),
        ("[unavailable] the service is overloaded", false),
        ("You've hit your usage limit", false),
    ] {
        assert_eq!(of(stderr).error.unreachable, unreachable, "{stderr}");
    }
}
