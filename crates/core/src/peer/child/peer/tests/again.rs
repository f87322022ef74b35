//! Answers that are not what the client asked for.

use super::*;

#[test]
fn an_answer_is_asked_for_again_in_the_same_conversation() {
    let mut bench = Bench::open(&[]);
    bench.says("session s1\ntext no json\nend");
    assert!(bench.turn.ask_again("Only JSON."));
    bench.next_leg();
    bench.drain();
    assert_eq!(bench.starts()[1].resume.as_deref(), Some("s1"));
    bench.ready();
    assert_eq!(bench.prompts()[1], "[s1] Only JSON.");
    finish(&mut bench, "{}");
    assert_eq!(bench.text(), "{}");
}

#[test]
fn without_a_name_everything_is_told() {
    let mut bench = Bench::open(&[]);
    finish(&mut bench, "no json");
    assert!(bench.turn.ask_again("Only JSON."));
    bench.next_leg();
    bench.drain();
    bench.ready();
    let told = "<conversation>\n<user>\nhi\n</user>\n<assistant>\nno json\n</assistant>\n\
                </conversation>\n\nOnly JSON.";
    assert_eq!(bench.prompts()[1], told);
}

#[test]
fn a_turn_that_runs_or_waits_is_not_asked_again() {
    assert!(!Bench::open(&[]).turn.ask_again("Only JSON."));
    assert!(!parked(&["read"]).turn.ask_again("Only JSON."));
}

#[test]
fn an_answer_that_was_shown_otherwise_is_told_anew_by_those_who_can() {
    for (bare, name) in [(true, true), (false, false)] {
        let mut request = request(&[]);
        if !bare {
            request.items.extend([assistant("hello"), user("and?")]);
        }
        let mut bench = Bench::run(request, None);
        bench.says("session s1\ntext a\nend");
        bench.turn.show_only(None);
        assert_eq!(bench.turn.checkpoint().is_some(), name, "bare: {bare}");
        assert!(!bench.turn.is_cut());
    }
}
