use super::ChatCollector;
use crate::{
    error::{ErrorCode, TurnError},
    model::{FinishReason, TurnEvent, Usage, UsageSource, ids::CallId},
    wire::Collect as _,
};

fn whole(events: Vec<TurnEvent>) -> Result<String, TurnError> {
    let (id, model) = ("chatcmpl-xxx".to_owned(), "auto".to_owned());
    let mut all = ChatCollector::new(id, 1_234_567_890, model, Vec::new());
    for event in events {
        all.on_event(event);
    }
    all.completion().map(|whole| serde_json::to_string_pretty(&whole).unwrap())
}

#[test]
fn completion_has_text_reasoning_and_usage() {
    let usage = Usage {
        input: 100,
        output: 20,
        cache_read: 60,
        cache_write: 5,
        reasoning: 7,
        source: UsageSource::Backend,
    };
    insta::assert_snapshot!(
        whole(vec![
            TurnEvent::Started,
            TurnEvent::Reasoning("Hm".to_owned()),
            TurnEvent::Text("Hel".to_owned()),
            TurnEvent::Text("lo".to_owned()),
            TurnEvent::Usage(usage),
            TurnEvent::Finished(FinishReason::Stop),
        ])
        .unwrap()
    );
}

#[test]
fn completion_of_tool_calls_has_null_content() {
    let id = CallId::sanitised("sess_1__call_0");
    insta::assert_snapshot!(
        whole(vec![
            TurnEvent::ToolCallBegin { id: id.clone(), name: "bash".to_owned() },
            TurnEvent::ToolCallArgs { id: id.clone(), delta: "{\"command\":".to_owned() },
            TurnEvent::ToolCallArgs { id: id.clone(), delta: "\"ls\"}".to_owned() },
            TurnEvent::ToolCallEnd { id },
            TurnEvent::Finished(FinishReason::ToolCalls),
        ])
        .unwrap()
    );
}

#[test]
fn an_empty_answer_has_empty_content() {
    let reply = whole(vec![TurnEvent::Finished(FinishReason::Stop)]).unwrap();
    assert!(reply.contains("\"content\": \"\""), "{reply}");
}

#[test]
fn failures_and_cuts_are_errors() {
    let failed = TurnError::new(ErrorCode::Unavailable, "later");
    let events = vec![TurnEvent::Text("half".to_owned()), TurnEvent::Failed(failed.clone())];
    assert_eq!(whole(events).unwrap_err(), failed);
    let cut = whole(vec![TurnEvent::Text("half".to_owned())]).unwrap_err();
    assert_eq!(cut.code, ErrorCode::UpstreamClosed);
}
