//! Chat completions, the older completions, models and errors.

use async_openai::{
    error::ApiError,
    types::{
        chat::{CreateChatCompletionResponse, CreateChatCompletionStreamResponse, FinishReason},
        completions::CreateCompletionResponse,
        models::{ListModelResponse, Model},
    },
};
use serde_json::{Value, json};

use super::{gate::Gate, read};

const PATH: &str = "/v1/chat/completions";

fn tools() -> Value {
    let parameters = json!({
        "type": "object",
        "properties": { "path": { "type": "string" } },
        "required": ["path"],
    });
    json!([{ "type": "function", "function": { "name": "read_file", "parameters": parameters } }])
}

fn person() -> Value {
    let schema = json!({
        "type": "object",
        "properties": { "name": { "type": "string" }, "age": { "type": "integer" } },
        "required": ["name", "age"],
        "additionalProperties": false,
    });
    json!({ "type": "json_schema", "json_schema": { "name": "person", "schema": schema } })
}

/// Requests of every kind, and how their answers end.
fn cases() -> Vec<(Value, FinishReason)> {
    let ask = |text: &str, more: Value| {
        let mut body =
            json!({ "model": "gpt-4o", "messages": [{ "role": "user", "content": text }] });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    vec![
        (ask("Say hello", json!({})), FinishReason::Stop),
        (
            ask("Say hello", json!({ "stream_options": { "include_usage": true } })),
            FinishReason::Stop,
        ),
        (ask("count in words", json!({ "stop": [" five six"] })), FinishReason::Stop),
        (ask("count in words", json!({ "max_completion_tokens": 3 })), FinishReason::Length),
        (ask("describe a person", json!({ "response_format": person() })), FinishReason::Stop),
        (ask("read `a.txt`", json!({ "tools": tools() })), FinishReason::ToolCalls),
        (
            ask("in parallel read `a.txt` and read `b.txt`", json!({ "tools": tools() })),
            FinishReason::ToolCalls,
        ),
    ]
}

fn with_stream(mut body: Value, stream: bool) -> Value {
    body["stream"] = json!(stream);
    if !stream {
        body.as_object_mut().unwrap().remove("stream_options");
    }
    body
}

#[tokio::test(start_paused = true)]
async fn whole_chat_completions() {
    let gate = Gate::new();
    for (body, ending) in cases() {
        let body = with_stream(body, false);
        let reply: CreateChatCompletionResponse = read(&gate.post(PATH, &body).await.good());
        assert_eq!(reply.object, "chat.completion");
        assert_eq!(reply.choices[0].finish_reason, Some(ending), "{body}");
        let calls = reply.choices[0].message.tool_calls.as_deref().unwrap_or_default();
        assert_eq!(!calls.is_empty(), ending == FinishReason::ToolCalls, "{body}");
        assert!(reply.usage.is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn streamed_chat_completions() {
    let gate = Gate::new();
    for (body, ending) in cases() {
        let body = with_stream(body, true);
        let events = gate.post(PATH, &body).await.events();
        let chunks: Vec<CreateChatCompletionStreamResponse> = events.iter().map(read).collect();
        let endings: Vec<_> = chunks
            .iter()
            .flat_map(|chunk| &chunk.choices)
            .filter_map(|one| one.finish_reason)
            .collect();
        assert_eq!(endings, [ending], "{body}");
        let asked = body.get("stream_options").is_some();
        assert_eq!(chunks.iter().any(|chunk| chunk.usage.is_some()), asked, "{body}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_chain() {
    let gate = Gate::new();
    let mut messages = vec![json!({ "role": "user", "content": "read `a.txt`" })];
    let body = json!({ "model": "gpt-4o", "messages": messages, "tools": tools() });
    let first = gate.post(PATH, &body).await.good();
    let call = &first["choices"][0]["message"]["tool_calls"][0]["id"];
    messages.push(first["choices"][0]["message"].clone());
    messages.push(json!({ "role": "tool", "tool_call_id": call, "content": "SESAME" }));
    let body = json!({ "model": "gpt-4o", "messages": messages, "tools": tools() });
    let second: CreateChatCompletionResponse = read(&gate.post(PATH, &body).await.good());
    assert!(second.choices[0].message.content.as_deref().unwrap().contains("SESAME"));
}

#[tokio::test(start_paused = true)]
async fn completions_of_the_older_kind() {
    let gate = Gate::new();
    let mut body = json!({ "model": "gpt-4o", "prompt": "Say hello" });
    let whole: CreateCompletionResponse = read(&gate.post("/v1/completions", &body).await.good());
    assert_eq!(whole.object, "text_completion");
    body["stream"] = json!(true);
    let events = gate.post("/v1/completions", &body).await.events();
    let chunks: Vec<CreateCompletionResponse> = events.iter().map(read).collect();
    let text: String =
        chunks.iter().flat_map(|chunk| &chunk.choices).map(|one| &*one.text).collect();
    assert_eq!(text, whole.choices[0].text);
}

#[tokio::test(start_paused = true)]
async fn models() {
    let gate = Gate::new();
    let list: ListModelResponse = read(&gate.get("/v1/models").await.good());
    assert!(list.data.len() > 3);
    let one: Model = read(&gate.get(&format!("/v1/models/{}", list.data[0].id)).await.good());
    assert_eq!(one.id, list.data[0].id);
}

#[tokio::test(start_paused = true)]
async fn errors() {
    let gate = Gate::new();
    let ask = |text: &str, stream: bool| {
        let messages = json!([{ "role": "user", "content": text }]);
        json!({ "model": "gpt-4o", "messages": messages, "stream": stream })
    };
    let refused = [
        (json!({ "model": "gpt-4o" }), "messages"),
        (
            json!({ "model": "no-such-model-7", "messages": [{ "role": "user", "content": "x" }] }),
            "model",
        ),
    ];
    for (body, param) in refused {
        let reply = gate.post(PATH, &body).await;
        assert_eq!(reply.status, 400);
        let error: ApiError = read(&reply.json()["error"]);
        assert_eq!(error.param.as_deref(), Some(param));
        assert_eq!(error.r#type.as_deref(), Some("invalid_request_error"));
    }
    for text in ["too many of us", "plan used up", "conversation too long", "break off"] {
        let reply = gate.post(PATH, &ask(text, false)).await;
        assert!(!reply.status.is_success(), "{text}");
        assert!(read::<ApiError>(&reply.json()["error"]).code.is_some(), "{text}");
    }
    let events = gate.post(PATH, &ask("break off", true)).await.events();
    let (last, before) = events.split_last().unwrap();
    let error: ApiError = read(&last["error"]);
    assert_eq!(error.r#type.as_deref(), Some("server_error"));
    for chunk in before {
        read::<CreateChatCompletionStreamResponse>(chunk);
    }
}
