//! `tool_choice`.

use super::*;

fn with(choice: ToolChoice) -> TurnRequest {
    TurnRequest { tool_choice: choice, ..request(&["read", "write"]) }
}

#[test]
fn required_call_is_requested_once_more() {
    let mut bench = Bench::run(with(ToolChoice::Required), None);
    bench.says("session s1\ntext I would rather talk.\nend");
    assert_eq!(bench.text(), "", "it is held back");
    assert_eq!(bench.released(), 1, "the child ended in order");
    assert_eq!(bench.starts()[1].resume.as_deref(), Some("s1"));
    bench.ready();
    assert_eq!(bench.prompts()[1], "[s1] Call the tool now. Do not answer with text.");
    bench.calls(1, "read", "{}");
    bench.wait(WINDOW);
    assert_eq!((bench.ending(), bench.text().as_str()), (&CALLS, ""));
}

#[test]
fn missing_required_call_is_an_error() {
    let mut bench = Bench::run(with(ToolChoice::Required), None);
    bench.says("text no\nend");
    bench.ready();
    let told = &bench.prompts()[1];
    assert!(told.contains("<user>\nhi\n</user>"), "without a name everything is told: {told}");
    bench.says("text no\nend");
    assert_eq!(bench.failure(), ErrorCode::ToolChoiceUnmet);
}

#[test]
fn text_before_a_required_call_is_held_back_until_it() {
    let mut bench = Bench::run(with(ToolChoice::Required), None);
    bench.says("text I look.");
    assert_eq!(bench.text(), "");
    bench.calls(1, "read", "{}");
    assert_eq!(bench.text(), "I look.");
}

#[test]
fn only_the_named_tool_is_hosted() {
    let mut bench = Bench::run(with(ToolChoice::Named("write".into())), None);
    let names: Vec<_> = bench.starts()[0].tools.iter().map(|tool| tool.name.clone()).collect();
    assert_eq!(names, ["write"]);
    bench.calls(1, "read", "{}");
    assert_eq!(bench.results().len(), 1, "others are refused");
    bench.calls(2, "write", "{}");
    bench.wait(WINDOW);
    assert_eq!(bench.ending(), &CALLS);
}

#[test]
fn no_tools_are_hosted_for_tool_choice_none() {
    let mut bench = Bench::run(with(ToolChoice::None), None);
    assert!(bench.starts()[0].tools.is_empty());
    assert_eq!(bench.prompts(), ["hi"], "and none is spoken of");
    finish(&mut bench, "done");
}
