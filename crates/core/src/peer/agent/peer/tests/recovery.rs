//! Another try, by how far the turn got.

use std::collections::HashSet;

use super::*;
use crate::retry::Backoff;

#[test]
fn before_the_first_message_it_tries_again_with_back_off() {
    let unavailable = LinkError::Status { status: 503, error: None, retry_after: None };
    for error in [LinkError::Connect("refused".into()), LinkError::ConnectTimeout, unavailable] {
        let mut bench = Bench::closed(&[]);
        for attempt in 1..=3 {
            bench.broke(&error);
            assert_eq!(bench.opens(), attempt, "waits first");
            bench.wait(Duration::from_secs(10));
            assert_eq!(bench.opens(), attempt + 1);
        }
        bench.broke(&error);
        assert!(matches!(bench.ending(), TurnEvent::Failed(_)), "{error:?}");
        assert_eq!(bench.events.len(), 1);
    }
    let ids: Vec<_> = {
        let mut bench = Bench::closed(&[]);
        bench.broke(&LinkError::ConnectTimeout);
        bench.wait(Duration::from_secs(10));
        let opens = bench.commands.into_iter().filter_map(|command| match command {
            Command::Open(spec) => Some(spec),
            _ => None,
        });
        opens.collect()
    };
    assert_ne!(ids[0].request_id, ids[1].request_id);
    assert_eq!(ids[0].original_request_id, ids[1].original_request_id);
}

/// What the backend asks for before it answers is nothing that the client sees.
#[test]
fn a_temporary_failure_is_retried_after_the_backend_asked_for_its_context() {
    for lost in LOST {
        let mut bench = Bench::open(&[]);
        for attempt in 1..=3 {
            bench.say(exec(1, Ask::RequestContextArgs(RequestContextArgs::default())));
            bench.say(set_blob("a blob of this run"));
            lost(&mut bench);
            assert_eq!(bench.opens(), attempt, "waits first");
            bench.wait(Duration::from_secs(10));
            assert_eq!(bench.opens(), attempt + 1);
            bench.opened();
        }
        let sent = bench.sent();
        let mut runs: Vec<_> = sent
            .into_iter()
            .filter_map(|message| match message {
                ToServer::RunRequest(run) => Some(run),
                _ => None,
            })
            .collect();
        assert_eq!(runs.len(), 4);
        let ids: HashSet<_> = runs.iter_mut().map(|run| run.run_id.take()).collect();
        assert_eq!(ids.len(), 4, "each run has its own id");
        assert!(runs.windows(2).all(|pair| pair[0] == pair[1]), "each run starts the same");
        finish(&mut bench, "whole");
        assert_eq!(bench.said(), "whole");
    }
    for lost in LOST {
        let mut bench = Bench::open(&[]);
        for _ in 0..4 {
            bench.update(heartbeat());
            lost(&mut bench);
            bench.wait(Duration::from_secs(10));
            bench.opened();
        }
        assert_eq!(bench.opens(), 4, "three retries and no more");
        assert!(matches!(bench.ending(), TurnEvent::Failed(_)));
    }
}

#[test]
fn nothing_is_retried_once_the_client_saw_text_or_a_call() {
    for lost in LOST {
        let mut bench = Bench::open(&[]);
        bench.text("visible");
        lost(&mut bench);
        bench.wait(Duration::from_secs(10));
        assert_eq!(bench.opens(), 1);
        assert!(matches!(bench.ending(), TurnEvent::Failed(_)));

        let mut bench = parked(&["bash"]);
        lost(&mut bench);
        bench.wait(Duration::from_secs(10));
        assert_eq!(bench.opens(), 1);
        assert_eq!(bench.ending(), &CALLS);
    }
}

#[test]
fn what_cannot_get_better_is_not_tried_again() {
    for (status, code) in [
        (402, ErrorCode::PlanRequired),
        (403, ErrorCode::PolicyDenied),
        (429, ErrorCode::RateLimited),
    ] {
        let mut bench = Bench::closed(&[]);
        bench.broke(&LinkError::Status { status, error: None, retry_after: None });
        assert_eq!(bench.failure(), code);
        assert_eq!(bench.opens(), 1);
    }
}

#[test]
fn a_refused_token_is_replaced_once() {
    type Script = fn(&mut Bench);
    let scripts: [(&str, Script); 3] = [
        ("refused call", |b| {
            b.broke(&LinkError::Status { status: 401, error: None, retry_after: None });
        }),
        ("end frame", |b| b.end(Some(&ConnectError::new(Code::Unauthenticated, "who?")))),
        ("refused with words", |b| {
            let error = Some(ConnectError::new(Code::Unauthenticated, "expired"));
            b.broke(&LinkError::Status { status: 401, error, retry_after: None });
        }),
    ];
    for (name, script) in scripts {
        let mut bench = Bench::open(&[]);
        script(&mut bench);
        let asked: Vec<bool> = bench
            .commands
            .iter()
            .filter_map(|command| match command {
                Command::Open(spec) => Some(spec.fresh_token),
                _ => None,
            })
            .collect();
        assert_eq!(asked, [false, true], "{name}");
        assert!(bench.events.is_empty(), "{name}");
        bench.opened();
        script(&mut bench);
        assert_eq!(bench.opens(), 2, "{name}");
        assert_eq!(bench.failure(), ErrorCode::NotAuthenticated, "{name}");
    }
}

