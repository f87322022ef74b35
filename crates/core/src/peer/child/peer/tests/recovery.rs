//! Failures, and what is tried about them.

use super::*;

#[test]
fn temporary_failure_is_retried_with_backoff() {
    let mut bench = Bench::open(&[]);
    for tries in 1..=3 {
        bench.says("session s\nfail retry");
        assert!(matches!(bench.turn.state(), TurnState::Backoff { .. }), "try {tries}");
        bench.wait(Duration::from_secs(8));
        assert_eq!(bench.starts().len(), tries + 1);
        bench.ready();
    }
    finish(&mut bench, "at last");
    assert_eq!(bench.prompts(), ["hi"; 4]);
    assert_eq!(bench.text(), "at last");
}

#[test]
fn retries_are_limited() {
    let mut bench = Bench::open(&[]);
    for _ in 0..4 {
        bench.says("fail retry");
        bench.wait(Duration::from_secs(8));
        bench.ready();
    }
    assert_eq!(bench.failure(), ErrorCode::UpstreamError);
    assert_eq!(bench.starts().len(), 4);
}

#[test]
fn no_retry_after_visible_output() {
    for (said, remedy) in
        [("text a", "retry"), ("thought a", "retry"), ("did a", "retry"), ("text a", "anew")]
    {
        let mut bench = Bench::open(&[]);
        bench.says(&format!("{said}\nfail {remedy}"));
        assert_eq!(bench.failure(), ErrorCode::UpstreamError, "{said} {remedy}");
        assert_eq!(bench.starts().len(), 1);
    }
}

#[test]
fn partial_tag_of_a_failed_run_is_discarded() {
    let mut bench = Bench::open(&[]);
    bench.says("text <thi\nfail retry");
    bench.wait(Duration::from_secs(1));
    bench.ready();
    finish(&mut bench, "clean");
    assert_eq!(bench.text(), "clean");
}

#[test]
fn lost_conversation_is_rebuilt_once() {
    let mut request = request(&[]);
    request.items.extend([assistant("hello"), user("and?")]);
    let mut bench = Bench::run(request, Some(kept("s1", 2, Vec::new())));
    bench.says("fail anew");
    assert_eq!(bench.starts().len(), 2, "at once");
    assert_eq!(bench.starts()[1].resume, None);
    bench.ready();
    let prompts = bench.prompts();
    assert_eq!(prompts[0], "[s1] and?");
    let told = "<conversation>\n<user>\nhi\n</user>\n<assistant>\nhello\n</assistant>\n\
                </conversation>\n\nand?";
    assert_eq!(prompts[1], told);
    bench.says("session s2\nfail anew");
    assert_eq!(bench.failure(), ErrorCode::UpstreamError, "once is enough");
}

/// A client that sends only new messages relies on the child to know the rest: an answer as if
/// nothing had been said would be worse than none.
#[test]
fn lost_conversation_without_history_is_an_error() {
    let mut bench = Bench::run(request(&[]), Some(kept("s1", 0, Vec::new())));
    bench.says("fail anew");
    assert_eq!(bench.failure(), ErrorCode::UpstreamError);
    assert_eq!(bench.starts().len(), 1);
}

#[test]
fn empty_answer_is_retried_once() {
    let mut bench = Bench::open(&[]);
    bench.says("session s\nend");
    assert_eq!(bench.starts().len(), 2);
    bench.ready();
    bench.says("end");
    assert_eq!(bench.failure(), ErrorCode::UpstreamError);
}

#[test]
fn permanent_failure_is_not_retried() {
    let mut bench = Bench::open(&[]);
    bench.says("fail none");
    assert_eq!(bench.failure(), ErrorCode::UpstreamError);
    assert!(bench.cancelled());
}

#[test]
fn child_that_cannot_be_started() {
    let mut bench = Bench::closed(request(&[]), plan(None), Settings::default());
    bench.turn.on_link_error(&LinkError::Refused("no room".into()), bench.now);
    bench.drain();
    assert!(matches!(bench.turn.state(), TurnState::Backoff { .. }), "that may pass");
    bench.wait(Duration::from_secs(1));
    let error = TurnError::new(ErrorCode::NotAuthenticated, "Run `ibeam login --backend cli`.");
    bench.turn.on_link_error(&LinkError::Fault(Box::new(error.clone())), bench.now);
    bench.drain();
    assert_eq!(bench.ending(), &TurnEvent::Failed(error), "told as it is");
}

#[test]
fn child_that_exits_is_started_again() {
    let lost: [fn(&mut Bench); 2] = [
        |bench| bench.exits(1),
        |bench| {
            bench.turn.on_eof(bench.now);
            bench.drain();
        },
    ];
    for lose in lost {
        let mut bench = Bench::open(&[]);
        lose(&mut bench);
        bench.wait(Duration::from_secs(1));
        assert_eq!(bench.starts().len(), 2);
        bench.ready();
        bench.says("text half");
        lose(&mut bench);
        assert_eq!(bench.failure(), ErrorCode::UpstreamClosed);
    }
}

