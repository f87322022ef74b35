use super::AnthropicErrorBody;
use crate::error::{ErrorCode, TurnError};

fn json(error: &TurnError) -> String {
    serde_json::to_string(&AnthropicErrorBody::new(error, Some("req_1"))).unwrap()
}

#[test]
fn too_long_prompt_has_anthropics_wording() {
    for (message, expect) in [
        ("The prompt is too long.", "prompt is too long: The prompt is too long."),
        ("prompt is too long: 9 tokens", "prompt is too long: 9 tokens"),
    ] {
        let error = TurnError::new(ErrorCode::ContextTooLong, message);
        assert_eq!(
            json(&error),
            format!(
                r#"{{"type":"error","error":{{"type":"invalid_request_error","message":"{expect}"}},"request_id":"req_1"}}"#
            )
        );
    }
}

#[test]
fn error_message_names_the_field() {
    let error = TurnError::new(ErrorCode::InvalidValue, "must be a number").param("a[0].b");
    assert!(json(&error).contains(r#""message":"a[0].b: must be a number""#));
    let error = TurnError::new(ErrorCode::InvalidValue, "`limit` is wrong").param("limit");
    assert!(json(&error).contains(r#""message":"`limit` is wrong""#));
}

/// Client rule 22: by these details SDKs know to send the whole history.
#[test]
fn client_rule_22_details() {
    let error = TurnError::new(ErrorCode::ThreadUnsupported, "no `thread`").param("thread");
    assert_eq!(
        json(&error),
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"no `thread`","details":{"error_code":"thread_unsupported_request","unsupported":["thread"]}},"request_id":"req_1"}"#
    );
}
