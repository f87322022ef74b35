//! Rules 13 to 16: responses.

use axum::body::Body;
use http::Method;
use ibeam_sim::SimConfig;
use serde_json::{Value, json};

use super::{Api, events, kinds, of, send, whole};
use crate::lab::Lab;

const RESPONSES: Api = Api::Responses;

#[tokio::test(start_paused = true)]
async fn client_rule_13_items_are_added_grown_and_done_under_one_id() {
    let lab = Lab::new();
    for text in ["Say hello", "run `ls`", "in parallel run `echo one` and run `echo two`"] {
        let events = events(&lab, RESPONSES, &RESPONSES.ask_with_tool(text, true)).await;
        for (at, event) in events.iter().enumerate() {
            assert_eq!(event.data["sequence_number"].as_u64(), Some(at as u64), "{event:?}");
            assert_eq!(event.name.as_deref(), event.data["type"].as_str(), "{event:?}");
        }
        let kinds = kinds(&events);
        assert_eq!(kinds[0], "response.created");
        assert_eq!(kinds.last(), Some(&"response.completed"));
        let (added, done) =
            (of(&events, "response.output_item.added"), of(&events, "response.output_item.done"));
        let output = &events.last().unwrap().data["response"]["output"];
        assert_eq!(added.len(), done.len());
        assert_eq!(output.as_array().unwrap().len(), done.len());
        for (at, (added, done)) in added.iter().zip(&done).enumerate() {
            let id = &added["item"]["id"];
            assert!(id.as_str().is_some_and(|id| !id.is_empty()), "{added}");
            assert_eq!((&done["item"]["id"], &output[at]), (id, &done["item"]));
            assert_eq!(
                (added["output_index"].as_u64(), &done["output_index"]),
                (Some(at as u64), &added["output_index"])
            );
        }
        for event in &events {
            if let Some(id) = event.data.get("item_id") {
                let at = event.data["output_index"].as_u64().unwrap() as usize;
                assert_eq!(id, &added[at]["item"]["id"], "{event:?}");
            }
        }
        let usage = &events.last().unwrap().data["response"]["usage"];
        let total =
            usage["input_tokens"].as_u64().unwrap() + usage["output_tokens"].as_u64().unwrap();
        assert_eq!(usage["total_tokens"].as_u64(), Some(total));
    }
}

#[tokio::test(start_paused = true)]
async fn client_rule_14_an_unserved_websocket_gets_426() {
    let lab = Lab::with(SimConfig::default(), |config| config.websocket = false);
    let upgrade = [
        ("connection", "Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    for path in ["/v1/responses", "/v1/chat/completions"] {
        let reply = send(&lab, Method::GET, path, Body::empty(), &upgrade).await;
        assert_eq!(reply.status, 426, "{path}: {}", reply.body);
    }
}

#[tokio::test(start_paused = true)]
async fn client_rule_15_the_request_is_echoed_as_specified() {
    let lab = Lab::new();
    let mut body = RESPONSES.ask_with_tool("Say hello", false);
    body["tools"].as_array_mut().unwrap().push(json!({
        "type": "function", "name": "strict_one", "strict": true,
        "parameters": { "type": "object", "properties": {}, "additionalProperties": false },
    }));
    let answer = whole(&lab, RESPONSES, &body).await;
    let tools = answer["tools"].as_array().unwrap();
    assert_eq!(tools.len(), 2, "{answer}");
    for tool in tools {
        assert!(tool.as_object().unwrap().contains_key("strict"), "{tool}");
    }
    assert_eq!(tools[1]["strict"], true);
    let details = &answer["usage"]["input_tokens_details"];
    assert!(
        details["cached_tokens"].is_u64() && details["cache_write_tokens"].is_u64(),
        "{details}"
    );
    assert!(answer.get("user").is_none_or(|user| !user.is_null()), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn client_rule_16_every_kind_of_input_item_is_accepted() {
    let lab = Lab::scenario("[[rule]]\nsteps = [{ text = \"{system}|{history}\" }]");
    let mut body = RESPONSES.ask("hi", false);
    body["tools"] = json!([
        RESPONSES.tool("bash"),
        { "type": "custom", "name": "apply_patch", "description": "Changes files" },
        { "type": "web_search" },
        { "type": "namespace", "name": "more", "description": "More tools", "tools": [RESPONSES.tool("inner")] },
    ]);
    body["input"] = json!([
        { "type": "message", "role": "developer", "content": [{ "type": "input_text", "text": "FIRST" }] },
        { "role": "system", "content": "SECOND" },
        { "role": "user", "content": "THIRD", "id": "msg_0b5f6f0e-6a52-4c6e-9d0e-2f1f5a1c7b11" },
        { "type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": null },
        { "type": "message", "role": "assistant", "id": "msg_1", "status": "completed",
          "content": [{ "type": "output_text", "text": "FOURTH", "annotations": [] }] },
        { "type": "function_call", "call_id": "call_1", "name": "bash", "arguments": "{\"command\":\"ls\"}" },
        { "type": "function_call_output", "id": "fco_0b5f6f0e-6a52-4c6e-9d0e-2f1f5a1c7b11",
          "call_id": "call_1", "output": "FIFTH" },
        { "type": "custom_tool_call", "call_id": "call_2", "name": "apply_patch", "input": "*** Begin Patch" },
        { "type": "custom_tool_call_output", "call_id": "call_2", "output": "SIXTH" },
        { "role": "user", "content": [{ "type": "input_text", "text": "And now?" }] },
    ]);
    let text = RESPONSES.text(&whole(&lab, RESPONSES, &body).await);
    for word in ["FIRST", "SECOND", "THIRD", "FOURTH", "FIFTH", "SIXTH"] {
        assert!(text.contains(word), "{word} is missing in {text}");
    }
    assert!(!text.contains(&Value::Null.to_string()), "{text}");
}
