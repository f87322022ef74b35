//! Answers without tools: their events, their tokens, what is kept of them.

use super::*;

#[test]
fn answer_is_streamed_and_the_child_released() {
    let mut bench = Bench::closed(request(&[]), plan(None), Settings::default());
    assert_eq!(bench.turn.state(), TurnState::Opening);
    let start = bench.starts()[0].clone();
    assert_eq!((start.model.as_str(), start.resume, start.tools.len()), ("auto", None, 0));
    bench.ready();
    assert_eq!(bench.prompts(), ["hi"]);
    assert_eq!(bench.turn.state(), TurnState::Streaming);
    bench.says("session s1\nthought hm\ntext Hel\ntext lo\nusage 7\nend");
    let usage = Usage { input: 100, output: 7, source: UsageSource::Backend, ..Usage::default() };
    assert_eq!(
        bench.events,
        [
            TurnEvent::Started,
            TurnEvent::Reasoning("hm".into()),
            TurnEvent::Text("Hel".into()),
            TurnEvent::Text("lo".into()),
            TurnEvent::Usage(usage),
            STOP,
        ]
    );
    assert_eq!(bench.turn.state(), TurnState::Done);
    assert_eq!(bench.released(), 1);
    assert!(matches!(bench.commands.last(), Some(Command::Close { cancel: false })));
    assert_eq!(bench.turn.checkpoint().unwrap(), br#"{"v":1,"session":"s1"}"#[..]);
    assert_eq!(bench.turn.conversation_id(), "conv");
}

#[test]
fn own_tool_calls_of_the_child_are_reasoning() {
    let mut bench = Bench::open(&[]);
    bench.says("thought I look\ndid read a.rs\ndid ran ls\nthought so\ntext Done.\nend");
    assert_eq!(bench.thoughts(), "I look\nread a.rs\nran ls\nso");
    assert_eq!(bench.text(), "Done.");
    assert!(bench.begun().is_empty());
}

#[test]
fn answer_can_end_with_length() {
    let mut bench = Bench::open(&[]);
    bench.says("text so far\nlength");
    assert_eq!(bench.ending(), &TurnEvent::Finished(FinishReason::Length));
}

#[test]
fn stored_session_is_continued() {
    let mut request = request(&[]);
    request.items.extend([assistant("hello"), user("and?")]);
    let mut bench = Bench::run(request, Some(kept("s1", 2, Vec::new())));
    assert_eq!(bench.starts()[0].resume.as_deref(), Some("s1"));
    assert_eq!(bench.prompts(), ["[s1] and?"]);
    finish(&mut bench, "more");
    assert!(bench.turn.checkpoint().is_some(), "it still has its name");
}

#[test]
fn checkpoint_of_another_backend_is_ignored() {
    let mut request = request(&[]);
    request.items.extend([assistant("hello"), user("and?")]);
    for checkpoint in ["\n\u{2}protobuf", r#"{"v":2,"session":"s"}"#, r#"{"v":1,"session":""}"#] {
        let mut kept = kept("s1", 2, Vec::new());
        kept.checkpoint = checkpoint.into();
        let bench = Bench::run(request.clone(), Some(kept));
        assert_eq!(bench.starts()[0].resume, None);
        assert!(bench.prompts()[0].contains("<assistant>\nhello"), "everything is told");
    }
}

#[test]
fn child_gets_workspace_and_tools() {
    let mut request = request(&["read", "write"]);
    request.hints.workspace = Some("/src".into());
    let bench = Bench::closed(request, plan(None), Settings::default());
    let start = bench.starts()[0];
    assert_eq!(start.workspace.as_deref(), Some("/src"));
    let names: Vec<&str> = start.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["read", "write"]);
}

