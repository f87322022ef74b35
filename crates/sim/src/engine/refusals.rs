//! The service's errors for whole runs, each with the details that clients have seen.

use std::collections::BTreeMap;

use ibeam_core::codec::connect::{Code, ConnectError, CursorError};
use ibeam_proto::aiserver::ErrorKind;

use crate::behaviour::{Behaviour, ErrorWhen};

/// The tools of Cursor's own, by whose names a client's tool collides.
const BUILTIN: &[&str] =
    &["read", "write", "ls", "delete", "grep", "glob", "shell", "web_search", "web_fetch"];

/// Makes one of the errors.
type RunError = fn() -> ConnectError;

/// Whether a tool has the name of a built-in one.
pub(super) fn is_builtin(name: &str) -> bool {
    BUILTIN.contains(&name.to_lowercase().replace('-', "_").as_str())
}

/// The error that the switches choose for a run.
pub(super) fn of_run(behaviour: &Behaviour, run: u64) -> Option<ConnectError> {
    let table: &[(ErrorWhen, RunError)] = &[
        (behaviour.error_plan_limit, plan_limit),
        (behaviour.error_provider_refused, provider_refused),
        (behaviour.error_provider_busy, provider_busy),
        (behaviour.error_free_plan, free_plan),
        (behaviour.error_trial_limit, trial_limit),
        (behaviour.error_region_model, region_model),
        (behaviour.error_model_blocked, model_blocked),
        (behaviour.error_policy_review, policy_review),
        (behaviour.error_data_missing, data_missing),
        (behaviour.error_schema_bytes, schema_bytes),
        (behaviour.error_not_logged_in, not_logged_in),
        (behaviour.model_not_found, model_not_found),
    ];
    table.iter().find(|(when, _)| when.hits(run)).map(|(_, error)| error())
}

fn cursor(code: Code, kind: ErrorKind, title: &str, detail: &str) -> ConnectError {
    ConnectError {
        code,
        message: "Error".to_owned(),
        detail: Some(Box::new(CursorError {
            kind,
            title: title.to_owned(),
            detail: detail.to_owned(),
            retryable: Some(false),
            ..CursorError::default()
        })),
    }
}

fn with_info(mut error: ConnectError, name: &str, value: &str) -> ConnectError {
    if let Some(detail) = &mut error.detail {
        detail.additional_info = BTreeMap::from([(name.to_owned(), value.to_owned())]);
    }
    error
}

fn with_action(mut error: ConnectError, action: &str) -> ConnectError {
    if let Some(detail) = &mut error.detail {
        action.clone_into(&mut detail.action_required);
    }
    error
}

fn plan_limit() -> ConnectError {
    ConnectError::new(Code::ResourceExhausted, "Error")
}

/// The provider refuses the prompt.
pub(super) fn provider_refused() -> ConnectError {
    let error = cursor(
        Code::ResourceExhausted,
        ErrorKind::ErrorProviderError,
        "Provider Error",
        "The model provider refused the request.",
    );
    with_info(error, "providerStatusCode", "400")
}

fn provider_busy() -> ConnectError {
    let error = cursor(
        Code::ResourceExhausted,
        ErrorKind::ErrorProviderError,
        "Provider Error",
        "The model provider is overloaded.",
    );
    with_info(error, "providerStatusCode", "529")
}

/// Headers of the IDE came with the client type of the CLI.
pub(crate) fn too_many_computers() -> ConnectError {
    cursor(
        Code::ResourceExhausted,
        ErrorKind::ErrorCustomMessage,
        "Too many computers",
        "Too many computers were used with this account within 24 hours.",
    )
}

fn free_plan() -> ConnectError {
    cursor(
        Code::ResourceExhausted,
        ErrorKind::ErrorRateLimitedChangeable,
        "Upgrade your plan",
        "Free plans can only use Auto. Switch to Auto or upgrade your plan.",
    )
}

fn trial_limit() -> ConnectError {
    cursor(
        Code::ResourceExhausted,
        ErrorKind::ErrorRateLimited,
        "Trial limit reached",
        "You have reached the limit of your trial.",
    )
}

fn region_model() -> ConnectError {
    cursor(
        Code::ResourceExhausted,
        ErrorKind::ErrorUnsupportedRegion,
        "Model not available",
        "This model is not available in your region.",
    )
}

fn model_blocked() -> ConnectError {
    let error = cursor(
        Code::FailedPrecondition,
        ErrorKind::ErrorModelBlocked,
        "Model blocked",
        "Agree to the data retention of this model in your settings first.",
    );
    with_action(error, "config")
}

fn policy_review() -> ConnectError {
    let error = cursor(
        Code::InvalidArgument,
        ErrorKind::ErrorOpenai,
        "Content policy",
        "This request needs a review.",
    );
    with_action(with_info(error, "errorType", "CONTENT_POLICY"), "cyber_policy_review")
}

fn data_missing() -> ConnectError {
    ConnectError::new(Code::Internal, "Conversation data missing")
}

fn schema_bytes() -> ConnectError {
    ConnectError::new(Code::Internal, "parse binary: premature EOF")
}

fn not_logged_in() -> ConnectError {
    cursor(
        Code::Unauthenticated,
        ErrorKind::ErrorNotLoggedIn,
        "Not logged in",
        "This key is not valid for this service.",
    )
}

fn model_not_found() -> ConnectError {
    cursor(
        Code::NotFound,
        ErrorKind::ErrorBadModelName,
        "Bad model name",
        "The model name is not valid.",
    )
}

/// The model needs max mode.
pub(super) fn max_mode_required() -> ConnectError {
    cursor(
        Code::FailedPrecondition,
        ErrorKind::ErrorMaxModeRequired,
        "Max Mode Required",
        "This model is available in max mode only.",
    )
}

/// The team may not use the service from here, or not through this host.
pub(crate) fn region() -> ConnectError {
    cursor(
        Code::Unauthenticated,
        ErrorKind::ErrorUnauthorized,
        "Unauthorized request.",
        "This region is not available for your team.",
    )
}
