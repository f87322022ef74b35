use std::collections::BTreeMap;

use bytes::BytesMut;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::ResponsesEncoder;
use crate::{
    error::{ErrorCode, TurnError},
    model::{FinishReason, TerminalGuard, TurnEvent, Usage},
    wire::{
        Collect as _, Encode as _,
        responses::{Echo, ResponsesCollector, decode, response_id, response_of},
        testing::{args, begin, end, reasoning, stream, text, usage},
    },
};

/// A request with a function, a freeform tool, and one of each in a namespace.
const REQUEST: &str = r#"{
    "model": "gpt-5.5",
    "input": "hi",
    "stream": true,
    "instructions": "Be brief.\n\"Really.\"",
    "include": ["reasoning.encrypted_content"],
    "metadata": {"a": "b"},
    "tools": [
        {"type": "function", "name": "bash", "parameters": {
            "type": "object",
            "properties": {}
        }},
        {"type": "custom", "name": "apply_patch", "description": "Edits"},
        {"type": "namespace", "name": "team", "description": "Agents", "tools": [
            {"type": "function", "name": "spawn", "strict": false, "parameters": {}},
            {"type": "custom", "name": "note"}
        ]},
        {"type": "tool_search", "execution": "client", "parameters": {"type": "object"}}
    ]
}"#;

fn echo() -> Echo {
    decode(REQUEST.as_bytes()).unwrap().echo
}

fn id() -> String {
    response_id([0xab; 16])
}

fn encode(events: &[TurnEvent]) -> String {
    let encoder = ResponsesEncoder::new(id(), 1_234_567_890, echo()).with_clock(|| 1_234_567_899);
    stream(encoder, events)
}

/// The events of a stream, in order. Checks what holds for each of them.
fn events(stream: &str) -> Vec<Value> {
    let mut events = Vec::new();
    for (place, frame) in stream.split_terminator("\n\n").enumerate() {
        let (kind, data) = frame.split_once('\n').expect("two lines");
        let data = data.strip_prefix("data: ").expect("the second is the data");
        assert!(!data.contains('\n'), "more than two lines: {frame}");
        let event: Value = serde_json::from_str(data).unwrap();
        assert_eq!(kind.strip_prefix("event: "), event["type"].as_str(), "{frame}");
        assert_eq!(event["sequence_number"], place, "{frame}");
        events.push(event);
    }
    events
}

fn kinds(stream: &str) -> Vec<String> {
    events(stream).iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
}

/// The response that ends a stream.
fn last(stream: &str) -> Value {
    events(stream).last().unwrap()["response"].clone()
}

// === whole streams ===

#[test]
fn complete_stream() {
    insta::assert_snapshot!(encode(&[
        TurnEvent::Started,
        reasoning("Let me "),
        reasoning("think"),
        text("Hello "),
        text("wörld \"quoted\"\n"),
        begin("call_1", "bash"),
        args("call_1", "{\"command\":"),
        begin("call_2", "apply_patch"),
        args("call_2", "{\"input\":\"*** Begin\\"),
        args("call_1", "\"ls\"}"),
        args("call_2", "nPatch\"}"),
        end("call_1"),
        end("call_2"),
        TurnEvent::Usage(usage()),
        TurnEvent::Finished(FinishReason::ToolCalls),
    ]));
}

#[test]
fn failure_ends_the_stream_without_closing_items() {
    let error = TurnError::new(ErrorCode::RateLimited, "too many requests").cause("secret detail");
    let stream = encode(&[
        TurnEvent::Started,
        text("half an ans"),
        TurnEvent::Usage(usage()),
        TurnEvent::Failed(error),
        text("never"),
        TurnEvent::Finished(FinishReason::Stop),
    ]);
    assert!(!stream.contains("secret detail") && !stream.contains("never"));
    let kinds = kinds(&stream);
    assert!(!kinds.contains(&"response.output_item.done".to_owned()), "{kinds:?}");
    assert_eq!(kinds.last().unwrap(), "response.failed");
    let response = last(&stream);
    assert_eq!(response["status"], "failed");
    assert_eq!(
        response["error"],
        json!({"code": "rate_limit_exceeded", "message": "too many requests (try again in 5s)"})
    );
    assert_eq!(response["completed_at"], Value::Null);
    assert_eq!(response["output"][0]["status"], "incomplete");
}

