//! The words of a stream. What holds for every stream of every dialect is in `tests/it`.

use super::ChatEncoder;
use crate::{
    error::{ErrorCode, TurnError},
    model::{FinishReason, TurnEvent},
    wire::testing::{args, begin, end, reasoning, stream, text, usage},
};

fn encode(include_usage: bool, events: &[TurnEvent]) -> String {
    let encoder =
        ChatEncoder::new("chatcmpl-xxx", 1_234_567_890, "claude-sonnet-4.5", include_usage);
    stream(encoder, events)
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
fn failure_is_an_error_frame_and_ends_the_stream() {
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
fn cut_stream_is_not_a_clean_stop() {
    let stream = encode(false, &[TurnEvent::Started, text("half")]);
    assert!(stream.contains(r#""code":"upstream_closed""#), "{stream}");
    assert!(!stream.contains("[DONE]"));
    assert!(!stream.contains(r#""finish_reason":""#));
}

#[test]
fn role_is_always_sent_first() {
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
fn usage_is_sent_only_on_request() {
    let events = [TurnEvent::Usage(usage()), TurnEvent::Finished(FinishReason::Length)];
    assert!(!encode(false, &events).contains("usage"));
    assert!(encode(true, &events).contains(r#""choices":[],"usage":{"prompt_tokens":100,"#));
}
