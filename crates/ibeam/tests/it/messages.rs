//! The same path in Anthropic's language.

use axum::body::Body;
use http::Request;
use serde_json::{Value, json};

use crate::lab::{Lab, Reply};

const ONE: &str = r#"
[[rule]]
steps = [
  { thinking = "Let me look." },
  { text = "I look." },
  { exec = { arm = "mcp", args = { name = "Bash", args = { command = "ls" } } } },
  { text = "It says: {result}" },
]
"#;

const TWO: &str = r#"
[[rule]]
steps = [
  { execs = [
    { arm = "mcp", args = { name = "Bash", args = { command = "one" } } },
    { arm = "mcp", args = { name = "Bash", args = { command = "two" } } },
  ] },
  { text = "{result}" },
]
"#;

async fn post(lab: &Lab, path: &str, body: &Value) -> Reply {
    let request = Request::post(path)
        .header("host", "127.0.0.1:18741")
        .header("content-type", "application/json")
        .header("anthropic-version", "2023-06-01")
        .header("anthropic-beta", "some-beta-2030-01-01")
        .body(Body::from(body.to_string()))
        .unwrap();
    Reply::read(lab.send(request).await).await
}

/// As Claude Code asks, with a version of its own in each request.
fn asked(stream: bool) -> Value {
    json!({
        "model": "claude-sonnet-4-5-20250929",
        "max_tokens": 32000,
        "stream": stream,
        "thinking": { "type": "enabled", "budget_tokens": 31999 },
        "system": [
            { "type": "text", "text": "x-anthropic-billing-header: cc_version=1; cch=1;" },
            { "type": "text", "text": "You are a coding tool.", "cache_control": { "type": "ephemeral" } },
        ],
        "tools": [{
            "name": "Bash",
            "description": "Runs a command",
            "input_schema": {
                "type": "object",
                "properties": { "command": { "type": "string" } },
                "required": ["command"],
            },
        }],
        "messages": [{ "role": "user", "content": [{ "type": "text", "text": "look" }] }],
    })
}

/// Sends it, and gives the message, put together as SDKs do if it was streamed.
async fn ask(lab: &Lab, body: &Value) -> Value {
    let reply = post(lab, "/v1/messages?beta=true", body).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    if body["stream"] == false {
        return reply.json();
    }
    let mut message = Value::Null;
    let mut input = String::new();
    for event in reply.chunks() {
        let block = event["index"].as_u64().map(|index| usize::try_from(index).unwrap());
        match event["type"].as_str().unwrap() {
            "message_start" => message = event["message"].clone(),
            "content_block_start" => {
                message["content"].as_array_mut().unwrap().push(event["content_block"].clone());
                input.clear();
            }
            "content_block_delta" => {
                let block = &mut message["content"][block.unwrap()];
                for field in ["text", "thinking", "signature"] {
                    if let Some(more) = event["delta"][field].as_str() {
                        let all = format!("{}{more}", block[field].as_str().unwrap());
                        block[field] = all.into();
                    }
                }
                input.push_str(event["delta"]["partial_json"].as_str().unwrap_or_default());
            }
            "content_block_stop" => {
                let block = &mut message["content"][block.unwrap()];
                if block["type"] == "tool_use" {
                    block["input"] = serde_json::from_str(&input).unwrap();
                }
            }
            "message_delta" => {
                message["stop_reason"] = event["delta"]["stop_reason"].clone();
                message["usage"] = event["usage"].clone();
            }
            "message_stop" | "ping" => {}
            other => panic!("{other}: {}", reply.body),
        }
    }
    message
}

fn push(body: &mut Value, message: Value) {
    body["messages"].as_array_mut().unwrap().push(message);
}

/// Takes the answer into the conversation, and gives its calls.
fn hear(body: &mut Value, message: &Value) -> Vec<Value> {
    assert_eq!(message["stop_reason"], "tool_use", "{message}");
    push(body, json!({ "role": "assistant", "content": message["content"] }));
    let blocks = message["content"].as_array().unwrap().iter();
    blocks.filter(|block| block["type"] == "tool_use").cloned().collect()
}

fn result(call: &Value, content: &str) -> Value {
    json!({
        "type": "tool_result", "tool_use_id": call["id"], "content": content,
        "is_error": false, "cache_control": { "type": "ephemeral" },
    })
}

