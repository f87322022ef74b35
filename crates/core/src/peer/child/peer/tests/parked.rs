//! Waiting for the client: every way in which results come back or do not.

use super::*;

#[test]
fn ten_tool_calls_are_one_run() {
    let mut bench = Bench::open(&["read"]);
    let mut items = Vec::new();
    for n in 1..=10_u32 {
        bench.calls(n.into(), "read", &format!(r#"{{"n":{n}}}"#));
        bench.wait(Duration::from_secs(3600 * 24));
        assert_eq!(bench.turn.state(), TurnState::AwaitingTools, "call {n}");
        items.extend(answered(n, "read", &format!("result {n}")));
        assert!(bench.resume(&["read"], items.clone()), "call {n}");
    }
    finish(&mut bench, "done");
    assert_eq!(bench.starts().len(), 1);
    let results: Vec<_> = (1..=10).map(|n| (n, format!("result {n}"))).collect();
    assert_eq!(bench.results(), results);
}

#[test]
fn each_leg_of_a_run_has_its_own_tokens() {
    let mut bench = parked(&["read"]);
    assert_eq!(bench.turn.uncounted().prompt, ["read", "", "", "hi"]);
    bench.turn.note_usage(&Usage { input: 50, output: 9, ..Usage::default() });
    assert!(bench.resume(&["read"], answered(1, "read", "A").into()));
    bench.says("text done\nusage 20\nend");
    let usage = bench.events.iter().find_map(|event| match event {
        TurnEvent::Usage(usage) => Some(*usage),
        _ => None,
    });
    assert_eq!(usage.unwrap().output, 11, "the run was 20, and 9 were told");
}

#[test]
fn uncounted_leg_counts_its_new_input() {
    let mut bench = parked(&["read"]);
    bench.turn.note_usage(&Usage { input: 50, output: 9, ..Usage::default() });
    assert!(bench.resume(&["read"], answered(1, "read", "A").into()));
    finish(&mut bench, "done");
    let uncounted = bench.turn.uncounted();
    assert_eq!((uncounted.before, uncounted.prompt), (59, vec!["A".to_owned()]));
}

#[test]
fn missing_result_is_an_error_and_the_later_of_two_counts() {
    let mut bench = parked(&["read", "write"]);
    let [call, early] = answered(1, "read", "early");
    let items = vec![call, Item::ToolCall(made(2, "write")), early, result(1, "late")];
    assert!(bench.resume(&["read", "write"], items));
    let expected = "error: The client sent no result for this call.".to_owned();
    assert_eq!(bench.results(), [(1, "late".into()), (2, expected)]);
}

#[test]
fn user_message_is_appended_to_the_last_result() {
    let mut bench = parked(&["read", "write"]);
    let mut items = vec![Item::ToolCall(made(1, "read")), Item::ToolCall(made(2, "write"))];
    items.extend([result(2, "B"), result(1, "A"), user("hurry")]);
    assert!(bench.resume(&["read", "write"], items));
    let last = "B\n<user_message>\nhurry\n</user_message>".to_owned();
    assert_eq!(bench.results(), [(1, "A".into()), (2, last)]);
}

#[test]
fn long_result_is_cut_but_not_the_user_message_with_it() {
    let mut plan = plan(None);
    plan.result_bytes = 1000;
    let mut bench = Bench::closed(request(&["read"]), plan, Settings::default());
    bench.ready();
    bench.calls(1, "read", "{}");
    bench.wait(WINDOW);
    let mut items: Vec<Item> = answered(1, "read", &"x".repeat(50_000)).into();
    items.push(user("hurry"));
    assert!(bench.resume(&["read"], items));
    let (_, told) = bench.results().remove(0);
    assert!(told.len() < 1400, "{}", told.len());
    assert!(told.contains("the first 1000 of 50000 bytes"));
    assert!(told.ends_with("</user_message>"));
}

#[test]
fn request_that_does_not_match_the_parked_turn_is_refused() {
    let mut bench = parked(&["read"]);
    assert!(!bench.resume(&["read"], answered(7, "read", "other").into()));
    let mut other = request(&["read"]);
    other.tool_choice = ToolChoice::None;
    other.items.extend(answered(1, "read", "A"));
    assert!(!bench.resume_with(other), "it offers other tools");
    assert_eq!(bench.turn.state(), TurnState::AwaitingTools);
    assert!(bench.resume(&["read"], answered(1, "read", "A").into()));
}

#[test]
fn output_while_parked_belongs_to_the_next_leg() {
    let mut bench = parked(&["read"]);
    let seen = bench.events.len();
    bench.says("text meanwhile");
    bench.calls(2, "read", r#"{"n":2}"#);
    assert_eq!(bench.events.len(), seen);
    assert!(bench.resume(&["read"], answered(1, "read", "A").into()));
    assert_eq!(bench.text(), "meanwhile");
    assert_eq!(bench.begun().len(), 1);
    bench.wait(WINDOW);
    assert_eq!(bench.ending(), &CALLS);
}

#[test]
fn output_while_parked_is_limited() {
    let settings = Settings { parked_bytes: 10_000, ..Settings::default() };
    let mut bench = Bench::closed(request(&["read"]), plan(None), settings);
    bench.ready();
    bench.calls(1, "read", "{}");
    bench.wait(WINDOW);
    bench.says(&format!("text {}", "x".repeat(9_000)));
    assert_eq!(bench.turn.state(), TurnState::AwaitingTools);
    bench.says(&format!("text {}", "x".repeat(2_000)));
    assert_eq!(bench.turn.state(), TurnState::Done, "the history is told anew later");
    assert!(bench.cancelled());
    assert_eq!(bench.ending(), &CALLS, "the client has its ending");
}

#[test]
fn calls_while_parked_are_limited() {
    let settings = Settings { parked_bytes: 10_000, ..Settings::default() };
    let mut bench = Bench::closed(request(&["read"]), plan(None), settings);
    bench.ready();
    bench.calls(1, "read", "{}");
    bench.wait(WINDOW);
    bench.calls(2, "read", &format!(r#"{{"a":"{}"}}"#, "x".repeat(11_000)));
    assert_eq!(bench.turn.state(), TurnState::Done);
}

#[test]
fn parked_turn_of_a_lost_child_ends() {
    let lost: [fn(&mut Bench); 4] = [
        |bench| bench.exits(1),
        |bench| bench.says("end"),
        |bench| bench.says("fail retry"),
        |bench| {
            bench.turn.on_eof(bench.now);
            bench.drain();
        },
    ];
    for lose in lost {
        let mut bench = parked(&["read"]);
        lose(&mut bench);
        assert_eq!(bench.turn.state(), TurnState::Done);
        assert_eq!(bench.starts().len(), 1, "nobody waits for an answer now");
        assert!(!bench.resume(&["read"], answered(1, "read", "A").into()));
    }
}

#[test]
fn dropped_call_needs_a_rebuild() {
    let mut bench = parked(&["read"]);
    bench.hear(FromChild::Dropped(1));
    bench.says("text I go on without");
    assert_eq!(bench.turn.state(), TurnState::AwaitingTools);
    assert!(bench.turn.awaits(id(1).as_str()), "its result is still for this turn");
    assert_eq!(bench.turn.calls().len(), 1);
    assert!(!bench.resume(&["read"], answered(1, "read", "A").into()), "but not for this child");
}

#[test]
fn dropped_call_that_was_not_shown_is_forgotten() {
    let mut bench = parked(&["read"]);
    bench.calls(2, "read", r#"{"n":2}"#);
    bench.hear(FromChild::Dropped(2));
    assert!(bench.resume(&["read"], answered(1, "read", "A").into()));
    assert!(bench.begun().is_empty());
    finish(&mut bench, "done");
}

#[test]
fn results_without_history_resume_the_stored_session() {
    let mut bare = request(&["read"]);
    bare.items = vec![result(1, "A")];
    let bench = Bench::run(bare, Some(kept("s1", 0, vec![made(1, "read")])));
    let prompt = &bench.prompts()[0];
    assert!(prompt.starts_with("[s1] <conversation>\n<tool_call id="), "{prompt}");
    assert!(prompt.contains(">A</tool_result>"), "{prompt}");
}

#[test]
fn parked_turn_uses_little_memory() {
    let mut request = request(&["read"]);
    request.items = vec![user(&"x".repeat(1 << 20))];
    let mut bench = Bench::run(request, None);
    bench.calls(1, "read", "{}");
    bench.wait(WINDOW);
    assert!(bench.turn.memory() > 1 << 20);
    bench.turn.note_usage(&Usage::default());
    assert!(bench.turn.memory() < 8 << 10, "{}", bench.turn.memory());
}

#[test]
fn cancelling_a_parked_turn_stops_its_child() {
    let mut bench = parked(&["read"]);
    bench.turn.cancel();
    bench.drain();
    assert_eq!(bench.turn.state(), TurnState::Done);
    assert!(bench.cancelled());
    assert_eq!(bench.ending(), &CALLS);
}
