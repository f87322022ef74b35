use serde_json::{Value, json};
use tokio::time::Instant;

use super::*;

fn ask(path: &str, body: &Value) -> Request<Body> {
    Request::post(path)
        .header("host", "127.0.0.1:18741")
        .header("content-type", "application/json")
        .header("anthropic-version", "2023-06-01")
        .body(Body::from(body.to_string()))
        .unwrap()
}

fn body(stream: bool) -> Value {
    json!({
        "model": "claude-3-5-haiku-20241022",
        "max_tokens": 100,
        "stream": stream,
        "messages": [{ "role": "user", "content": "Hi" }],
    })
}

async fn send(fake: Fake, body: &Value) -> Response<Body> {
    call(fake, ask("/v1/messages", body)).await
}

async fn error_of(response: Response<Body>) -> Value {
    let body: Value = serde_json::from_str(&whole(response).await).unwrap();
    assert_eq!(body["type"], "error", "{body}");
    assert!(body["request_id"].is_string(), "{body}");
    body["error"].clone()
}

fn anthropic(path: &str) -> Request<Body> {
    let mut request = get(path);
    request.headers_mut().insert("anthropic-version", "2023-06-01".parse().unwrap());
    request
}

#[tokio::test]
async fn unstreamed_message_is_one_object() {
    let mut asked = body(false);
    asked["thinking"] = json!({ "type": "adaptive" });
    let fake = Fake { steps: hello(), ..Fake::default() };
    insta::assert_snapshot!(shown(send(fake, &asked).await).await);
}

#[tokio::test]
async fn unstreamed_message_contains_tool_calls() {
    let fake = Fake { steps: one_call(), ..Fake::default() };
    insta::assert_snapshot!(shown(send(fake, &body(false)).await).await);
}

#[tokio::test]
async fn streamed_message_has_anthropics_events() {
    let fake = Fake { steps: hello(), ..Fake::default() };
    insta::assert_snapshot!(shown(send(fake, &body(true)).await).await);
}

#[tokio::test]
async fn every_path_variant_of_clients_is_served() {
    for path in ["/v1/messages", "/messages", "/v1/messages?beta=true"] {
        let (router, fake) = app(Fake { steps: hello(), ..Fake::default() });
        let response = router.oneshot(ask(path, &body(false))).await.unwrap();
        is(&response, 200);
        let id = &response.headers()["request-id"];
        assert_eq!(id, response.headers()["x-request-id"], "SDKs read the first");
        let reply: Value = serde_json::from_str(&whole(response).await).unwrap();
        assert_eq!(reply["model"], "claude-3-5-haiku-20241022", "the client's own name");
        assert_eq!(fake.seen.lock()[0].0.model, "claude-3-5-haiku-20241022");
    }
    for path in ["/v1/v1/messages", "/v1/messages/", "/v1/v1/messages/count_tokens"] {
        let error = error_of(call(Fake::default(), ask(path, &body(false))).await).await;
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("did you mean /v1/messages"), "{path}: {message}");
    }
    is(&call(Fake::default(), get("/v1/messages")).await, 405);
}

#[tokio::test]
async fn parameter_handling_is_in_a_header() {
    let mut asked = body(false);
    asked["temperature"] = json!(0);
    asked["stop_sequences"] = json!(["END"]);
    asked["tools"] = json!([{ "name": "a", "input_schema": { "type": "object" } }]);
    let response = send(Fake { steps: hello(), ..Fake::default() }, &asked).await;
    assert_eq!(
        response.headers()["x-ibeam-controls"],
        "native=(tools), emulated=(max_tokens stop_sequences), ignored=(temperature)"
    );
}

/// A setting decides whether Cursor searches; the client learns which of the two it is.
#[tokio::test]
async fn web_search_is_listed_as_native_where_cursor_searches() {
    let mut asked = body(false);
    asked["tools"] = json!([{ "type": "web_search_20250305", "name": "web_search" }]);
    let mut responses = json!({ "model": "auto", "input": "Hi", "store": false });
    responses["tools"] = json!([{ "type": "web_search" }]);
    for (served, messages_controls, responses_controls) in [
        (vec![], "emulated=(max_tokens), ignored=(tools.web_search)", "ignored=(tools.web_search)"),
        (
            vec!["tools.web_search"],
            "native=(tools.web_search), emulated=(max_tokens)",
            "native=(tools.web_search)",
        ),
    ] {
        for (path, body, controls) in [
            ("/v1/messages", &asked, messages_controls),
            ("/v1/responses", &responses, responses_controls),
        ] {
            for strict in [false, true] {
                let settings =
                    ApiSettings { strict, served: served.clone(), ..ApiSettings::default() };
                let fake = Fake { settings, steps: hello(), ..Fake::default() };
                let response = call(fake, ask(path, body)).await;
                if strict && served.is_empty() {
                    is(&response, 400);
                } else {
                    is(&response, 200);
                    assert_eq!(response.headers()["x-ibeam-controls"], controls, "{path}");
                }
            }
        }
    }
}

