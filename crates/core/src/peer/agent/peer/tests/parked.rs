//! Waiting for the client: what keeps the stream alive, and every way in which results
//! come back or do not.

use ibeam_proto::agent::{ExecServerAbort, ExecServerControlMessage, exec_server_control_message};

use super::{partial::completed, *};
use crate::model::{Image, ImageSource};

#[test]
fn chain_of_tool_calls_is_one_run() {
    let mut bench = Bench::open(&["read"]);
    let mut items = Vec::new();
    for n in 1..=10 {
        bench.say(call(n, "read", &format!(r#"{{"n":{n}}}"#)));
        bench.say(checkpoint());
        assert_eq!(bench.ending(), &CALLS);
        for _ in 0..n * 6 {
            bench.wait(Duration::from_secs(10));
            bench.update(heartbeat());
        }
        assert_eq!(bench.turn.state(), TurnState::AwaitingTools, "call {n}");
        items.extend([made(n, "read"), result(n, &format!("result {n}"))]);
        assert!(bench.resume(&["read"], items.clone()), "call {n}");
    }
    finish(&mut bench, "done");
    assert_eq!(bench.opens(), 1);
    let results: Vec<_> = (1..=10).map(|n| (n, format!("result {n}"))).collect();
    assert_eq!(bench.results(), results, "each result once, and none of the old ones again");
}

fn counted(bench: &mut Bench, tokens: i32, used_tokens: u32) {
    bench.update(Update::TokenDelta(TokenDeltaUpdate { tokens }));
    bench.say(FromServer::ConversationCheckpointUpdate(Box::new(ConversationStateStructure {
        token_details: Some(ConversationTokenDetails {
            used_tokens,
            max_tokens: 1000,
            ..ConversationTokenDetails::default()
        }),
        ..ConversationStateStructure::default()
    })));
}

/// The usage of the leg that just ended, noted as its client got it.
fn usage(bench: &mut Bench) -> Usage {
    let usage = bench.events.iter().find_map(|event| match event {
        TurnEvent::Usage(usage) => Some(*usage),
        _ => None,
    });
    let usage = usage.expect("no usage");
    bench.turn.note_usage(&usage);
    usage
}

#[test]
fn each_leg_of_a_run_has_its_own_tokens() {
    let mut bench = Bench::open(&["read"]);
    counted(&mut bench, 9, 59);
    bench.say(call(1, "read", "{}"));
    bench.wait(WINDOW);
    let first = usage(&mut bench);
    assert_eq!((first.input, first.output), (50, 9));
    assert!(bench.resume(&["read"], vec![made(1, "read"), result(1, "a")]));
    bench.update(Update::TokenDelta(TokenDeltaUpdate { tokens: 11 }));
    finish(&mut bench, "done");
    // The run was 20 tokens, says its end, and 100 tokens were read last.
    let last = usage(&mut bench);
    assert_eq!((last.input, last.output, last.cache_read), (100, 11, 60));
    assert_eq!(last.source, UsageSource::Backend);
}

#[test]
fn rebuilt_run_is_counted_from_zero() {
    let mut bench = Bench::open(&["read"]);
    counted(&mut bench, 9, 59);
    bench.say(call(1, "read", "{}"));
    bench.wait(WINDOW);
    usage(&mut bench);
    assert!(bench.resume(&["read"], vec![made(1, "read"), result(1, "a")]));
    bench.broke(&reset());
    assert_eq!(bench.opens(), 2);
    bench.opened();
    finish(&mut bench, "done");
    assert_eq!(usage(&mut bench).output, 20, "all of it is this leg's");
}

#[test]
fn answer_of_text_only_gives_a_calibration_sample() {
    let backend = |reasoning| Usage {
        output: 20,
        reasoning,
        source: UsageSource::Backend,
        ..Usage::default()
    };
    let mut bench = Bench::open(&["read"]);
    bench.text("so many words");
    let sample = bench.turn.sample(&backend(0)).unwrap();
    assert_eq!((sample.text.as_str(), sample.reported), ("so many words", 20));
    let guessed = Usage { source: UsageSource::Estimate, ..backend(0) };
    assert_eq!(bench.turn.sample(&guessed), None);
    bench.update(Update::ThinkingDelta(ThinkingDeltaUpdate {
        text: "hm".into(),
        ..ThinkingDeltaUpdate::default()
    }));
    assert_eq!(bench.turn.sample(&backend(0)), None, "who knows how much it thought");
    assert_eq!(bench.turn.sample(&backend(5)).unwrap().reported, 15);
    bench.say(call(1, "read", "{}"));
    bench.wait(WINDOW);
    assert_eq!(bench.turn.sample(&backend(5)), None, "calls are more than their text");
}

#[test]
fn a_parked_stream_is_kept_alive_and_answers() {
    let mut bench = parked(&["read"]);
    let before = bench.sent().len();
    bench.wait(Duration::from_secs(21));
    bench.say(set_blob("stored"));
    bench.say(exec(9, Ask::RequestContextArgs(RequestContextArgs::default())));
    let sent = &bench.sent()[before..];
    assert_eq!(bench.beats(), 4);
    assert!(sent.iter().any(|m| matches!(m, ToServer::KvClientMessage(_))));
    assert!(sent.iter().any(|m| matches!(m, ToServer::ExecClientMessage(m) if m.id == 9)));
    assert_eq!(bench.turn.state(), TurnState::AwaitingTools);
}

#[test]
fn sleeping_turn_sends_no_heartbeat_until_it_resumes() {
    let mut bench = parked(&["read"]);
    bench.turn.relieve();
    bench.wait(Duration::from_secs(40));
    assert_eq!((bench.beats(), bench.turn.state()), (0, TurnState::AwaitingTools));
    assert!(bench.resume(&["read"], vec![made(1, "read"), result(1, "a")]));
    bench.wait(Duration::from_secs(11));
    assert_eq!(bench.beats(), 2);
}

/// The page that documents the following cases.
const PAGE: &str = include_str!("../../../../../../../docs/sessions.md");

/// A row of the page's table, the new items of the request, and what the two calls are
/// answered with; `None`: the request is given back.
type Case = (&'static str, fn() -> Vec<Item>, Option<[&'static str; 2]>);

const CASES: &[Case] = &[
    ("in order", || vec![result(1, "a"), result(2, "b")], Some(["a", "b"])),
    ("in reverse", || vec![result(2, "b"), result(1, "a")], Some(["a", "b"])),
    ("one is missing", || vec![result(2, "b")], Some([GONE, "b"])),
    ("one twice", || vec![result(1, "x"), result(2, "b"), result(1, "a")], Some(["a", "b"])),
    ("one not awaited", || vec![result(1, "a"), result(7, "c"), result(2, "b")], Some(["a", "b"])),
    ("an error", || vec![result(1, "a"), broken(2, "b")], Some(["a", "error: b"])),
    ("an image", || vec![result(1, "a"), picture(2)], Some(["a", "seen\nimage/png b\"png\""])),
    ("nothing in it", || vec![empty(1), result(2, "b")], Some(["", "b"])),
    (
        "a message beside them",
        || vec![result(1, "a"), result(2, "b"), user("stop that")],
        Some(["a", "b\n<user_message>\nstop that\n</user_message>"]),
    ),
    (
        "a message beside half of them",
        || vec![result(1, "a"), user("go on")],
        Some([
            "a",
            "error: The client sent no result for this call.\n\
             <user_message>\ngo on\n</user_message>",
        ]),
    ),
    ("late", || vec![result(3, "a"), result(4, "b")], None),
    ("none", || vec![user("never mind")], None),
];

const GONE: &str = "error: The client sent no result for this call.";

fn broken(n: u32, text: &str) -> Item {
    let Item::ToolResult(result) = result(n, text) else { unreachable!() };
    Item::ToolResult(ToolResult { is_error: true, ..result })
}

fn picture(n: u32) -> Item {
    let source = ImageSource::Inline { mime: "image/png".into(), data: "png".into() };
    let Item::ToolResult(mut result) = result(n, "seen") else { unreachable!() };
    result.content.push(Part::Image(Image { source }));
    Item::ToolResult(result)
}

fn empty(n: u32) -> Item {
    let Item::ToolResult(result) = result(n, "") else { unreachable!() };
    Item::ToolResult(ToolResult { content: Vec::new(), ..result })
}

#[test]
fn results_in_every_shape_that_the_page_names() {
    let table = PAGE.split("\n## ").find(|part| part.starts_with("Results")).unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let rows: Vec<&str> = rows.filter(|row| *row != "case").collect();
    let names: Vec<&str> = CASES.iter().map(|case| case.0).collect();
    assert_eq!(rows, names, "docs/sessions.md and the cases differ");

    for (name, items, want) in CASES {
        let mut bench = parked(&["read", "bash"]);
        let mut all = vec![made(1, "read"), made(2, "bash")];
        all.extend(items());
        assert_eq!(bench.resume(&["read", "bash"], all), want.is_some(), "{name}");
        let Some([first, second]) = want else {
            assert_eq!(bench.results(), [], "{name}");
            continue;
        };
        let want = [(1, (*first).to_owned()), (2, (*second).to_owned())];
        assert_eq!(bench.results(), want, "{name}");
        finish(&mut bench, "thanks");
        assert_eq!(bench.said(), "thanks", "{name}");
    }
}

#[test]
fn requests_that_do_not_fit_the_parked_turn_are_returned() {
    type Change = fn(&mut TurnRequest);
    let ways: [(&str, Change); 4] = [
        ("no results", |r| r.items.truncate(2)),
        ("results of others", |r| {
            r.items = vec![user("hi"), made(3, "read"), result(3, "x")];
        }),
        ("no tools any more", |r| r.tool_choice = ToolChoice::None),
        ("one tool only", |r| r.tool_choice = ToolChoice::Named("read".into())),
    ];
    for (name, change) in ways {
        let mut bench = parked(&["read"]);
        let mut request = request(&["read"]);
        request.items.extend([made(1, "read"), result(1, "a")]);
        change(&mut request);
        assert!(!bench.resume_with(request), "{name}");
        assert_eq!(
            bench.turn.state(),
            TurnState::AwaitingTools,
            "{name}: still there for the right one"
        );
        assert!(bench.results().is_empty());
    }
}

#[test]
fn results_are_accepted_only_once() {
    let mut bench = parked(&["read"]);
    let items = || vec![made(1, "read"), result(1, "a")];
    assert!(bench.resume(&["read"], items()));
    assert!(!bench.resume(&["read"], items()), "the run goes on already");
    assert_eq!(bench.results().len(), 1);
}

#[test]
fn output_while_parked_comes_with_the_next_answer() {
    let mut bench = parked(&["read"]);
    let events = bench.events.len();
    bench.text("While you look: ");
    assert_eq!(bench.events.len(), events, "nobody listens");
    assert!(bench.resume(&["read"], vec![made(1, "read"), result(1, "a")]));
    finish(&mut bench, "done.");
    assert_eq!(bench.said(), "While you look: done.");
}

#[test]
fn too_much_output_while_parked_ends_the_turn() {
    let mut bench = parked(&["read"]);
    for _ in 0..20 {
        bench.text(&"x".repeat(64 << 10));
    }
    assert_eq!(bench.turn.state(), TurnState::Done);
    assert!(matches!(bench.commands.last(), Some(Command::Close { cancel: true })));
}

#[test]
fn late_call_waits_for_the_next_answer() {
    let mut bench = parked(&["read"]);
    bench.say(call(5, "read", r#"{"b":2}"#));
    assert_eq!(bench.turn.calls().len(), 1, "the client does not know it yet");
    assert!(bench.resume(&["read"], vec![made(1, "read"), result(1, "a")]));
    bench.wait(WINDOW);
    assert_eq!(bench.ending(), &CALLS);
    assert_eq!(bench.turn.calls()[0].id, id(2).as_str());
    let items = vec![made(1, "read"), result(1, "a"), made(2, "read"), result(2, "b")];
    assert!(bench.resume(&["read"], items));
    assert_eq!(bench.results(), [(1, "a".into()), (5, "b".into())]);
    finish(&mut bench, "done");
}

fn taken_back(id: u32) -> FromServer {
    let abort = exec_server_control_message::Message::Abort(ExecServerAbort { id });
    FromServer::ExecServerControlMessage(ExecServerControlMessage { message: Some(abort) })
}

#[test]
fn withdrawn_call_gets_no_result() {
    let mut bench = parked(&["read", "bash"]);
    bench.say(taken_back(1));
    let items = vec![made(1, "read"), made(2, "bash"), result(1, "a"), result(2, "b")];
    assert!(bench.resume(&["read", "bash"], items));
    assert_eq!(bench.results(), [(2, "b".into())]);
    finish(&mut bench, "done");
}

#[test]
fn turn_ends_when_its_last_call_is_withdrawn() {
    let mut bench = parked(&["read"]);
    bench.say(taken_back(1));
    assert_eq!(bench.turn.state(), TurnState::Done, "nothing could wake it");
}

#[test]
fn held_call_is_sent_before_further_output() {
    let mut bench = parked(&["read"]);
    bench.say(call(5, "read", r#"{"b":2}"#));
    assert!(bench.resume(&["read"], vec![made(1, "read"), result(1, "a")]));
    bench.update(completed(1));
    bench.wait(WINDOW);
    assert_eq!(bench.events.first(), Some(&TurnEvent::Started));
    assert_eq!(bench.ending(), &CALLS);
}

#[test]
fn model_that_repeats_refused_calls_is_stopped() {
    let mut bench = Bench::open(&["read"]);
    for n in 0..100 {
        bench.say(call(n, "rm", "{}"));
    }
    assert_eq!(bench.failure(), ErrorCode::ToolLoop);
}

#[test]
fn end_of_a_parked_stream_sends_no_event() {
    let more: [fn(&mut Bench); 2] = [|b| b.update(ended()), |b| b.wait(Duration::from_secs(46))];
    for way in LOST.into_iter().chain(more) {
        let mut bench = parked(&["read"]);
        let events = bench.events.len();
        way(&mut bench);
        assert_eq!(bench.turn.state(), TurnState::Done);
        assert_eq!(bench.events.len(), events, "the client has its ending");
        assert!(!bench.resume(&["read"], vec![made(1, "read"), result(1, "a")]));
    }
}

/// The caller reads a parked stream but now and then. What it does not read, it cannot
/// miss.
#[test]
fn unread_parked_stream_does_not_count_as_silent() {
    let mut bench = parked(&["read"]);
    bench.turn.relieve();
    bench.turn.set_reading(false, bench.now);
    assert_eq!(bench.turn.poll_deadline(), None, "nothing to wake up for");
    bench.wait(Duration::from_secs(600));
    bench.turn.on_timeout(bench.now);
    assert_eq!(bench.turn.state(), TurnState::AwaitingTools);

    // From the first look on, silence counts again.
    bench.turn.set_reading(true, bench.now);
    bench.wait(Duration::from_secs(44));
    assert_eq!(bench.turn.state(), TurnState::AwaitingTools);
    bench.wait(Duration::from_secs(2));
    assert_eq!(bench.turn.state(), TurnState::Done);
}

/// 2 MB at 100 kB/s are 20 s in which the backend cannot say anything.
#[test]
fn sending_a_large_result_may_take_long() {
    let mut bench = parked(&["read"]);
    let large = "x".repeat(2_000_000);
    assert!(bench.resume(&["read"], vec![made(1, "read"), result(1, &large)]));
    bench.wait(Duration::from_secs(60));
    assert_eq!((bench.opens(), bench.turn.state()), (1, TurnState::Streaming), "it is on its way");
    bench.wait(Duration::from_secs(10));
    assert_eq!(bench.opens(), 2, "that was too long");

    let mut bench = parked(&["read"]);
    assert!(bench.resume(&["read"], vec![made(1, "read"), result(1, &large)]));
    bench.update(heartbeat());
    bench.wait(Duration::from_secs(46));
    assert_eq!(bench.opens(), 2, "a backend that speaks has it all");
}

#[test]
fn with_parking_off_a_call_ends_the_run() {
    let settings = Settings { park: false, ..Settings::default() };
    let mut bench = Bench::of(request(&["read"]), settings);
    bench.opened();
    bench.say(call(1, "read", "{}"));
    bench.wait(WINDOW);
    assert_eq!((bench.ending(), bench.turn.state()), (&CALLS, TurnState::Done));
}
