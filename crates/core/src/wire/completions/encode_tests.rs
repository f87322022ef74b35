use bytes::BytesMut;

use super::{super::CompletionCollector, CompletionEncoder};
use crate::{
    error::{ErrorCode, TurnError},
    model::{FinishReason, TurnEvent, Usage, UsageSource},
    wire::{Collect as _, Encode as _},
};

fn encode(include_usage: bool, events: &[TurnEvent]) -> String {
    let mut encoder = CompletionEncoder::new("cmpl-xxx", 1_234_567_890, "auto", include_usage);
    let mut out = BytesMut::new();
    for event in events {
        encoder.on_event(event, &mut out);
    }
    encoder.on_cut(&mut out);
    assert!(encoder.is_ended());
    String::from_utf8(out.to_vec()).unwrap()
}

fn whole(events: Vec<TurnEvent>) -> Result<String, TurnError> {
    let mut all = CompletionCollector::new("cmpl-xxx".to_owned(), 1_234_567_890, "auto".to_owned());
    for event in events {
        all.on_event(event);
    }
    Box::new(all).finish().map(|json| String::from_utf8(json).unwrap())
}

fn answer() -> Vec<TurnEvent> {
    let usage = Usage {
        input: 100,
        output: 20,
        cache_read: 60,
        cache_write: 5,
        reasoning: 7,
        source: UsageSource::Backend,
    };
    vec![
        TurnEvent::Started,
        TurnEvent::Reasoning("Hm".to_owned()),
        TurnEvent::Text("Hel".to_owned()),
        TurnEvent::Text(String::new()),
        TurnEvent::Text("lo \"you\"".to_owned()),
        TurnEvent::Usage(usage),
        TurnEvent::Finished(FinishReason::Stop),
        TurnEvent::Text("too late".to_owned()),
    ]
}

#[test]
fn stream_is_text_then_reason_then_done() {
    insta::assert_snapshot!(encode(true, &answer()));
    assert!(!encode(false, &answer()).contains("usage"));
}

#[test]
fn completion_has_text_and_usage() {
    insta::assert_snapshot!(whole(answer()).unwrap());
}

#[test]
fn every_ending_has_a_finish_reason() {
    for (reason, word) in [
        (FinishReason::Stop, "stop"),
        (FinishReason::StopSequence(1), "stop"),
        (FinishReason::Length, "length"),
        (FinishReason::ToolCalls, "stop"),
    ] {
        let events = [TurnEvent::Finished(reason)];
        let said = format!("\"finish_reason\":\"{word}\"");
        assert!(encode(false, &events).contains(&said));
        assert!(whole(events.to_vec()).unwrap().contains(&said));
    }
}

#[test]
fn failure_ends_the_stream() {
    let error = TurnError::new(ErrorCode::UpstreamError, "it broke");
    let events = [TurnEvent::Text("He".to_owned()), TurnEvent::Failed(error.clone())];
    let stream = encode(true, &events);
    assert!(stream.ends_with("\"status\":502}}\n\n"), "{stream}");
    assert!(!stream.contains("[DONE]"));
    assert_eq!(whole(events.to_vec()), Err(error));
}

#[test]
fn turn_without_an_ending_is_an_error() {
    let stream = encode(true, &[TurnEvent::Text("He".to_owned())]);
    assert!(stream.contains("upstream_closed"), "{stream}");
    let cut = whole(vec![TurnEvent::Text("He".to_owned())]).unwrap_err();
    assert_eq!(cut.code, ErrorCode::UpstreamClosed);
}
