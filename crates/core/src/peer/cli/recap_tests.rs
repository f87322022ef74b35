use super::*;

/// What comes out of these events. `None` is the beginning of a tool call.
fn passed_on(events: &[Option<(&str, TextMark)>]) -> String {
    let mut filter = RecapFilter::default();
    let mut out = String::new();
    for event in events {
        match event {
            Some((text, mark)) => out.push_str(filter.pass(text, *mark)),
            None => filter.next_message(),
        }
    }
    assert_eq!(filter.any(), !out.is_empty());
    out
}

fn delta(text: &str) -> Option<(&str, TextMark)> {
    Some((text, TextMark::Delta))
}

fn flush(text: &str) -> Option<(&str, TextMark)> {
    Some((text, TextMark::Flush))
}

fn bare(text: &str) -> Option<(&str, TextMark)> {
    Some((text, TextMark::Bare))
}

#[test]
fn marks_decide_what_is_a_recap() {
    let events = [
        delta("no"),
        delta(" no"),
        delta(" no"),
        flush("no no no"),
        None,
        delta("no"),
        delta("no"),
        bare("nono"),
    ];
    assert_eq!(passed_on(&events), "no no nonono");
}

#[test]
fn last_recap_may_have_the_whole_answer() {
    assert_eq!(passed_on(&[delta("a"), flush("a"), None, delta("b"), bare("ab")]), "ab");
    assert_eq!(passed_on(&[delta("a"), flush("a"), None, bare("a")]), "a");
    assert_eq!(passed_on(&[delta("x"), None, delta("a"), flush("a"), None, None, bare("a")]), "xa");
    assert_eq!(
        passed_on(&[delta("x"), None, delta("a"), flush("a"), None, None, bare("xa")]),
        "xa"
    );
}

#[test]
fn recap_before_each_of_several_calls_is_dropped() {
    let events = [delta("a"), flush("a"), None, flush("a"), None, delta("a"), bare("a")];
    assert_eq!(passed_on(&events), "aa");
}

#[test]
fn recap_with_new_text_is_output() {
    assert_eq!(passed_on(&[delta("a"), flush("a"), None, bare("b")]), "ab");
    assert_eq!(passed_on(&[flush("a"), None, flush("b"), bare("b")]), "ab");
}

#[test]
fn unmarked_messages_are_complete_texts() {
    let twice = [bare("Let me see."), None, bare("Let me see."), None, bare("Let me see. Done.")];
    assert_eq!(passed_on(&twice), "Let me see.Let me see.Let me see. Done.");
    assert_eq!(passed_on(&[bare("a"), None, bare("b"), bare("ab")]), "ab");
}

#[test]
fn only_the_new_part_of_a_snapshot_is_output() {
    let events = [bare("no"), bare("no no"), bare("no no no"), bare("no no no")];
    assert_eq!(passed_on(&events), "no no no");
    let lines = [bare("\n"), bare("\n\n"), bare("\n\n\n"), bare("\n\n\n")];
    assert_eq!(passed_on(&lines), "\n\n\n");
}

#[test]
fn snapshots_may_continue_or_restart_after_a_tool_call() {
    let on = [bare("a"), bare("ab"), None, bare("ab"), bare("abc"), bare("abcd"), bare("abcd")];
    assert_eq!(passed_on(&on), "abcd");
    let anew = [bare("a"), bare("ab"), None, bare("x"), bare("xy"), bare("xy"), bare("abxy")];
    assert_eq!(passed_on(&anew), "abxy");
    let without_a_call = [bare("a"), bare("ab"), bare("x"), bare("xy")];
    assert_eq!(passed_on(&without_a_call), "abxy");
}

#[test]
fn unmarked_pieces_are_joined() {
    assert_eq!(
        passed_on(&[bare("He"), bare("llo"), bare("llo you"), bare("Hellollo you")]),
        "Hellollo you"
    );
}

#[test]
fn late_marks_still_decide() {
    assert_eq!(passed_on(&[bare("a"), None, delta("a"), delta("a"), bare("aa")]), "aaa");
}

#[test]
fn text_too_long_to_compare_is_not_stored() {
    let mut filter = RecapFilter::default();
    let half = "x".repeat(MAX_LINE / 2 + 1);
    assert_eq!(filter.pass(&half, TextMark::Bare), half);
    filter.next_message();
    assert_eq!(filter.pass(&half, TextMark::Bare), half);
    assert!(filter.said.is_empty() && filter.over);
    assert_eq!(filter.pass("more", TextMark::Bare), "more");
}
