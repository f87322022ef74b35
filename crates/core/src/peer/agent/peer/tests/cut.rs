//! Answers that end before the backend thinks so, and answers in place of others.

use super::*;
use crate::model::Sampling;

fn limited(request: TurnRequest) -> TurnRequest {
    TurnRequest { sampling: Sampling { max_tokens: Some(1), ..Sampling::default() }, ..request }
}

/// Every text that is in the blobs of the turn since the last look.
fn stored(bench: &mut Bench) -> String {
    let blobs = bench.turn.take_new_blobs().into_iter().map(|(_, data)| data);
    blobs.map(|data| String::from_utf8_lossy(&data).into_owned()).collect()
}

fn cancels(bench: &Bench) -> usize {
    let is_cancel = |message: &&ToServer| match message {
        ToServer::ConversationAction(action) => {
            matches!(action.action, Some(conversation_action::Action::CancelAction(_)))
        }
        _ => false,
    };
    bench.sent().iter().filter(is_cancel).count()
}

#[test]
fn cut_cancels_the_run_and_ends_the_output() {
    let mut bench = Bench::of(limited(request(&[])), Settings::default());
    bench.opened();
    bench.text("one two three");
    bench.update(Update::TokenDelta(TokenDeltaUpdate { tokens: 3 }));
    bench.say(checkpoint());
    let counted = bench.turn.cut(Some("one".to_owned())).expect("the backend counted");
    assert_eq!((counted.output, counted.source), (3, UsageSource::BackendPartial));
    let seen = bench.events.len();
    bench.drain();
    assert_eq!((cancels(&bench), bench.turn.state()), (1, TurnState::Done));
    assert!(matches!(bench.commands.last(), Some(Command::Close { cancel: true })));
    bench.text(" four");
    assert!(bench.turn.is_cut() && bench.events.len() == seen, "nobody listens");
    // A client without a history relies on us to know what it saw.
    stored(&mut bench);
    assert!(bench.turn.checkpoint().is_some());
    let state = stored(&mut bench);
    assert!(state.contains("one") && !state.contains("two"), "{state}");
}

/// The counters of the backend come behind what they count.
#[test]
fn text_that_the_client_saw_can_be_counted() {
    let mut bench = Bench::of(limited(request(&[])), Settings::default());
    bench.opened();
    bench.update(Update::ThinkingDelta(ThinkingDeltaUpdate {
        text: "hm, well".into(),
        ..ThinkingDeltaUpdate::default()
    }));
    bench.text("one two three");
    bench.update(Update::TokenDelta(TokenDeltaUpdate { tokens: 3 }));
    let running = bench.turn.cut(Some("one two".to_owned())).expect("the backend counted");
    assert_eq!((running.input, running.output), (0, 3), "it did not report the prompt");
    let uncounted = bench.turn.uncounted();
    assert_eq!((uncounted.answer.as_str(), uncounted.output), ("one two", None));
    assert_eq!(uncounted.thoughts, "hm, well");
    assert!(!uncounted.prompt.is_empty());
    let seen = Usage { input: 9, output: 5, reasoning: 3, ..Usage::default() };
    let whole = running.at_least(seen);
    assert_eq!((whole.input, whole.output, whole.reasoning), (9, 5, 3));
    let ahead = Usage { output: 7, ..running }.at_least(seen);
    assert_eq!((ahead.output, ahead.source), (7, UsageSource::BackendPartial));
}

#[test]
fn checkpoint_beyond_what_the_client_saw_is_dropped() {
    let mut asked = limited(request(&[]));
    asked.items = vec![user("hi"), said("ho"), user("and?")];
    let mut bench = Bench::of(asked, Settings::default());
    bench.opened();
    bench.text("one two three");
    bench.say(checkpoint());
    assert!(bench.turn.checkpoint().is_some());
    bench.turn.cut(Some("one".to_owned()));
    assert_eq!(bench.turn.checkpoint(), None, "it has more than the client saw");
}

