//! `POST /v1/completions` through the whole router.

use super::*;

fn complete(path: &str, body: &str) -> Request<Body> {
    Request::post(path)
        .header("host", "127.0.0.1:18741")
        .header("content-type", "application/json")
        .body(Body::from(body.to_owned()))
        .unwrap()
}

#[tokio::test]
async fn whole() {
    for path in ["/v1/completions", "/completions"] {
        let body = r#"{"model":"auto","prompt":"Hi","max_tokens":16,"temperature":0}"#;
        let (app, fake) = app(Fake { steps: hello(), ..Fake::default() });
        let response = app.oneshot(complete(path, body)).await.unwrap();
        insta::assert_snapshot!("a_whole_completion", shown(response).await);
        let (turn, _) = fake.seen.lock().pop().unwrap();
        assert_eq!(turn.sampling.max_tokens, Some(16));
        assert_eq!(turn.model, "auto");
    }
}

#[tokio::test]
async fn streamed() {
    let body = r#"{"model":"auto","prompt":["Hi"],"stream":true,
        "stream_options":{"include_usage":true}}"#;
    let fake = Fake { steps: hello(), ..Fake::default() };
    insta::assert_snapshot!(shown(call(fake, complete("/v1/completions", body)).await).await);
}

#[tokio::test]
async fn early_completion_failure_is_an_http_status() {
    let body = r#"{"model":"auto","prompt":"Hi","stream":true}"#;
    let steps = vec![failed(ErrorCode::RateLimited, "slow down")];
    let fake = Fake { steps, ..Fake::default() };
    let response = call(fake, complete("/v1/completions", body)).await;
    is(&response, 429);
    assert!(response.headers().contains_key("retry-after"));
    let refused = r#"{"model":"auto","prompt":"Hi","echo":true}"#;
    let response = call(Fake::default(), complete("/v1/completions", refused)).await;
    is(&response, 400);
    assert_eq!(code_of(&super::whole(response).await), "unsupported_parameter");
}