#[tokio::test(start_paused = true)]
async fn chain_of_tool_calls_is_one_run() {
    for stream in [true, false] {
        let lab = Lab::scenario(ONE);
        let mut body = asked(stream);
        let first = ask(&lab, &body).await;
        assert_eq!(first["model"], "claude-sonnet-4-5-20250929", "the client's own name");
        let kinds: Vec<_> =
            first["content"].as_array().unwrap().iter().map(|block| &block["type"]).collect();
        assert_eq!(kinds, ["thinking", "text", "tool_use"], "{first}");
        assert_ne!(first["content"][0]["signature"], "");
        let calls = hear(&mut body, &first);
        assert_eq!(calls[0]["input"], json!({ "command": "ls" }));
        push(&mut body, json!({ "role": "user", "content": [result(&calls[0], "a b c")] }));
        body["system"][0]["text"] = "x-anthropic-billing-header: cc_version=2; cch=2;".into();
        let second = ask(&lab, &body).await;
        assert_eq!(second["stop_reason"], "end_turn", "{second}");
        assert_eq!(second["content"][0]["text"], "It says: a b c");
        assert!(second["usage"]["output_tokens"].as_u64().unwrap() > 0, "{second}");
        assert_eq!(lab.sim.stats().runs_started, 1);
        assert_eq!(lab.sim.stats().violations, Vec::<String>::new());
        lab.assert_gone().await;
    }
}

