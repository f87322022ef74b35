//! The rows of section 7 of what is known about the service in autumn 2026: each failure as the
//! service sends it, and what is made of it.

use super::*;
use crate::codec::connect::{self, CursorError, Envelope};

/// An error with details, whose own message says nothing.
fn told(code: Code, kind: Kind, title: &str, detail: &str) -> ConnectError {
    let detail = CursorError {
        kind,
        title: title.to_owned(),
        detail: detail.to_owned(),
        retryable: Some(false),
        ..CursorError::default()
    };
    ConnectError { code, message: "Error".to_owned(), detail: Some(Box::new(detail)) }
}

fn with_info(mut error: ConnectError, name: &str, value: &str) -> ConnectError {
    let detail = error.detail.get_or_insert_default();
    detail.additional_info.insert(name.to_owned(), value.to_owned());
    error
}

/// The status, the code and what ibeam does, and whether clients are asked not to retry.
fn seen(error: &ConnectError) -> (u16, &'static str, Remedy, bool) {
    let PeerFailure { error, remedy } = connect_error(error);
    (error.code.row().status, error.code.row().code, remedy, error.forbids_retry())
}

#[test]
fn section_7_a_plan_limit_without_details_is_a_429() {
    let bare = ConnectError::new(Code::ResourceExhausted, "Error");
    let (status, code, remedy, _) = seen(&bare);
    assert_eq!((status, code), (429, "quota_exceeded"));
    assert_eq!(remedy, Remedy::FreshConversation, "a stuck conversation looks the same");
    let quota = ConnectError::new(Code::ResourceExhausted, "You have hit your usage limit.");
    assert_eq!(seen(&quota), (429, "insufficient_quota", Remedy::None, true));
}

#[test]
fn section_7_a_provider_that_refuses_the_prompt_gets_it_in_another_form() {
    let error = told(Code::ResourceExhausted, Kind::ErrorProviderError, "Provider Error", "");
    let error = with_info(error, "providerStatusCode", "400");
    assert_eq!(seen(&error), (400, "invalid_value", Remedy::OtherForm, true));
}

#[test]
fn section_7_a_busy_provider_is_retried() {
    for status in ["429", "500", "503", "529"] {
        let error = told(Code::ResourceExhausted, Kind::ErrorProviderError, "Provider Error", "");
        let error = with_info(error, "providerStatusCode", status);
        assert_eq!(seen(&error), (503, "unavailable", Remedy::Retry, false), "{status}");
    }
}

#[test]
fn section_7_too_many_computers_lasts_a_day() {
    let text = "Too many computers used within the last 24 hours.";
    let error = told(Code::ResourceExhausted, Kind::ErrorCustomMessage, "Too many computers", text);
    assert_eq!(seen(&error), (429, "insufficient_quota", Remedy::None, true));
    assert!(connect_error(&error).error.message.contains("within a day"));
}

#[test]
fn section_7_a_plan_without_named_models_is_no_throttle() {
    let text = "Free plans can only use Auto. Switch to Auto or upgrade your plan.";
    let kind = Kind::ErrorRateLimitedChangeable;
    let error = told(Code::ResourceExhausted, kind, "Named models unavailable", text);
    assert_eq!(seen(&error), (403, "plan_required", Remedy::None, true));
    assert!(connect_error(&error).error.message.contains("the model `auto`"));
}

#[test]
fn section_7_trial_limits_and_unpaid_invoices_are_not_retried() {
    for title in ["Trial limit reached", "You have an unpaid invoice"] {
        let error = told(Code::ResourceExhausted, Kind::ErrorRateLimited, title, "");
        assert_eq!(seen(&error), (429, "insufficient_quota", Remedy::None, true), "{title}");
        assert!(connect_error(&error).error.message.contains(title));
    }
}

#[test]
fn section_5_a_region_error_of_the_sign_in_asks_for_another_host_and_never_for_a_sign_in() {
    let text = "This region is not available for your team.";
    let error = told(Code::Unauthenticated, Kind::ErrorUnauthorized, "Unauthorized request.", text);
    assert_eq!(seen(&error), (403, "region_unsupported", Remedy::OtherHost, true));
    let message = connect_error(&error).error.message;
    assert!(message.contains(text) && !message.contains("ibeam login"), "{message}");
    // As a status, too.
    let refused = LinkError::Status { status: 401, error: Some(error), retry_after: None };
    assert_eq!(link_error(&refused).remedy, Remedy::OtherHost);
}

#[test]
fn section_7_a_model_that_is_not_served_in_the_region_is_a_403() {
    for (kind, text) in [
        (Kind::ErrorUnsupportedRegion, "Model not available"),
        (Kind::ErrorCustomMessage, "This model is not available in your region."),
    ] {
        let error = told(Code::ResourceExhausted, kind, text, "");
        assert_eq!(seen(&error), (403, "region_unsupported", Remedy::None, true), "{text}");
    }
}