#[test]
fn answer_without_usage_is_counted_locally() {
    let mut bench = Bench::open(&[]);
    finish(&mut bench, "four words in all");
    assert!(!bench.events.iter().any(|event| matches!(event, TurnEvent::Usage(_))));
    let uncounted = bench.turn.uncounted();
    assert_eq!(uncounted.prompt, ["hi"]);
    assert_eq!((uncounted.answer.as_str(), uncounted.before), ("four words in all", 0));
}

#[test]
fn reported_usage_gives_a_calibration_sample() {
    let mut bench = Bench::open(&[]);
    finish(&mut bench, "so many words");
    let told = |source| Usage { output: 3, source, ..Usage::default() };
    let sample = bench.turn.sample(&told(UsageSource::Backend)).unwrap();
    assert_eq!((sample.text.as_str(), sample.reported), ("so many words", 3));
    assert_eq!(bench.turn.sample(&told(UsageSource::Estimate)), None);
}

#[test]
fn unknown_messages_are_counted_over_all_runs() {
    let mut bench = Bench::open(&[]);
    bench.says("gibberish\nfail retry");
    bench.wait(Duration::from_secs(1));
    bench.ready();
    bench.says("babble\nprattle");
    assert_eq!(bench.turn.drift().unknown_arms, 3);
    finish(&mut bench, "ok");
    assert_eq!(bench.turn.drift().unknown_arms, 3);
}

#[test]
fn cancelled_turn_stops_the_child() {
    let mut bench = Bench::open(&[]);
    bench.says("text half");
    bench.turn.cancel();
    bench.drain();
    assert_eq!(bench.failure(), ErrorCode::Cancelled);
    assert!(bench.cancelled());
    assert!(matches!(bench.told().last(), Some(ToChild::Input(word)) if word == "cancel"));
    assert_eq!(bench.released(), 0);
    bench.says("text more\nend");
    assert_eq!(bench.failure(), ErrorCode::Cancelled, "nothing comes after the ending");
}

#[test]
fn cut_answer_leaves_no_checkpoint() {
    let mut bench = Bench::open(&[]);
    bench.says("session s1\ntext one two\ntext  three");
    bench.turn.cut(Some("one".into()));
    bench.drain();
    assert!(bench.turn.is_cut() && bench.cancelled());
    assert_eq!(bench.turn.state(), TurnState::Done);
    assert_eq!(bench.turn.checkpoint(), None);
    assert_eq!(bench.turn.uncounted().answer, "one");
}

/// A client that names its conversation may send only what is new.
#[test]
fn interrupted_answer_of_a_named_conversation_is_continued_as_it_was_seen() {
    let named = |text: &str| {
        let mut request = request(&[]);
        request.items = vec![user(text)];
        request.hints.session = Some("notes".into());
        request
    };
    for known in [None, Some("s0")] {
        let mut bench = Bench::run(named("Count."), known.map(|name| kept(name, 0, Vec::new())));
        bench.says("session s1\ntext one two\ntext  three");
        bench.turn.cut(Some("one two".into()));
        bench.drain();
        let checkpoint = bench.turn.checkpoint().unwrap();
        let state = StoredState { checkpoint, ..kept("", 0, Vec::new()) };
        let mut next = Bench::run(named("And then?"), Some(state));
        let prompt = next.prompts().pop().unwrap();
        assert_eq!(prompt.starts_with("[s0]"), known.is_some(), "what came before it: {prompt}");
        let (asked, seen) = (prompt.find("Count.").unwrap(), prompt.find("one two").unwrap());
        assert!(asked < seen && seen < prompt.find("And then?").unwrap(), "{prompt}");
        assert!(!prompt.contains("three"), "{prompt}");
        // It is interrupted as well: nothing is forgotten.
        next.turn.cut(Some("four".into()));
        next.drain();
        let checkpoint = next.turn.checkpoint().unwrap();
        let text = String::from_utf8(checkpoint.to_vec()).unwrap();
        for part in ["Count.", "one two", "And then?", "four"] {
            assert_eq!(text.matches(part).count(), 1, "{part}: {text}");
        }
    }
}
