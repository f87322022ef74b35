//! Client tools, and transcripts of any kind split anyhow.

use super::*;

#[test]
fn parallel_calls_leave_together_after_the_batch_window() {
    let mut bench = Bench::open(&["read", "bash"]);
    bench.text("Let me look.");
    bench.say(call(1, "read", r#"{"path":"a"}"#));
    bench.wait(Duration::from_millis(10));
    bench.say(call(2, "bash", r#"{"cmd":"ls"}"#));
    assert_eq!(bench.turn.state(), TurnState::Streaming);
    bench.wait(WINDOW);
    assert_eq!(bench.ending(), &CALLS);
    let names: Vec<_> = bench
        .events
        .iter()
        .filter_map(|event| match event {
            TurnEvent::ToolCallBegin { id, name } => Some((id.as_str(), name.as_str())),
            _ => None,
        })
        .collect();
    assert_eq!(names.len(), 2);
    assert_eq!(names, [(id(1).as_str(), "read"), (id(2).as_str(), "bash")]);
    assert_eq!(bench.turn.state(), TurnState::AwaitingTools);
}

#[test]
fn calls_are_complete_even_if_the_stream_is_lost() {
    for way in LOST {
        let mut bench = Bench::open(&["read"]);
        bench.say(checkpoint());
        bench.say(call(1, "read", "{}"));
        way(&mut bench);
        assert_eq!(bench.ending(), &CALLS);
        assert_eq!(bench.opens(), 1, "a resume could call it twice");
    }
}

#[test]
fn calls_without_an_id_stay_apart() {
    let mut bench = Bench::open(&["read"]);
    for id in [1, 2] {
        let args = McpArgs { name: "read".into(), ..McpArgs::default() };
        bench.say(exec(id, Ask::McpArgs(args)));
    }
    bench.wait(WINDOW);
    assert_eq!(bench.ending(), &CALLS);
}

#[test]
fn call_of_an_unknown_tool_is_refused() {
    let mut bench = Bench::open(&["read"]);
    bench.say(call(1, "rm", "{}"));
    assert!(format!("{:?}", bench.sent()[1]).contains("ToolNotFound"));
    assert_eq!(bench.turn.state(), TurnState::Streaming);
}

fn transcript() -> impl Strategy<Value = Vec<Bytes>> {
    let message = prop_oneof![
        5 => "[a-z<>/\\n ]{0,12}".prop_map(|text| updated(Update::TextDelta(TextDeltaUpdate { text, ..TextDeltaUpdate::default() }))),
        2 => "[a-z]{1,5}".prop_map(|text| {
            updated(Update::ThinkingDelta(ThinkingDeltaUpdate { text, ..ThinkingDeltaUpdate::default() }))
        }),
        1 => Just(updated(heartbeat())),
        1 => Just(updated(ended())),
        1 => Just(checkpoint()),
        1 => Just(set_blob(r#"{"role":"assistant","content":"blob"}"#)),
        1 => Just(exec(1, Ask::RequestContextArgs(RequestContextArgs::default()))),
        1 => Just(call(2, "read", r#"{"path":"x"}"#)),
        1 => Just(updated(partial::partial(2, Some("read"), r#"{"pa"#))),
        1 => Just(updated(partial::partial(3, Some("read"), ""))),
    ];
    let frame = message.prop_map(|message| {
        connect::encode(&AgentServerMessage {
            message: Some(message),
            ..AgentServerMessage::default()
        })
    });
    let end = prop_oneof![
        Just(connect::end_frame(None)),
        Just(connect::end_frame(Some(&ConnectError::new(Code::Unavailable, "later")))),
        Just(Bytes::from_static(b"\x40garbage")),
        Just(Bytes::new()),
    ];
    (prop::collection::vec(frame, 0..20), end).prop_map(|(mut frames, end)| {
        frames.push(end);
        frames
    })
}

fn play(chunks: impl Iterator<Item = Bytes>) -> (Vec<TurnEvent>, String) {
    let mut bench = Bench::open(&["read"]);
    for chunk in chunks {
        bench.bytes(chunk);
    }
    bench.eof();
    (bench.events, format!("{:?}", bench.commands))
}

proptest! {
    #[test]
    fn any_split_gives_the_same_events(frames in transcript(), size in 1_usize..40) {
        let bytes: Vec<u8> = frames.concat();
        let whole = play(std::iter::once(Bytes::from(bytes.clone())));
        let split = play(bytes.chunks(size).map(Bytes::copy_from_slice));
        prop_assert_eq!(&whole, &split);
    }

    #[test]
    fn every_turn_has_one_ending(frames in transcript(), cut in 0_usize..400) {
        let bytes: Vec<u8> = frames.concat();
        let mut bench = Bench::open(&["read"]);
        bench.bytes(Bytes::copy_from_slice(&bytes[..cut.min(bytes.len())]));
        bench.eof();
        // Whatever was recovered, the clocks end it.
        bench.opened();
        bench.wait(Duration::from_secs(4000));
        prop_assert!(bench.guard.ended());
        prop_assert_eq!(bench.turn.state(), TurnState::Done);
    }
}
