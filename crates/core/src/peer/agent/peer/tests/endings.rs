//! How turns end, and when they are not over yet.

use super::*;

#[test]
fn text_only_in_a_blob_is_delivered_once() {
    let blob = r#"{"role":"assistant","content":[{"type":"text","text":"from the blob"}]}"#;
    let mut bench = Bench::open(&[]);
    bench.say(set_blob(blob));
    bench.say(set_blob(blob));
    bench.update(ended());
    bench.end(None);
    assert_eq!(bench.said(), "from the blob");

    let mut both = Bench::open(&[]);
    both.text("streamed");
    both.say(set_blob(blob));
    both.update(ended());
    both.end(None);
    assert_eq!(both.said(), "streamed");
}

#[test]
fn answer_only_in_a_blob_is_delivered_when_the_host_never_ends() {
    let mut bench = Bench::open(&[]);
    bench.say(set_blob(r#"{"role":"assistant","content":"stored"}"#));
    for _ in 0..5 {
        bench.wait(Duration::from_secs(10));
        bench.update(heartbeat());
    }
    assert_eq!((bench.said().as_str(), bench.ending()), ("stored", &STOP));
}

#[test]
fn older_answer_that_is_stored_again_is_ignored() {
    let old = r#"{"role":"assistant","content":[{"type":"text","text":"old answer"}],"id":"x"}"#;
    let mut bench = Bench::closed(&[]);
    let mut request = request(&[]);
    request.items = vec![user("q"), said("old answer"), user("next")];
    bench.turn.peer().spec = RunSpec::new(&request, plan_for(&request));
    // The recording has another request.
    bench.taped.forget();
    bench.opened();
    bench.say(set_blob(old));
    bench.update(ended());
    bench.end(None);
    assert_eq!(bench.opens(), 2, "an empty turn is tried again");
    assert_eq!(bench.said(), "");
}

/// A backend may store thousands of answers: each is compared with the history, which is read once.
#[test]
fn answers_of_the_history_are_read_once_for_a_stream() {
    let mut request = request(&[]);
    request.items = vec![user("q"), said("old answer"), user("next")];
    let mut bench = Bench::of(request, Settings::default());
    // The history is taken away below.
    bench.taped.forget();
    bench.opened();
    let old = |n: usize| format!(r#"{{"role":"assistant","content":"old answer","id":"{n}"}}"#);
    bench.say(set_blob(&old(1)));
    bench.turn.peer().spec.blobs = Blobs::default();
    bench.say(set_blob(&old(2)));
    bench.update(ended());
    bench.end(None);
    assert_eq!(bench.said(), "");
}

#[test]
fn blob_that_is_too_large_to_store_is_not_read() {
    let request = request(&[]);
    let mut plan = plan_for(&request);
    plan.limits.blob_bytes = 60;
    let mut bench = Bench::planned(request, plan, Settings::default());
    bench.opened();
    let blob = |text: &str| set_blob(&format!(r#"{{"role":"assistant","content":"{text}"}}"#));
    bench.say(blob(&"large".repeat(20)));
    bench.say(blob("small"));
    bench.update(ended());
    bench.end(None);
    assert_eq!(bench.said(), "small");
}

#[test]
fn missing_counts_are_marked_as_missing() {
    let mut bench = Bench::open(&["read"]);
    bench.update(Update::ThinkingDelta(ThinkingDeltaUpdate {
        text: "hm ".into(),
        ..ThinkingDeltaUpdate::default()
    }));
    bench.text("text");
    bench.update(Update::TokenDelta(TokenDeltaUpdate { tokens: 7 }));
    bench.say(call(1, "read", r#"{"path":"a"}"#));
    bench.wait(WINDOW);
    assert!(!bench.events.iter().any(|event| matches!(event, TurnEvent::Usage(_))));
    let uncounted = bench.turn.uncounted();
    assert_eq!(uncounted.output, Some(7));
    assert_eq!(uncounted.answer, r#"read{"path":"a"}text"#);
    assert_eq!(uncounted.thoughts, "hm ");
    assert!(uncounted.prompt.contains(&"hi".to_owned()), "{:?}", uncounted.prompt);
}

#[test]
fn every_successful_ending() {
    type Script = fn(&mut Bench);
    let scripts: [(&str, Script); 6] = [
        ("turn_ended, end frame", |b| {
            b.update(ended());
            b.end(None);
        }),
        ("turn_ended, eof", |b| {
            b.update(ended());
            b.eof();
        }),
        ("turn_ended, reset", |b| {
            b.update(ended());
            b.broke(&reset());
        }),
        ("turn_ended, then only heartbeats", |b| {
            b.update(ended());
            b.update(heartbeat());
            b.wait(Duration::from_secs(3));
        }),
        ("end frame without turn_ended", |b| b.end(None)),
        ("storage after text, then only heartbeats", |b| {
            b.say(set_blob("x"));
            for _ in 0..4 {
                b.wait(Duration::from_secs(10));
                b.update(heartbeat());
            }
        }),
    ];
    for (name, script) in scripts {
        let mut bench = Bench::open(&[]);
        bench.text("answer");
        script(&mut bench);
        assert_eq!(bench.ending(), &STOP, "{name}");
        assert_eq!(bench.said(), "answer", "{name}");
        assert_eq!(bench.turn.state(), TurnState::Done, "{name}");
        assert_eq!(bench.opens(), 1, "{name}");
    }
}

#[test]
fn silence_is_not_an_ending_during_a_step_or_server_tool() {
    let started = Update::ToolCallStarted(Box::new(ToolCallStartedUpdate {
        call_id: "web".into(),
        ..ToolCallStartedUpdate::default()
    }));
    for open in [Update::StepStarted(StepStartedUpdate { step_id: 1 }), started] {
        let mut bench = Bench::open(&[]);
        bench.text("searching");
        bench.update(open);
        bench.say(set_blob("x"));
        for _ in 0..10 {
            bench.wait(Duration::from_secs(10));
            bench.update(heartbeat());
        }
        assert_eq!(bench.turn.state(), TurnState::Streaming);
    }
}

#[test]
fn checkpoint_is_never_an_ending() {
    let mut bench = Bench::open(&[]);
    bench.text("one ");
    bench.say(checkpoint());
    for _ in 0..6 {
        bench.wait(Duration::from_secs(10));
        bench.update(heartbeat());
    }
    bench.text("two");
    bench.update(Update::StepCompleted(StepCompletedUpdate::default()));
    bench.end(None);
    assert_eq!(bench.said(), "one two");
}

#[test]
fn an_error_after_turn_ended_fails_the_turn() {
    let mut bench = Bench::open(&[]);
    bench.text("half");
    bench.update(ended());
    bench.end(Some(&ConnectError::new(Code::Internal, "boom")));
    assert_eq!(bench.failure(), ErrorCode::UpstreamError);
}

#[test]
fn a_cut_stream_is_never_a_clean_stop() {
    for cut in [Bench::eof as fn(&mut Bench), |b| b.broke(&reset())] {
        let mut bench = Bench::open(&[]);
        bench.text("half an ans");
        cut(&mut bench);
        assert_eq!(bench.failure(), ErrorCode::UpstreamClosed);
    }
}

#[test]
fn fifteen_quiet_minutes_with_heartbeats_are_healthy() {
    let mut settings = Settings::default();
    settings.clocks.heartbeat_only = Duration::from_secs(3600);
    let mut bench = Bench::of(request(&[]), settings);
    bench.opened();
    for _ in 0..90 {
        bench.wait(Duration::from_secs(10));
        bench.update(heartbeat());
    }
    bench.text("at last");
    bench.end(None);
    assert_eq!(bench.said(), "at last");
    assert_eq!(bench.beats(), 180);
}

#[test]
fn silence_and_length_have_clocks_of_their_own() {
    let mut quiet = Bench::open(&[]);
    for _ in 0..61 {
        quiet.wait(Duration::from_secs(10));
        quiet.update(heartbeat());
    }
    assert_eq!(quiet.failure(), ErrorCode::Timeout);

    let mut dead = Bench::open(&[]);
    dead.text("x");
    dead.wait(Duration::from_secs(46));
    assert_eq!(dead.failure(), ErrorCode::Timeout);

    let mut long = Bench::open(&[]);
    for _ in 0..1900 {
        long.text(".");
        long.wait(Duration::from_secs(1));
    }
    assert_eq!(long.failure(), ErrorCode::Timeout);
    let cancelled = long.sent().into_iter().any(|message| {
        matches!(message, ToServer::ConversationAction(a)
            if matches!(a.action, Some(conversation_action::Action::CancelAction(_))))
    });
    assert!(cancelled, "the backend is asked to stop");
}

#[test]
fn silence_while_we_do_not_read_does_not_count() {
    let mut bench = Bench::open(&[]);
    bench.text("x");
    bench.turn.set_reading(false, bench.now);
    bench.wait(Duration::from_secs(100));
    bench.turn.set_reading(true, bench.now);
    bench.wait(Duration::from_secs(40));
    assert_eq!(bench.turn.state(), TurnState::Streaming);
}