#[test]
fn answer_at_its_token_limit_is_incomplete() {
    let stream = encode(&[text("half"), TurnEvent::Finished(FinishReason::Length)]);
    let kinds = kinds(&stream);
    assert_eq!(kinds.last().unwrap(), "response.incomplete");
    let response = last(&stream);
    assert_eq!(response["status"], "incomplete");
    assert_eq!(response["incomplete_details"], json!({"reason": "max_output_tokens"}));
    assert_eq!(response["output"][0]["status"], "incomplete");
    assert_eq!(response["error"], Value::Null);
}

#[test]
fn cancelled_turn_is_not_a_failure() {
    let cancelled = TurnError::new(ErrorCode::Cancelled, "cancelled");
    let response = last(&encode(&[text("half"), TurnEvent::Failed(cancelled)]));
    assert_eq!((&response["status"], &response["error"]), (&json!("cancelled"), &Value::Null));
}

#[test]
fn stop_sequences_complete_an_answer() {
    let stream = encode(&[text("a"), TurnEvent::Finished(FinishReason::StopSequence(0))]);
    assert_eq!(last(&stream)["status"], "completed");
}

// === the codes that Codex knows ===

#[test]
fn failures_have_codes_that_clients_act_on() {
    let code = |code| {
        let failed = TurnEvent::Failed(TurnError::new(code, "it went wrong"));
        last(&encode(&[failed]))["error"]["code"].as_str().unwrap_or("none").to_owned()
    };
    assert_eq!(code(ErrorCode::ContextTooLong), "context_length_exceeded");
    assert_eq!(code(ErrorCode::InsufficientQuota), "insufficient_quota");
    assert_eq!(code(ErrorCode::Overloaded), "rate_limit_exceeded");
    assert_eq!(code(ErrorCode::Unavailable), "server_error");
    assert_eq!(code(ErrorCode::NotAuthenticated), "invalid_prompt");
    assert_eq!(code(ErrorCode::FormatUnmet), "format_unmet");
    assert_eq!(code(ErrorCode::UpstreamClosed), "server_error");
    // What may work a little later must not look final to Codex, and the reverse.
    for error in ErrorCode::ALL {
        let again = ["server_error", "rate_limit_exceeded"];
        let code = code(error);
        let known = error == ErrorCode::Cancelled || error == ErrorCode::Internal;
        assert!(known || again.contains(&code.as_str()) == error.row().retryable, "{error:?}");
    }
    let failed = TurnError { permanent: true, ..TurnError::new(ErrorCode::UpstreamError, "no") };
    let response = last(&encode(&[TurnEvent::Failed(failed)]));
    assert_eq!(response["error"]["code"], "invalid_prompt");
}

// === rules of real clients ===

/// Client rule 1: there is always a terminal event.
#[test]
fn client_rule_1_every_stream_ends_with_its_terminal_event() {
    for events in [vec![], vec![TurnEvent::Started], vec![text("half")], vec![begin("a", "bash")]] {
        let stream = encode(&events);
        assert_eq!(kinds(&stream).last().unwrap(), "response.failed");
        assert_eq!(last(&stream)["error"]["code"], "server_error");
    }
    let stream = encode(&[TurnEvent::Finished(FinishReason::Stop)]);
    let expected = ["response.created", "response.in_progress", "response.completed"];
    assert_eq!(kinds(&stream), expected);
}

