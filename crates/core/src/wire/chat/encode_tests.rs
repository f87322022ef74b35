use bytes::BytesMut;
use proptest::prelude::*;
use serde_json::Value;

use super::{super::aggregate::Aggregator, Encoder};
use crate::{
    error::{ErrorCode, TurnError},
    model::{FinishReason, TerminalGuard, TurnEvent, Usage, UsageSource, ids::CallId},
    wire::Encode as _,
};

fn encode(include_usage: bool, events: &[TurnEvent]) -> String {
    let mut encoder =
        Encoder::new("chatcmpl-xxx", 1_234_567_890, "claude-sonnet-4.5", include_usage);
    let mut out = BytesMut::new();
    for event in events {
        encoder.on_event(event, &mut out);
    }
    encoder.on_cut(&mut out);
    assert!(encoder.is_ended());
    String::from_utf8(out.to_vec()).unwrap()
}

fn text(text: &str) -> TurnEvent {
    TurnEvent::Text(text.to_owned())
}

fn reasoning(text: &str) -> TurnEvent {
    TurnEvent::Reasoning(text.to_owned())
}

fn begin(id: &str, name: &str) -> TurnEvent {
    TurnEvent::ToolCallBegin { id: CallId::sanitised(id), name: name.to_owned() }
}

fn args(id: &str, delta: &str) -> TurnEvent {
    TurnEvent::ToolCallArgs { id: CallId::sanitised(id), delta: delta.to_owned() }
}

fn end(id: &str) -> TurnEvent {
    TurnEvent::ToolCallEnd { id: CallId::sanitised(id) }
}

fn usage() -> Usage {
    Usage {
        input: 100,
        output: 20,
        cache_read: 60,
        cache_write: 5,
        reasoning: 7,
        source: UsageSource::Backend,
    }
}

/// Seed 000 §3.3: the same fields, the same order, one object per `data:` line.
#[test]
fn seed_000_stream() {
    let stream = encode(
        false,
        &[
            TurnEvent::Started,
            text("Hello "),
            text("wörld \"quoted\"\n"),
            TurnEvent::Usage(usage()),
            TurnEvent::Finished(FinishReason::Stop),
        ],
    );
    insta::assert_snapshot!(stream);
    let keys: Vec<&str> = [
        "\"id\"",
        "\"object\"",
        "\"created\"",
        "\"model\"",
        "\"choices\"",
        "\"index\"",
        "\"delta\"",
        "\"content\"",
        "\"finish_reason\"",
    ]
    .to_vec();
    let line = stream.lines().find(|line| line.contains("Hello ")).unwrap();
    let places: Vec<usize> = keys.iter().map(|key| line.find(key).unwrap()).collect();
    assert!(places.is_sorted(), "{line}");
}

/// Seed 002's three kinds of delta, in one turn.
#[test]
fn seed_002_deltas() {
    insta::assert_snapshot!(encode(
        true,
        &[
            TurnEvent::Started,
            reasoning("Let me think..."),
            text("Hello"),
            begin("call_123", "bash"),
            args("call_123", "{\"command\":"),
            begin("call_124", "read"),
            args("call_124", "{}"),
            args("call_123", "\"ls\"}"),
            end("call_123"),
            end("call_124"),
            TurnEvent::Usage(usage()),
            TurnEvent::Finished(FinishReason::ToolCalls),
        ],
    ));
}

#[test]
fn a_failure_is_an_error_frame_and_the_last_word() {
    let error = TurnError::new(ErrorCode::RateLimited, "too many requests").cause("secret detail");
    let stream = encode(
        true,
        &[
            TurnEvent::Started,
            text("half an ans"),
            TurnEvent::Usage(usage()),
            TurnEvent::Failed(error),
            text("never"),
            TurnEvent::Finished(FinishReason::Stop),
        ],
    );
    insta::assert_snapshot!(stream);
    assert!(!stream.contains("secret detail"));
}