/// The table of the decisions, in this dialect: type and status of every code, at the start
/// of a turn and as its first event, streamed or not.
#[tokio::test]
async fn every_error_code_has_anthropics_type_and_status() {
    for stream in [false, true] {
        for code in ErrorCode::ALL {
            let row = code.row();
            let refuse = Some(TurnError::new(code, "no"));
            let at_start = Fake { refuse, ..Fake::default() };
            let steps = vec![Step::Event(TurnEvent::Started), failed(code, "no")];
            let at_first = Fake { steps, ..Fake::default() };
            for fake in [at_start, at_first] {
                let response = send(fake, &body(stream)).await;
                is(&response, row.anthropic_status);
                assert_eq!(error_of(response).await["type"], row.anthropic_type);
            }
        }
    }
}

#[tokio::test]
async fn errors_have_the_fields_that_clients_act_upon() {
    let refuse = |code, text| Fake { refuse: Some(TurnError::new(code, text)), ..Fake::default() };
    let response = send(refuse(ErrorCode::ModelNotFound, "no such model"), &body(true)).await;
    is(&response, 404);
    assert_eq!(error_of(response).await["type"], "not_found_error");

    let too_long = refuse(ErrorCode::ContextTooLong, "The prompt is too long.");
    let error = error_of(send(too_long, &body(true)).await).await;
    assert_eq!(error["type"], "invalid_request_error");
    assert!(error["message"].as_str().unwrap().starts_with("prompt is too long"), "{error}");

    let response = send(refuse(ErrorCode::RateLimited, "slow down"), &body(false)).await;
    is(&response, 429);
    assert_eq!(response.headers()["retry-after"], "5");

    let mut asked = body(false);
    asked["max_tokens"] = json!(0);
    let response = send(Fake::default(), &asked).await;
    is(&response, 400);
    let error = error_of(response).await;
    assert!(error["message"].as_str().unwrap().contains("max_tokens"), "{error}");
}

#[tokio::test]
async fn client_rule_22_thread_refusal_has_the_wording_that_sdks_match() {
    let mut asked = body(true);
    asked["thread"] = json!({ "id": "thread_1" });
    let response = send(Fake::default(), &asked).await;
    is(&response, 400);
    let error = error_of(response).await;
    assert_eq!(error["type"], "invalid_request_error");
    let details = json!({
        "error_code": "thread_unsupported_request",
        "unsupported": ["thread"],
    });
    assert_eq!(error["details"], details);
}

#[tokio::test(start_paused = true)]
async fn late_message_failure_is_an_error_event() {
    let steps = vec![
        text("half"),
        Step::Wait(Duration::from_secs(1)),
        failed(ErrorCode::Unavailable, "the backend went away"),
    ];
    let response = send(Fake { steps, ..Fake::default() }, &body(true)).await;
    is(&response, 200);
    let stream = whole(response).await;
    assert!(stream.ends_with(
        "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\
         \"message\":\"the backend went away\"}}\n\n"
    ));
    assert!(!stream.contains("message_stop"), "{stream}");
}

#[tokio::test(start_paused = true)]
async fn silent_message_stream_gets_pings() {
    let steps = vec![
        Step::Wait(Duration::from_secs(15)),
        text("a"),
        Step::Wait(Duration::from_secs(15)),
        finished(FinishReason::Stop),
    ];
    let start = Instant::now();
    let response = send(Fake { steps, ..Fake::default() }, &body(true)).await;
    assert_eq!(start.elapsed().as_secs(), 10, "headers do not wait for ever");
    let stream = whole(response).await;
    let names: Vec<&str> = stream.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    let expect = "message_start ping content_block_start content_block_delta ping \
                  content_block_stop message_delta message_stop";
    assert_eq!(names.join(" "), expect);
}

