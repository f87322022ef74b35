//! A plain turn: text, blobs, queries, and unknown messages.

use super::*;

/// The machine of a large request is made outside the event loop, and its first message with it.
#[test]
fn first_message_is_made_with_the_machine() {
    let mut bench = Bench::closed(&[]);
    let prepared = bench.turn.peer().first.clone().unwrap();
    assert_eq!(prepared, bench.turn.peer().spec.first_frame(false, None));
    bench.opened();
    assert!(bench.commands.iter().any(|sent| matches!(sent, Command::Send(f) if *f == prepared)));
    assert!(bench.turn.peer().first.is_none(), "it is not kept");
    // What is sent after a rebuild differs.
    let mut bench = Bench::closed(&[]);
    bench.turn.peer().repeat_run();
    assert!(bench.turn.peer().first.is_none());
}

#[test]
fn a_plain_turn_from_open_to_end() {
    let mut bench = Bench::open(&[]);
    bench.say(exec(1, Ask::RequestContextArgs(RequestContextArgs::default())));
    bench.update(Update::ThinkingDelta(ThinkingDeltaUpdate {
        text: "Hm".into(),
        ..ThinkingDeltaUpdate::default()
    }));
    bench.text("Hel");
    bench.text("lo");
    bench.update(Update::TokenDelta(TokenDeltaUpdate { tokens: 3 }));
    bench.say(checkpoint());
    bench.update(ended());
    assert_eq!(bench.said(), "Hello");
    assert_ne!(bench.ending(), &STOP, "an error may still follow");
    bench.end(None);
    let usage = Usage {
        input: 100,
        output: 20,
        cache_read: 60,
        source: UsageSource::Backend,
        ..Usage::default()
    };
    assert_eq!(
        bench.events,
        [
            TurnEvent::Started,
            TurnEvent::Reasoning("Hm".into()),
            TurnEvent::Text("Hel".into()),
            TurnEvent::Text("lo".into()),
            TurnEvent::Usage(usage),
            STOP,
        ]
    );
    let sent = bench.sent();
    assert!(matches!(sent[0], ToServer::RunRequest(_)));
    assert!(matches!(&sent[1], ToServer::ExecClientMessage(m) if m.id == 1 && m.exec_id == "e1"));
    assert!(matches!(sent[2], ToServer::ExecClientControlMessage(_)));
    assert_eq!(sent.len(), 3);
    assert!(matches!(bench.commands.last(), Some(Command::Close { cancel: false })));
    assert_eq!(bench.turn.poll_deadline(), None);
}

#[test]
fn blobs_are_sent_by_hash_and_stored_when_received() {
    let mut bench = Bench::open(&[]);
    bench.say(set_blob("stored"));
    bench.say(FromServer::KvServerMessage(KvServerMessage {
        id: 6,
        message: Some(kv_server_message::Message::GetBlobArgs(GetBlobArgs {
            blob_id: Bytes::from_static(b"stored"),
        })),
        ..KvServerMessage::default()
    }));
    bench.say(FromServer::KvServerMessage(KvServerMessage {
        id: 7,
        message: Some(kv_server_message::Message::GetBlobArgs(GetBlobArgs {
            blob_id: Bytes::from_static(b"missing"),
        })),
        ..KvServerMessage::default()
    }));
    let answers: Vec<String> = bench.sent()[1..].iter().map(|m| format!("{m:?}")).collect();
    assert!(answers[0].contains("id: 5") && answers[0].contains("SetBlobResult"));
    assert!(answers[1].contains("id: 6") && answers[1].contains("b\"stored\""));
    assert!(answers[2].contains("id: 7") && answers[2].contains("blob_data: None"));
}

#[test]
fn queries_are_answered_and_unknown_arms_refused_by_number() {
    let mut bench = Bench::open(&[]);
    bench.say(FromServer::InteractionQuery(InteractionQuery {
        id: 4,
        query: Some(Query::WebSearchRequestQuery(WebSearchRequestQuery::default())),
    }));
    // interaction_query { id: 9, field 30: {} }
    bench.bytes(connect::frame(0, &[0x3a, 0x05, 0x08, 0x09, 0xf2, 0x01, 0x00]));
    assert!(matches!(&bench.sent()[1], ToServer::InteractionResponse(r) if r.id == 4));
    let Some(Command::Send(frame)) = bench.commands.last() else { panic!() };
    assert_eq!(&frame[5..11], [0x32, frame[6], 0x08, 0x09, 0xf2, 0x01]);
    assert_eq!(bench.turn.drift().unknown_arms, 1);
}

