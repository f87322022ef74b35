//! Calls on their way to the client.

use super::*;

#[test]
fn call_is_sent_complete_and_the_turn_parks() {
    let mut bench = Bench::open(&["read"]);
    bench.says("session s1\ntext Let me see.");
    bench.calls(1, "read", r#"{"path":"a"}"#);
    let name = "read".to_owned();
    let delta = r#"{"path":"a"}"#.to_owned();
    assert_eq!(
        bench.events[2..],
        [
            TurnEvent::ToolCallBegin { id: id(1), name },
            TurnEvent::ToolCallArgs { id: id(1), delta },
            TurnEvent::ToolCallEnd { id: id(1) },
        ]
    );
    assert_eq!(id(1).as_str(), "sess_abababababababababababab__call_1");
    bench.wait(WINDOW);
    assert_eq!(bench.ending(), &CALLS);
    assert_eq!(bench.turn.state(), TurnState::AwaitingTools);
    assert!(bench.turn.awaits(id(1).as_str()));
    assert_eq!(bench.turn.calls()[0].arguments, r#"{"path":"a"}"#);
    assert!(bench.turn.checkpoint().is_some(), "results without a past need something");
}

#[test]
fn parallel_calls_are_one_batch() {
    let mut bench = Bench::open(&["read"]);
    bench.calls(1, "read", "{}");
    bench.wait(Duration::from_millis(20));
    bench.calls(2, "read", r#"{"n":2}"#);
    bench.wait(Duration::from_millis(20));
    assert_eq!(bench.turn.state(), TurnState::Streaming, "the window begins anew");
    bench.wait(Duration::from_millis(10));
    assert_eq!(bench.ending(), &CALLS);
    assert_eq!(bench.begun().len(), 2);
}

#[test]
fn announced_calls_are_waited_for() {
    let mut bench = Bench::open(&["read"]);
    bench.says("announced\nannounced");
    bench.calls(1, "read", "{}");
    bench.wait(Duration::from_secs(9));
    assert_eq!(bench.turn.state(), TurnState::Streaming);
    bench.calls(2, "read", r#"{"n":2}"#);
    bench.wait(WINDOW);
    assert_eq!((bench.ending(), bench.begun().len()), (&CALLS, 2));
}

#[test]
fn missing_announced_call_costs_ten_seconds_once() {
    let mut bench = Bench::open(&["read"]);
    bench.says("announced\nannounced");
    bench.calls(1, "read", "{}");
    bench.wait(Duration::from_secs(10));
    assert_eq!(bench.ending(), &CALLS);
    assert!(bench.resume(&["read"], answered(1, "read", "A").into()));
    bench.calls(2, "read", r#"{"n":2}"#);
    bench.wait(WINDOW);
    assert_eq!(bench.ending(), &CALLS);
}

#[test]
fn an_announcement_may_come_after_its_call() {
    let mut bench = Bench::open(&["read"]);
    bench.calls(1, "read", "{}");
    bench.says("announced");
    bench.wait(WINDOW);
    assert_eq!(bench.ending(), &CALLS);
}

#[test]
fn unknown_tool_is_answered_with_an_error() {
    let mut bench = Bench::open(&["read"]);
    bench.calls(1, "rm", "{}");
    assert_eq!(bench.results(), [(1, "error: There is no tool named `rm`.".into())]);
    assert!(bench.begun().is_empty());
    for n in 2..=65 {
        bench.calls(n, "rm", "{}");
    }
    assert_eq!(bench.failure(), ErrorCode::ToolLoop);
}

#[test]
fn call_without_arguments_gets_an_empty_object() {
    let mut bench = Bench::open(&["read"]);
    bench.calls(1, "read", "");
    assert_eq!(bench.turn.calls()[0].arguments, "{}");
}

#[test]
fn calls_are_sequential_without_parallel_tool_calls() {
    let mut request = request(&["read"]);
    request.parallel_tool_calls = false;
    let mut bench = Bench::run(request.clone(), None);
    bench.says("announced\nannounced");
    bench.calls(1, "read", "{}");
    bench.calls(2, "read", r#"{"n":2}"#);
    bench.wait(WINDOW);
    assert_eq!((bench.ending(), bench.begun().len()), (&CALLS, 1));
    assert_eq!(bench.turn.calls().len(), 1);
    request.items.extend(answered(1, "read", "A"));
    assert!(bench.resume_with(request.clone()));
    assert_eq!(bench.results(), [(1, "A".into())]);
    bench.wait(WINDOW);
    assert_eq!(bench.begun(), [(id(2).as_str().to_owned(), "read".to_owned())]);
    request.items.extend(answered(2, "read", "B"));
    assert!(bench.resume_with(request));
    finish(&mut bench, "done");
    assert_eq!(bench.results(), [(1, "A".into()), (2, "B".into())]);
}

#[test]
fn loop_guard_warns_with_the_second_result_and_stops_the_third_call() {
    let mut bench = Bench::open(&["read"]);
    let mut items = Vec::new();
    for n in 1..=2 {
        bench.calls(n.into(), "read", "{}");
        bench.wait(WINDOW);
        assert_eq!(bench.ending(), &CALLS);
        items.extend(answered(n, "read", "same"));
        assert!(bench.resume(&["read"], items.clone()));
    }
    let results = bench.results();
    assert_eq!(results[0].1, "same");
    assert!(results[1].1.len() > "same".len(), "a note rides on it: {results:?}");
    bench.calls(3, "read", "{}");
    assert_eq!(bench.failure(), ErrorCode::ToolLoop);
    assert!(bench.cancelled());
}

#[test]
fn child_is_stopped_at_a_call_if_parking_is_off() {
    let settings = Settings { park: false, ..Settings::default() };
    let mut bench = Bench::closed(request(&["read"]), plan(None), settings);
    bench.ready();
    bench.calls(1, "read", "{}");
    bench.wait(WINDOW);
    assert_eq!((bench.ending(), bench.turn.state()), (&CALLS, TurnState::Done));
    assert!(bench.cancelled());
}

#[test]
fn calls_are_complete_even_if_the_child_is_lost() {
    let lost: [fn(&mut Bench); 4] = [
        |bench| bench.exits(1),
        |bench| bench.says("end"),
        |bench| bench.says("fail none"),
        |bench| {
            bench.turn.on_eof(bench.now);
            bench.drain();
        },
    ];
    for lose in lost {
        let mut bench = Bench::open(&["read"]);
        bench.calls(1, "read", "{}");
        lose(&mut bench);
        assert_eq!((bench.ending(), bench.turn.state()), (&CALLS, TurnState::Done));
    }
}