/// Client rule 13: added, deltas and done with one id, the full output and usage at the end,
/// numbers from 0 (which [`events`] checks).
#[test]
fn client_rule_13_items_keep_their_ids_and_the_end_has_all_of_them() {
    let stream = encode(&[
        reasoning("hm"),
        text("hello"),
        begin("call_1", "bash"),
        end("call_1"),
        TurnEvent::Finished(FinishReason::ToolCalls),
    ]);
    let events = events(&stream);
    assert_eq!(events[0]["type"], "response.created");
    let response = last(&stream);
    let mut ids = Vec::new();
    for event in &events {
        let at = event["output_index"].as_u64();
        let Some(at) = at.and_then(|at| usize::try_from(at).ok()) else { continue };
        let id = event["item"]["id"].as_str().or(event["item_id"].as_str()).unwrap();
        assert_eq!(response["output"][at]["id"], id, "{event}");
        ids.push(id.to_owned());
        if event["type"] == "response.output_item.done" {
            assert_eq!(response["output"][at], event["item"]);
        }
    }
    ids.dedup();
    assert_eq!(ids.len(), 3, "{ids:?}");
    assert!(ids.iter().all(|own| response_of(own) == Some(id())), "{ids:?}");
    assert_eq!(response["output"].as_array().unwrap().len(), 3);
    // Not counted, and still not null.
    assert_eq!(response["usage"]["total_tokens"], 0);
}

#[test]
fn failed_response_has_usage_only_if_counted() {
    for code in [ErrorCode::UpstreamClosed, ErrorCode::Cancelled] {
        let failed = TurnEvent::Failed(TurnError::new(code, "it went wrong"));
        let response = last(&encode(&[text("half"), failed.clone()]));
        assert_eq!(response["usage"], Value::Null, "{response}");
        let response = last(&encode(&[text("half"), TurnEvent::Usage(usage()), failed]));
        assert!(response["usage"]["total_tokens"].as_u64() > Some(0), "{response}");
    }
}

/// Client rule 15: `strict` in the tools, the details of the usage, no `user` that is null.
#[test]
fn client_rule_15_the_response_repeats_its_request() {
    let stream = encode(&[
        text("hello"),
        TurnEvent::Usage(usage()),
        TurnEvent::Finished(FinishReason::Stop),
    ]);
    let response = last(&stream);
    insta::assert_json_snapshot!(response);
    assert_eq!(response["tools"][0]["strict"], false);
    assert_eq!(response["usage"]["input_tokens_details"]["cache_write_tokens"], 5);
    assert!(response.get("user").is_none());
    let created = &events(&stream)[0]["response"];
    assert_eq!(created["usage"], Value::Null);
    assert_eq!(created["status"], "in_progress");
    let mut keys: Vec<&String> = created.as_object().unwrap().keys().collect();
    keys.sort();
    let mut all: Vec<&String> = response.as_object().unwrap().keys().collect();
    all.sort();
    assert_eq!(keys, all);
}

// === calls ===

#[test]
fn calls_use_the_tool_names_of_the_client() {
    let stream = encode(&[
        begin("call_1", "team__spawn"),
        end("call_1"),
        begin("call_2", "team__note"),
        args("call_2", "{\"input\":\"a\\tb\"}"),
        end("call_2"),
        TurnEvent::Finished(FinishReason::ToolCalls),
    ]);
    let output = &last(&stream)["output"];
    assert_eq!(
        output[0],
        json!({"type": "function_call", "id": format!("fc_{}_0", "ab".repeat(16)),
            "status": "completed", "call_id": "call_1", "name": "spawn", "namespace": "team",
            "arguments": "{}"})
    );
    assert_eq!(
        output[1],
        json!({"type": "custom_tool_call", "id": format!("ctc_{}_1", "ab".repeat(16)),
            "status": "completed", "call_id": "call_2", "name": "note", "namespace": "team",
            "input": "a\tb"})
    );
}

#[test]
fn tool_search_is_a_separate_item() {
    for (given, arguments) in [
        ("{\"query\":\n\"agents\"}", json!({"query": "agents"})),
        ("", json!({})),
        ("[1", json!({})),
    ] {
        let (head, tail) = given.split_at(given.len() / 2);
        let stream = encode(&[
            begin("call_1", "tool_search"),
            args("call_1", head),
            args("call_1", tail),
            end("call_1"),
            TurnEvent::Finished(FinishReason::ToolCalls),
        ]);
        assert_eq!(
            kinds(&stream)[2..4],
            ["response.output_item.added", "response.output_item.done"]
        );
        assert_eq!(
            last(&stream)["output"][0],
            json!({"type": "tool_search_call", "id": format!("tsc_{}_0", "ab".repeat(16)),
                "status": "completed", "call_id": "call_1", "execution": "client",
                "arguments": arguments})
        );
    }
}

