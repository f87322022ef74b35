//! Output that is cut anywhere, and lines in any order.

use proptest::prelude::*;

use super::*;

/// All that a run says and hears when its output comes in these pieces.
fn played(pieces: &[&[u8]]) -> (Vec<String>, Vec<ChildEvent>) {
    let mut run = Run::begin(&Ready { greeted: false, ..greeted() }, &resuming("s1"));
    for piece in pieces {
        run.0.on_output(Bytes::copy_from_slice(piece));
    }
    run.0.on_exit(&Exit::default());
    let mut heard = run.heard();
    // How often it gave a sign of life depends on when it was looked at.
    heard.retain(|heard| *heard != ChildEvent::Alive);
    (run.sent().iter().map(Value::to_string).collect(), heard)
}

fn transcript() -> Vec<u8> {
    let update = |update: Value| json!({"method": "session/update", "params": {"sessionId": "s1", "update": update}});
    let call = json!({"sessionUpdate": "tool_call", "toolCallId": "t\n1", "kind": "other"});
    let named = json!({"sessionUpdate": "tool_call_update", "toolCallId": "t\n1",
        "rawInput": {"providerIdentifier": "ibeam", "toolName": "x"}});
    let permission = json!({"id": "p", "method": "session/request_permission", "params": {
        "toolCall": {"toolCallId": "t\n1"}, "options": [{"optionId": "o", "kind": "allow_once"}]}});
    let lines = [
        json!({"id": 1, "result": {"agentCapabilities": {"loadSession": true}}}),
        update(chunk("history")),
        json!({"id": 2, "result": null}),
        update(chunk("grüße \u{1f600} ")),
        update(call),
        update(named),
        permission,
        update(chunk("\u{20ac}")),
        json!({"id": 3, "result": {"stopReason": "end_turn"}}),
    ];
    lines.iter().map(|line| format!("{line}\r\n")).collect::<String>().into_bytes()
}

#[test]
fn transcript_is_a_complete_run() {
    let (sent, heard) = played(&[&transcript()]);
    assert_eq!(sent.len(), 5, "{sent:?}");
    assert_eq!(sent[4], "\"release\"");
    assert_eq!(
        heard,
        [
            ChildEvent::Session("s1".to_owned()),
            text("grüße \u{1f600} "),
            ChildEvent::Announced,
            text("\u{20ac}"),
            ChildEvent::Ended(FinishReason::Stop),
        ]
    );
}

proptest! {
    #[test]
    fn any_split_of_the_output_gives_the_same_run(cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12)) {
        let whole = transcript();
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(whole.len())).collect();
        places.sort_unstable();
        let mut pieces = Vec::new();
        let mut from = 0;
        for place in places {
            pieces.push(&whole[from..place]);
            from = place;
        }
        pieces.push(&whole[from..]);
        prop_assert_eq!(played(&pieces), played(&[&whole]));
    }

    #[test]
    fn any_input_gives_exactly_one_ending(
        lines in prop::collection::vec(prop::sample::select(lines()), 0..20),
        cancel in prop::option::of(0_usize..20),
    ) {
        let mut run = Run::begin(&Ready { greeted: false, ..greeted() }, &resuming("s1"));
        let mut heard = Vec::new();
        for (place, line) in lines.iter().enumerate() {
            run.0.on_output(format!("{line}\n").into());
            heard.extend(run.heard());
            if cancel == Some(place) {
                run.0.cancel();
            }
        }
        run.0.on_exit(&Exit::default());
        heard.extend(run.heard());
        let ends = |heard: &ChildEvent| matches!(heard, ChildEvent::Ended(_) | ChildEvent::Failed(_));
        prop_assert_eq!(heard.iter().filter(|heard| ends(heard)).count(), 1);
        prop_assert!(heard.last().is_some_and(ends));
    }
}

/// Lines of an agent that keeps to no order.
fn lines() -> Vec<String> {
    let mut lines: Vec<String> = transcript()
        .split(|byte| *byte == b'\n')
        .map(|line| String::from_utf8_lossy(line).into_owned())
        .collect();
    for id in 1..6 {
        lines.push(json!({"id": id, "result": {"stopReason": "cancelled"}}).to_string());
        lines.push(json!({"id": id, "error": {"code": -32001, "message": "x"}}).to_string());
        lines.push(json!({"id": id, "error": {"code": -32002, "message": ""}}).to_string());
    }
    lines.push("[]".to_owned());
    lines
}
