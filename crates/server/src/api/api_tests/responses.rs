use serde_json::{Value, json};

use super::*;
use crate::{config::Config, keys::Keys};

fn ask(body: &Value) -> Request<Body> {
    send("POST", "/v1/responses", body)
}

fn send(method: &str, path: &str, body: &Value) -> Request<Body> {
    Request::builder()
        .method(method)
        .uri(path)
        .header("host", "localhost:18741")
        .body(Body::from(body.to_string()))
        .unwrap()
}

fn hi() -> Value {
    json!({ "model": "auto", "input": "Hi" })
}

async fn value(response: Response<Body>) -> Value {
    let body = whole(response).await;
    serde_json::from_str(&body).expect(&body)
}

fn events(body: &str) -> Vec<Value> {
    let data = body.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap()).collect()
}

/// A router, and what it asks of the service.
struct Desk {
    router: Router,
    fake: Arc<Fake>,
}

impl Desk {
    fn new(fake: Fake) -> Self {
        let (router, fake) = app(Fake { drawn: Some(AtomicUsize::new(0)), ..fake });
        Self { router, fake }
    }

    async fn call(&self, request: Request<Body>) -> Response<Body> {
        self.router.clone().oneshot(request).await.unwrap()
    }

    /// The answer's status and JSON.
    async fn get(&self, request: Request<Body>) -> (u16, Value) {
        let response = self.call(request).await;
        (response.status().as_u16(), value(response).await)
    }
}

#[tokio::test]
async fn unstreamed_response_is_one_object() {
    let response = call(Fake { steps: hello(), ..Fake::default() }, ask(&hi())).await;
    insta::assert_snapshot!(shown(response).await);
}

#[tokio::test]
async fn streamed_and_unstreamed_responses_are_equal() {
    let desk = Desk::new(Fake { steps: hello(), ..Fake::default() });
    let (_, mut whole_one) = desk.get(ask(&hi())).await;
    let mut body = hi();
    body["stream"] = json!(true);
    let response = desk.call(ask(&body)).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream; charset=utf-8");
    let events = events(&whole(response).await);
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], number);
    }
    assert_eq!(events[0]["type"], "response.created");
    let last = &events.last().unwrap();
    assert_eq!(last["type"], "response.completed");
    let first_id = whole_one["id"].as_str().unwrap().to_owned();
    let second_id = last["response"]["id"].as_str().unwrap();
    let hex = |id: &str| id.strip_prefix("resp_").unwrap().to_owned();
    whole_one =
        serde_json::from_str(&whole_one.to_string().replace(&hex(&first_id), &hex(second_id)))
            .unwrap();
    assert_eq!(last["response"], whole_one);
}

#[tokio::test]
async fn stored_response_can_be_fetched_and_deleted() {
    let desk = Desk::new(Fake { steps: hello(), ..Fake::default() });
    for stream in [false, true] {
        let mut body = hi();
        body["stream"] = json!(stream);
        let answer = whole(desk.call(ask(&body)).await).await;
        let made: Value = if stream {
            events(&answer).pop().unwrap()["response"].clone()
        } else {
            serde_json::from_str(&answer).unwrap()
        };
        let path = format!("/v1/responses/{}", made["id"].as_str().unwrap());
        // It is there the moment the client has the end of it.
        assert_eq!(desk.get(get(&path)).await, (200, made.clone()));
        let (status, list) = desk.get(get(&format!("{path}/input_items"))).await;
        assert_eq!((status, &list["object"]), (200, &json!("list")));
        assert_eq!(list["data"][0]["content"][0]["text"], "Hi");
        assert_eq!(list["first_id"], list["data"][0]["id"]);
        let gone = json!({ "id": made["id"], "object": "response", "deleted": true });
        assert_eq!(desk.get(request("DELETE", &path)).await, (200, gone));
        for path in [path.clone(), format!("{path}/input_items")] {
            let (status, error) = desk.get(get(&path)).await;
            assert_eq!((status, &error["error"]["code"]), (404, &json!("response_not_found")));
        }
        assert_eq!(desk.get(request("DELETE", &path)).await.0, 404);
    }
}

