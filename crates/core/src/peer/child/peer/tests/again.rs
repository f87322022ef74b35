//! Answers that are not what the client asked for.

use super::*;

#[test]
fn repair_request_continues_the_conversation() {
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
fn repair_request_without_a_session_has_the_full_history() {
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
fn running_or_parked_turn_cannot_be_asked_again() {
    assert!(!Bench::open(&[]).turn.ask_again("Only JSON."));
    assert!(!parked(&["read"]).turn.ask_again("Only JSON."));
}

#[test]
fn repair_after_a_cut_answer_resends_the_history_if_there_is_one() {
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
