//! Calls that are announced before they are made, and arguments as they grow.

use ibeam_proto::agent::{
    McpToolCall, PartialToolCallUpdate, ShellArgs, ToolCall as WireCall, ToolCallCompletedUpdate,
    tool_call::Tool as WireTool,
};

use super::*;

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

pub(super) fn completed(wire_id: u32) -> Update {
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

fn begun(bench: &Bench) -> usize {
    bench.events.iter().filter(|e| matches!(e, TurnEvent::ToolCallBegin { .. })).count()
}

#[test]
fn an_exec_without_an_id_is_the_call_that_was_announced() {
    let mut bench = Bench::open(&["read", "bash"]);
    bench.update(partial(1, Some("bash"), ""));
    bench.update(partial(2, Some("read"), r#"{"path": "a"#));
    let args = arguments_map(r#"{"path":"a.txt"}"#);
    bench.say(exec(2, Ask::McpArgs(McpArgs { name: "read".into(), args, ..McpArgs::default() })));
    bench.say(call(1, "bash", "{}"));
    bench.wait(WINDOW);
    assert_eq!((begun(&bench), bench.ending()), (2, &CALLS));
    let calls: Vec<_> = bench.turn.calls().into_iter().map(|call| (call.id, call.name)).collect();
    let want =
        [(id(1).as_str().to_owned(), "bash".to_owned()), (id(2).as_str().into(), "read".into())];
    assert_eq!(calls, want);
}

/// A built-in tool has no id either, and may be handed to the tool that was announced.
#[test]
fn a_built_in_tool_is_not_the_call_that_was_announced() {
    let mut request = request(&[]);
    request.tools = vec![native::shell_tool()];
    let mut bench = Bench::of(request, Settings::default());
    bench.opened();
    bench.update(partial(1, Some("bash"), r#"{"command": "make"#));
    let shell = ShellArgs { command: "ls".into(), ..ShellArgs::default() };
    bench.say(exec(2, Ask::ShellArgs(shell)));
    bench.say(call(1, "bash", r#"{"command":"make test"}"#));
    bench.wait(WINDOW);
    assert_eq!((begun(&bench), bench.ending()), (2, &CALLS), "{:?}", bench.events);
}
