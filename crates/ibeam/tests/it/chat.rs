//! What a client sends reaches the model, and what the model says comes back.

use base64::Engine as _;
use ibeam_sim::SimConfig;
use serde_json::json;

use crate::lab::{Lab, Reply, chat};

#[tokio::test(start_paused = true)]
async fn streamed_and_whole_answers_are_the_same() {
    let lab = Lab::new();
    let whole = lab.post(chat("Say hello", false).to_string()).await.json();
    let streamed = lab.stream("Say hello").await;
    let message = &whole["choices"][0]["message"];
    assert_eq!(message["content"].as_str().unwrap(), streamed.text());
    assert_eq!(message["reasoning_content"].as_str().unwrap(), streamed.reasoning());
    assert!(!streamed.text().is_empty());
    assert_eq!(streamed.finish_reason().as_deref(), Some("stop"));
    assert!(streamed.done());
    assert_eq!(streamed.chunks()[0]["choices"][0]["delta"]["role"], "assistant");
    assert!(whole["usage"]["prompt_tokens"].as_u64().unwrap() > 0);
    assert_eq!(lab.sim.stats().violations, Vec::<String>::new());
    assert_eq!(lab.sim.stats().unknown_fields, Vec::<String>::new());
    lab.assert_clean().await;
}

#[tokio::test(start_paused = true)]
async fn usage_is_sent_on_request() {
    let lab = Lab::new();
    let mut body = chat("hi", true);
    body["stream_options"] = json!({ "include_usage": true });
    let chunks = lab.post(body.to_string()).await.chunks();
    let last = chunks.last().unwrap();
    assert_eq!(last["choices"], json!([]));
    let (prompt, completion) =
        (&last["usage"]["prompt_tokens"], &last["usage"]["completion_tokens"]);
    let total = prompt.as_u64().unwrap() + completion.as_u64().unwrap();
    assert_eq!(last["usage"]["total_tokens"].as_u64(), Some(total));
}

#[tokio::test(start_paused = true)]
async fn usage_is_counted_if_the_backend_reports_none() {
    let lab = Lab::scenario(
        r#"
        [[rule]]
        quirks = ["terse", "no_turn_ended"]
        steps = [{ text = "four words of text" }, "end"]
        "#,
    );
    let usage = lab.post(chat("one two three", false).to_string()).await.json()["usage"].clone();
    assert!(usage["completion_tokens"].as_u64().unwrap() >= 3, "{usage}");
    assert!(usage["prompt_tokens"].as_u64().unwrap() >= 3, "{usage}");
}

#[tokio::test(start_paused = true)]
async fn the_whole_history_reaches_the_model() {
    let lab = Lab::scenario(
        r#"
        [[rule]]
        steps = [{ text = "{history}|{system}|{prompt}" }]
        "#,
    );
    let body = json!({
        "model": "auto",
        "messages": [
            { "role": "system", "content": "Speak like a pirate." },
            { "role": "user", "content": "My name is Ada." },
            { "role": "assistant", "content": "Hello Ada." },
            { "role": "user", "content": [{ "type": "text", "text": "What is my name?" }] },
        ],
    });
    let reply = lab.post(body.to_string()).await;
    let text = reply.json()["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    for piece in ["My name is Ada.", "Hello Ada.", "Speak like a pirate.", "What is my name?"] {
        assert!(text.contains(piece), "{piece} is missing in {text}");
    }
    lab.assert_clean().await;
}

/// The backend does not resume what is over: the model has to be asked.
#[tokio::test(start_paused = true)]
async fn an_answer_at_the_end_of_the_history_is_continued() {
    let lab = Lab::new();
    let known = lab.ask("hi").await;
    for answer in [known.as_str(), "An answer that was given elsewhere."] {
        let body = json!({
            "model": "auto",
            "messages": [
                { "role": "user", "content": "hi" },
                { "role": "assistant", "content": answer },
            ],
        });
        let reply = lab.post(body.to_string()).await;
        assert_eq!(reply.status, 200, "{}", reply.body);
        let message = &reply.json()["choices"][0]["message"];
        assert!(message["content"].as_str().is_some_and(|text| !text.is_empty()), "{message}");
    }
    lab.assert_clean().await;
}

