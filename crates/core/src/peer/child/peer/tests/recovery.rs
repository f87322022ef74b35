//! Failures, and what is tried about them.

use super::*;

#[test]
fn a_passing_fault_is_tried_again_with_back_off() {
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
fn the_tries_are_used_up() {
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
fn nothing_is_tried_again_once_the_client_saw_something() {
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
fn half_a_tag_of_a_lost_run_is_not_part_of_the_next() {
    let mut bench = Bench::open(&[]);
    bench.says("text <thi\nfail retry");
    bench.wait(Duration::from_secs(1));
    bench.ready();
    finish(&mut bench, "clean");
    assert_eq!(bench.text(), "clean");
}

#[test]
fn a_lost_conversation_is_told_anew_once() {
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

/// A client that tells only what is new relies on the child to know the rest: an answer as if
/// nothing had been said would be worse than none.
#[test]
fn a_lost_conversation_that_nobody_tells_is_an_error() {
    let mut bench = Bench::run(request(&[]), Some(kept("s1", 0, Vec::new())));
    bench.says("fail anew");
    assert_eq!(bench.failure(), ErrorCode::UpstreamError);
    assert_eq!(bench.starts().len(), 1);
}

#[test]
fn an_answer_with_nothing_in_it_is_none() {
    let mut bench = Bench::open(&[]);
    bench.says("session s\nend");
    assert_eq!(bench.starts().len(), 2);
    bench.ready();
    bench.says("end");
    assert_eq!(bench.failure(), ErrorCode::UpstreamError);
}

#[test]
fn what_no_try_helps_fails() {
    let mut bench = Bench::open(&[]);
    bench.says("fail none");
    assert_eq!(bench.failure(), ErrorCode::UpstreamError);
    assert!(bench.cancelled());
}

#[test]
fn a_child_that_cannot_be_started() {
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
fn a_child_that_vanishes_is_started_again() {
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
fn results_of_a_lost_child_are_told_to_another() {
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
fn results_alone_are_told_to_another_child_of_the_same_conversation() {
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
fn a_leg_has_the_retries_that_its_request_was_given() {
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
fn a_child_that_says_nothing_at_all_is_replaced() {
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
fn noise_is_no_word() {
    let mut bench = Bench::open(&[]);
    bench.says("(node:1) a warning");
    bench.wait(Duration::from_secs(47));
    assert_eq!(bench.starts().len(), 2);
}

#[test]
fn a_child_that_spoke_may_think_for_long() {
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
fn silence_is_ours_while_we_do_not_read() {
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
fn the_whole_turn_has_its_time() {
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
