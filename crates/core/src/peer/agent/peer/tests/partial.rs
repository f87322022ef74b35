//! Calls that are named before they are made, refused by the backend, or listed.

use ibeam_proto::agent::{
    GetMcpToolsToolCall, McpError, McpStateExecArgs, McpToolCall, McpToolError, McpToolResult,
    PartialToolCallUpdate, ReadArgs, ToolCall as WireCall, ToolCallCompletedUpdate,
    ToolRequestsListedUpdate, WriteArgs, mcp_tool_result, read_result, read_success,
    tool_call::Tool as WireTool, write_result,
};

use super::*;

/// How long the backend may be silent about calls that are still to come.
const PATIENCE: Duration = Duration::from_millis(1_600);

fn wire_call(name: Option<&str>, result: Option<McpToolResult>) -> WireCall {
    let args = name.map(|name| McpArgs { name: name.into(), ..McpArgs::default() });
    let tool = Some(WireTool::McpToolCall(McpToolCall { args, result }));
    WireCall { tool, ..WireCall::default() }
}

fn wire_id(n: u32) -> String {
    format!("call_{n}\nfc_{n}")
}

pub(super) fn partial(n: u32, name: Option<&str>, text: &str) -> Update {
    Update::PartialToolCall(Box::new(PartialToolCallUpdate {
        call_id: wire_id(n),
        tool_call: Some(wire_call(name, None)),
        args_text_delta: text.into(),
        ..PartialToolCallUpdate::default()
    }))
}

fn started(n: u32, name: &str) -> Update {
    Update::ToolCallStarted(Box::new(ToolCallStartedUpdate {
        call_id: wire_id(n),
        tool_call: Some(wire_call(Some(name), None)),
        ..ToolCallStartedUpdate::default()
    }))
}

pub(super) fn completed(n: u32) -> Update {
    Update::ToolCallCompleted(Box::new(ToolCallCompletedUpdate {
        call_id: wire_id(n),
        ..ToolCallCompletedUpdate::default()
    }))
}

/// The service refuses a call by itself.
fn refused(n: u32, name: &str) -> Update {
    let error = McpToolError { error: "MCP tool not found".into(), ..McpToolError::default() };
    let result = McpToolResult { result: Some(mcp_tool_result::Result::Error(error)) };
    Update::ToolCallCompleted(Box::new(ToolCallCompletedUpdate {
        call_id: wire_id(n),
        tool_call: Some(wire_call(Some(name), Some(result))),
        ..ToolCallCompletedUpdate::default()
    }))
}

fn listed(call_count: u32) -> Update {
    Update::ToolRequestsListed(ToolRequestsListedUpdate { call_count })
}

fn begun(bench: &Bench) -> usize {
    bench.events.iter().filter(|e| matches!(e, TurnEvent::ToolCallBegin { .. })).count()
}

fn names(bench: &Bench) -> Vec<String> {
    bench.turn.calls().into_iter().map(|call| call.name).collect()
}