#[test]
fn a_cut_stream_is_never_a_clean_stop() {
    let stream = encode(false, &[TurnEvent::Started, text("half")]);
    assert!(stream.contains(r#""code":"upstream_closed""#), "{stream}");
    assert!(!stream.contains("[DONE]"));
    assert!(!stream.contains(r#""finish_reason":""#));
}

#[test]
fn the_role_comes_first_whatever_comes_first() {
    for event in
        [text("a"), reasoning("a"), begin("a", "a"), TurnEvent::Finished(FinishReason::Stop)]
    {
        let stream = encode(false, &[event]);
        let first = stream.lines().next().unwrap();
        assert!(first.contains(r#""delta":{"role":"assistant","content":""}"#), "{stream}");
        assert_eq!(stream.matches("\"role\"").count(), 1);
    }
}

#[test]
fn a_call_without_arguments_gets_an_empty_object() {
    let stream = encode(false, &[begin("a", "now"), end("a")]);
    assert!(stream.contains(r#"{"index":0,"function":{"arguments":"{}"}}"#), "{stream}");
}

#[test]
fn usage_only_when_asked_for() {
    let events = [TurnEvent::Usage(usage()), TurnEvent::Finished(FinishReason::Length)];
    assert!(!encode(false, &events).contains("usage"));
    assert!(encode(true, &events).contains(r#""choices":[],"usage":{"prompt_tokens":100,"#));
}

/// Puts a stream together the way the public SDKs do.
fn collect(stream: &str) -> Result<Value, Value> {
    let mut message = serde_json::json!({"role": null, "content": "", "refusal": null});
    let mut calls: Vec<Value> = Vec::new();
    let mut reasoning = String::new();
    let mut content = String::new();
    let mut finish = Value::Null;
    let mut counts = Value::Null;
    let mut done = false;
    for frame in stream.split_terminator("\n\n") {
        assert!(!done, "something follows [DONE]: {frame}");
        let data = frame.strip_prefix("data: ").expect("one `data:` line per frame");
        assert!(!data.contains('\n'), "more than one line: {data}");
        if data == "[DONE]" {
            done = true;
            continue;
        }
        let chunk: Value = serde_json::from_str(data).unwrap();
        if let Some(error) = chunk.get("error") {
            return Err(error.clone());
        }
        assert_eq!(chunk["object"], "chat.completion.chunk");
        assert_eq!(chunk["id"], "chatcmpl-xxx");
        if let Some(given) = chunk.get("usage") {
            assert_eq!(chunk["choices"], serde_json::json!([]));
            counts = given.clone();
            continue;
        }
        let choice = &chunk["choices"][0];
        assert_eq!(choice["index"], 0);
        assert!(finish.is_null(), "a delta after finish_reason");
        finish = choice["finish_reason"].clone();
        let delta = &choice["delta"];
        if let Some(role) = delta.get("role") {
            assert!(message["role"].is_null(), "a second role");
            message["role"] = role.clone();
        }
        assert!(!message["role"].is_null(), "a delta before the role");
        content.push_str(delta["content"].as_str().unwrap_or_default());
        reasoning.push_str(delta["reasoning_content"].as_str().unwrap_or_default());
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            let index = usize::try_from(call["index"].as_u64().unwrap()).unwrap();
            if index == calls.len() {
                assert_eq!(call["type"], "function");
                let (id, name) = (&call["id"], &call["function"]["name"]);
                calls.push(serde_json::json!({"id": id, "type": "function",
                    "function": {"name": name, "arguments": ""}}));
            }
            let arguments = &mut calls[index]["function"]["arguments"];
            let piece = call["function"]["arguments"].as_str().unwrap();
            *arguments = Value::String(format!("{}{piece}", arguments.as_str().unwrap()));
        }
    }
    assert!(done, "no [DONE]");
    assert!(!finish.is_null(), "no finish_reason");
    message["content"] = Value::String(content.clone());
    if content.is_empty() && !calls.is_empty() {
        message["content"] = Value::Null;
    }
    if !reasoning.is_empty() {
        message["reasoning_content"] = Value::String(reasoning);
    }
    if !calls.is_empty() {
        message["tool_calls"] = Value::Array(calls);
    }
    let mut whole = serde_json::json!({
        "id": "chatcmpl-xxx",
        "object": "chat.completion",
        "created": 1_234_567_890,
        "model": "claude-sonnet-4.5",
        "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": finish}],
    });
    if !counts.is_null() {
        whole["usage"] = counts;
    }
    Ok(whole)
}

fn aggregate(events: &[TurnEvent]) -> Result<Value, Value> {
    let mut all = Aggregator::default();
    for event in events {
        all.on_event(event.clone());
    }
    all.finish("chatcmpl-xxx".to_owned(), 1_234_567_890, "claude-sonnet-4.5".to_owned())
        .map(|whole| serde_json::to_value(whole).unwrap())
        .map_err(|error| {
            serde_json::to_value(super::ErrorBody::from(&error)).unwrap()["error"].clone()
        })
}

/// Any events at all; what breaks the rules is filtered out by the guard below, so
/// that every legal sequence can come up.
fn any_event() -> impl Strategy<Value = TurnEvent> {
    let id = prop::sample::select(vec!["a", "b", "c"]);
    let words =
        prop_oneof![Just(String::new()), ".{0,6}", Just("\"\\\n\r\u{2028}\u{0}é🦀".to_owned())];
    prop_oneof![
        1 => Just(TurnEvent::Started),
        5 => words.clone().prop_map(TurnEvent::Text),
        3 => words.clone().prop_map(TurnEvent::Reasoning),
        3 => (id.clone(), "[a-z]{1,4}").prop_map(|(id, name)| begin(id, &name)),
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

proptest! {
    #[test]
    fn any_legal_turn_survives_encode_parse_aggregate(
        events in prop::collection::vec(any_event(), 0..60)
    ) {
        let events = legal(events);
        let stream = encode(true, &events);
        prop_assert_eq!(collect(&stream), aggregate(&events));
    }

    #[test]
    fn even_illegal_turns_have_one_ending(events in prop::collection::vec(any_event(), 0..40)) {
        let stream = encode(false, &events);
        let ends = stream.matches("data: [DONE]\n\n").count() + stream.matches("data: {\"error\"").count();
        prop_assert_eq!(ends, 1);
    }
}
