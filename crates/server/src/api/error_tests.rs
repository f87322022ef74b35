use std::{fmt::Write as _, time::Duration};

use axum::response::Response;
use http_body_util::BodyExt as _;
use ibeam_core::error::{ErrorCode, TurnError};

use super::{ApiDialect, ResponseFailure, render};

fn rendered(error: &TurnError, dialect: ApiDialect) -> Response {
    let mut response = super::response(error);
    render(&mut response, &ResponseFailure::from(error), dialect, "r1");
    response
}

fn response(error: &TurnError) -> Response {
    rendered(error, ApiDialect::OpenAi)
}

/// The table of the decisions: every code, with its status and headers.
#[tokio::test]
async fn every_error_code_is_rendered() {
    let mut table = String::new();
    for code in ErrorCode::ALL {
        let response = response(&TurnError::new(code, "what happened").param("field"));
        write!(table, "{code:?} {}", response.status().as_u16()).unwrap();
        for name in ["retry-after", "x-should-retry", "www-authenticate"] {
            if let Some(value) = response.headers().get(name) {
                write!(table, " {name}={}", value.to_str().unwrap()).unwrap();
            }
        }
        let body = response.into_body().collect().await.unwrap().to_bytes();
        writeln!(table, "\n  {}", str::from_utf8(&body).unwrap()).unwrap();
    }
    insta::assert_snapshot!(table);
}

/// One rule for the whole table: a response either says that a retry is useless, or its status
/// is one that clients retry by themselves.
#[test]
fn permanent_errors_forbid_a_retry() {
    for code in ErrorCode::ALL {
        let error = TurnError::new(code, "what happened").retry_after(Duration::from_secs(7));
        let row = code.row();
        for (status, response) in [
            (row.status, response(&error)),
            (row.anthropic_status, rendered(&error, ApiDialect::Anthropic)),
        ] {
            let headers = response.headers();
            let refused = headers.get("x-should-retry").is_some_and(|value| value == "false");
            let temporary = status == 503
                || status == 504
                || (status == 429 && row.code == "quota_exceeded")
                || (status == 502 && matches!(row.code, "upstream_error" | "upstream_closed"));
            assert_eq!(refused, !temporary, "{code:?} {status}");
            assert_eq!(headers.contains_key("retry-after"), temporary, "{code:?} {status}");
        }
    }
}

#[test]
fn retry_after_is_rounded_up() {
    for (wait, expect) in [(0, "0"), (1, "1"), (3000, "3"), (3001, "4")] {
        let error = TurnError::new(ErrorCode::RateLimited, "slow down");
        let response = response(&error.retry_after(Duration::from_millis(wait)));
        assert_eq!(response.headers()["retry-after"], expect);
    }
}

#[tokio::test]
async fn cause_is_not_sent_to_the_client() {
    let error = TurnError::new(ErrorCode::Internal, "sorry").cause("at line 7");
    let body = response(&error).into_body().collect().await.unwrap().to_bytes();
    assert!(!str::from_utf8(&body).unwrap().contains("line 7"));
}

#[tokio::test]
async fn path_decides_the_dialect_of_errors() {
    use crate::api::tests::{Fake, call, is, whole};

    let version = Some("2023-06-01");
    for (method, path, version, anthropic) in [
        // One API's path: the header changes nothing.
        ("POST", "/v1/chat/completions", None, false),
        ("POST", "/v1/chat/completions", version, false),
        ("POST", "/chat/completions", version, false),
        ("POST", "/v1/completions", version, false),
        ("POST", "/v1/responses", version, false),
        ("GET", "/v1/responses/resp_1", version, false),
        ("PUT", "/v1/chat/completions", version, false),
        ("POST", "/v1/messages", None, true),
        ("POST", "/messages", None, true),
        ("POST", "/v1/messages/count_tokens", None, true),
        ("DELETE", "/v1/messages", None, true),
        ("GET", "/v1/messages/nothing", None, true),
        ("GET", "/v1/messages/", None, true),
        // Both have it, or none has.
        ("GET", "/v1/models/nothing", None, false),
        ("GET", "/v1/models/nothing", version, true),
        ("GET", "/v1/nothing", None, false),
        ("GET", "/v1/nothing", version, true),
    ] {
        let mut request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost")
            .header("x-request-id", "r1");
        if let Some(version) = version {
            request = request.header("anthropic-version", version);
        }
        let request = request.body(axum::body::Body::from("{")).unwrap();
        let response = call(Fake::default(), request).await;
        let named = response.headers().contains_key("request-id");
        assert_eq!(named, anthropic, "{method} {path}");
        assert_eq!(response.headers()["content-type"], "application/json", "{method} {path}");
        let body: serde_json::Value = serde_json::from_str(&whole(response).await).unwrap();
        assert_eq!(body["type"] == "error", anthropic, "{method} {path}: {body}");
        assert_eq!(body["request_id"] == "r1", anthropic, "{method} {path}: {body}");
        assert!(body["error"]["message"].is_string(), "{method} {path}: {body}");
    }
    let request = http::Request::delete("/v1/models").header("host", "localhost");
    let request = request.header("anthropic-version", "x").body(axum::body::Body::empty()).unwrap();
    let response = call(Fake::default(), request).await;
    is(&response, 405);
    assert_eq!(response.headers()["allow"], "GET, HEAD, OPTIONS", "nothing is lost on the way");
}