#[test]
fn partial_response_is_readable() {
    let mut encoder = ResponsesEncoder::new(id(), 1, echo());
    let mut out = BytesMut::new();
    encoder.on_event(&text("half"), &mut out);
    assert!(encoder.ended().is_none());
    let now: Value = serde_json::from_str(&encoder.current()).unwrap();
    assert_eq!(now["status"], "in_progress");
    assert_eq!(now["output"][0]["content"][0]["text"], "half");
    encoder.on_event(&TurnEvent::Finished(FinishReason::Stop), &mut out);
    let ended = encoder.ended().unwrap();
    assert_eq!((ended.status, &ended.body), ("completed", &encoder.current()));
    let stream = String::from_utf8(out.to_vec()).unwrap();
    assert!(stream.ends_with(&format!(",\"response\":{}}}\n\n", ended.body)), "as it went out");
    let body: Value = serde_json::from_str(&ended.body).unwrap();
    assert_eq!(body["output"], serde_json::from_str::<Value>(&ended.output).unwrap());
    assert_eq!(body["output"][0]["content"][0]["text"], "half");
}

#[test]
fn stored_response_has_every_item() {
    let mut encoder = ResponsesEncoder::new(id(), 1, echo());
    let mut out = BytesMut::new();
    for event in [TurnEvent::Reasoning("hm".to_owned()), text("so"), begin("call_1", "bash")] {
        encoder.on_event(&event, &mut out);
    }
    encoder.on_cut(&mut out);
    let ended = encoder.ended().unwrap();
    let output: Vec<Value> = serde_json::from_str(&ended.output).unwrap();
    let types: Vec<&Value> = output.iter().map(|item| &item["type"]).collect();
    assert_eq!(
        (ended.status, types.as_slice()),
        ("failed", &[&json!("reasoning"), &json!("message"), &json!("function_call")][..])
    );
}

// === any turn ===

/// Checks the order of a stream's events, and puts the response together from them the way
/// the public SDKs do.
fn assemble(stream: &str) -> Value {
    let events = events(stream);
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds[..2], ["response.created", "response.in_progress"]);
    let mut output: Vec<Value> = Vec::new();
    // The steps of each item that is open, and what its deltas said.
    let mut open: BTreeMap<usize, (Vec<String>, String)> = BTreeMap::new();
    for event in &events[2..events.len() - 1] {
        let kind = event["type"].as_str().unwrap().strip_prefix("response.").unwrap();
        let at = usize::try_from(event["output_index"].as_u64().unwrap()).unwrap();
        match kind {
            "output_item.added" => {
                assert_eq!(at, output.len(), "items come in order");
                output.push(event["item"].clone());
                open.insert(at, Default::default());
            }
            "output_item.done" => {
                let (steps, said) = open.remove(&at).expect("it is open");
                let item = &event["item"];
                let field = |item: &Value| match item["type"].as_str().unwrap() {
                    "message" => item["content"][0]["text"].clone(),
                    "reasoning" => item["summary"][0]["text"].clone(),
                    "function_call" => item["arguments"].clone(),
                    "custom_tool_call" => item["input"].clone(),
                    "tool_search_call" => json!(""),
                    other => panic!("{other}"),
                };
                let expected: &[&str] = match item["type"].as_str().unwrap() {
                    "message" => &[
                        "content_part.added",
                        "output_text.delta",
                        "output_text.done",
                        "content_part.done",
                    ],
                    "reasoning" => &[
                        "reasoning_summary_part.added",
                        "reasoning_summary_text.delta",
                        "reasoning_summary_text.done",
                        "reasoning_summary_part.done",
                    ],
                    "function_call" => {
                        &["function_call_arguments.delta", "function_call_arguments.done"]
                    }
                    "tool_search_call" => &[],
                    _ if said.is_empty() => &["custom_tool_call_input.done"],
                    _ => &["custom_tool_call_input.delta", "custom_tool_call_input.done"],
                };
                assert_eq!(steps, expected);
                assert_eq!(field(item), said.as_str());
                output[at] = item.clone();
            }
            step => {
                let (steps, said) = open.get_mut(&at).expect("it is open");
                if step.ends_with(".delta") {
                    assert_ne!(event["delta"], "");
                    said.push_str(event["delta"].as_str().unwrap());
                } else if step.ends_with(".done") {
                    let all = ["text", "arguments", "input"].iter().find_map(|f| event[f].as_str());
                    let all = all.or(event["part"]["text"].as_str()).unwrap();
                    assert_eq!(all, said);
                }
                if steps.last().map(String::as_str) != Some(step) {
                    steps.push(step.to_owned());
                }
            }
        }
    }
    let end = &events[events.len() - 1];
    let response = &end["response"];
    let status = response["status"].as_str().unwrap();
    match end["type"].as_str().unwrap() {
        "response.failed" => assert!(status == "failed" || status == "cancelled"),
        kind => {
            assert_eq!(kind, format!("response.{status}"));
            assert!(open.is_empty(), "nothing stays open");
            assert_eq!(response["output"], Value::Array(output));
        }
    }
    response.clone()
}

