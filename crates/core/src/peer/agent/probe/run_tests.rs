use ibeam_proto::agent::{
    ConversationTokenDetails, GetBlobArgs, HeartbeatUpdate, McpArgs, McpStateExecArgs, McpToolCall,
    PartialToolCallUpdate, PromptTokenBreakdown, PromptTokenCategory, RequestContextArgs,
    SetBlobArgs, ShellArgs, TextDeltaUpdate, ToolCallCompletedUpdate, ToolRequestsListedUpdate,
    TurnEndedUpdate, exec_client_message, mcp_state_exec_result,
};

use super::super::{
    ProbeQuestion::{HeldCall, PartialArguments, RulesShown, ToolsDeclared},
    testing::{message, next},
};
use super::*;
use crate::{
    codec::connect::{Code, ConnectError},
    error::ErrorCode,
};

const CLOCKS: ProbeClocks = ProbeClocks {
    heartbeat: Duration::from_secs(5),
    first_output: Duration::from_secs(60),
    whole: Duration::from_secs(100),
    end_wait: Duration::from_secs(3),
};

fn at(seconds: u64) -> Millis {
    Millis(seconds * 1000)
}

/// A run that is open, with its first message taken.
fn open(question: super::super::ProbeQuestion) -> ProbeMachine {
    let mut machine = ProbeMachine::new(next(question, &[]).unwrap(), CLOCKS, at(0));
    let first = message(&machine.poll_send().unwrap());
    assert!(matches!(first.message, Some(ToServer::RunRequest(_))), "{first:?}");
    machine
}

fn hear(machine: &mut ProbeMachine, message: FromServer, now: Millis) {
    let message = AgentServerMessage { message: Some(message), ..AgentServerMessage::default() };
    machine.on_bytes(connect::encode(&message), now);
}

fn update(machine: &mut ProbeMachine, update: Update, now: Millis) {
    let update = InteractionUpdate { message: Some(update), ..InteractionUpdate::default() };
    hear(machine, FromServer::InteractionUpdate(update), now);
}

fn text(machine: &mut ProbeMachine, text: &str, now: Millis) {
    let delta = TextDeltaUpdate { text: text.into(), ..TextDeltaUpdate::default() };
    update(machine, Update::TextDelta(delta), now);
}

fn exec(machine: &mut ProbeMachine, id: u32, ask: Ask, now: Millis) {
    let exec = ExecServerMessage { id, message: Some(ask), ..ExecServerMessage::default() };
    hear(machine, FromServer::ExecServerMessage(Box::new(exec)), now);
}

fn call(name: &str, id: &str) -> Ask {
    Ask::McpArgs(McpArgs {
        name: name.into(),
        tool_name: name.into(),
        tool_call_id: id.into(),
        provider_identifier: "ibeam".into(),
        ..McpArgs::default()
    })
}

fn sent(machine: &mut ProbeMachine) -> Vec<ToServer> {
    std::iter::from_fn(|| machine.poll_send()).filter_map(|frame| message(&frame).message).collect()
}

fn end(machine: &mut ProbeMachine, error: Option<&ConnectError>, now: Millis) {
    let json = match error {
        Some(error) => serde_json::json!({ "error": error.to_json() }),
        None => serde_json::json!({}),
    };
    machine.on_bytes(connect::frame(2, json.to_string().as_bytes()), now);
}

#[test]
fn questions_of_the_service_are_answered_and_calls_get_the_word() {
    let mut machine = open(ToolsDeclared);
    exec(&mut machine, 0, Ask::RequestContextArgs(RequestContextArgs::default()), at(1));
    exec(&mut machine, 1, Ask::McpStateExecArgs(McpStateExecArgs::default()), at(1));
    exec(&mut machine, 2, call("ibeam_probe_echo", "c1"), at(2));
    let replies: Vec<_> = sent(&mut machine)
        .into_iter()
        .filter_map(|message| match message {
            ToServer::ExecClientMessage(reply) => reply.message,
            _ => None,
        })
        .collect();
    let [
        Reply::RequestContextResult(_),
        Reply::McpStateExecResult(state),
        Reply::McpResult(result),
    ] = &replies[..]
    else {
        panic!("{replies:?}")
    };
    let Some(mcp_state_exec_result::Result::Success(state)) = &state.result else { panic!() };
    assert_eq!(state.servers[0].status.as_deref(), Some("connected"));
    assert!(format!("{result:?}").contains(TOOL_WORD));
    text(&mut machine, "amber", at(3));
    end(&mut machine, None, at(4));
    assert!(machine.is_over());
    let trace = machine.into_trace();
    assert_eq!((trace.end().name(), trace.calls(), trace.asked_status), ("answered", 1, true));
    assert_eq!((trace.first_output, trace.whole), (Some(2000), 4000));
}

