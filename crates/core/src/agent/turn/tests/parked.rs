//! Waiting for the client: what keeps the stream alive, and every way in which results
//! come back or do not.

use ibeam_proto::agent::{
    ExecServerAbort, ExecServerControlMessage, McpToolCall, PartialToolCallUpdate, ReadArgs,
    ShellArgs, ToolCall as WireCall, ToolCallCompletedUpdate, WriteArgs,
    exec_server_control_message, tool_call::Tool as WireTool,
};

use super::*;
use crate::model::{Image, ImageSource};

const WINDOW: Duration = Duration::from_millis(30);

/// A turn with these tools called (exec 1, 2, ...) and handed out.
fn parked(tools: &[&str]) -> Bench {
    let mut bench = Bench::open(tools);
    for (n, tool) in (1..).zip(tools) {
        bench.say(call(n, tool, r#"{"a":1}"#));
    }
    bench.wait(WINDOW);
    assert_eq!((bench.ending(), bench.turn.phase()), (&CALLS, Phase::AwaitingTools));
    bench
}

fn finish(bench: &mut Bench, text: &str) {
    bench.text(text);
    bench.update(ended());
    bench.end(None);
    assert_eq!(bench.ending(), &STOP);
    assert_eq!(bench.turn.phase(), Phase::Done);
}

#[test]
fn a_chain_of_tools_is_one_run() {
    let mut bench = Bench::open(&["read"]);
    let mut items = Vec::new();
    for n in 1..=10 {
        bench.say(call(n, "read", &format!(r#"{{"n":{n}}}"#)));
        bench.say(checkpoint());
        assert_eq!(bench.ending(), &CALLS);
        for _ in 0..n * 6 {
            bench.wait(Duration::from_secs(10));
            bench.update(heartbeat());
        }
        assert_eq!(bench.turn.phase(), Phase::AwaitingTools, "call {n}");
        items.extend([made(n, "read"), result(n, &format!("result {n}"))]);
        assert!(bench.resume(&["read"], items.clone()), "call {n}");
    }
    finish(&mut bench, "done");
    assert_eq!(bench.opens(), 1);
    let results: Vec<_> = (1..=10).map(|n| (n, format!("result {n}"))).collect();
    assert_eq!(bench.results(), results, "each result once, and none of the old ones again");
}

#[test]
fn a_parked_stream_is_kept_alive_and_answers() {
    let mut bench = parked(&["read"]);
    let before = bench.sent().len();
    bench.wait(Duration::from_secs(21));
    bench.say(set_blob("stored"));
    bench.say(exec(9, Ask::RequestContextArgs(RequestContextArgs::default())));
    let sent = &bench.sent()[before..];
    let beats = sent.iter().filter(|m| matches!(m, ToServer::ClientHeartbeat(_))).count();
    assert_eq!(beats, 4);
    assert!(sent.iter().any(|m| matches!(m, ToServer::KvClientMessage(_))));
    assert!(sent.iter().any(|m| matches!(m, ToServer::ExecClientMessage(m) if m.id == 9)));
    assert_eq!(bench.turn.phase(), Phase::AwaitingTools);
}

#[test]
fn a_relieved_stream_sends_no_heartbeat_until_it_goes_on() {
    let beats = |bench: &Bench| {
        bench.sent().iter().filter(|m| matches!(m, ToServer::ClientHeartbeat(_))).count()
    };
    let mut bench = parked(&["read"]);
    bench.turn.relieve();
    bench.wait(Duration::from_secs(40));
    assert_eq!((beats(&bench), bench.turn.phase()), (0, Phase::AwaitingTools));
    assert!(bench.resume(&["read"], vec![made(1, "read"), result(1, "a")]));
    bench.wait(Duration::from_secs(11));
    assert_eq!(beats(&bench), 2);
}

/// The page that promises what follows.
const PAGE: &str = include_str!("../../../../../../docs/sessions.md");

/// A row of the page's table, the new items of the request, and what the two calls are
/// answered with; `None`: the request is given back.
type Case = (&'static str, fn() -> Vec<Item>, Option<[&'static str; 2]>);

const CASES: &[Case] = &[
    ("in order", || vec![result(1, "a"), result(2, "b")], Some(["a", "b"])),
    ("in reverse", || vec![result(2, "b"), result(1, "a")], Some(["a", "b"])),
    ("one is missing", || vec![result(2, "b")], Some([GONE, "b"])),
    ("one twice", || vec![result(1, "x"), result(2, "b"), result(1, "a")], Some(["a", "b"])),
    (
        "one nobody asked for",
        || vec![result(1, "a"), result(7, "c"), result(2, "b")],
        Some(["a", "b"]),
    ),
    ("an error", || vec![result(1, "a"), broken(2, "b")], Some(["a", "error: b"])),
    ("an image", || vec![result(1, "a"), picture(2)], Some(["a", "seen\nimage/png b\"png\""])),
    ("nothing in it", || vec![empty(1), result(2, "b")], Some(["", "b"])),
    (
        "a message beside them",
        || vec![result(1, "a"), result(2, "b"), user("stop that")],
        Some(["a", "b\n<user_message>\nstop that\n</user_message>"]),
    ),
    (
        "a message beside half of them",
        || vec![result(1, "a"), user("go on")],
        Some([
            "a",
            "error: The client sent no result for this call.\n\
             <user_message>\ngo on\n</user_message>",
        ]),
    ),
    ("late", || vec![result(3, "a"), result(4, "b")], None),
    ("none", || vec![user("never mind")], None),
];

const GONE: &str = "error: The client sent no result for this call.";

fn broken(n: u32, text: &str) -> Item {
    let Item::ToolResult(result) = result(n, text) else { unreachable!() };
    Item::ToolResult(ToolResult { is_error: true, ..result })
}

fn picture(n: u32) -> Item {
    let source = ImageSource::Inline { mime: "image/png".into(), data: "png".into() };
    let Item::ToolResult(mut result) = result(n, "seen") else { unreachable!() };
    result.content.push(ToolContent::Image(Image { source }));
    Item::ToolResult(result)
}

fn empty(n: u32) -> Item {
    let Item::ToolResult(result) = result(n, "") else { unreachable!() };
    Item::ToolResult(ToolResult { content: Vec::new(), ..result })
}

#[test]
fn results_in_every_shape_that_the_page_names() {
    let table = PAGE.split("\n## ").find(|part| part.starts_with("Results")).unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let rows: Vec<&str> = rows.filter(|row| *row != "case").collect();
    let names: Vec<&str> = CASES.iter().map(|case| case.0).collect();
    assert_eq!(rows, names, "docs/sessions.md and the cases differ");

    for (name, items, want) in CASES {
        let mut bench = parked(&["read", "bash"]);
        let mut all = vec![made(1, "read"), made(2, "bash")];
        all.extend(items());
        assert_eq!(bench.resume(&["read", "bash"], all), want.is_some(), "{name}");
        let Some([first, second]) = want else {
            assert_eq!(bench.results(), [], "{name}");
            continue;
        };
        let want = [(1, (*first).to_owned()), (2, (*second).to_owned())];
        assert_eq!(bench.results(), want, "{name}");
        finish(&mut bench, "thanks");
        assert_eq!(bench.said(), "thanks", "{name}");
    }
}

#[test]
fn requests_that_the_stream_cannot_serve_are_given_back() {
    type Change = fn(&mut TurnRequest);
    let ways: [(&str, Change); 4] = [
        ("no results", |r| r.items.truncate(2)),
        ("results of others", |r| {
            r.items = vec![user("hi"), made(3, "read"), result(3, "x")];
        }),
        ("no tools any more", |r| r.tool_choice = ToolChoice::None),
        ("one tool only", |r| r.tool_choice = ToolChoice::Named("read".into())),
    ];
    for (name, change) in ways {
        let mut bench = parked(&["read"]);
        let mut request = request(&["read"]);
        request.items.extend([made(1, "read"), result(1, "a")]);
        change(&mut request);
        assert!(!bench.resume_with(request), "{name}");
        assert_eq!(
            bench.turn.phase(),
            Phase::AwaitingTools,
            "{name}: still there for the right one"
        );
        assert!(bench.results().is_empty());
    }
}

#[test]
fn results_come_back_but_once() {
    let mut bench = parked(&["read"]);
    let items = || vec![made(1, "read"), result(1, "a")];
    assert!(bench.resume(&["read"], items()));
    assert!(!bench.resume(&["read"], items()), "the run goes on already");
    assert_eq!(bench.results().len(), 1);
}

#[test]
fn what_is_said_meanwhile_comes_with_the_next_answer() {
    let mut bench = parked(&["read"]);
    let events = bench.events.len();
    bench.text("While you look: ");
    assert_eq!(bench.events.len(), events, "nobody listens");
    assert!(bench.resume(&["read"], vec![made(1, "read"), result(1, "a")]));
    finish(&mut bench, "done.");
    assert_eq!(bench.said(), "While you look: done.");
}

#[test]
fn too_much_said_meanwhile_ends_it() {
    let mut bench = parked(&["read"]);
    for _ in 0..20 {
        bench.text(&"x".repeat(64 << 10));
    }
    assert_eq!(bench.turn.phase(), Phase::Done);
    assert_eq!(bench.commands.last(), Some(&Command::Close { cancel: true }));
}

#[test]
fn a_late_sibling_waits_for_the_next_answer() {
    let mut bench = parked(&["read"]);
    bench.say(call(5, "read", r#"{"b":2}"#));
    assert_eq!(bench.turn.calls().len(), 1, "the client does not know it yet");
    assert!(bench.resume(&["read"], vec![made(1, "read"), result(1, "a")]));
    bench.wait(WINDOW);
    assert_eq!(bench.ending(), &CALLS);
    assert_eq!(bench.turn.calls()[0].id, id(2).as_str());
    let items = vec![made(1, "read"), result(1, "a"), made(2, "read"), result(2, "b")];
    assert!(bench.resume(&["read"], items));
    assert_eq!(bench.results(), [(1, "a".into()), (5, "b".into())]);
    finish(&mut bench, "done");
}

#[test]
fn a_call_taken_back_gets_no_result() {
    let mut bench = parked(&["read", "bash"]);
    bench.say(FromServer::ExecServerControlMessage(ExecServerControlMessage {
        message: Some(exec_server_control_message::Message::Abort(ExecServerAbort { id: 1 })),
    }));
    let items = vec![made(1, "read"), made(2, "bash"), result(1, "a"), result(2, "b")];
    assert!(bench.resume(&["read", "bash"], items));
    assert_eq!(bench.results(), [(2, "b".into())]);
    finish(&mut bench, "done");
}

#[test]
fn a_run_whose_last_call_is_taken_back_is_let_go() {
    let mut bench = parked(&["read"]);
    bench.say(FromServer::ExecServerControlMessage(ExecServerControlMessage {
        message: Some(exec_server_control_message::Message::Abort(ExecServerAbort { id: 1 })),
    }));
    assert_eq!(bench.turn.phase(), Phase::Done, "nothing could wake it");
}

#[test]
fn a_held_call_leaves_before_the_backend_says_more() {
    let mut bench = parked(&["read"]);
    bench.say(call(5, "read", r#"{"b":2}"#));
    assert!(bench.resume(&["read"], vec![made(1, "read"), result(1, "a")]));
    bench.update(completed(1));
    bench.wait(WINDOW);
    assert_eq!(bench.events.first(), Some(&TurnEvent::Started));
    assert_eq!(bench.ending(), &CALLS);
}

#[test]
fn a_model_that_asks_in_vain_is_stopped() {
    let mut bench = Bench::open(&["read"]);
    for n in 0..100 {
        bench.say(call(n, "rm", "{}"));
    }
    assert_eq!(bench.failure(), ErrorCode::ToolLoop);
}

// === what is kept of a conversation ===

/// All that a run which goes on from here would tell the model.
fn kept(bench: &mut Bench) -> String {
    let state = bench.turn.checkpoint().expect("no state");
    let state = ConversationStateStructure::decode(state).unwrap();
    let blobs = state.root_prompt_messages_json.iter();
    let texts: Vec<Bytes> = blobs.filter_map(|id| bench.turn.spec.blobs.get(id)).collect();
    String::from_utf8(texts.concat()).unwrap()
}

#[test]
fn a_client_that_tells_nothing_again_is_not_forgotten() {
    let mut bench = Bench::open(&["read"]);
    bench.text("I look.");
    bench.say(call(1, "read", "{}"));
    bench.wait(WINDOW);
    let first = kept(&mut bench);
    assert!(first.contains("hi") && first.contains("I look."), "{first}");
    // Only the result, under a name.
    let mut request = request(&["read"]);
    request.items = vec![result(1, "the result")];
    assert!(bench.resume_with(request));
    bench.broke(&reset());
    bench.opened();
    assert_eq!(bench.opens(), 2);
    finish(&mut bench, "It is done.");
    let all = kept(&mut bench);
    for part in ["hi", "I look.", "tool-call", "the result", "It is done."] {
        assert!(all.contains(part), "{part} is lost: {all}");
    }
}

#[test]
fn a_state_that_lacks_something_is_not_kept_for_a_client_that_tells_all() {
    let mut bench = Bench::open(&["read"]);
    bench.say(call(1, "read", "{}"));
    bench.say(checkpoint());
    assert!(bench.resume(&["read"], vec![made(1, "read"), result(1, "a")]));
    finish(&mut bench, "done");
    assert_eq!(bench.turn.checkpoint(), None, "it knows neither the result nor the answer");
    let mut bench = Bench::open(&["read"]);
    bench.say(call(1, "read", "{}"));
    bench.say(checkpoint());
    assert!(bench.resume(&["read"], vec![made(1, "read"), result(1, "a")]));
    bench.text("done");
    bench.say(checkpoint());
    bench.update(ended());
    bench.end(None);
    assert!(bench.turn.checkpoint().is_some());
}

#[test]
fn a_conversation_under_another_id_keeps_its_blobs() {
    let mut bench = Bench::open(&[]);
    bench.say(set_blob("stored"));
    assert_eq!(bench.turn.take_new_blobs().len(), 1);
    bench.update(ended());
    bench.end(None);
    assert_eq!(bench.opens(), 2, "an empty turn is tried under another id");
    assert_eq!(bench.turn.take_new_blobs().len(), 1, "the other id needs them too");
}

#[test]
fn the_end_of_a_parked_stream_is_silent() {
    let ways: [fn(&mut Bench); 5] = [
        |b| b.broke(&reset()),
        Bench::eof,
        |b| b.end(Some(&ConnectError::new(Code::Unavailable, "gone"))),
        |b| b.update(ended()),
        |b| b.wait(Duration::from_secs(46)),
    ];
    for way in ways {
        let mut bench = parked(&["read"]);
        let events = bench.events.len();
        way(&mut bench);
        assert_eq!(bench.turn.phase(), Phase::Done);
        assert_eq!(bench.events.len(), events, "the client has its ending");
        assert!(!bench.resume(&["read"], vec![made(1, "read"), result(1, "a")]));
    }
}

/// The stream dies after it got the results: the request has everything, and the model
/// is asked again.
#[test]
fn a_stream_lost_after_the_results_is_told_anew() {
    let ways: [fn(&mut Bench); 3] = [
        |b| b.broke(&reset()),
        Bench::eof,
        |b| b.end(Some(&ConnectError::new(Code::Unavailable, "gone"))),
    ];
    for way in ways {
        let mut bench = Bench::open(&["read"]);
        bench.say(call(1, "read", "{}"));
        bench.say(checkpoint());
        assert!(bench.resume(&["read"], vec![made(1, "read"), result(1, "the result")]));
        way(&mut bench);
        assert_eq!(bench.opens(), 2, "{:?}", bench.events);
        bench.opened();
        let told: Vec<_> = bench.turn.take_new_blobs().into_iter().map(|(_, data)| data).collect();
        let told = String::from_utf8_lossy(&told.concat()).into_owned();
        assert!(told.contains("the result"), "{told}");
        finish(&mut bench, "done");
        assert_eq!(bench.said(), "done");
    }
}

#[test]
fn a_checkpoint_from_after_the_results_is_resumed() {
    let mut bench = parked(&["read"]);
    assert!(bench.resume(&["read"], vec![made(1, "read"), result(1, "a")]));
    bench.say(checkpoint());
    bench.broke(&reset());
    bench.opened();
    let ToServer::RunRequest(run) = bench.sent().pop().unwrap() else { panic!("no run") };
    let action = run.action.and_then(|action| action.action);
    assert!(matches!(action, Some(conversation_action::Action::ResumeAction(_))));
    finish(&mut bench, "done");
}

#[test]
fn with_parking_off_a_call_ends_the_run() {
    let settings = Settings { park: false, ..Settings::default() };
    let mut bench = Bench::closed(&["read"]);
    bench.turn = turn(request(&["read"]), settings);
    bench.drain();
    bench.opened();
    bench.say(call(1, "read", "{}"));
    bench.wait(WINDOW);
    assert_eq!((bench.ending(), bench.turn.phase()), (&CALLS, Phase::Done));
}

// === Cursor's own tools ===

#[test]
fn a_file_read_in_part_is_not_written_back() {
    for (text, whole) in [
        ("<file>\n00001| a\n</file>", true),
        ("<file>\n00001| a\n\n(Output capped at 50 KB. Use offset to read more)\n</file>", false),
    ] {
        let mut request = request(&[]);
        request.tools = ["read", "write"].map(file_tool).to_vec();
        let mut bench = Bench::closed(&[]);
        bench.turn = turn(request.clone(), Settings::default());
        bench.drain();
        bench.opened();
        let (path, id) = ("a.txt".to_owned(), "edit_1".to_owned());
        let read = ReadArgs { path: path.clone(), tool_call_id: id.clone(), ..ReadArgs::default() };
        bench.say(exec(1, Ask::ReadArgs(read)));
        bench.wait(WINDOW);
        assert_eq!(bench.ending(), &CALLS, "{:?}", bench.sent());
        request.items.extend([made(1, "read"), result(1, text)]);
        assert!(bench.resume_with(request));
        let write =
            WriteArgs { path, file_text: "b".into(), tool_call_id: id, ..WriteArgs::default() };
        bench.say(exec(2, Ask::WriteArgs(write)));
        bench.wait(WINDOW);
        let refused = format!("{:?}", bench.results()).contains("read only in part");
        assert_eq!(refused, !whole, "{text}: {:?}", bench.results());
        assert_eq!(bench.turn.calls().len(), usize::from(whole));
    }
}

#[test]
fn a_streamed_command_is_begun_when_it_is_handed_out() {
    let mut request = request(&[]);
    let schema = r#"{"type":"object","properties":{"command":{"type":"string"}}}"#;
    request.tools = vec![Tool {
        name: "bash".into(),
        description: String::new(),
        schema: serde_json::from_str(schema).ok(),
    }];
    let mut bench = Bench::closed(&[]);
    bench.turn = turn(request.clone(), Settings::default());
    bench.drain();
    bench.opened();
    let shell = ShellArgs { command: "ls".into(), ..ShellArgs::default() };
    bench.say(exec(1, Ask::ShellStreamArgs(shell)));
    bench.wait(WINDOW);
    assert_eq!(bench.results().len(), 1, "{:?}", bench.results());
    assert!(bench.results()[0].1.contains("Start"), "{:?}", bench.results());
    request.items.extend([made(1, "bash"), result(1, "a.txt")]);
    assert!(bench.resume_with(request));
    let all = format!("{:?}", bench.results());
    assert_eq!(all.matches("Start(").count(), 1, "{all}");
    assert!(all.contains("a.txt") && all.contains("Exit("), "{all}");
}

fn file_tool(name: &str) -> Tool {
    let schema = r#"{"type":"object","properties":{"filePath":{"type":"string"},
        "content":{"type":"string"},"offset":{"type":"number"},"limit":{"type":"number"}},
        "required":["filePath"]}"#;
    Tool {
        name: name.into(),
        description: String::new(),
        schema: serde_json::from_str(schema).ok(),
    }
}

// === arguments as they grow ===

pub(super) fn partial(wire_id: u32, name: Option<&str>, text: &str) -> Update {
    let args = name.map(|name| McpArgs { name: name.into(), ..McpArgs::default() });
    Update::PartialToolCall(PartialToolCallUpdate {
        call_id: format!("call_{wire_id}\nfc_{wire_id}"),
        tool_call: Some(WireCall {
            tool: Some(WireTool::McpToolCall(McpToolCall { args, result: None })),
            ..WireCall::default()
        }),
        args_text_delta: text.into(),
        ..PartialToolCallUpdate::default()
    })
}

fn completed(wire_id: u32) -> Update {
    Update::ToolCallCompleted(ToolCallCompletedUpdate {
        call_id: format!("call_{wire_id}\nfc_{wire_id}"),
        ..ToolCallCompletedUpdate::default()
    })
}

fn arguments(bench: &Bench) -> Vec<String> {
    let deltas = bench.events.iter().filter_map(|event| match event {
        TurnEvent::ToolCallArgs { delta, .. } => Some(delta.clone()),
        _ => None,
    });
    deltas.collect()
}

#[test]
fn a_name_leaves_at_once_and_arguments_as_they_grow() {
    let mut bench = Bench::open(&["read"]);
    bench.update(partial(1, None, ""));
    assert!(!bench.events.iter().any(|e| matches!(e, TurnEvent::ToolCallBegin { .. })));
    bench.update(partial(1, Some("read"), ""));
    assert!(matches!(bench.ending(), TurnEvent::ToolCallBegin { name, .. } if name == "read"));
    bench.update(partial(1, Some("read"), r#"{"path": "a"#));
    bench.update(partial(1, Some("read"), ""));
    bench.update(partial(1, Some("read"), r#"{"path": "a.txt"}"#));
    assert_eq!(arguments(&bench).concat(), r#"{"path": "a.txt""#, "not to be made yet");
    bench.say(call(1, "read", r#"{"path":"a.txt"}"#));
    bench.wait(WINDOW);
    assert_eq!(arguments(&bench), [r#"{"path": "a"#, r#".txt""#, "}"]);
    assert_eq!(bench.ending(), &CALLS);
    assert_eq!(bench.turn.calls().len(), 1);
}

#[test]
fn siblings_wait_for_a_call_that_is_announced() {
    let mut bench = Bench::open(&["read", "bash"]);
    bench.update(partial(2, Some("bash"), ""));
    bench.say(call(1, "read", "{}"));
    for n in 0..30 {
        // It may take its time, as long as it goes on.
        bench.wait(Duration::from_secs(1));
        bench.update(partial(2, Some("bash"), &format!(r#"{{"c": "{}"#, "x".repeat(n))));
    }
    assert_ne!(bench.ending(), &CALLS, "half a call is with the client");
    let arguments = format!(r#"{{"c":"{}"}}"#, "x".repeat(40));
    bench.say(call(2, "bash", &arguments));
    bench.wait(WINDOW);
    assert_eq!(bench.ending(), &CALLS);
}

#[test]
fn a_call_announced_and_never_made_is_an_error() {
    let ways: [fn(&mut Bench); 5] = [
        |b| b.update(completed(1)),
        |b| {
            // What is resumed would make the call under another id.
            b.say(checkpoint());
            b.broke(&reset());
        },
        |b| {
            b.update(ended());
            b.end(None);
        },
        |b| {
            b.say(call(2, "bash", "{}"));
            b.wait(Duration::from_secs(15));
        },
        |b| {
            b.say(call(2, "bash", "{}"));
            b.broke(&reset());
        },
    ];
    for way in ways {
        let mut bench = Bench::open(&["read", "bash"]);
        bench.update(partial(1, Some("read"), r#"{"pa"#));
        way(&mut bench);
        assert!(matches!(bench.ending(), TurnEvent::Failed(_)), "{:?}", bench.events);
    }
}