#[test]
fn a_token_refused_half_way_is_not_replaced() {
    let mut bench = Bench::open(&[]);
    bench.update(heartbeat());
    bench.end(Some(&ConnectError::new(Code::Unauthenticated, "expired")));
    assert_eq!(bench.opens(), 1, "the model may have been asked");
    assert_eq!(bench.failure(), ErrorCode::NotAuthenticated);
}

#[test]
fn a_resume_gets_another_token_too() {
    let mut bench = Bench::open(&[]);
    bench.text("one ");
    bench.say(checkpoint());
    bench.broke(&reset());
    bench.opened();
    bench.broke(&LinkError::Status { status: 401, error: None, retry_after: None });
    assert_eq!(bench.opens(), 3);
    bench.opened();
    let sent = bench.sent();
    let Some(ToServer::RunRequest(run)) = sent.last() else { panic!() };
    let action = run.action.as_ref().and_then(|a| a.action.as_ref());
    assert!(matches!(action, Some(conversation_action::Action::ResumeAction(_))));
    bench.text("two");
    bench.end(None);
    assert_eq!(bench.said(), "one two");
}

#[test]
fn a_stuck_or_broken_conversation_is_renewed_once() {
    type Script = fn(&mut Bench);
    let scripts: [(&str, Script); 4] = [
        ("stuck", |b| b.end(Some(&ConnectError::new(Code::ResourceExhausted, "")))),
        ("missing blob", |b| b.end(Some(&ConnectError::new(Code::Internal, "Blob not found")))),
        ("empty turn", |b| {
            b.update(ended());
            b.end(None);
        }),
        ("empty end", |b| b.end(None)),
    ];
    for (name, script) in scripts {
        let mut bench = Bench::open(&[]);
        bench.say(checkpoint());
        script(&mut bench);
        assert_eq!(bench.opens(), 2, "{name}");
        bench.opened();
        let runs: Vec<_> = bench
            .sent()
            .into_iter()
            .filter_map(|message| match message {
                ToServer::RunRequest(run) => run.conversation_id,
                _ => None,
            })
            .collect();
        assert_eq!(runs.len(), 2, "{name}");
        assert_ne!(runs[0], runs[1], "{name}");
        script(&mut bench);
        assert!(matches!(bench.ending(), TurnEvent::Failed(_)), "{name}");
        assert_eq!(bench.opens(), 2, "{name}");
    }
}

/// Quota and context are final, however the backend codes them.
#[test]
fn an_exhausted_quota_or_context_is_not_retried() {
    for (words, code) in [
        ("You have hit your usage limit", ErrorCode::InsufficientQuota),
        ("Quota exceeded for this month", ErrorCode::InsufficientQuota),
        ("Your prompt is too long", ErrorCode::ContextTooLong),
        ("The request has too many tokens", ErrorCode::ContextTooLong),
    ] {
        let mut bench = Bench::open(&[]);
        bench.end(Some(&ConnectError::new(Code::ResourceExhausted, words)));
        bench.wait(Duration::from_secs(10));
        assert_eq!((bench.failure(), bench.opens()), (code, 1), "{words}");
    }
}

/// Each remedy is allowed once, but all of them together stay within one limit.
#[test]
fn all_attempts_of_a_leg_are_at_most_five_runs() {
    let mut bench = Bench::open(&[]);
    bench.broke(&LinkError::Status { status: 401, error: None, retry_after: None });
    bench.opened();
    bench.update(ended());
    bench.end(None);
    assert_eq!(bench.opens(), 3, "another token, then a fresh conversation");
    bench.opened();
    for _ in 0..5 {
        bench.update(heartbeat());
        bench.broke(&reset());
        bench.wait(Duration::from_secs(10));
        bench.opened();
    }
    assert_eq!(bench.opens(), 5);
    assert_eq!(bench.failure(), ErrorCode::UpstreamClosed);
}

#[test]
fn once_the_client_saw_text_nothing_starts_over() {
    let mut bench = Bench::open(&[]);
    bench.text("visible");
    bench.end(Some(&ConnectError::new(Code::Internal, "Blob not found")));
    assert_eq!(bench.opens(), 1);
    assert_eq!(bench.failure(), ErrorCode::UpstreamError);
}