#[test]
fn section_7_a_model_that_needs_consent_and_a_policy_review_are_terminal() {
    let mut blocked = told(Code::FailedPrecondition, Kind::ErrorModelBlocked, "Model blocked", "");
    "config".clone_into(&mut blocked.detail.as_mut().unwrap().action_required);
    assert_eq!(seen(&blocked), (403, "policy_denied", Remedy::None, true));
    assert!(connect_error(&blocked).error.message.contains("Agree to the terms"));

    let plain = told(Code::InvalidArgument, Kind::ErrorOpenai, "Content policy", "");
    let mut review = plain.clone();
    "cyber_policy_review".clone_into(&mut review.detail.as_mut().unwrap().action_required);
    for error in [review, plain.of_type("CONTENT_POLICY")] {
        assert_eq!(seen(&error), (403, "policy_denied", Remedy::None, true));
    }
}

#[test]
fn section_6_a_model_of_max_mode_only_is_asked_in_max_mode() {
    let kind = Kind::ErrorMaxModeRequired;
    let error = told(Code::FailedPrecondition, kind, "Max Mode Required", "");
    assert_eq!(seen(&error), (403, "plan_required", Remedy::MaxMode, true));
}

#[test]
fn section_7_an_unknown_model_a_lost_conversation_and_an_unreadable_schema() {
    let unknown = told(Code::NotFound, Kind::ErrorBadModelName, "Bad model name", "");
    assert_eq!(seen(&unknown), (400, "model_not_found", Remedy::None, true));
    for text in ["Conversation data missing", "blobs missing", "The state cannot be restored"] {
        let lost = ConnectError::new(Code::Internal, text);
        assert_eq!(connect_error(&lost).remedy, Remedy::FreshConversation, "{text}");
    }
    let schema = ConnectError::new(Code::Internal, "parse binary: premature EOF");
    assert_eq!(connect_error(&schema).remedy, Remedy::SchemaText);
    let late = ConnectError::new(Code::InvalidArgument, "Error");
    assert_eq!(seen(&late), (400, "invalid_value", Remedy::OtherFields, true));
}

#[test]
fn section_7_the_words_are_those_of_the_details_also_in_a_body_that_is_not_a_stream() {
    let error = told(Code::ResourceExhausted, Kind::ErrorRateLimited, "Trial limit", "Over.");
    let bare = error.to_json().to_string();
    let wrapped = serde_json::json!({ "error": error.to_json() }).to_string();
    for body in [bare, wrapped] {
        let read = ConnectError::from_json(body.as_bytes()).unwrap();
        let refused = LinkError::Status { status: 429, error: Some(read), retry_after: None };
        let message = link_error(&refused).error.message;
        assert!(message.starts_with("Cursor answered: Trial limit: Over."), "{message}");
    }
    // Only readable details, no encoded ones.
    let body = br#"{"code":"resource_exhausted","message":"Error","details":[{
        "type":"aiserver.v1.ErrorDetails","debug":{"error":"ERROR_PROVIDER_ERROR","details":{
        "title":"Provider Error","additionalInfo":{"providerStatusCode":"400"}}}}]}"#;
    let read = ConnectError::from_json(body).unwrap();
    assert_eq!(connect_error(&read).error.code, ErrorCode::InvalidValue);
}

#[test]
fn section_7_the_metadata_of_an_end_frame_name_the_kind_of_the_error() {
    let end = |metadata: &str| {
        let error = r#"{"code":"failed_precondition","message":"Error"}"#;
        let frame = format!(r#"{{"error":{error},"metadata":{metadata}}}"#);
        let mut decoder = connect::Decoder::new();
        decoder.push(connect::frame(2, frame.as_bytes()));
        match decoder.next().unwrap().unwrap() {
            Envelope::End(Some(error)) => error,
            other => panic!("{other:?}"),
        }
    };
    let name = "x-cursor-inference-request-error-type";
    for metadata in [
        format!(r#"{{"{name}":["MAX_MODE_REQUIRED"]}}"#),
        format!(r#"{{"{name}":"ERROR_MAX_MODE_REQUIRED"}}"#),
    ] {
        assert_eq!(connect_error(&end(&metadata)).remedy, Remedy::MaxMode, "{metadata}");
    }
    // What is unknown changes nothing, and what is malformed is left out.
    for metadata in ["{}", "7", r#"{"x":["y"]}"#, &format!(r#"{{"{name}":["a b"]}}"#)] {
        assert_eq!(end(metadata).detail, None, "{metadata}");
    }
    let told = told(Code::Internal, Kind::ErrorTimeout, "Late", "").of_type("PROVIDER_ERROR");
    assert_eq!(told.detail.unwrap().kind, Kind::ErrorTimeout, "the error's own kind counts");
}
