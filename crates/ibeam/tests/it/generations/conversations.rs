//! What a client does with any of them: the conversations of the matrix. Each is a function that
//! panics where the client or the model lacks something.

use ibeam_core::peer::agent::HistorySetting;
use serde_json::{Value, json};

use super::{SYSTEM, Setup, called, knows_all, newest, work};

const PIXEL: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// A plain question is answered, and the model follows the system prompt.
pub(super) async fn question(setup: Setup) {
    let lab = setup.lab("");
    let mut talk = setup.talk(&[], "What are your instructions?");
    let reply = talk.ask(&lab).await;
    assert!(reply.text().contains(SYSTEM), "{}", reply.body);
    assert_eq!(lab.sim.stats().violations, Vec::<String>::new());
    lab.assert_gone().await;
}

/// A chain of calls is one run; nothing is sent to the client twice.
pub(super) async fn chain(setup: Setup) {
    let lab = setup.lab("");
    let mut talk = setup.talk(
        &["look", "write_note"],
        "Use the tool look {\"at\":1}, then use the tool write_note {\"n\":2}",
    );
    let reply = work(&lab, &mut talk, |call| format!("{} saw {}", call.name, call.arguments)).await;
    assert!(reply.text().contains("look saw {\"at\":1}"), "{}", reply.body);
    assert!(reply.text().contains("write_note saw {\"n\":2}"), "{}", reply.body);
    assert_eq!(lab.sim.stats().runs_started, 1);
    knows_all(&lab, &talk);
    assert_eq!(lab.sim.stats().violations, Vec::<String>::new());
    lab.assert_gone().await;
}

/// Calls that are made together come together.
pub(super) async fn parallel(setup: Setup) {
    let lab = setup.lab("");
    let mut talk = setup.talk(
        &["look", "feel"],
        "In parallel, use the tool look {\"at\":1} and use the tool feel {\"at\":2}",
    );
    let calls = talk.ask(&lab).await.calls();
    assert_eq!(calls.len(), 2, "{calls:?}");
    for call in calls.iter().rev() {
        talk.result(call, format!("{} is done", call.name));
    }
    let reply = talk.ask(&lab).await;
    assert!(reply.text().contains("look is done") && reply.text().contains("feel is done"));
    assert_eq!(lab.sim.stats().runs_started, 1);
    lab.assert_gone().await;
}

/// The gateway is replaced while the client works: the history is sent again, twice.
pub(super) async fn restart(setup: Setup) {
    let lab = setup.lab("");
    let mut talk = setup
        .talk(&["look", "feel"], "Use the tool look {\"at\":1}, then use the tool feel {\"at\":2}");
    let first = talk.ask(&lab).await.call();
    assert_eq!(first.name, "look");
    talk.result(&first, "a mouse-trap");
    let lab = lab.restarted(|config| setup.configure(config)).await;
    let second = talk.ask(&lab).await.call();
    assert_eq!(second.name, "feel", "the chain goes on");
    knows_all(&lab, &talk);
    talk.result(&second, "it is sharp");
    let lab = lab.restarted(|config| setup.configure(config)).await;
    let reply = talk.ask(&lab).await;
    assert!(reply.text().contains("it is sharp"), "{}", reply.body);
    knows_all(&lab, &talk);
    talk.say("What did I say?");
    let reply = talk.ask(&lab).await;
    assert!(reply.text().contains("use the tool feel"), "{}", reply.body);
    knows_all(&lab, &talk);
    lab.assert_gone().await;
}

/// A conversation of a client that ibeam has never seen, with a failure in it.
pub(super) async fn foreign_history(setup: Setup) {
    let lab = setup.lab("");
    let mut talk = setup.talk(&["look"], "Where is the cat?");
    let [call, mut result] = called("toolu_01Ab:c/d", "look", &json!({ "at": "the mat" }), "");
    result["content"] = json!("it is too dark");
    talk.push(call);
    talk.push(result);
    talk.push(json!({ "role": "assistant", "content": "I could not see it." }));
    talk.say("Use the tool look {\"at\":\"the roof\"}");
    let reply = work(&lab, &mut talk, |_| "the cat is on the roof".to_owned()).await;
    assert!(reply.text().contains("the cat is on the roof"), "{}", reply.body);
    knows_all(&lab, &talk);
    lab.assert_gone().await;
}

/// The next question continues the kept conversation, with another system prompt or without.
pub(super) async fn continued(setup: Setup) {
    let lab = setup.lab("");
    let mut talk = setup.talk(&["look"], "Use the tool look {\"at\":1}");
    work(&lab, &mut talk, |_| "a red ball".to_owned()).await;
    for question in ["And what else?", "Use the tool look {\"at\":2}"] {
        talk.say(question);
        let reply = work(&lab, &mut talk, |_| "a green ball".to_owned()).await;
        assert!(reply.text().len() > 10, "{}", reply.body);
        knows_all(&lab, &talk);
    }
    assert_eq!((lab.fates().continued, lab.fates().rebuilt), (2, 0));
    lab.assert_gone().await;
}