#[tokio::test]
async fn response_without_store_is_not_kept() {
    let off = ApiSettings { keep_responses: false, ..ApiSettings::default() };
    for (settings, store) in [(ApiSettings::default(), false), (off, true)] {
        let desk = Desk::new(Fake { steps: hello(), settings, ..Fake::default() });
        let mut body = hi();
        body["store"] = json!(store);
        let (_, made) = desk.get(ask(&body)).await;
        let id = made["id"].as_str().unwrap();
        assert_eq!(desk.get(get(&format!("/v1/responses/{id}"))).await.0, 404);
        body["previous_response_id"] = json!(id);
        let (status, error) = desk.get(ask(&body)).await;
        assert_eq!(status, 400);
        assert_eq!(error["error"]["code"], "previous_response_not_found");
        assert_eq!(error["error"]["param"], "previous_response_id");
        assert_eq!(desk.fake.seen.lock().len(), 1, "a turn was started for it");
    }
}

#[tokio::test]
async fn responses_are_separated_by_key() {
    let mut config = Config::default();
    config.access.api_key = Some("one-key-for-all".into());
    let keys = Keys::new(&config);
    let settings = ApiSettings { keys: Arc::new(keys), ..ApiSettings::default() };
    let desk = Desk::new(Fake { steps: hello(), settings, ..Fake::default() });
    let with = |mut request: Request<Body>, key: &str| {
        request.headers_mut().insert("x-api-key", key.parse().unwrap());
        request
    };
    let (status, made) = desk.get(with(ask(&hi()), "one-key-for-all")).await;
    assert_eq!(status, 200, "{made}");
    let path = format!("/v1/responses/{}", made["id"].as_str().unwrap());
    assert_eq!(desk.get(with(get(&path), "one-key-for-all")).await.0, 200);
    assert_eq!(desk.get(with(get(&path), "another")).await.0, 401);
    let found = desk.fake.store.response([9; 32], made["id"].as_str().unwrap(), 0).await.unwrap();
    assert_eq!(found, None);
}

#[tokio::test]
async fn previous_responses_are_put_before_the_input() {
    let desk = Desk::new(Fake { steps: hello(), ..Fake::default() });
    let (_, first) = desk.get(ask(&hi())).await;
    let second = json!({
        "model": "auto", "input": "More", "previous_response_id": first["id"],
    });
    let (status, second) = desk.get(ask(&second)).await;
    assert_eq!((status, &second["previous_response_id"]), (200, &first["id"]));
    let third = json!({
        "model": "auto", "input": "Last", "previous_response_id": second["id"],
    });
    assert_eq!(desk.get(ask(&third)).await.0, 200);
    let seen = desk.fake.seen.lock();
    let told: Vec<String> = seen[2].0.items.iter().map(|item| format!("{item:?}")).collect();
    let said: Vec<bool> = ["Hi", "Hello", "More", "Hello", "Last"]
        .iter()
        .map(|word| told.iter().any(|item| item.contains(word)))
        .collect();
    assert_eq!(said, [true; 5], "{told:?}");
}

/// A request that only brings results continues the turn as it is.
#[tokio::test]
async fn results_only_request_keeps_the_previous_tools() {
    let desk = Desk::new(Fake { steps: one_call(), ..Fake::default() });
    let tool = json!({ "type": "function", "name": "bash", "parameters": { "type": "object" } });
    let mut body = hi();
    body["tools"] = json!([tool]);
    body["instructions"] = json!("Be brief.");
    body["reasoning"] = json!({ "effort": "high" });
    let (_, first) = desk.get(ask(&body)).await;
    let call = &first["output"][0];
    assert_eq!(call["type"], "function_call", "{first}");
    let results = json!({
        "model": "auto", "previous_response_id": first["id"],
        "input": [{ "type": "function_call_output", "call_id": call["call_id"], "output": "ok" }],
    });
    assert_eq!(desk.get(ask(&results)).await.0, 200);
    let mut otherwise = results.clone();
    otherwise["instructions"] = json!("Be long.");
    assert_eq!(desk.get(ask(&otherwise)).await.0, 200);
    let seen = desk.fake.seen.lock();
    let setup = |at: usize| {
        let TurnRequest { system, tools, sampling, .. } = &seen[at].0;
        format!("{system:?} {tools:?} {:?}", sampling.effort)
    };
    assert_eq!(setup(0), setup(1));
    assert!(seen[2].0.tools.is_empty(), "it said what it wants");
}

