//! Failures of requests that have no answers in them: with several messages of the user before the
//! question, as some clients send, or with results alone.

use ibeam_proto::agent::AgentRunRequest;

use super::{
    autumn::{of, refused_prompt},
    *,
};
use crate::peer::StoredState;

/// A conversation with these items, in the form that `auto` chooses.
fn in_auto(items: Vec<Item>) -> Bench {
    let request = TurnRequest { items, ..request(&["read"]) };
    of(request, |plan| {
        plan.history = HistorySetting::Auto;
        plan.model.id = "gpt-5.5".into();
    })
}

fn is_asked(run: &AgentRunRequest) -> bool {
    let action = run.action.as_ref().and_then(|action| action.action.as_ref());
    matches!(action, Some(conversation_action::Action::UserMessageAction(_)))
}

/// The newest run as text, and whether it asks as the user.
fn newest(bench: &mut Bench) -> (String, bool) {
    let entries = serde_json::Value::Array(bench.entries()).to_string();
    (entries, is_asked(&bench.runs().pop().unwrap()))
}

#[test]
fn section_1_6_messages_of_the_user_alone_are_sent_in_another_form() {
    let fails: [fn(&mut Bench); 3] = [
        |bench| bench.fails(&refused_prompt()),
        |bench| {
            bench.update(ended());
            bench.end(None);
            bench.opened();
        },
        |bench| {
            bench.fetches();
            bench.fails(&ConnectError::new(Code::InvalidArgument, "Error"));
        },
    ];
    for fail in fails {
        let mut bench = in_auto(vec![user("<environment_context>"), user("What is here?")]);
        let (first, asked) = newest(&mut bench);
        assert!(!asked && !first.contains("<rules>"), "{first}");
        fail(&mut bench);
        assert_eq!(bench.opens(), 2);
        let (second, asked) = newest(&mut bench);
        assert!(asked && second.contains("<rules>") && second.contains("env"), "{second}");
        finish(&mut bench, "done");
        let learned = bench.turn.peer().spec.memory.of("gpt-5.5").history;
        assert_eq!(learned, Some(HistoryForm::UserRoots), "the form that was sent");
    }
}

#[test]
fn section_1_6_results_alone_are_rebuilt_behind_the_first_request() {
    let mut bench = in_auto(vec![user("<environment_context>"), user("Read it.")]);
    bench.text("Reading.");
    bench.say(call(1, "read", "{}"));
    bench.wait(WINDOW);
    let mut request = request(&["read"]);
    request.items = vec![result(1, "the result")];
    assert!(bench.resume_with(request));
    bench.fails(&refused_prompt());
    let (whole, asked) = newest(&mut bench);
    for part in ["<rules>", "env", "Read it.", "Reading.", "tool-call", "the result"] {
        assert!(whole.contains(part), "{part}: {whole}");
    }
    assert!(asked);
    // All of it once more, if that stream is lost.
    bench.broke(&reset());
    bench.wait(Duration::from_secs(10));
    bench.opened();
    let (again, _) = newest(&mut bench);
    assert_eq!(again, whole);
    finish(&mut bench, "done");
}

/// The service has looked at the state, so the fields of the request are not at fault.
#[test]
fn section_1_6_a_kept_state_that_is_refused_late_is_replaced_by_the_history() {
    let late = ConnectError::new(Code::InvalidArgument, "Error");
    let mut asked = request(&["read"]);
    asked.items = vec![user("q"), said("a"), user("next")];
    let mut bench = of(asked, |plan| {
        plan.history = HistorySetting::Auto;
        plan.model.id = "gpt-5.5".into();
        plan.model.parameters = vec![("reasoning".to_owned(), "high".to_owned())];
        plan.kept = Some(StoredState {
            checkpoint: Bytes::from_static(b"\x50\x01"),
            blobs: Vec::new(),
            covers: 2,
            calls: Vec::new(),
            new_setup: false,
        });
    });
    assert!(bench.entries().is_empty());
    bench.fetches();
    bench.fails(&late);
    assert_eq!(bench.opens(), 2);
    assert!(bench.runs()[1].model_details.is_some(), "the fields are as they were");
    let (whole, _) = newest(&mut bench);
    assert!(whole.contains("\"q\"") && whole.contains("next"), "{whole}");
    finish(&mut bench, "done");
}