#[tokio::test]
async fn message_tokens_are_counted() {
    let asked = json!({
        "model": "claude-haiku-4-5-20251001",
        "system": "12345",
        "messages": [{ "role": "user", "content": "1234567" }],
    });
    for path in ["/v1/messages/count_tokens", "/messages/count_tokens?beta=true"] {
        let response = call(Fake::default(), ask(path, &asked)).await;
        is(&response, 200);
        assert_eq!(whole(response).await, r#"{"input_tokens":12}"#);
    }
    let bad = json!({ "model": "sonnet", "messages": [] });
    let response = call(Fake::default(), ask("/v1/messages/count_tokens", &bad)).await;
    is(&response, 400);
    assert_eq!(error_of(response).await["type"], "invalid_request_error");
    let no_models = Some(TurnError::new(ErrorCode::ModelNotFound, "no such model"));
    let response =
        call(Fake { no_models, ..Fake::default() }, ask("/v1/messages/count_tokens", &asked)).await;
    is(&response, 404);
}

#[tokio::test]
async fn models_are_listed_in_anthropics_format() {
    insta::assert_snapshot!(shown(call(Fake::default(), anthropic("/v1/models")).await).await);
    let response = call(Fake::default(), anthropic("/v1/models/sonnet-4.6")).await;
    assert_eq!(
        whole(response).await,
        r#"{"type":"model","id":"sonnet-4.6","display_name":"Claude 4.6 Sonnet","created_at":"2024-03-19T19:40:00Z","lifecycle":"active","max_input_tokens":200000,"max_tokens":64000}"#
    );
    let response = call(Fake::default(), anthropic("/v1/models/nothing")).await;
    is(&response, 404);
    assert_eq!(error_of(response).await["type"], "not_found_error");
}

#[tokio::test]
async fn model_list_is_paginated() {
    let page = async |query: &str| -> (Vec<String>, bool) {
        let response = call(Fake::default(), anthropic(&format!("/v1/models?{query}"))).await;
        is(&response, 200);
        let page: Value = serde_json::from_str(&whole(response).await).unwrap();
        let ids: Vec<String> = page["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|card| card["id"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(page["first_id"].as_str(), ids.first().map(String::as_str));
        assert_eq!(page["last_id"].as_str(), ids.last().map(String::as_str));
        (ids, page["has_more"].as_bool().unwrap())
    };
    let (auto, claude) = ("auto".to_owned(), "claude-4.6-sonnet".to_owned());
    assert_eq!(page("").await, (vec![auto.clone(), claude.clone()], false));
    assert_eq!(page("limit=1").await, (vec![auto.clone()], true));
    assert_eq!(page("limit=1&after_id=auto").await, (vec![claude.clone()], false));
    assert_eq!(page("after_id=claude-4.6-sonnet").await, (vec![], false));
    assert_eq!(page("before_id=claude-4.6-sonnet").await, (vec![auto.clone()], false));
    assert_eq!(page("limit=1&before_id=claude-4.6-sonnet").await, (vec![auto], false));
    assert_eq!(page("after_id=claude-4.6-sonnet&before_id=auto").await, (vec![], false));
    for (query, param) in [("limit=0", "limit"), ("limit=x", "limit"), ("after_id=n", "after_id")] {
        let response = call(Fake::default(), anthropic(&format!("/v1/models?{query}"))).await;
        is(&response, 400);
        let error = error_of(response).await;
        assert!(error["message"].as_str().unwrap().contains(param), "{error}");
    }
    // OpenAI's clients have no pages.
    is(&call(Fake::default(), get("/v1/models?limit=x")).await, 200);
}

/// Client rule 23.
#[tokio::test]
async fn client_rule_23_liveness_check() {
    let response = call(Fake::default(), request("HEAD", "/api/hello")).await;
    is(&response, 200);
    assert_eq!(whole(response).await, "");
}

/// The vocabulary is not loaded for it: that would take longer than the first event may.
#[tokio::test]
async fn message_stream_starts_with_a_prompt_estimate() {
    let mut asked = body(true);
    asked["system"] = json!("word ".repeat(1000));
    let stream = whole(send(Fake { steps: hello(), ..Fake::default() }, &asked).await).await;
    let start = stream.lines().find(|line| line.contains("\"message_start\"")).unwrap();
    let start: Value = serde_json::from_str(&start["data: ".len()..]).unwrap();
    let input = start["message"]["usage"]["input_tokens"].as_u64().unwrap();
    assert!((1000..2500).contains(&input), "{start}");
}