#[test]
fn section_3_nothing_of_a_call_reaches_the_client_before_its_exec() {
    let mut bench = Bench::open(&["read", "bash"]);
    bench.update(partial(1, None, ""));
    bench.update(partial(1, Some("bash"), r#"{"command": "rm"#));
    bench.update(started(1, "bash"));
    bench.wait(Duration::from_secs(30));
    assert_eq!(begun(&bench), 0, "the exec may still say something else");
    bench.say(call(1, "read", r#"{"path":"a.txt"}"#));
    bench.wait(WINDOW);
    assert_eq!((names(&bench), bench.ending()), (vec!["read".to_owned()], &CALLS));
    assert_eq!(bench.turn.calls()[0].arguments, r#"{"path":"a.txt"}"#);
}

#[test]
fn section_3_a_call_that_the_service_refuses_neither_fails_the_turn_nor_reaches_the_client() {
    let mut bench = Bench::open(&["read"]);
    bench.update(partial(1, None, ""));
    bench.update(started(1, "raed"));
    bench.update(refused(1, "raed"));
    bench.text("Another way.");
    bench.update(ended());
    bench.end(None);
    assert_eq!((begun(&bench), bench.said().as_str()), (0, "Another way."));
    assert_eq!(bench.ending(), &STOP);
}

#[test]
fn section_3_a_refused_call_does_not_delay_the_others() {
    let mut bench = Bench::open(&["read"]);
    bench.update(started(1, "raed"));
    bench.update(started(2, "read"));
    bench.say(call(2, "read", "{}"));
    bench.wait(WINDOW);
    assert_ne!(bench.ending(), &CALLS, "the other one is undecided");
    bench.update(refused(1, "raed"));
    bench.wait(WINDOW);
    assert_eq!((names(&bench), bench.ending()), (vec!["read".to_owned()], &CALLS));
}

#[test]
fn section_3_a_named_call_that_never_comes_holds_the_others_back_only_while_the_stream_is_quiet() {
    let mut bench = Bench::open(&["read", "bash"]);
    bench.update(partial(2, None, ""));
    bench.say(call(1, "read", "{}"));
    for n in 0..30 {
        bench.wait(Duration::from_secs(1));
        bench.update(partial(2, Some("bash"), &"x".repeat(n)));
        bench.update(heartbeat());
    }
    assert_ne!(bench.ending(), &CALLS, "the model is still writing the other one");
    bench.wait(PATIENCE);
    assert_eq!((names(&bench), bench.ending()), (vec!["read".to_owned()], &CALLS));
}

#[test]
fn section_3_a_batch_ends_with_the_last_of_the_listed_calls() {
    type Step = fn(&mut Bench);
    let list: Step = |b| b.update(listed(2));
    let announce: Step = |b| {
        b.update(started(1, "read"));
        b.update(started(2, "bash"));
    };
    let make: Step = |b| {
        b.say(call(1, "read", "{}"));
        b.say(call(2, "bash", "{}"));
    };
    for steps in [[list, announce, make], [announce, list, make], [announce, make, list]] {
        let mut bench = Bench::open(&["read", "bash"]);
        for step in steps {
            step(&mut bench);
        }
        assert_eq!((names(&bench).len(), bench.ending()), (2, &CALLS), "no time has passed");
    }
}

/// In meta mode the model looks the tools up before it calls them.
#[test]
fn section_3_the_calls_of_the_next_generation_are_counted_anew() {
    type Step = fn(&mut Bench);
    let lookup: Step = |b| {
        let lookup = GetMcpToolsToolCall::default();
        let tool = Some(WireTool::GetMcpToolsToolCall(lookup));
        let tool_call = Some(WireCall { tool, ..WireCall::default() });
        b.update(Update::ToolCallCompleted(Box::new(ToolCallCompletedUpdate {
            call_id: wire_id(9),
            tool_call,
            ..ToolCallCompletedUpdate::default()
        })));
    };
    let list_one: Step = |b| b.update(listed(1));
    let list: Step = |b| b.update(listed(2));
    let announce: Step = |b| {
        b.update(started(1, "read"));
        b.update(started(2, "bash"));
    };
    let make: Step = |b| {
        b.say(call(1, "read", "{}"));
        b.say(call(2, "bash", "{}"));
    };
    let looked_up: [&[Step]; 3] = [&[lookup], &[list_one, lookup], &[lookup, list_one]];
    for before in looked_up {
        for steps in [[list, announce, make], [announce, list, make], [announce, make, list]] {
            let mut bench = Bench::open(&["read", "bash"]);
            for step in before.iter().chain(&steps) {
                step(&mut bench);
            }
            assert_eq!((names(&bench).len(), bench.ending()), (2, &CALLS));
        }
    }
}

/// It is the backend's own file: no tool of the client sees it, and nothing is written to a disk.
#[test]
fn section_2_2_a_spilled_catalogue_is_kept_in_memory_for_the_run() {
    let mut bench = Bench::open(&["write", "read"]);
    bench.update(looked_up(1));
    let path = "/tmp/catalogue.txt";
    let write = WriteArgs {
        path: path.into(),
        file_text: "one\ntwo\n".into(),
        tool_call_id: wire_id(1),
        ..WriteArgs::default()
    };
    bench.say(exec(1, Ask::WriteArgs(write)));
    let read = ReadArgs { path: path.into(), offset: Some(2), ..ReadArgs::default() };
    bench.say(exec(2, Ask::ReadArgs(read)));
    let replies = replies(&bench);
    let [Reply::WriteResult(written), Reply::ReadResult(read)] = &replies[..] else {
        panic!("{replies:?}")
    };
    assert!(matches!(written.result, Some(write_result::Result::Success(_))));
    let Some(read_result::Result::Success(read)) = &read.result else { panic!("{read:?}") };
    assert_eq!(read.output, Some(read_success::Output::Content("two\n".into())));
    assert!(names(&bench).is_empty(), "the client sees nothing of it");
}

fn replies(bench: &Bench) -> Vec<Reply> {
    let sent = bench.sent().into_iter().filter_map(|message| match message {
        ToServer::ExecClientMessage(reply) => reply.message,
        _ => None,
    });
    sent.collect()
}

fn looked_up(n: u32) -> Update {
    let tool = Some(WireTool::GetMcpToolsToolCall(GetMcpToolsToolCall::default()));
    Update::ToolCallStarted(Box::new(ToolCallStartedUpdate {
        call_id: wire_id(n),
        tool_call: Some(WireCall { tool, ..WireCall::default() }),
        ..ToolCallStartedUpdate::default()
    }))
}

#[test]
fn section_2_2_a_spilled_catalogue_is_still_there_when_a_stream_is_resumed() {
    let mut bench = Bench::open(&["read"]);
    bench.update(looked_up(1));
    let path = "/tmp/catalogue.txt";
    let write = WriteArgs {
        path: path.into(),
        file_text: "one".into(),
        tool_call_id: wire_id(1),
        ..WriteArgs::default()
    };
    bench.say(exec(1, Ask::WriteArgs(write)));
    bench.say(checkpoint());
    bench.broke(&reset());
    bench.opened();
    assert_eq!(bench.opens(), 2);
    bench.say(exec(2, Ask::ReadArgs(ReadArgs { path: path.into(), ..ReadArgs::default() })));
    let Some(Reply::ReadResult(read)) = replies(&bench).pop() else { panic!() };
    let Some(read_result::Result::Success(read)) = read.result else { panic!("{read:?}") };
    assert_eq!(read.output, Some(read_success::Output::Content("one".into())));
    assert!(names(&bench).is_empty());
}

#[test]
fn ids_of_calls_are_not_kept_at_any_length() {
    let mut bench = Bench::open(&["read"]);
    for n in 0..20 {
        bench.update(Update::ToolCallStarted(Box::new(ToolCallStartedUpdate {
            call_id: format!("{}{n}", "i".repeat(1 << 20)),
            tool_call: Some(wire_call(Some("read"), None)),
            ..ToolCallStartedUpdate::default()
        })));
    }
    let peer = bench.turn.peer();
    assert_eq!(peer.stream.begun.len(), 20, "each is another one");
    // In two places, and each is a hash.
    assert!((20 * 2 * 64..10_000).contains(&peer.stream.ids_memory()));
    assert!((20 * 2 * 64..100_000).contains(&peer.memory()), "{}", peer.memory());
}

#[test]
fn section_2_2_a_look_at_the_catalogue_is_none_of_the_calls_that_are_listed_after_it() {
    let mut bench = Bench::open(&["read", "bash"]);
    let tool = Some(WireTool::GetMcpToolsToolCall(GetMcpToolsToolCall::default()));
    bench.update(Update::ToolCallCompleted(Box::new(ToolCallCompletedUpdate {
        call_id: wire_id(9),
        tool_call: Some(WireCall { tool, ..WireCall::default() }),
        ..ToolCallCompletedUpdate::default()
    })));
    bench.update(started(1, "read"));
    bench.update(started(2, "bash"));
    bench.update(listed(2));
    bench.say(call(1, "read", "{}"));
    assert_ne!(bench.ending(), &CALLS, "the other one is still to come");
    bench.say(call(2, "bash", "{}"));
    assert_eq!((names(&bench).len(), bench.ending()), (2, &CALLS));
}

#[test]
fn section_10_j_refused_calls_are_left_out_of_the_count_where_a_probe_found_that() {
    let facts = ServiceFacts { listed_without_refused: true, ..ServiceFacts::default() };
    let mut bench = Bench::knowing(&["read", "bash"], facts);
    bench.update(started(3, "wrong"));
    bench.update(started(1, "read"));
    bench.update(started(2, "bash"));
    bench.update(listed(2));
    bench.update(refused(3, "wrong"));
    bench.say(call(1, "read", "{}"));
    assert_ne!(bench.ending(), &CALLS, "the other one is still to come");
    bench.say(call(2, "bash", "{}"));
    assert_eq!((names(&bench).len(), bench.ending()), (2, &CALLS));
}

#[test]
fn section_3_listed_calls_are_waited_for_longer_than_unlisted_ones() {
    let mut bench = Bench::open(&["read", "bash"]);
    bench.update(listed(2));
    bench.say(call(1, "read", "{}"));
    bench.wait(Duration::from_millis(1_400));
    // Storage and checkpoints are neither progress nor an ending.
    bench.say(set_blob("{}"));
    bench.say(checkpoint());
    assert_ne!(bench.ending(), &CALLS);
    bench.say(call(2, "bash", "{}"));
    assert_eq!((names(&bench).len(), bench.ending()), (2, &CALLS));
}

#[test]
fn section_3_the_count_includes_refused_and_native_calls() {
    let mut bench = Bench::open(&["search"]);
    bench.update(listed(3));
    bench.update(started(1, "wrong"));
    bench.update(refused(1, "wrong"));
    let read = ReadArgs { path: "a".into(), tool_call_id: "native".into(), ..ReadArgs::default() };
    bench.say(exec(7, Ask::ReadArgs(read)));
    bench.say(call(2, "search", "{}"));
    assert_eq!((names(&bench).len(), bench.ending()), (1, &CALLS), "all three are settled");
}

#[test]
fn section_3_a_serial_call_comes_after_the_result_of_the_one_before() {
    let mut bench = Bench::open(&["read", "bash"]);
    bench.update(listed(2));
    bench.update(started(1, "read"));
    bench.update(started(2, "bash"));
    bench.say(call(1, "read", "{}"));
    bench.wait(PATIENCE);
    assert_eq!((names(&bench), bench.ending()), (vec!["read".to_owned()], &CALLS));
    assert!(bench.resume(&["read", "bash"], vec![made(1, "read"), result(1, "one")]));
    bench.update(completed(1));
    bench.say(call(2, "bash", "{}"));
    assert_eq!((names(&bench), bench.ending()), (vec!["bash".to_owned()], &CALLS));
}

#[test]
fn section_3_an_exec_without_notices_and_without_an_exec_id_is_a_call() {
    let mut bench = Bench::open(&["read"]);
    let args = McpArgs { name: "read".into(), ..McpArgs::default() };
    bench.say(FromServer::ExecServerMessage(Box::new(ExecServerMessage {
        id: 4_711,
        message: Some(Ask::McpArgs(args)),
        ..ExecServerMessage::default()
    })));
    bench.wait(WINDOW);
    assert_eq!((names(&bench).len(), bench.ending()), (1, &CALLS));
    assert!(bench.resume(&["read"], vec![made(1, "read"), result(1, "one")]));
    assert_eq!(bench.results(), [(4_711, "one".to_owned())]);
}

#[test]
fn section_3_a_permission_probe_is_answered_and_never_reaches_the_client() {
    let mut bench = Bench::open(&["read"]);
    for (id, name) in [(1, "read"), (2, "other")] {
        let args =
            McpArgs { name: name.into(), smart_mode_approval_only: true, ..McpArgs::default() };
        bench.say(exec(id, Ask::McpArgs(args)));
    }
    bench.wait(PATIENCE);
    assert_eq!(begun(&bench), 0);
    let results = bench.results();
    assert!(results[0].1.contains("Approved"), "{results:?}");
    assert!(results[1].1.contains("Rejected"), "{results:?}");
}

#[test]
fn section_2_2_a_literal_meta_call_is_unwrapped_or_answered_with_the_catalogue() {
    let mut bench = Bench::open(&["read"]);
    let meta = |id, name: &str, args: &str| {
        let (name, args) = (name.to_owned(), arguments_map(args));
        let call = McpArgs { tool_name: name, args, ..McpArgs::default() };
        exec(id, Ask::McpArgs(call))
    };
    bench.say(meta(1, "GetDynamicTools", r#"{"namespace":"ibeam"}"#));
    let results = bench.results();
    assert!(results[0].1.contains(r#""inputSchema":{"#), "{results:?}");
    bench.say(meta(
        2,
        "CallDynamicTool",
        r#"{"namespace":"ibeam","toolName":"read","arguments":"{\"n\":1}"}"#,
    ));
    bench.wait(WINDOW);
    let calls = bench.turn.calls();
    assert_eq!((calls[0].name.as_str(), calls[0].arguments.as_str()), ("read", r#"{"n":1}"#));
    assert_eq!((begun(&bench), bench.ending()), (1, &CALLS));
}

#[test]
fn section_2_2_a_listing_that_is_only_shown_does_not_count_as_refused() {
    let mut bench = Bench::open(&["read"]);
    let tool = WireTool::GetMcpToolsToolCall(GetMcpToolsToolCall::default());
    for _ in 0..100 {
        bench.update(Update::ToolCallCompleted(Box::new(ToolCallCompletedUpdate {
            call_id: String::new(),
            tool_call: Some(WireCall { tool: Some(tool.clone()), ..WireCall::default() }),
            ..ToolCallCompletedUpdate::default()
        })));
    }
    bench.text("done");
    bench.update(ended());
    bench.end(None);
    assert_eq!(bench.ending(), &STOP);
}

#[test]
fn section_2_3_the_state_of_mcp_servers_is_answered_for_known_servers_only() {
    let mut bench = Bench::open(&["read"]);
    let asks = [(&["ibeam"][..], false), (&[], true), (&["other"], false)];
    for (id, (servers, kick_only)) in (1..).zip(asks) {
        let server_identifiers = servers.iter().map(|name| (*name).to_owned()).collect();
        let args = McpStateExecArgs { server_identifiers, kick_only };
        bench.say(exec(id, Ask::McpStateExecArgs(args)));
    }
    let results = bench.results();
    for (_, known) in &results[..2] {
        assert!(
            known.contains(r#"tool_name: "read_tool""#) && known.contains("connected"),
            "{known}"
        );
    }
    assert!(results[2].1.contains("servers: []"), "{results:?}");
    let closes = format!("{:?}", bench.sent()).matches("StreamClose(").count();
    assert_eq!(closes, 3);
}

#[test]
fn section_8_2_a_detail_of_an_mcp_error_is_known() {
    let error = McpError { error: "title".into(), detail: Some("more".into()) };
    assert_eq!(error.encode_to_vec(), b"\x0a\x05title\x12\x04more");
}