/// A client that names its conversation changes the system prompt and sends only what is new.
pub(super) async fn named(setup: Setup) {
    let lab = setup.lab("");
    let with_system = |system: &str, text: &str| {
        let mut talk = setup.talk(&["look"], text);
        talk.body["messages"][0]["content"] = format!("Session: session-m1\n{system}").into();
        talk
    };
    let mut first = with_system(SYSTEM, "My word is heliotrope.");
    first.ask(&lab).await;
    let second = with_system(SYSTEM, "What did I say?");
    let reply = second.clone().ask(&lab).await;
    assert!(reply.text().contains("heliotrope"), "{}", reply.body);
    let other = "Never sign anything, says rule 44.";
    let reply = with_system(other, "What are your instructions?").ask(&lab).await;
    assert!(reply.text().contains(other), "{}", reply.body);
    let known = newest(&lab);
    assert!(known.entries.iter().any(|entry| entry.text.contains("heliotrope")), "{known:#?}");
    lab.assert_gone().await;
}

/// The client changes an earlier message: what it said before is gone.
pub(super) async fn edited(setup: Setup) {
    let lab = setup.lab("");
    let mut talk = setup.talk(&[], "The code is 1111.");
    talk.ask(&lab).await;
    talk.say("Thank you.");
    talk.ask(&lab).await;
    talk.body["messages"][1]["content"] = "The code is 2222.".into();
    talk.body["messages"][2]["content"] = "I understand: 2222.".into();
    talk.say("What did I say?");
    let reply = talk.ask(&lab).await;
    assert!(reply.text().contains("2222") && !reply.text().contains("1111"), "{}", reply.body);
    knows_all(&lab, &talk);
    lab.assert_gone().await;
}

/// More messages than the service takes entries.
pub(super) async fn long_history(setup: Setup) {
    let lab = setup.lab("");
    let mut talk = setup.talk(&["look"], "Question 0.");
    for n in 0..125 {
        talk.push(json!({ "role": "assistant", "content": format!("Answer {n}.") }));
        talk.say(&format!("Question {}.", n + 1));
    }
    let reply = talk.ask(&lab).await;
    assert!(reply.text().contains("Question 125."), "{}", reply.body);
    knows_all(&lab, &talk);
    lab.assert_gone().await;
}

pub(super) fn with_picture(text: &str) -> Value {
    let image = json!({ "type": "image_url", "image_url": { "url": PIXEL } });
    json!({ "role": "user", "content": [{ "type": "text", "text": text }, image] })
}

/// A picture in an earlier message, and one in the newest.
pub(super) async fn pictures(setup: Setup) {
    let lab = setup.lab("");
    let mut talk = setup.talk(&[], "");
    talk.body["messages"][1] = with_picture("What is this?");
    talk.push(json!({ "role": "assistant", "content": "A pixel." }));
    talk.push(with_picture("And this?"));
    let reply = talk.ask(&lab).await;
    assert!(reply.text().contains("I see 1 image. You wrote: And this?"), "{}", reply.body);
    let known = newest(&lab);
    let earlier = known.entries.iter().find(|entry| entry.text.contains("What is this?")).unwrap();
    assert!(earlier.text.contains("[image "), "{known:#?}");
    lab.assert_gone().await;
}

/// The answer lacks the call that the client insists on, and it is asked for once more.
pub(super) async fn required_call(setup: Setup) {
    let call = "{ exec = { arm = \"mcp\", args = { name = \"look\", args = { at = \"it\" } } } }";
    let lab = setup.lab(&format!(
        "[[rule]]\ntimes = 1\nsteps = [{{ text = \"I would rather not.\" }}]\n\
         [[rule]]\nsteps = [{call}, {{ text = \"{{result}}\" }}]"
    ));
    let mut talk = setup.talk(&["look"], "Where is the cat?");
    talk.push(json!({ "role": "assistant", "content": "On a roof." }));
    talk.say("Look again.");
    talk.body["tool_choice"] = json!("required");
    let reply = talk.send(&lab).await;
    assert_eq!((reply.call().name.as_str(), reply.text().as_str()), ("look", ""));
    assert_eq!(lab.sim.stats().runs_started, 2);
    knows_all(&lab, &talk);
    lab.assert_clean().await;
}

/// Two conversations with one model learn from each other, and the second needs no retry.
pub(super) async fn fallback(setup: Setup) {
    // Only the first form is refused, and only where ibeam may choose another.
    if setup.history != HistorySetting::Auto {
        return;
    }
    let lab = setup.lab("[behaviour]\n\"error.provider_refused\" = \"first\"");
    for (n, runs) in [(1, 2), (2, 3)] {
        let mut talk = setup.talk(&["look"], "Where is the cat?");
        talk.push(json!({ "role": "assistant", "content": format!("On roof {n}.") }));
        talk.say("Which roof?");
        talk.ask(&lab).await;
        knows_all(&lab, &talk);
        assert_eq!(lab.sim.stats().runs_started, runs);
    }
    lab.assert_gone().await;
}
