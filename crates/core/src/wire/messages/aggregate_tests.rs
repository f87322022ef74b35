use super::{MessagesCollector, Thinking};
use crate::{
    error::{ErrorCode, TurnError},
    model::{FinishReason, TurnEvent, Usage, UsageSource, ids::CallId},
    wire::Collect as _,
};

fn whole(thinking: Thinking, events: Vec<TurnEvent>) -> Result<String, TurnError> {
    let stop = vec!["END".to_owned()];
    let mut all =
        Box::new(MessagesCollector::new("msg_xxx".to_owned(), "auto".to_owned(), thinking, stop));
    for event in events {
        all.on_event(event);
    }
    all.finish().map(|json| {
        let reply: serde_json::Value = serde_json::from_slice(&json).unwrap();
        serde_json::to_string_pretty(&reply).unwrap()
    })
}

fn call(id: &str, arguments: &str) -> Vec<TurnEvent> {
    let id = CallId::sanitised(id);
    vec![
        TurnEvent::ToolCallBegin { id: id.clone(), name: "bash".to_owned() },
        TurnEvent::ToolCallArgs { id: id.clone(), delta: arguments.to_owned() },
        TurnEvent::ToolCallEnd { id },
    ]
}

#[test]
fn message_has_thinking_text_calls_and_usage() {
    let usage = Usage {
        input: 100,
        output: 20,
        cache_read: 60,
        cache_write: 5,
        reasoning: 7,
        source: UsageSource::Backend,
    };
    let mut events = vec![
        TurnEvent::Started,
        TurnEvent::Reasoning("Hm".to_owned()),
        TurnEvent::Text("Hel".to_owned()),
        TurnEvent::Text("lo".to_owned()),
    ];
    events.extend(call("sess_1__call_0", "{\"command\":\"ls\"}"));
    events.extend([TurnEvent::Usage(usage), TurnEvent::Finished(FinishReason::ToolCalls)]);
    insta::assert_snapshot!(whole(Thinking::Shown, events).unwrap());
}

#[test]
fn matched_stop_sequence_is_reported() {
    let reply = whole(
        Thinking::Off,
        vec![TurnEvent::Text("a".to_owned()), TurnEvent::Finished(FinishReason::StopSequence(0))],
    );
    assert!(reply.unwrap().contains("\"stop_sequence\": \"END\""));
}

/// The API knows objects only; a client would choke on anything else.
#[test]
fn input_is_always_an_object() {
    for (arguments, expect) in [
        ("", "{}"),
        ("{\"comm", "{}"),
        ("[1]", "{}"),
        ("\"ls\"", "{}"),
        (" {\"b\":1, \"a\":2} ", "{\"b\":1, \"a\":2}"),
    ] {
        let mut all = Box::new(MessagesCollector::new(
            "msg_xxx".to_owned(),
            "auto".to_owned(),
            Thinking::Off,
            Vec::new(),
        ));
        for event in call("a", arguments) {
            all.on_event(event);
        }
        all.on_event(TurnEvent::Finished(FinishReason::ToolCalls));
        let reply = String::from_utf8(all.finish().unwrap()).unwrap();
        assert!(reply.contains(&format!("\"input\":{expect}")), "{reply}");
    }
}

#[test]
fn an_empty_answer_has_no_blocks() {
    let reply = whole(Thinking::Off, vec![TurnEvent::Finished(FinishReason::Stop)]).unwrap();
    assert!(reply.contains("\"content\": []"), "{reply}");
    assert!(reply.contains("\"stop_reason\": \"end_turn\""), "{reply}");
}

#[test]
fn failures_and_cuts_are_errors() {
    let failed = TurnError::new(ErrorCode::Unavailable, "later");
    let events = vec![TurnEvent::Text("half".to_owned()), TurnEvent::Failed(failed.clone())];
    assert_eq!(whole(Thinking::Off, events).unwrap_err(), failed);
    let cut = whole(Thinking::Off, vec![TurnEvent::Text("half".to_owned())]).unwrap_err();
    assert_eq!(cut.code, ErrorCode::UpstreamClosed);
}
