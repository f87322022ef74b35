//! What is kept of a conversation, and what is sent of it when a stream is lost.

use super::*;

/// Everything that a run which continues from here would give the model.
fn kept(bench: &mut Bench) -> String {
    let state = bench.turn.checkpoint().expect("no state");
    let state = ConversationStateStructure::decode(state).unwrap();
    let blobs = state.root_prompt_messages_json.iter();
    let texts: Vec<Bytes> = blobs.filter_map(|id| bench.turn.peer().spec.blobs.get(id)).collect();
    String::from_utf8(texts.concat()).unwrap()
}

#[test]
fn conversation_of_a_client_that_sends_only_results_stays_complete() {
    let mut bench = Bench::open(&["read"]);
    bench.text("I look.");
    bench.say(call(1, "read", "{}"));
    bench.wait(WINDOW);
    let first = kept(&mut bench);
    assert!(first.contains("hi") && first.contains("I look."), "{first}");
    // Only the result, under a name.
    let mut request = request(&["read"]);
    request.items = vec![result(1, "the result")];
    assert!(bench.resume_with(request));
    bench.broke(&reset());
    bench.opened();
    assert_eq!(bench.opens(), 2);
    finish(&mut bench, "It is done.");
    let all = kept(&mut bench);
    for part in ["hi", "I look.", "tool-call", "the result", "It is done."] {
        assert!(all.contains(part), "{part} is lost: {all}");
    }
}

#[test]
fn state_that_only_ibeam_has_counts_as_memory() {
    let mut bench = parked(&["read"]);
    let before = bench.turn.memory();
    let mut request = request(&["read"]);
    request.items = vec![result(1, &"x".repeat(100_000))];
    assert!(bench.resume_with(request));
    bench.say(call(2, "read", "{}"));
    bench.wait(WINDOW);
    bench.turn.note_usage(&Usage::default());
    assert!(bench.turn.memory() > before + 100_000);
    bench.say(checkpoint());
    assert!(bench.turn.memory() < before + 100_000, "the newest state has it");
}

#[test]
fn incomplete_checkpoint_is_dropped_if_the_client_sends_its_history() {
    let mut bench = Bench::open(&["read"]);
    bench.say(call(1, "read", "{}"));
    bench.say(checkpoint());
    assert!(bench.resume(&["read"], vec![made(1, "read"), result(1, "a")]));
    finish(&mut bench, "done");
    assert_eq!(bench.turn.checkpoint(), None, "it knows neither the result nor the answer");
    let mut bench = Bench::open(&["read"]);
    bench.say(call(1, "read", "{}"));
    bench.say(checkpoint());
    assert!(bench.resume(&["read"], vec![made(1, "read"), result(1, "a")]));
    bench.text("done");
    bench.say(checkpoint());
    bench.update(ended());
    bench.end(None);
    assert!(bench.turn.checkpoint().is_some());
}

#[test]
fn conversation_under_another_id_keeps_its_blobs() {
    let mut bench = Bench::open(&[]);
    bench.say(set_blob("stored"));
    assert_eq!(bench.turn.take_new_blobs().len(), 1);
    bench.update(ended());
    bench.end(None);
    assert_eq!(bench.opens(), 2, "an empty turn is tried under another id");
    assert_eq!(bench.turn.take_new_blobs().len(), 1, "the other id needs them too");
}

/// The stream dies after it got the results: the request has everything, and the model
/// is asked again.
#[test]
fn stream_lost_after_the_results_is_rebuilt() {
    for way in LOST {
        let mut bench = Bench::open(&["read"]);
        bench.say(call(1, "read", "{}"));
        bench.say(checkpoint());
        assert!(bench.resume(&["read"], vec![made(1, "read"), result(1, "the result")]));
        way(&mut bench);
        assert_eq!(bench.opens(), 2, "{:?}", bench.events);
        bench.opened();
        let kept: Vec<_> = bench.turn.take_new_blobs().into_iter().map(|(_, data)| data).collect();
        let kept = String::from_utf8_lossy(&kept.concat()).into_owned();
        assert!(kept.contains("the result"), "{kept}");
        finish(&mut bench, "done");
        assert_eq!(bench.said(), "done");
    }
}

#[test]
fn checkpoint_from_after_the_results_is_resumed() {
    let mut bench = parked(&["read"]);
    assert!(bench.resume(&["read"], vec![made(1, "read"), result(1, "a")]));
    bench.say(checkpoint());
    bench.broke(&reset());
    bench.opened();
    let ToServer::RunRequest(run) = bench.sent().pop().unwrap() else { panic!("no run") };
    let action = run.action.and_then(|action| action.action);
    assert!(matches!(action, Some(conversation_action::Action::ResumeAction(_))));
    finish(&mut bench, "done");
}