#[test]
fn a_built_in_tool_is_counted_and_never_run() {
    let mut machine = open(ToolsDeclared);
    exec(&mut machine, 1, Ask::ShellStreamArgs(ShellArgs::default()), at(1));
    let replies = sent(&mut machine);
    assert!(format!("{replies:?}").contains("Rejected"), "{replies:?}");
    end(&mut machine, None, at(2));
    assert_eq!(machine.into_trace().natives, 1);
}

#[test]
fn notices_of_calls_are_kept_in_their_order() {
    let mut machine = open(PartialArguments);
    let tool = || {
        let tool = Tool::McpToolCall(McpToolCall::default());
        Some(WireCall { tool: Some(tool), ..WireCall::default() })
    };
    for text in ["", "{\"text\":", "{\"text\":\"x\"}"] {
        let partial = PartialToolCallUpdate {
            call_id: "c1".into(),
            tool_call: tool(),
            args_text_delta: text.into(),
            ..PartialToolCallUpdate::default()
        };
        update(&mut machine, Update::PartialToolCall(Box::new(partial)), at(1));
    }
    let listed = ToolRequestsListedUpdate { call_count: 2 };
    update(&mut machine, Update::ToolRequestsListed(listed), at(1));
    exec(&mut machine, 1, call("ibeam_probe_note", "c1"), at(1));
    for id in ["c1", "c2"] {
        let over = ToolCallCompletedUpdate {
            call_id: id.into(),
            tool_call: tool(),
            ..ToolCallCompletedUpdate::default()
        };
        update(&mut machine, Update::ToolCallCompleted(Box::new(over)), at(2));
    }
    end(&mut machine, None, at(3));
    let trace = machine.into_trace();
    use CallNotice::{Exec, Listed, Partial, Refused};
    let want = [Partial(false), Partial(true), Partial(true), Listed(2), Exec, Refused];
    assert_eq!(trace.notices, want);
    assert_eq!(trace.longest_partial, "{\"text\":\"x\"}");
}

#[test]
fn blobs_and_token_categories_are_read() {
    let mut machine = open(RulesShown);
    let entry = r#"{"role":"assistant","content":[{"type":"reasoning","signature":"x"}]}"#;
    let set = SetBlobArgs { blob_id: "id".into(), blob_data: entry.into() };
    let get = GetBlobArgs { blob_id: "id".into() };
    for ask in
        [kv_server_message::Message::SetBlobArgs(set), kv_server_message::Message::GetBlobArgs(get)]
    {
        let kv = KvServerMessage { id: 1, message: Some(ask), ..KvServerMessage::default() };
        hear(&mut machine, FromServer::KvServerMessage(kv), at(1));
    }
    assert!(format!("{:?}", sent(&mut machine)).contains("signature"), "it is given back");
    let category = |id: &str, estimated_tokens| PromptTokenCategory {
        id: id.into(),
        estimated_tokens,
        ..PromptTokenCategory::default()
    };
    let categories = vec![category("tools", 500), category("rules", 12)];
    let breakdown = Some(PromptTokenBreakdown { categories, ..PromptTokenBreakdown::default() });
    let state = ConversationStateStructure {
        root_prompt_messages_json: vec!["id".into()],
        token_details: Some(ConversationTokenDetails {
            breakdown,
            ..ConversationTokenDetails::default()
        }),
        ..ConversationStateStructure::default()
    };
    hear(&mut machine, FromServer::ConversationCheckpointUpdate(Box::new(state)), at(1));
    end(&mut machine, None, at(2));
    let trace = machine.into_trace();
    assert_eq!((trace.rule_tokens, trace.signed), (Some(12), true));
    assert_eq!(trace.entries, [Bytes::from(entry)]);
}

#[test]
fn the_end_of_the_turn_is_waited_behind_and_then_it_is_over() {
    let mut machine = open(RulesShown);
    text(&mut machine, "Red.", at(1));
    update(&mut machine, Update::TurnEnded(TurnEndedUpdate::default()), at(2));
    assert!(!machine.is_over());
    assert_eq!(machine.deadline(), at(5), "the next heartbeat, and the end");
    machine.on_timeout(at(5));
    assert!(machine.is_over());
    assert_eq!(*machine.into_trace().end(), ProbeEnd::Answered);

    let mut empty = open(RulesShown);
    update(&mut empty, Update::TurnEnded(TurnEndedUpdate::default()), at(2));
    empty.on_lost(None, at(3));
    assert_eq!(*empty.into_trace().end(), ProbeEnd::Empty);
}