#[test]
fn unknown_execs_are_thrown_back_and_counted() {
    let mut bench = Bench::open(&[]);
    // exec_server_message { id: 3, field 60: {} }
    bench.bytes(connect::frame(0, &[0x12, 0x05, 0x08, 0x03, 0xe2, 0x03, 0x00]));
    let text = format!("{:?}", bench.sent()[1]);
    assert!(text.contains("Throw") && text.contains("id: 3"), "{text}");
    let drift = bench.turn.drift();
    assert_eq!(drift.unknown_arms, 1);
    assert_eq!(drift.unknown_fields[0].0.field, 60);
    assert_eq!((drift.arms[0].message, drift.arms[0].field), ("agent.v1.ExecServerMessage", 60));
}

#[test]
fn unknown_notices_and_fields_are_not_unknown_messages() {
    let mut bench = Bench::open(&[]);
    // interaction_update { field 99: {} }
    bench.bytes(connect::frame(0, &[0x0a, 0x03, 0x9a, 0x06, 0x00]));
    // exec_server_message { id: 3, shell_args: {}, field 60: {} }
    bench.bytes(connect::frame(0, &[0x12, 0x07, 0x08, 0x03, 0x12, 0x00, 0xe2, 0x03, 0x00]));
    let drift = bench.turn.drift();
    let fields: Vec<_> =
        drift.unknown_fields.iter().map(|(it, _)| (it.message, it.field)).collect();
    assert_eq!(fields, [("agent.v1.ExecServerMessage", 60), ("agent.v1.InteractionUpdate", 99)]);
    assert_eq!((drift.unknown_arms, drift.arms), (0, Vec::new()));
}

#[test]
fn undecodable_request_is_refused() {
    let mut bench = Bench::open(&[]);
    // exec_server_message { id: 9, shell_args: a malformed message }
    bench.bytes(connect::frame(0, &[0x12, 0x05, 0x08, 0x09, 0x12, 0x01, 0xff]));
    let text = format!("{:?}", bench.sent()[1]);
    assert!(text.contains("Throw") && text.contains("id: 9"), "{text}");
}

#[test]
fn task_calls_with_a_text_in_place_of_a_message_are_decoded() {
    use ibeam_proto::agent::{TaskArgs, TaskToolCall, ToolCall, tool_call};
    let args = TaskArgs {
        description: "d".into(),
        subagent_type: Bytes::from_static(b"claude-opus-5"),
        ..TaskArgs::default()
    };
    let task = TaskToolCall { args: Some(args), ..TaskToolCall::default() };
    let call = ToolCall { tool: Some(tool_call::Tool::TaskToolCall(task)), ..ToolCall::default() };
    let mut bench = Bench::open(&[]);
    bench.update(Update::ToolCallStarted(Box::new(ToolCallStartedUpdate {
        call_id: "task".into(),
        tool_call: Some(call),
        ..ToolCallStartedUpdate::default()
    })));
    assert_eq!(bench.turn.drift().undecodable_messages, 0);
}

#[test]
fn undecodable_message_is_counted_and_skipped() {
    let mut bench = Bench::open(&[]);
    bench.bytes(connect::frame(0, &[0x0a, 0xff]));
    bench.text("fine");
    bench.end(None);
    assert_eq!(bench.turn.drift().undecodable_messages, 1);
    assert_eq!(bench.said(), "fine");
}

#[test]
fn leaked_thinking_goes_to_reasoning() {
    let mut bench = Bench::open(&[]);
    bench.text("<thi");
    bench.text("nk>why</think>");
    bench.text("because");
    bench.end(None);
    assert_eq!(bench.said(), "because");
    assert!(bench.events.contains(&TurnEvent::Reasoning("why".into())));
}
