//! `tool_choice` and `parallel_tool_calls`.

use super::*;

fn with(change: impl FnOnce(&mut TurnRequest)) -> Bench {
    let mut request = request(&["read", "bash"]);
    change(&mut request);
    let mut bench = Bench::of(request, Settings::default());
    bench.opened();
    bench
}

fn run(bench: &Bench, nth: usize) -> ibeam_proto::agent::AgentRunRequest {
    let runs = bench.sent().into_iter().filter_map(|message| match message {
        ToServer::RunRequest(run) => Some(run),
        _ => None,
    });
    runs.into_iter().nth(nth).expect("no such run")
}

fn offered(bench: &Bench) -> Vec<String> {
    let tools = run(bench, 0).mcp_tools.unwrap_or_default().mcp_tools;
    tools.into_iter().map(|tool| tool.name).collect()
}

#[test]
fn none_offers_nothing_and_a_name_offers_one() {
    assert_eq!(offered(&with(|r| r.tool_choice = ToolChoice::None)), [""; 0]);
    assert_eq!(offered(&with(|r| r.tool_choice = ToolChoice::Named("bash".into()))), ["bash"]);
    assert_eq!(offered(&with(|r| r.tool_choice = ToolChoice::Required)), ["read_tool", "bash"]);
}

#[test]
fn text_is_held_back_until_the_required_call() {
    let mut bench = with(|r| r.tool_choice = ToolChoice::Required);
    bench.text("I will look.");
    assert_eq!(bench.said(), "");
    bench.say(call(1, "read", "{}"));
    bench.wait(WINDOW);
    assert_eq!((bench.said().as_str(), bench.ending()), ("I will look.", &CALLS));
}

#[test]
fn missing_required_call_is_requested_once_more() {
    let mut bench = with(|r| r.tool_choice = ToolChoice::Required);
    bench.text("No.");
    bench.update(ended());
    bench.end(None);
    assert_eq!(bench.opens(), 2);
    bench.opened();
    assert!(format!("{:?}", run(&bench, 1).action).contains("Call the tool now"));
    bench.say(call(1, "read", "{}"));
    bench.wait(WINDOW);
    assert_eq!((bench.said().as_str(), bench.ending()), ("", &CALLS));
}

#[test]
fn second_answer_without_the_required_call_is_an_error() {
    let mut bench = with(|r| r.tool_choice = ToolChoice::Named("read".into()));
    for _ in 0..2 {
        bench.text("No.");
        bench.update(ended());
        bench.end(None);
        bench.opened();
    }
    assert_eq!(bench.opens(), 2);
    assert_eq!((bench.failure(), bench.said().as_str()), (ErrorCode::ToolChoiceUnmet, ""));
}

#[test]
fn sequential_calls_are_sent_one_at_a_time() {
    let mut bench = with(|r| r.parallel_tool_calls = false);
    for n in 1..=3 {
        bench.say(call(n, "read", &format!(r#"{{"n":{n}}}"#)));
    }
    let mut items = vec![user("hi")];
    for n in 1..=3 {
        bench.wait(WINDOW);
        assert_eq!(bench.ending(), &CALLS);
        let calls = bench.turn.calls();
        assert_eq!(calls.iter().map(|call| call.id.as_str()).collect::<Vec<_>>(), [id(n).as_str()]);
        items.extend([made(n, "read"), result(n, &format!("r{n}"))]);
        let mut next = request(&["read", "bash"]);
        next.items = items.clone();
        next.parallel_tool_calls = false;
        assert!(bench.resume_with(next));
    }
    bench.text("done");
    bench.update(ended());
    bench.end(None);
    assert_eq!((bench.said().as_str(), bench.opens()), ("done", 1));
    assert_eq!(bench.results().len(), 3);
}