#[test]
fn a_silent_run_is_cancelled_in_time_and_heartbeats_are_no_output() {
    let mut machine = open(RulesShown);
    for second in 1..60 {
        if second % 5 == 0 {
            machine.on_timeout(at(second));
        }
        update(&mut machine, Update::Heartbeat(HeartbeatUpdate {}), at(second));
        assert!(!machine.is_over(), "{second}");
    }
    machine.on_timeout(at(60));
    assert!(machine.is_over());
    let sent = sent(&mut machine);
    let beats = sent.iter().filter(|m| matches!(m, ToServer::ClientHeartbeat(_))).count();
    assert_eq!(beats, 12);
    assert!(matches!(sent.last(), Some(ToServer::ConversationAction(_))), "cancelled");
    assert_eq!(*machine.into_trace().end(), ProbeEnd::Silent);

    let mut slow = open(RulesShown);
    text(&mut slow, "Red, or", at(30));
    slow.on_timeout(at(60));
    assert!(!slow.is_over());
    slow.on_timeout(at(100));
    assert_eq!(*slow.into_trace().end(), ProbeEnd::Slow);
}

#[test]
fn a_call_is_held_for_its_time_while_heartbeats_go_out() {
    let mut machine = open(HeldCall);
    exec(&mut machine, 1, call("ibeam_probe_echo", "c1"), at(10));
    assert_eq!(sent(&mut machine), [], "it is not answered yet");
    for second in (15..130).step_by(5) {
        machine.on_timeout(at(second));
    }
    assert!(sent(&mut machine).iter().all(|m| matches!(m, ToServer::ClientHeartbeat(_))));
    machine.on_timeout(at(130));
    let sent = sent(&mut machine);
    let answered = |m: &ToServer| {
        matches!(m, ToServer::ExecClientMessage(reply)
            if matches!(reply.message, Some(exec_client_message::Message::McpResult(_))))
    };
    assert!(sent.iter().any(answered), "{sent:?}");
    text(&mut machine, "amber", at(131));
    end(&mut machine, None, at(131));
    assert_eq!(machine.into_trace().held, Some(120_000));

    let mut lost = open(HeldCall);
    exec(&mut lost, 1, call("ibeam_probe_echo", "c1"), at(10));
    lost.on_lost(None, at(70));
    let trace = lost.into_trace();
    assert_eq!((trace.held, trace.end()), (Some(60_000), &ProbeEnd::Lost));
}

#[test]
fn a_run_that_does_too_much_is_stopped() {
    let mut machine = open(ToolsDeclared);
    for id in 0..20 {
        exec(&mut machine, id, call("ibeam_probe_echo", &format!("c{id}")), at(1));
    }
    assert!(machine.is_over());
    let trace = machine.into_trace();
    assert_eq!((trace.end(), trace.calls()), (&ProbeEnd::Stopped, CALL_CAP));

    let mut chatty = open(ToolsDeclared);
    for _ in 0..FRAME_CAP {
        text(&mut chatty, "a long answer without an end ", at(1));
    }
    assert!(chatty.is_over());
    assert!(chatty.into_trace().text.len() <= TEXT_CAP);
}

#[test]
fn errors_are_kept_as_codes_and_some_stop_all_probing() {
    let failure = |error: &ConnectError| {
        let mut machine = open(ToolsDeclared);
        end(&mut machine, Some(error), at(1));
        machine.into_trace().failure().cloned().unwrap()
    };
    let quota = failure(&ConnectError::new(Code::ResourceExhausted, "You hit your usage limit"));
    assert_eq!((quota.wire.as_str(), quota.stops_probing()), ("resource_exhausted", true));
    let signed_out = failure(&ConnectError::new(Code::Unauthenticated, "secret words"));
    assert!(signed_out.stops_probing());
    let invalid = failure(&ConnectError::new(Code::InvalidArgument, "secret words"));
    assert_eq!(invalid.error.code, ErrorCode::InvalidValue);
    assert_eq!((invalid.wire.as_str(), invalid.stops_probing()), ("invalid_argument", false));

    let mut unread = open(ToolsDeclared);
    unread.on_bytes(Bytes::from_static(b"HTTP/1.1 200 OK\r\n\r\n"), at(1));
    assert_eq!(*unread.into_trace().end(), ProbeEnd::Lost);
    let refused = LinkError::Status { status: 401, error: None, retry_after: None };
    let mut machine = open(ToolsDeclared);
    machine.on_lost(Some(&refused), at(1));
    let trace = machine.into_trace();
    assert_eq!(trace.figures().error.as_deref(), Some("http-401"));
    assert!(trace.failure().is_some_and(ProbeFailure::stops_probing));
}