#[tokio::test]
async fn failed_response_is_kept_and_cannot_be_continued() {
    let steps = vec![
        Step::Event(TurnEvent::Started),
        text("Half"),
        failed(ErrorCode::UpstreamClosed, "cut"),
    ];
    let desk = Desk::new(Fake { steps, ..Fake::default() });
    let mut body = hi();
    body["stream"] = json!(true);
    let last = events(&whole(desk.call(ask(&body)).await).await).pop().unwrap();
    assert_eq!(last["type"], "response.failed");
    let id = last["response"]["id"].as_str().unwrap();
    let (status, kept) = desk.get(get(&format!("/v1/responses/{id}"))).await;
    assert_eq!((status, &kept["status"]), (200, &json!("failed")));
    body["previous_response_id"] = json!(id);
    let (status, error) = desk.get(ask(&body)).await;
    assert_eq!((status, &error["error"]["code"]), (400, &json!("invalid_value")));
}

#[tokio::test]
async fn compacted_conversation_can_be_resumed() {
    let desk = Desk::new(Fake { steps: hello(), ..Fake::default() });
    let (_, first) = desk.get(ask(&hi())).await;
    let body = json!({
        "model": "auto", "input": "More", "previous_response_id": first["id"],
        "tools": [{ "type": "function", "name": "bash" }],
    });
    let (status, short) = desk.get(send("POST", "/v1/responses/compact", &body)).await;
    assert_eq!((status, &short["object"]), (200, &json!("response.compaction")), "{short}");
    assert_eq!(short["usage"]["output_tokens"], 2);
    let output = short["output"].as_array().unwrap();
    let texts: Vec<&str> =
        output[..2].iter().map(|item| item["content"][0]["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["Hi", "More"]);
    assert_eq!((output.len(), &output[2]["type"]), (3, &json!("compaction")));

    let mut input = output.clone();
    input.push(json!({ "role": "user", "content": "And now?" }));
    assert_eq!(desk.get(ask(&json!({ "model": "auto", "input": input }))).await.0, 200);
    let seen = desk.fake.seen.lock();
    assert!(seen[1].0.tools.is_empty());
    assert!(format!("{:?}", seen[1].0.items.last()).contains("Sum up"));
    assert!(format!("{:?}", seen[2].0).contains("Hello"), "the summary is sent");
}

#[tokio::test]
async fn missing_summary_is_an_error() {
    let path = "/v1/responses/compact";
    let silent = vec![finished(FinishReason::Stop)];
    let desk = Desk::new(Fake { steps: silent, ..Fake::default() });
    assert_eq!(desk.get(send("POST", path, &hi())).await.0, 502);
    let cut = vec![text("It was"), finished(FinishReason::Length)];
    let desk = Desk::new(Fake { steps: cut, ..Fake::default() });
    assert_eq!(desk.get(send("POST", path, &hi())).await.1["error"]["param"], "max_output_tokens");
    let fails = vec![failed(ErrorCode::UpstreamClosed, "cut")];
    let desk = Desk::new(Fake { steps: fails, ..Fake::default() });
    assert_eq!(desk.get(send("POST", path, &hi())).await.0, 502);
}

#[tokio::test(start_paused = true)]
async fn background_response() {
    let mut steps = hello();
    steps.insert(1, Step::Wait(Duration::from_secs(60)));
    let desk = Desk::new(Fake { steps, ..Fake::default() });
    let mut body = hi();
    body["background"] = json!(true);
    let (status, begun) = desk.get(ask(&body)).await;
    assert_eq!((status, &begun["status"]), (200, &json!("in_progress")), "{begun}");
    let path = format!("/v1/responses/{}", begun["id"].as_str().unwrap());
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(desk.get(get(&path)).await.1["status"], "in_progress");
    let (_, items) = desk.get(get(&format!("{path}/input_items"))).await;
    assert_eq!(items["data"][0]["content"][0]["text"], "Hi");
    let mut next = hi();
    next["previous_response_id"] = begun["id"].clone();
    let (status, error) = desk.get(ask(&next)).await;
    assert_eq!((status, &error["error"]["code"]), (400, &json!("invalid_value")), "{error}");
    assert_eq!(error["error"]["param"], "previous_response_id");
    assert!(error["error"]["message"].as_str().unwrap().contains("in_progress"), "{error}");
    tokio::time::sleep(Duration::from_secs(60)).await;
    let (_, done) = desk.get(get(&path)).await;
    assert_eq!(
        (&done["status"], &done["output"][1]["content"][0]["text"]),
        (&json!("completed"), &json!("Hello")),
        "{done}"
    );
    let (status, error) = desk.get(send("POST", &format!("{path}/cancel"), &json!({}))).await;
    assert_eq!(status, 400, "{error}");
}

#[tokio::test(start_paused = true)]
async fn background_response_can_be_cancelled_and_deleted() {
    let steps = vec![Step::Event(TurnEvent::Started), text("Hel"), Step::Hang];
    let desk = Desk::new(Fake { steps, ..Fake::default() });
    let mut body = hi();
    body["background"] = json!(true);
    let (_, begun) = desk.get(ask(&body)).await;
    let path = format!("/v1/responses/{}", begun["id"].as_str().unwrap());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(desk.fake.alive.load(Ordering::SeqCst), 1);
    for _ in 0..2 {
        let (status, ended) = desk.get(send("POST", &format!("{path}/cancel"), &json!({}))).await;
        assert_eq!((status, &ended["status"]), (200, &json!("cancelled")), "{ended}");
    }
    assert_eq!(desk.fake.alive.load(Ordering::SeqCst), 0, "the turn was dropped");
    assert_eq!(desk.get(get(&path)).await.1["status"], "cancelled");

    let (_, begun) = desk.get(ask(&body)).await;
    let path = format!("/v1/responses/{}", begun["id"].as_str().unwrap());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(desk.get(request("DELETE", &path)).await.0, 200);
    assert_eq!(desk.get(get(&path)).await.0, 404);
    assert_eq!(desk.fake.alive.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn unsupported_parameters_are_refused() {
    let desk = Desk::new(Fake { steps: hello(), ..Fake::default() });
    for (field, value, param) in [
        ("store", json!(false), "store"),
        ("stream", json!(true), "stream"),
        ("generate", json!(false), "generate"),
    ] {
        let mut body = hi();
        body["background"] = json!(true);
        body[field] = value;
        let (status, error) = desk.get(ask(&body)).await;
        assert_eq!((status, &error["error"]["param"]), (400, &json!(param)), "{error}");
    }
    let (_, made) = desk.get(ask(&hi())).await;
    let path = format!("/v1/responses/{}", made["id"].as_str().unwrap());
    let (status, error) = desk.get(get(&format!("{path}?stream=true"))).await;
    assert_eq!((status, &error["error"]["param"]), (400, &json!("stream")));
    let (status, error) = desk.get(send("POST", &format!("{path}/cancel"), &json!({}))).await;
    assert_eq!((status, &error["error"]["code"]), (400, &json!("invalid_value")));
    assert_eq!(desk.get(send("POST", "/v1/responses/no/cancel", &json!({}))).await.0, 404);
    assert_eq!(desk.get(get("/v1/responses/%ff")).await.0, 400);
}

fn no_websockets() -> ApiSettings {
    ApiSettings { websocket: false, ..ApiSettings::default() }
}

/// What is switched off is not offered.
#[tokio::test]
async fn endpoint_lists_name_websockets_only_if_enabled() {
    for (settings, offered) in [(no_websockets(), false), (ApiSettings::default(), true)] {
        let (router, _) = app(Fake { settings, ..Fake::default() });
        for path in ["/", "/v1/nothing"] {
            let text = whole(router.clone().oneshot(get(path)).await.unwrap()).await;
            assert!(text.contains("POST /v1/responses"), "{text}");
            for socket in ["GET /v1/chat/completions", "GET /v1/responses,", "GET /v1/responses\""]
            {
                assert!(offered || !text.contains(socket), "{text}");
            }
            assert_eq!(text.contains("GET /v1/chat/completions"), offered, "{text}");
        }
        let response = router.oneshot(request("PUT", "/v1/responses")).await.unwrap();
        let allow = response.headers()["allow"].to_str().unwrap();
        assert_eq!(allow.contains("GET"), offered, "{allow}");
    }
}

/// Client rule 14: a client that tries a WebSocket first falls back at once.
#[tokio::test]
async fn impossible_upgrades_get_426() {
    for (settings, version) in [(no_websockets(), "13"), (ApiSettings::default(), "8")] {
        for path in ["/v1/responses", "/v1/chat/completions"] {
            let mut request = get(path);
            for (name, value) in [
                ("connection", "keep-alive, Upgrade"),
                ("upgrade", "WebSocket"),
                ("sec-websocket-version", version),
                ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ] {
                request.headers_mut().insert(name, value.parse().unwrap());
            }
            let fake = Fake { settings: settings.clone(), ..Fake::default() };
            let response = call(fake, request).await;
            is(&response, 426);
            assert_eq!(response.headers()["upgrade"], "websocket");
            assert_eq!(response.headers()["sec-websocket-version"], "13");
            assert_eq!(code_of(&whole(response).await), "method_not_allowed");
        }
    }
    let off = Fake { settings: no_websockets(), ..Fake::default() };
    let response = call(off, get("/v1/responses")).await;
    is(&response, 405);
    assert_eq!(response.headers()["allow"], "POST, OPTIONS");
    assert!(!whole(response).await.contains("WebSocket"), "there are none");
    let response = call(Fake::default(), get("/v1/responses")).await;
    is(&response, 426);
    assert_eq!(response.headers()["upgrade"], "websocket", "a plain GET learns what is there");
}

/// Codex shows the body of a 400 as raw JSON, and retries a 503 thirty times.
#[tokio::test]
async fn codex_gets_early_failures_in_the_stream() {
    let ask = |name: &'static str, value: &'static str, stream: bool| {
        let mut body = hi();
        body["stream"] = json!(stream);
        let mut request = ask(&body);
        request.headers_mut().insert(name, http::HeaderValue::from_static(value));
        request
    };
    let codex = [
        ("originator", "codex_cli_rs"),
        ("originator", "Codex Desktop"),
        ("user-agent", "codex_exec/0.150.1 (Debian 13; x86_64)"),
    ];
    for (code, expected) in [
        (ErrorCode::ContextTooLong, "context_length_exceeded"),
        (ErrorCode::InsufficientQuota, "insufficient_quota"),
        (ErrorCode::RateLimited, "rate_limit_exceeded"),
        (ErrorCode::Unavailable, "server_error"),
        (ErrorCode::Timeout, "server_error"),
    ] {
        let failing =
            || Fake { refuse: Some(TurnError::new(code, "it went wrong")), ..Fake::default() };
        for (name, value) in codex {
            let response = call(failing(), ask(name, value, true)).await;
            is(&response, 200);
            let events = events(&whole(response).await);
            let last = events.last().unwrap();
            assert_eq!(last["type"], "response.failed", "{code:?}");
            assert_eq!(last["response"]["error"]["code"], expected, "{code:?}");
            let message = last["response"]["error"]["message"].as_str().unwrap();
            assert!(message.starts_with("it went wrong"), "{message}");
            // What is not streamed has nothing but its status.
            is(&call(failing(), ask(name, value, false)).await, code.row().status);
        }
        // Every other client reads the status.
        let response = call(failing(), ask("user-agent", "OpenAI/Python 2.1", true)).await;
        is(&response, code.row().status);
    }
    // What a retry cannot fix and Codex has no code for stays a status.
    for code in [ErrorCode::NotAuthenticated, ErrorCode::PlanRequired, ErrorCode::ModelNotFound] {
        let refuse = Some(TurnError::new(code, "it went wrong"));
        let response =
            call(Fake { refuse, ..Fake::default() }, ask("originator", "codex_exec", true)).await;
        is(&response, code.row().status);
    }
}
