//! Rules 8 to 12: chat completions.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{Api, events, whole};
use crate::lab::Lab;

const CHAT: Api = Api::Chat;

#[tokio::test(start_paused = true)]
async fn client_rule_08_every_piece_of_a_call_has_its_index() {
    let lab = Lab::new();
    let body = CHAT.ask_with_tool("in parallel run `echo one` and run `echo two`", true);
    let events = events(&lab, CHAT, &body).await;
    let mut begun = HashSet::new();
    for event in &events {
        for call in event.data["choices"][0]["delta"]["tool_calls"].as_array().into_iter().flatten()
        {
            let index = call["index"].as_u64().unwrap_or_else(|| panic!("no index: {call}"));
            if begun.insert(index) {
                assert!(call["id"].as_str().is_some_and(|id| !id.is_empty()), "{call}");
                assert_eq!(call["type"], "function", "{call}");
                assert_eq!(call["function"]["name"], "bash", "{call}");
            }
        }
    }
    assert_eq!(begun, HashSet::from([0, 1]));
}

#[tokio::test(start_paused = true)]
async fn client_rule_09_the_role_comes_first_and_every_chunk_is_complete() {
    let lab = Lab::new();
    for text in ["Say hello", "run `ls`"] {
        let mut body = CHAT.ask_with_tool(text, true);
        body["stream_options"] = json!({ "include_usage": true });
        let events = events(&lab, CHAT, &body).await;
        let first = &events[0].data;
        assert_eq!(first["choices"][0]["delta"]["role"], "assistant");
        for event in &events {
            let chunk = &event.data;
            assert_eq!(chunk["object"], "chat.completion.chunk");
            for field in ["id", "created", "model"] {
                assert_eq!(chunk[field], first[field], "{chunk}");
                assert!(!chunk[field].is_null(), "{chunk}");
            }
            for choice in chunk["choices"].as_array().unwrap() {
                assert_eq!(choice["index"], 0, "{chunk}");
                assert!(choice["delta"].is_object(), "{chunk}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn client_rule_10_usage_comes_only_when_it_is_asked_for() {
    let lab = Lab::new();
    for (options, expected) in [
        (Value::Null, 0),
        (json!({}), 0),
        (json!({ "include_usage": false }), 0),
        (json!({ "include_usage": true }), 1),
    ] {
        let mut body = CHAT.ask("Say hello", true);
        body["stream_options"] = options.clone();
        let events = events(&lab, CHAT, &body).await;
        let with = events.iter().filter(|event| event.data["choices"] == json!([])).count();
        assert_eq!(with, expected, "{options}");
        assert_eq!(events.iter().filter(|event| event.data["usage"].is_object()).count(), expected);
        if expected == 1 {
            assert!(events.last().unwrap().data["usage"]["total_tokens"].as_u64().unwrap() > 0);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn client_rule_11_reasoning_is_sent_under_one_name_and_read_under_both() {
    let lab = Lab::scenario("[[rule]]\nsteps = [{ thinking = \"Hm.\" }, { text = \"{history}\" }]");
    let events = events(&lab, CHAT, &CHAT.ask("hi", true)).await;
    let reasoning: String = events
        .iter()
        .filter_map(|event| event.data["choices"][0]["delta"]["reasoning_content"].as_str())
        .collect();
    assert_eq!(reasoning, "Hm.");
    for name in ["reasoning_content", "reasoning"] {
        let mut body = CHAT.ask("hi", false);
        body["messages"] = json!([
            { "role": "user", "content": "My name is Ada." },
            { "role": "assistant", "content": "Hello Ada.", name: "A greeting is due." },
            { "role": "user", "content": "Go on" },
        ]);
        let answer = CHAT.text(&whole(&lab, CHAT, &body).await);
        assert!(answer.contains("Hello Ada."), "{name}: {answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn client_rule_12_messages_come_in_many_shapes() {
    let lab = Lab::scenario("[[rule]]\nsteps = [{ text = \"{system}|{history}\" }]");
    let call = json!({ "id": "call_1", "type": "function", "function": { "name": "bash", "arguments": "{}" } });
    let parts = json!([{ "type": "text", "text": "SESAME" }]);
    for content in [Value::Null, json!(""), json!("SESAME"), parts] {
        for result in [json!(""), json!("OPEN"), json!([{ "type": "text", "text": "OPEN" }])] {
            let mut body = CHAT.ask_with_tool("hi", false);
            body["messages"] = json!([
                { "role": "system", "content": "First." },
                { "role": "system", "content": "Second." },
                { "role": "system", "content": [{ "type": "text", "text": "Third." }] },
                { "role": "user", "content": "Run it" },
                { "role": "assistant", "content": content, "tool_calls": [call] },
                { "role": "tool", "tool_call_id": "call_1", "content": result },
                { "role": "user", "content": "And now?" },
            ]);
            let answer = whole(&lab, CHAT, &body).await;
            let message = &answer["choices"][0]["message"];
            assert!(message.as_object().unwrap().contains_key("refusal"), "{message}");
            assert_eq!(message["refusal"], Value::Null);
            let text = CHAT.text(&answer);
            for (given, word) in [(&content, "SESAME"), (&result, "OPEN")] {
                assert_eq!(
                    text.contains(word),
                    given.to_string().contains(word),
                    "{given}: {text}"
                );
            }
            for word in ["First.", "Second.", "Third."] {
                assert!(text.contains(word), "{text}");
            }
        }
    }
}
