//! Bodies that no API takes: too large, too deep, or with a field given twice.

use http::Request;
use serde_json::Value;

use super::{ApiSettings, Fake, call, is, whole};

/// Every route that reads a request for the model.
const ROUTES: [&str; 5] = [
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/v1/responses",
];

/// Sends a body that would do for all of them, with one more field.
async fn refused(route: &str, extra: &str, limit: usize, status: u16) -> Value {
    let body = format!(
        r#"{{"model":"auto","max_tokens":9,"prompt":"Hi","input":"Hi","messages":[{{"role":"user","content":"Hi"}}],{extra}}}"#
    );
    let request = Request::post(route)
        .header("host", "127.0.0.1:18741")
        .header("content-type", "application/json")
        .body(body.into())
        .unwrap();
    let settings = ApiSettings { body_limit: limit, ..ApiSettings::default() };
    let response = call(Fake { settings, ..Fake::default() }, request).await;
    is(&response, status);
    serde_json::from_str(&whole(response).await).unwrap()
}

/// The place, in the field that OpenAI has for it, and in the words for all.
fn names(route: &str, error: &Value, place: &str) {
    let message = error["error"]["message"].as_str().unwrap();
    assert!(message.contains(&format!("`{place}")), "{route}: {message}");
    if !route.starts_with("/v1/messages") {
        assert_eq!(error["error"]["code"], "invalid_json", "{route}");
        assert!(error["error"]["param"].as_str().unwrap().starts_with(place), "{route}");
    }
    assert_eq!(error["error"]["type"], "invalid_request_error", "{route}");
}

#[tokio::test]
async fn duplicate_fields_are_refused_on_every_path() {
    let unknown = r#""x":[{"a":1,"\u0061":2}]"#;
    let schema = r#""tools":[{"name":"f","input_schema":{"type":"object","type":"array"}}]"#;
    for route in ROUTES {
        names(route, &refused(route, unknown, 1 << 20, 400).await, "x[0].a");
        let error = refused(route, schema, 1 << 20, 400).await;
        names(route, &error, "tools[0].input_schema.type");
        names(route, &refused(route, r#""model":"b""#, 1 << 20, 400).await, "model");
    }
}

#[tokio::test]
async fn deep_nesting_is_refused_on_every_path() {
    let deep = format!("\"x\":{{\"y\":{}1{}}}", "[".repeat(5_000), "]".repeat(5_000));
    for route in ROUTES {
        names(route, &refused(route, &deep, 1 << 20, 400).await, "x.y[0][0]");
    }
}

#[tokio::test]
async fn large_bodies_are_refused_on_every_path() {
    let large = format!("\"x\":\"{}\"", "y".repeat(2_000));
    for route in ROUTES {
        let error = refused(route, &large, 1_000, 413).await;
        let (field, word) = if route.starts_with("/v1/messages") {
            ("type", "request_too_large")
        } else {
            ("code", "request_too_large")
        };
        assert_eq!(error["error"][field], word, "{route}");
    }
}