#[test]
fn finished_turn_can_be_cut() {
    let mut bench = Bench::open(&[]);
    bench.turn.on_message(
        connect::encode(&AgentServerMessage {
            message: Some(updated(Update::TextDelta(TextDeltaUpdate {
                text: "one".into(),
                ..TextDeltaUpdate::default()
            }))),
            ..AgentServerMessage::default()
        }),
        bench.now,
    );
    let over =
        AgentServerMessage { message: Some(updated(ended())), ..AgentServerMessage::default() };
    bench.turn.on_message(connect::encode(&over), bench.now);
    bench.turn.on_message(connect::end_frame(None), bench.now);
    let counted = bench.turn.cut(None).unwrap();
    assert_eq!((counted.output, counted.source), (20, UsageSource::Backend));
    assert_eq!(bench.turn.poll_event(), None);
    bench.drain();
    assert_eq!(cancels(&bench), 0);
}

#[test]
fn calls_after_a_cut_are_dropped() {
    let mut bench = Bench::open(&["read"]);
    bench.turn.on_message(
        connect::encode(&AgentServerMessage {
            message: Some(updated(Update::TextDelta(TextDeltaUpdate {
                text: "one".into(),
                ..TextDeltaUpdate::default()
            }))),
            ..AgentServerMessage::default()
        }),
        bench.now,
    );
    let asked = AgentServerMessage {
        message: Some(call(1, "read", "{}")),
        ..AgentServerMessage::default()
    };
    bench.turn.on_message(connect::encode(&asked), bench.now);
    bench.turn.on_timeout(bench.now + WINDOW);
    assert_eq!(bench.turn.state(), TurnState::AwaitingTools);
    bench.turn.cut(Some("on".to_owned()));
    bench.drain();
    assert_eq!((bench.turn.state(), bench.turn.calls().len()), (TurnState::Done, 0));
    assert_eq!((cancels(&bench), bench.events.len()), (1, 0));
}

#[test]
fn finished_answer_can_be_requested_again() {
    for past in [false, true] {
        let mut asked = request(&[]);
        if past {
            asked.items = vec![user("hi"), said("ho"), user("and?")];
        }
        let mut bench = Bench::of(asked, Settings::default());
        bench.opened();
        finish(&mut bench, "wrong");
        assert!(bench.turn.ask_again("Once more, please."));
        bench.guard = TerminalGuard::default();
        bench.events.clear();
        bench.drain();
        bench.opened();
        assert_eq!(bench.opens(), 2);
        let runs = bench.sent().into_iter().filter_map(|message| match message {
            ToServer::RunRequest(run) => Some(run),
            _ => None,
        });
        let second = runs.last().unwrap();
        assert!(format!("{:?}", second.action).contains("Once more, please."));
        assert!(stored(&mut bench).contains("wrong"), "the model sees what it said");
        finish(&mut bench, "right");
        assert_eq!(bench.said(), "right");
        // The client saw nothing of the first one.
        bench.turn.show_only(Some("right".to_owned()));
        assert!(!bench.turn.is_cut());
        stored(&mut bench);
        assert_eq!(bench.turn.checkpoint().is_some(), !past);
        let state = stored(&mut bench);
        assert!(!state.contains("wrong") && state.contains("right") != past, "{state}");
    }
}

#[test]
fn running_answer_cannot_be_requested_again() {
    let mut bench = Bench::open(&[]);
    bench.text("one");
    assert!(!bench.turn.ask_again("Once more."));
    finish(&mut bench, " two");
    assert_eq!(bench.opens(), 1);
}

#[test]
fn later_leg_is_cut_back_to_its_own_start() {
    let mut bench = parked(&["read"]);
    let mut next = limited(request(&["read"]));
    next.items = vec![result(1, "the content")];
    assert!(bench.resume_with(next));
    bench.text("one two");
    bench.say(checkpoint());
    bench.turn.cut(Some("one".to_owned()));
    stored(&mut bench);
    assert!(bench.turn.checkpoint().is_some());
    let state = stored(&mut bench);
    assert!(
        state.contains("the content") && state.contains("one") && !state.contains("two"),
        "{state}"
    );
}
