//! How many tokens a request has, by both endpoints that count.

use super::*;

async fn counted(path: &str, body: &str) -> (u16, Option<String>, String) {
    let request = Request::post(path).header("host", "localhost:18741");
    let response = call(Fake::default(), request.body(Body::from(body.to_owned())).unwrap()).await;
    let header = response.headers().get("x-ibeam-tokens");
    let header = header.map(|value| value.to_str().unwrap().to_owned());
    (response.status().as_u16(), header, whole(response).await)
}

#[tokio::test]
async fn count_header_marks_exact_counts() {
    for (model, word) in [("gpt-5.5", "exact"), ("sonnet", "estimate")] {
        let messages =
            format!(r#"{{"model":"{model}","messages":[{{"role":"user","content":"1234567"}}]}}"#);
        let input = format!(r#"{{"model":"{model}","input":"1234567"}}"#);
        for (path, body, reply) in [
            ("/v1/messages/count_tokens", &messages, r#"{"input_tokens":7}"#),
            (
                "/v1/responses/input_tokens",
                &input,
                r#"{"object":"response.input_tokens","input_tokens":7}"#,
            ),
            (
                "/responses/input_tokens",
                &input,
                r#"{"object":"response.input_tokens","input_tokens":7}"#,
            ),
        ] {
            let seen = counted(path, body).await;
            assert_eq!(seen, (200, Some(word.to_owned()), reply.to_owned()), "{path}");
        }
    }
}

#[tokio::test]
async fn invalid_request_cannot_be_counted() {
    for path in ["/v1/messages/count_tokens", "/v1/responses/input_tokens"] {
        let (status, header, body) = counted(path, r#"{"model":"sonnet"}"#).await;
        assert_eq!((status, header), (400, None), "{path}: {body}");
    }
    let unknown = r#"{"model":"sonnet","input":"a","previous_response_id":"resp_0"}"#;
    let (status, _, body) = counted("/v1/responses/input_tokens", unknown).await;
    assert!((400..500).contains(&status), "{body}");
}