/// An instruction in the middle reaches the model with the result, and the prompt stays
/// what it was: the run continues.
#[tokio::test(start_paused = true)]
async fn system_message_next_to_a_result_keeps_the_run() {
    let lab = Lab::scenario(ONE);
    let mut body = asked(true);
    push(&mut body, json!({ "role": "system", "content": "Plan mode is on." }));
    let first = ask(&lab, &body).await;
    let calls = hear(&mut body, &first);
    push(&mut body, json!({ "role": "user", "content": [result(&calls[0], "a b c")] }));
    push(
        &mut body,
        json!({ "role": "system", "content": [{ "type": "text", "text": "Plan mode is off." }] }),
    );
    let second = ask(&lab, &body).await;
    let text = second["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("a b c") && text.contains("Plan mode is off."), "{text}");
    assert_eq!(lab.sim.stats().runs_started, 1);
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn simultaneous_calls_are_answered_together() {
    let lab = Lab::scenario(TWO);
    let mut body = asked(true);
    let first = ask(&lab, &body).await;
    let calls = hear(&mut body, &first);
    let commands: Vec<_> = calls.iter().map(|call| &call["input"]["command"]).collect();
    assert_eq!(commands, ["one", "two"]);
    let results = [result(&calls[1], "second"), result(&calls[0], "first")];
    push(&mut body, json!({ "role": "user", "content": results }));
    let second = ask(&lab, &body).await;
    assert_eq!(second["stop_reason"], "end_turn", "{second}");
    assert_eq!(lab.sim.stats().runs_started, 1);
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn the_whole_conversation_reaches_the_model() {
    let lab =
        Lab::scenario("[[rule]]\nsteps = [{ text = \"{history}|{system}|{prompt}|{images}\" }]");
    let body = json!({
        "model": "auto",
        "max_tokens": 100,
        "system": "Speak like a pirate.",
        "messages": [
            { "role": "user", "content": "My name is Ada." },
            { "role": "assistant", "content": [{ "type": "text", "text": "Hello Ada." }] },
            { "role": "user", "content": [
                { "type": "document", "title": "Notes", "source": { "type": "text", "data": "Forty-two" } },
                { "type": "text", "text": "What is my name?" },
                { "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo=" } },
            ] },
        ],
        "stream": false,
    });
    let message = ask(&lab, &body).await;
    let text = message["content"][0]["text"].as_str().unwrap();
    for piece in [
        "My name is Ada.",
        "Hello Ada.",
        "Speak like a pirate.",
        "What is my name?",
        "Notes",
        "Forty-two",
    ] {
        assert!(text.contains(piece), "{piece} is missing in {text}");
    }
    assert!(text.ends_with("|1"), "{text}");
    lab.assert_clean().await;
}

/// One more tool, as after a search for tools, and the history is sent to the model again.
#[tokio::test(start_paused = true)]
async fn an_image_in_a_result_survives_another_tool() {
    let lab = Lab::scenario(
        r#"
        [[rule]]
        when = { nth = 1 }
        steps = [
          { exec = { arm = "mcp", args = { name = "Bash", args = { command = "shot" } } } },
          { text = "Seen." },
        ]
        [[rule]]
        steps = [{ text = "{history}" }]
        "#,
    );
    let mut body = asked(false);
    let first = ask(&lab, &body).await;
    let parts = first["content"].as_array().unwrap();
    let call = parts.iter().find(|part| part["type"] == "tool_use").unwrap();
    let source = json!({ "type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo=" });
    let picture = json!([{ "type": "image", "source": source }]);
    let result = json!({ "type": "tool_result", "tool_use_id": call["id"], "content": picture });
    push(&mut body, json!({ "role": "assistant", "content": parts }));
    push(&mut body, json!({ "role": "user", "content": [result] }));
    let search = json!({ "name": "search", "input_schema": { "type": "object" } });
    body["tools"].as_array_mut().unwrap().push(search);
    let second = ask(&lab, &body).await;
    assert!(second.to_string().contains("[image image/png]"), "{second}");
    assert_eq!(lab.fates().forked, 1);
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn built_in_names_of_claude_code_are_resolved() {
    let lab = Lab::new();
    for name in [
        "claude-3-5-haiku-20241022",
        "claude-haiku-4-5-20251001",
        "claude-opus-4-1",
        "claude-next-9",
    ] {
        let mut body = asked(false);
        body["model"] = name.into();
        assert_eq!(ask(&lab, &body).await["model"], name);
    }
    let mut body = asked(true);
    body["model"] = "no-such-model-9".into();
    let reply = post(&lab, "/v1/messages", &body).await;
    assert_eq!(reply.status, 404);
    assert_eq!(reply.json()["error"]["type"], "not_found_error");
}

#[tokio::test(start_paused = true)]
async fn tokens_are_counted_without_the_backend() {
    let lab = Lab::new();
    let mut body = asked(false);
    let count = async |body: &Value| {
        let reply = post(&lab, "/v1/messages/count_tokens", body).await;
        assert_eq!(reply.status, 200, "{}", reply.body);
        reply.json()["input_tokens"].as_u64().unwrap()
    };
    let short = count(&body).await;
    assert!((20..200).contains(&short), "{short}");
    push(&mut body, json!({ "role": "user", "content": "word ".repeat(1000) }));
    let long = count(&body).await;
    assert!((900..2000).contains(&(long - short)), "{long}");
    body["model"] = "no-such-model-9".into();
    assert_eq!(post(&lab, "/v1/messages/count_tokens", &body).await.status, 404);
    assert_eq!(lab.sim.stats().runs_started, 0);
}

/// The same bytes are a request in both dialects, and each reads another part of them.
#[tokio::test(start_paused = true)]
async fn token_count_is_not_taken_from_another_dialect() {
    let lab = Lab::new();
    let mut body = asked(false);
    body["input"] = "word ".repeat(1000).into();
    let count = async |path: &str| {
        let reply = post(&lab, path, &body).await;
        assert_eq!(reply.status, 200, "{}", reply.body);
        reply.json()["input_tokens"].as_u64().unwrap()
    };
    for _ in 0..2 {
        let (messages, responses) =
            (count("/v1/messages/count_tokens").await, count("/v1/responses/input_tokens").await);
        assert!((20..200).contains(&messages), "{messages}");
        assert!((900..2000).contains(&responses), "{responses}");
    }
}

#[tokio::test(start_paused = true)]
async fn models_are_listed_in_anthropics_format() {
    let lab = Lab::new();
    let page = async |query: &str| {
        let request = Request::get(format!("/v1/models{query}"))
            .header("host", "localhost")
            .header("anthropic-version", "2023-06-01")
            .body(Body::empty())
            .unwrap();
        Reply::read(lab.send(request).await).await.json()
    };
    let all = page("?limit=1000").await;
    let ids: Vec<_> = all["data"].as_array().unwrap().iter().map(|card| &card["id"]).collect();
    assert!(ids.len() > 3 && all["has_more"] == false, "{all}");
    let mut paged: Vec<Value> = Vec::new();
    let mut next = page("?limit=2").await;
    loop {
        paged.extend(next["data"].as_array().unwrap().iter().map(|card| card["id"].clone()));
        if next["has_more"] == false {
            break;
        }
        next = page(&format!("?limit=2&after_id={}", next["last_id"].as_str().unwrap())).await;
    }
    assert_eq!(paged.iter().collect::<Vec<_>>(), ids);
}