fn any_event() -> impl Strategy<Value = TurnEvent> {
    let id = prop::sample::select(vec!["a", "b", "c"]);
    let name = prop::sample::select(vec![
        "bash",
        "apply_patch",
        "team__note",
        "team__spawn",
        "tool_search",
        "x",
    ]);
    let words = prop_oneof![
        Just(String::new()),
        ".{0,6}",
        Just("\"\\\n\r\u{2028}\u{0}é🦀".to_owned()),
        Just("{\"input\":\"".to_owned())
    ];
    prop_oneof![
        1 => Just(TurnEvent::Started),
        5 => words.clone().prop_map(TurnEvent::Text),
        3 => words.clone().prop_map(TurnEvent::Reasoning),
        3 => (id.clone(), name).prop_map(|(id, name)| begin(id, name)),
        6 => (id.clone(), words).prop_map(|(id, delta)| args(id, &delta)),
        3 => id.prop_map(end),
        1 => (0_u64..1000, 0_u64..1000).prop_map(|(input, output)| {
            TurnEvent::Usage(Usage { input, output, ..Usage::default() })
        }),
        1 => prop::sample::select(vec![FinishReason::Stop, FinishReason::Length,
            FinishReason::ToolCalls]).prop_map(TurnEvent::Finished),
        1 => prop::sample::select(ErrorCode::ALL.to_vec())
            .prop_map(|code| TurnEvent::Failed(TurnError::new(code, "went wrong"))),
    ]
}

fn legal(events: Vec<TurnEvent>) -> Vec<TurnEvent> {
    let mut guard = TerminalGuard::default();
    events.into_iter().filter(|event| guard.check(event).is_ok()).collect()
}

fn collect(events: &[TurnEvent]) -> Result<Value, TurnError> {
    let mut all =
        Box::new(ResponsesCollector::new(id(), 1_234_567_890, echo()).with_clock(|| 1_234_567_899));
    for event in events {
        all.on_event(event.clone());
    }
    all.finish().map(|json| serde_json::from_slice(&json).unwrap())
}

proptest! {
    #[test]
    fn any_legal_turn_gives_a_valid_stream_equal_to_the_reply(
        events in prop::collection::vec(any_event(), 0..60)
    ) {
        let events = legal(events);
        let response = assemble(&encode(&events));
        match collect(&events) {
            Ok(whole) => prop_assert_eq!(whole, response),
            Err(_) => prop_assert!(["failed", "cancelled"].contains(&response["status"].as_str().unwrap())),
        }
    }

    #[test]
    fn even_illegal_turns_have_one_ending(events in prop::collection::vec(any_event(), 0..40)) {
        let response = assemble(&encode(&events));
        prop_assert_ne!(&response["status"], "in_progress");
    }
}