#[tokio::test(start_paused = true)]
async fn context_can_be_sent_with_the_first_message() {
    for inline in [false, true] {
        let lab = Lab::with(SimConfig::default(), |config| config.upstream.inline_context = inline);
        assert!(!lab.ask("Say hello").await.is_empty());
        let asked = u64::from(!inline);
        assert_eq!(lab.sim.stats().execs_sent, asked, "asked for it only if it did not come");
        assert_eq!(lab.sim.stats().violations, Vec::<String>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn images_arrive_as_selected_images() {
    let lab = Lab::scenario("[[rule]]\nsteps = [{ text = \"{images}\" }]");
    let png = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x02\x00\x00\x00\x03\x08\x06";
    let url =
        format!("data:image/png;base64,{}", base64::engine::general_purpose::STANDARD.encode(png));
    let image = json!({ "type": "image_url", "image_url": { "url": url } });
    let body = json!({
        "model": "auto",
        "messages": [{ "role": "user", "content": [
            { "type": "text", "text": "Compare" }, image.clone(), image,
        ]}],
    });
    let reply = lab.post(body.to_string()).await;
    let text = reply.json()["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    assert!(text.contains('2'), "{text}");
}

#[tokio::test(start_paused = true)]
async fn tool_is_called_and_its_result_returned() {
    let lab = Lab::new();
    let tools = json!([{
        "type": "function",
        "function": {
            "name": "bash",
            "description": "Runs a command",
            "parameters": {
                "type": "object",
                "properties": { "command": { "type": "string" } },
                "required": ["command"],
            },
        },
    }]);
    let mut body = chat("run `echo hi`", true);
    body["tools"] = tools.clone();
    let reply = lab.post(body.to_string()).await;
    assert_eq!(reply.finish_reason().as_deref(), Some("tool_calls"), "{}", reply.body);
    let chunks = reply.chunks();
    let deltas: Vec<_> = chunks
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"]["tool_calls"][0].as_object())
        .collect();
    assert_eq!(deltas[0]["function"]["name"], "bash");
    let id = deltas[0]["id"].as_str().unwrap();
    let arguments: String =
        deltas.iter().filter_map(|delta| delta["function"]["arguments"].as_str()).collect();
    assert!(arguments.contains("echo hi"), "{arguments}");
    lab.assert_clean().await;

    let answer = json!({
        "model": "auto",
        "tools": tools,
        "messages": [
            { "role": "user", "content": "run `echo hi`" },
            { "role": "assistant", "content": null, "tool_calls": [{
                "id": id, "type": "function",
                "function": { "name": "bash", "arguments": arguments },
            }]},
            { "role": "tool", "tool_call_id": id, "content": "hi-from-the-tool" },
        ],
    });
    let reply = lab.post(answer.to_string()).await.json();
    let text = reply["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    assert!(text.contains("hi-from-the-tool"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn unknown_models_are_refused_before_anything_is_sent() {
    let lab = Lab::new();
    let mut body = chat("hi", true);
    body["model"] = json!("no-such-model-9");
    let reply = lab.post(body.to_string()).await;
    assert_eq!(reply.status, 400);
    assert_eq!(reply.error().as_deref(), Some("model_not_found"));
    assert_eq!(lab.sim.stats().runs_started, 0);
}

#[tokio::test(start_paused = true)]
async fn the_models_of_the_plan_are_listed() {
    let lab = Lab::new();
    let list = lab.get("/v1/models").await.json();
    let models = list["data"].as_array().unwrap();
    assert!(models.len() > 3);
    for model in models {
        assert_eq!(model["object"], "model");
        assert!(model["context_window"].as_u64().unwrap() > 0, "{model}");
    }
    let id = models[0]["id"].as_str().unwrap();
    assert_eq!(lab.get(&format!("/v1/models/{id}")).await.json()["id"], id);
    assert_eq!(lab.get("/v1/models/nope").await.status, 404);
}

#[tokio::test(start_paused = true)]
async fn health_reports_running_turns() {
    let lab = Lab::new();
    let health = lab.get("/health").await.json();
    assert_eq!(health["status"], "ok");
    assert_eq!(health["auth"], "authenticated");
    assert_eq!(health["backend"], "sim");
    assert_eq!(health["sessions"]["active"], 0);
    assert_eq!(health["mcp"], json!({ "enabled": false, "servers": 0, "tools": 0 }));
}

#[tokio::test(start_paused = true)]
async fn health_follows_the_backend_and_the_shutdown() {
    let lab = Lab::scenario(
        r#"
        [[rule]]
        when = { contains = "outage" }
        cut = { after_frames = 0, how = "black_hole" }
        [[rule]]
        when = { contains = "overloaded" }
        refuse = { status = 503 }
        [[rule]]
        when = { contains = "stuck" }
        steps = [{ fault = "heartbeats_only" }]
        [[rule]]
        when = { contains = "slow" }
        steps = [{ text = "first" }, { silence = 30 }, { text = "last" }]
        [[rule]]
        steps = [{ text = "hello" }]
        "#,
    );
    let state = async || {
        let (health, ready) = (lab.get("/health").await, lab.get("/health/ready").await);
        let reason = health.json()["reasons"][0]["code"].clone();
        assert_eq!(health.json()["reasons"], ready.json()["reasons"]);
        assert_eq!(lab.get("/health/live").await.status, 200);
        (health.json()["status"].clone(), ready.status.as_u16(), reason)
    };
    assert_eq!(state().await, (json!("ok"), 200, json!(null)));
    assert_eq!(lab.stream("overloaded").await.status, 503);
    assert_eq!(state().await, (json!("ok"), 200, json!(null)), "that was an answer");
    assert_eq!(lab.stream("stuck").await.error().as_deref(), Some("timeout"));
    assert_eq!(state().await, (json!("ok"), 200, json!(null)), "it sent heartbeats");
    assert_eq!(lab.stream("outage").await.error().as_deref(), Some("timeout"));
    assert_eq!(state().await, (json!("degraded"), 503, json!("backend_unreachable")));
    let running = lab.open(chat("slow", true).to_string()).await;
    assert_eq!(state().await, (json!("ok"), 200, json!(null)), "it was heard, and still runs");
    assert_eq!(Reply::read(running).await.text(), "firstlast");
    lab.stream("outage").await;
    tokio::time::advance(std::time::Duration::from_secs(61)).await;
    assert_eq!(state().await, (json!("ok"), 200, json!(null)), "that was long ago");
    lab.app.drain_turns();
    assert_eq!(state().await, (json!("error"), 503, json!("shutting_down")));
}

#[tokio::test(start_paused = true)]
async fn requests_without_text_are_refused() {
    let lab = Lab::new();
    for message in [
        r#"{"role":"assistant","content":null,"tool_calls":[]}"#,
        r#"{"role":"assistant","content":"","reasoning_content":"Hm."}"#,
        r#"{"role":"system","content":""}"#,
    ] {
        let body = format!(r#"{{"model":"auto","messages":[{message},{message}]}}"#);
        let reply = lab.post(body).await;
        assert_eq!(reply.status, 400, "{message}");
        let error = &reply.json()["error"];
        assert_eq!(error["code"], "missing_messages", "{message}");
        assert_eq!(error["param"], "messages", "{message}");
    }
    assert_eq!(lab.sim.stats().runs_started, 0);
}

/// The backend knows functions only; the client sees raw text, and its result goes to the same run.
#[tokio::test(start_paused = true)]
async fn a_custom_tool_is_called_with_raw_text_and_answered_in_the_same_run() {
    let scenario = r#"
        [[rule]]
        when = { nth = 1 }
        steps = [
          { exec = { arm = "mcp", args = { name = "patch", args = { input = "a \"b\"\nc" } } } },
          { text = "It says: {result}" },
        ]
        [[rule]]
        steps = [{ text = "another run" }]
    "#;
    for stream in [false, true] {
        let lab = Lab::scenario(scenario);
        let mut body = chat("go", stream);
        body["tools"] = json!([{ "type": "custom", "custom": { "name": "patch" } }]);
        let reply = lab.post(body.to_string()).await;
        let call = if stream {
            let chunks = reply.chunks();
            let deltas = chunks
                .iter()
                .filter_map(|chunk| chunk.pointer("/choices/0/delta/tool_calls/0").cloned());
            let mut call = json!({ "custom": { "input": "" } });
            for delta in deltas {
                for field in ["id", "type"] {
                    if !delta[field].is_null() {
                        call[field] = delta[field].clone();
                    }
                }
                if !delta["custom"]["name"].is_null() {
                    call["custom"]["name"] = delta["custom"]["name"].clone();
                }
                let input = [&call["custom"]["input"], &delta["custom"]["input"]];
                call["custom"]["input"] = input.map(|text| text.as_str().unwrap()).concat().into();
            }
            call
        } else {
            reply.json()["choices"][0]["message"]["tool_calls"][0].clone()
        };
        assert_eq!(call["type"], "custom", "{}", reply.body);
        assert_eq!(call["custom"], json!({ "name": "patch", "input": "a \"b\"\nc" }));
        let id = call["id"].clone();
        let messages = body["messages"].as_array_mut().unwrap();
        messages.push(json!({ "role": "assistant", "content": null, "tool_calls": [call] }));
        messages.push(json!({ "role": "tool", "tool_call_id": id, "content": "done" }));
        body["stream"] = json!(false);
        let answer = lab.post(body.to_string()).await.json();
        assert_eq!(answer["choices"][0]["message"]["content"], "It says: done", "{answer}");
        assert_eq!(lab.sim.stats().runs_started, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_blank_message_is_refused_before_the_backend_is_asked() {
    let lab = Lab::new();
    let reply = lab.post(chat(" \n", false).to_string()).await;
    assert_eq!(reply.status, 400, "{}", reply.body);
    assert_eq!(reply.json()["error"]["param"], "messages[0].content");
    assert_eq!(lab.sim.stats().runs_started, 0);
}