#[test]
fn a_lost_stream_is_resumed_once_from_the_newest_checkpoint() {
    let mut bench = Bench::open(&[]);
    bench.text("one ");
    bench.say(checkpoint());
    // A checkpoint with a field that our schema does not have: { 99: 7 }.
    let raw = [0x98, 0x06, 0x07];
    let mut message = vec![0x1a, 0x03];
    message.extend_from_slice(&raw);
    bench.bytes(connect::frame(0, &message));
    bench.broke(&reset());
    assert_eq!(bench.opens(), 2);
    bench.opened();
    let Some(Command::Send(frame)) = bench.commands.last() else { panic!() };
    assert!(
        frame.windows(5).any(|window| window == [0x0a, 0x03, 0x98, 0x06, 0x07]),
        "the checkpoint goes back byte for byte"
    );
    let sent = bench.sent();
    let Some(ToServer::RunRequest(run)) = sent.last() else { panic!() };
    assert_eq!(run.conversation_id.as_deref(), Some("conv"));
    let action = run.action.as_ref().and_then(|a| a.action.as_ref());
    assert!(matches!(action, Some(conversation_action::Action::ResumeAction(_))));
    bench.text("two");
    bench.broke(&reset());
    assert_eq!(bench.opens(), 2, "only once");
    assert_eq!(bench.failure(), ErrorCode::UpstreamClosed);
    assert_eq!(bench.said(), "one two");
}

#[test]
fn text_beyond_the_checkpoint_would_come_twice_so_nothing_is_resumed() {
    let mut bench = Bench::open(&[]);
    bench.text("one ");
    bench.say(checkpoint());
    bench.text("two ");
    bench.broke(&reset());
    assert_eq!(bench.opens(), 1);
    assert_eq!(bench.failure(), ErrorCode::UpstreamClosed);
}

#[test]
fn a_resume_that_brings_nothing_is_no_clean_stop() {
    let mut bench = Bench::open(&[]);
    bench.text("half an ans");
    bench.say(checkpoint());
    bench.broke(&LinkError::Reset("INTERNAL_ERROR".into()));
    // The HTTP/1.1 way is tried again when it is refused, not given up for HTTP/2.
    bench.broke(&LinkError::Refused("busy".into()));
    bench.wait(Duration::from_secs(10));
    let preferred: Vec<bool> = bench
        .commands
        .iter()
        .filter_map(|command| match command {
            Command::Open(spec) => Some(spec.peer.prefer_h1),
            _ => None,
        })
        .collect();
    assert_eq!(preferred, [false, true, true]);
    bench.opened();
    bench.update(heartbeat());
    bench.update(ended());
    bench.end(None);
    assert_eq!(bench.failure(), ErrorCode::UpstreamClosed);
}

#[test]
fn a_resume_that_finds_a_dead_connection_is_tried_again() {
    let mut bench = Bench::open(&[]);
    bench.text("one ");
    bench.say(checkpoint());
    bench.broke(&reset());
    bench.broke(&LinkError::Refused("connection is closing".into()));
    bench.wait(Duration::from_secs(10));
    assert_eq!(bench.opens(), 3);
    bench.opened();
    bench.text("two");
    bench.end(None);
    assert_eq!(bench.said(), "one two");
}

#[test]
fn an_internal_reset_is_resumed_over_http1() {
    let mut bench = Bench::open(&[]);
    bench.say(checkpoint());
    bench.broke(&LinkError::Reset("stream reset: INTERNAL_ERROR".into()));
    let open = bench.commands.iter().rev().find_map(|command| match command {
        Command::Open(spec) => Some(spec),
        _ => None,
    });
    assert!(open.unwrap().peer.prefer_h1);
}

#[test]
fn cancel_tells_the_backend_and_ends_the_turn() {
    let mut bench = Bench::open(&[]);
    bench.text("x");
    bench.turn.cancel();
    bench.drain();
    assert_eq!(bench.failure(), ErrorCode::Cancelled);
    let Some(Command::Send(frame)) = bench.commands.iter().rev().nth(1) else { panic!() };
    assert_eq!(&frame[5..], [0x22, 0x02, 0x1a, 0x00]);
    assert!(matches!(bench.commands.last(), Some(Command::Close { cancel: true })));
    bench.text("too late");
    bench.turn.cancel();
    bench.drain();
    assert_eq!(bench.said(), "x");
}

#[test]
fn a_silent_backend_is_unreachable_only_if_nothing_came_on_the_stream() {
    for heard in [false, true] {
        let settings = Settings { backoff: Backoff::NEVER, ..Settings::default() };
        let mut bench = Bench::of(request(&[]), settings);
        bench.opened();
        if heard {
            bench.update(heartbeat());
        }
        bench.wait(Duration::from_secs(46));
        let TurnEvent::Failed(error) = bench.ending() else { panic!("{:?}", bench.events) };
        assert_eq!((error.code, error.unreachable), (ErrorCode::Timeout, !heard));
    }
}

/// The stream before it had ended in order, which says nothing about this one.
#[test]
fn failure_to_open_a_second_stream_is_retried() {
    let mut bench = Bench::open(&[]);
    bench.update(ended());
    bench.end(None);
    assert_eq!(bench.opens(), 2, "an empty answer is asked for under a fresh id");
    bench.broke(&LinkError::ConnectTimeout);
    assert!(matches!(bench.turn.state(), TurnState::Backoff { .. }), "{:?}", bench.turn.state());
    bench.wait(Duration::from_secs(8));
    bench.opened();
    finish(&mut bench, "at last");
    assert_eq!(bench.said(), "at last");
}