#[test]
fn an_exit_after_the_ending_changes_nothing() {
    let mut bench = Bench::open(&[]);
    finish(&mut bench, "done");
    let events = bench.events.len();
    bench.exits(1);
    assert_eq!((bench.events.len(), bench.turn.state()), (events, TurnState::Done));
}

#[test]
fn results_of_a_lost_child_go_to_a_new_one() {
    let mut bench = parked(&["read"]);
    assert!(bench.resume(&["read"], answered(1, "read", "A").into()));
    bench.exits(1);
    bench.wait(Duration::from_secs(1));
    assert_eq!(bench.starts()[1].resume, None, "the history has everything");
    bench.ready();
    let prompts = bench.prompts();
    assert!(prompts[1].contains("name=\"read\">{}</tool_call>"), "{}", prompts[1]);
    assert!(prompts[1].contains(">A</tool_result>"), "{}", prompts[1]);
    finish(&mut bench, "done");
}

#[test]
fn results_without_history_go_to_a_new_child_with_the_session() {
    let mut bench = parked(&["read"]);
    let mut bare = request(&["read"]);
    bare.items = vec![result(1, "A")];
    assert!(bench.resume_with(bare));
    bench.exits(1);
    bench.wait(Duration::from_secs(1));
    assert_eq!(bench.starts()[1].resume.as_deref(), Some("s1"));
    bench.ready();
    let prompts = bench.prompts();
    assert!(prompts[1].starts_with("[s1] <conversation>\n<tool_call id="), "{}", prompts[1]);
}

#[test]
fn retry_limit_of_the_request_is_respected() {
    for retries in [0, 1] {
        let mut bench = parked(&["read"]);
        let mut bare = request(&["read"]);
        bare.items = vec![result(1, "A")];
        assert!(bench.resume_with(bare));
        bench.turn.allow_retries(retries);
        for _ in 0..=retries {
            bench.exits(1);
            bench.wait(Duration::from_secs(10));
            bench.turn.on_opened(bench.now);
        }
        assert_eq!(bench.starts().len(), 1 + retries as usize);
        assert!(matches!(bench.ending(), TurnEvent::Failed(_)), "{retries}");
    }
}

#[test]
fn silent_child_is_replaced() {
    let mut bench = Bench::open(&[]);
    bench.wait(Duration::from_secs(44));
    assert_eq!(bench.starts().len(), 1);
    bench.wait(Duration::from_secs(3));
    assert_eq!(bench.starts().len(), 2);
    bench.turn.on_opened(bench.now);
    bench.wait(Duration::from_secs(48));
    assert_eq!(bench.starts().len(), 3, "one that is never ready counts alike");
    for _ in 0..3 {
        bench.turn.on_opened(bench.now);
        bench.wait(Duration::from_secs(60));
    }
    let TurnEvent::Failed(error) = bench.ending() else { panic!("{:?}", bench.events) };
    assert_eq!((error.code, error.unreachable), (ErrorCode::Timeout, true));
}

#[test]
fn noise_does_not_count_as_output() {
    let mut bench = Bench::open(&[]);
    bench.says("(node:1) a warning");
    bench.wait(Duration::from_secs(47));
    assert_eq!(bench.starts().len(), 2);
}

#[test]
fn child_with_output_may_be_silent_for_long() {
    let mut bench = Bench::open(&[]);
    bench.says("session s");
    bench.wait(Duration::from_secs(590));
    bench.says("alive");
    bench.wait(Duration::from_secs(590));
    assert_eq!(bench.turn.state(), TurnState::Streaming);
    bench.wait(Duration::from_secs(10));
    assert_eq!(bench.failure(), ErrorCode::Timeout);
}

#[test]
fn silence_is_not_counted_while_reading_is_paused() {
    let mut bench = Bench::open(&[]);
    bench.says("text a");
    bench.turn.set_reading(false, bench.now);
    bench.wait(Duration::from_secs(1000));
    assert_eq!(bench.turn.state(), TurnState::Streaming);
    bench.turn.set_reading(true, bench.now);
    bench.wait(Duration::from_secs(600));
    assert_eq!(bench.failure(), ErrorCode::Timeout);
}

#[test]
fn whole_turn_has_a_time_limit() {
    let mut bench = Bench::open(&[]);
    for _ in 0..18 {
        bench.says("text a");
        bench.wait(Duration::from_secs(100));
    }
    assert_eq!(bench.failure(), ErrorCode::Timeout);
    let mut waiting = Bench::closed(request(&[]), plan(None), Settings::default());
    waiting.wait(Duration::from_secs(1800));
    assert_eq!(waiting.failure(), ErrorCode::Timeout, "also for one that waits for a place");
}
