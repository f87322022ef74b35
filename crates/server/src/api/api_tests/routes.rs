use super::*;

#[tokio::test]
async fn health() {
    let mut fake = Fake::default();
    fake.health.authenticated = true;
    let report = whole(call(fake, get("/health")).await).await;
    let report = report.replace(env!("CARGO_PKG_VERSION"), "VERSION");
    insta::assert_snapshot!(report);
    let report = whole(call(Fake::default(), get("/healthz")).await).await;
    assert!(report.contains(r#""auth":"not_authenticated""#), "{report}");
}

#[tokio::test]
async fn models() {
    for path in ["/v1/models", "/models"] {
        insta::assert_snapshot!("models", shown(call(Fake::default(), get(path)).await).await);
    }
}

#[tokio::test]
async fn model_is_found_by_each_of_its_names() {
    for (path, id) in [
        ("/v1/models/claude-4.6-sonnet", "claude-4.6-sonnet"),
        ("/models/sonnet-4.6", "sonnet-4.6"),
        ("/v1/models/anthropic/claude-4.6-sonnet", "anthropic/claude-4.6-sonnet"),
        ("/v1/models/anthropic%2Fclaude-4.6-sonnet", "anthropic/claude-4.6-sonnet"),
        ("/v1/models/auto", "auto"),
    ] {
        let response = call(Fake::default(), get(path)).await;
        is(&response, 200);
        let card: serde_json::Value = serde_json::from_str(&whole(response).await).unwrap();
        assert_eq!(card["id"], id);
        assert_eq!(card["object"], "model");
    }
    let response = call(Fake::default(), get("/v1/models/no-such-thing")).await;
    is(&response, 404);
    let body = whole(response).await;
    assert_eq!(code_of(&body), "model_not_found");
    assert!(body.contains("\"status\":404"), "{body}");
}

#[tokio::test]
async fn id_that_is_not_utf8_is_a_json_error() {
    let response = call(Fake::default(), get("/v1/models/%ff")).await;
    is(&response, 400);
    assert_eq!(code_of(&whole(response).await), "invalid_value");
}

#[tokio::test]
async fn missing_model_list_is_an_error() {
    for path in ["/v1/models", "/v1/models/auto"] {
        let no_models = Some(TurnError::new(ErrorCode::NotAuthenticated, "sign in first"));
        let response = call(Fake { no_models, ..Fake::default() }, get(path)).await;
        is(&response, 401);
        assert_eq!(code_of(&whole(response).await), "not_authenticated");
    }
}

#[tokio::test]
async fn unknown_paths_are_404_and_methods_405() {
    let mut all = String::new();
    for (method, path) in [
        ("GET", "/v1/embeddings"),
        ("POST", "/v2/chat/completions"),
        ("GET", "/v1/chat/completions"),
        ("DELETE", "/v1/models/auto"),
        ("POST", "/health"),
        ("OPTIONS", "/v1/chat/completions"),
        ("OPTIONS", "/v1/models"),
        ("OPTIONS", "/nowhere"),
    ] {
        all.push_str(&format!("{method} {path}\n"));
        all.push_str(&shown(call(Fake::default(), request(method, path)).await).await);
        all.push_str("\n\n");
    }
    insta::assert_snapshot!(all);
}

#[tokio::test]
async fn similar_path_is_suggested() {
    for (path, meant) in [
        ("/v1/chat/completions/", "/v1/chat/completions"),
        ("/v1/v1/chat/completions", "/v1/chat/completions"),
        ("/chat/completions/", "/v1/chat/completions"),
        ("//v1/chat/completions", "/v1/chat/completions"),
        ("/v1/v1/models", "/v1/models"),
        ("/v1/completions/", "/v1/completions"),
        ("/v1/docs", "/docs"),
        ("/v1/openapi.json", "/openapi.json"),
        ("//v1/models//auto", "/v1/models/auto"),
        ("/v1/models/", "/v1/models"),
        ("/v1/health", "/health"),
    ] {
        let response = call(Fake::default(), request("POST", path)).await;
        is(&response, 404);
        let body = whole(response).await;
        assert!(body.contains(&format!("did you mean {meant}?")), "{path}: {body}");
    }
}

#[tokio::test]
async fn unsupported_endpoint_gets_a_reason() {
    for (path, why) in [
        ("/v1/embeddings", "does not offer embeddings"),
        ("/embeddings", "does not offer embeddings"),
        ("/v1/images/generations", "does not generate images"),
        ("/v1/audio/speech", "does not offer speech or audio"),
        ("/v1/moderations", "does not offer moderation"),
        ("/v1/files", "does not store files"),
        ("/v1/files/file-1/content", "does not store files"),
        ("/v1/batches", "does not run batches"),
        ("/v1/assistants", "assistants are not supported"),
        ("/v1/threads/t/runs", "assistants are not supported"),
        ("/v1/fine_tuning/jobs", "does not offer fine-tuning"),
    ] {
        for method in ["GET", "POST", "DELETE"] {
            let response = call(Fake::default(), request(method, path)).await;
            is(&response, 404);
            let body = whole(response).await;
            assert_eq!(code_of(&body), "not_found");
            assert!(body.contains(why), "{method} {path}: {body}");
            assert!(body.contains("POST /v1/chat/completions"), "{body}");
        }
    }
    // No prefix of a word is the word.
    let body = whole(call(Fake::default(), get("/v1/filesystem")).await).await;
    assert!(!body.contains("does not store files"), "{body}");
}

#[tokio::test]
async fn not_found_error_has_the_callers_dialect() {
    let response = call(Fake::default(), request("POST", "/v1/messages/batches")).await;
    is(&response, 404);
    let body: serde_json::Value = serde_json::from_str(&whole(response).await).unwrap();
    assert_eq!(body["error"]["type"], "not_found_error");
    let message = body["error"]["message"].as_str().unwrap();
    assert!(message.contains("does not run batches"), "{message}");
}

#[tokio::test]
async fn openapi_document_and_page_are_served() {
    let response = call(Fake::default(), get("/openapi.json")).await;
    is(&response, 200);
    assert_eq!(response.headers()["content-type"], "application/json");
    let document: serde_json::Value = serde_json::from_str(&whole(response).await).unwrap();
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    let response = call(Fake::default(), get("/docs")).await;
    is(&response, 200);
    assert_eq!(response.headers()["content-type"], "text/html; charset=utf-8");
    let policy = response.headers()["content-security-policy"].to_str().unwrap();
    assert!(policy.starts_with("default-src 'none'"), "{policy}");
    assert!(whole(response).await.starts_with("<!doctype html>"));
}

#[tokio::test]
async fn options_asterisk_is_answered() {
    let response = call(Fake::default(), request("OPTIONS", "*")).await;
    is(&response, 204);
    assert!(response.headers().contains_key("allow"));
}

#[tokio::test]
async fn head_returns_no_body() {
    for path in
        ["/", "/health", "/healthz", "/docs", "/openapi.json", "/v1/models", "/v1/models/auto"]
    {
        let got = call(Fake::default(), get(path)).await;
        let head = call(Fake::default(), request("HEAD", path)).await;
        is(&head, 200);
        assert_eq!(head.headers()["content-type"], got.headers()["content-type"]);
        assert_eq!(whole(head).await, "");
        assert_ne!(whole(got).await, "");
    }
    is(&call(Fake::default(), request("HEAD", "/v1/chat/completions")).await, 426);
}

#[tokio::test]
async fn root_has_name_and_endpoints() {
    let body = whole(call(Fake::default(), get("/")).await).await;
    assert!(body.starts_with(r#"{"name":"ibeam","version":"#), "{body}");
    assert!(body.contains("POST /v1/chat/completions"), "{body}");
}
