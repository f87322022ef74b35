//! Conversations that are recognised: by a name, by what was said, and after a restart.

use ibeam_server::config::Config;
use ibeam_sim::{Scenario, SimConfig};
use serde_json::{Value, json};

use crate::lab::{Lab, Talk, chat, tools};

/// Says what it knows.
const TELL: &str =
    "[[rule]]\nsteps = [{ text = \"[{conversation}|{model}] {system} / {history} / {prompt}\" }]";

/// With a place for the file of the store.
fn kept(path: &std::path::Path) -> impl Fn(&mut Config) {
    let path = path.join("store.db");
    move |config| {
        config.store.enabled = true;
        config.store.path = Some(path.clone());
    }
}

fn talk(text: &str) -> Talk {
    Talk { body: chat(text, true), headers: Vec::new() }
}

/// The conversation that answered.
fn id(text: &str) -> String {
    text.trim_start_matches('[').split('|').next().unwrap().to_owned()
}

fn system(talk: &mut Talk, text: &str) {
    let messages = talk.body["messages"].as_array_mut().unwrap();
    messages.insert(0, json!({ "role": "system", "content": text }));
}

#[tokio::test(start_paused = true)]
async fn a_named_conversation_needs_only_the_new_message() {
    for by_header in [None, Some("x-session-id"), Some("x-session-affinity")] {
        let lab = Lab::scenario(TELL);
        let named = |text: &str| {
            let mut talk = talk(text);
            match by_header {
                Some(name) => {
                    talk.headers.push((name, "window-1".to_owned()));
                    talk.body["tools"] = tools(&["bash"]);
                }
                None => system(&mut talk, "Session: session-window-1"),
            }
            talk
        };
        let first = named("My name is Ada.").ask(&lab).await.text();
        let second = named("What is my name?").ask(&lab).await.text();
        assert_eq!(id(&first), id(&second), "{by_header:?}");
        assert!(second.contains("My name is Ada."), "{by_header:?}: {second}");
        assert!(second.contains("What is my name?"), "{by_header:?}: {second}");
        assert!(!second.contains("session-window-1"), "the marker is not for the model: {second}");
        let third = named("And now?").ask(&lab).await.text();
        assert!(third.contains("What is my name?") && id(&third) == id(&first), "{third}");
        assert_eq!((lab.fates().continued, lab.fates().rebuilt), (2, 0));
        lab.assert_gone().await;
    }
}

/// It never starts from nothing.
#[tokio::test(start_paused = true)]
async fn message_for_a_session_that_stays_in_use_is_refused() {
    let lab = Lab::scenario("[[rule]]\nsteps = [{ text = \"one\" }, { wait_ms = 600000 }]");
    let named = || {
        let mut talk = talk("hi");
        system(&mut talk, "Session: session-a");
        talk.body.to_string()
    };
    let first = lab.open(named()).await;
    let since = tokio::time::Instant::now();
    let reply = lab.post(named()).await;
    assert_eq!((reply.status.as_u16(), since.elapsed()), (429, lab.app.config().clocks.queue));
    assert!(reply.body.contains("still runs"), "{}", reply.body);
    drop(first);
    lab.assert_gone().await;
}

/// A name in the conversation is nearer to it than one in a header.
#[tokio::test(start_paused = true)]
async fn the_marker_wins_over_a_header() {
    let lab = Lab::scenario(TELL);
    let ask = async |text: &str, header: &str| {
        let mut talk = talk(text);
        system(&mut talk, "Session: session-a");
        talk.headers.push(("x-session-id", header.to_owned()));
        talk.ask(&lab).await.text()
    };
    let first = ask("My name is Ada.", "b").await;
    let second = ask("What is my name?", "c").await;
    assert_eq!(id(&first), id(&second));
    lab.assert_clean().await;
}

#[tokio::test(start_paused = true)]
async fn unknown_name_starts_a_conversation() {
    let lab = Lab::scenario(TELL);
    let mut one = talk("one");
    one.headers.push(("x-session-id", "a".to_owned()));
    let mut two = talk("two");
    two.headers.push(("x-session-id", "b".to_owned()));
    let (one, two) = (one.ask(&lab).await.text(), two.ask(&lab).await.text());
    assert_ne!(id(&one), id(&two));
    assert!(!two.contains("one"), "{two}");
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn name_belongs_to_its_key() {
    let lab = Lab::scenario(TELL);
    let mut mine = talk("my secret");
    mine.headers.push(("x-session-id", "a".to_owned()));
    mine.headers.push(("authorization", "Bearer mine".to_owned()));
    let mut yours = talk("tell me");
    yours.headers.push(("x-session-id", "a".to_owned()));
    yours.headers.push(("authorization", "Bearer yours".to_owned()));
    mine.ask(&lab).await;
    assert!(!yours.ask(&lab).await.text().contains("my secret"));
    lab.assert_gone().await;
}

/// A request for a title has the same name and another prompt.
#[tokio::test(start_paused = true)]
async fn title_request_does_not_change_the_conversation() {
    let lab = Lab::scenario(TELL);
    let mut main = Talk::new("My name is Ada.");
    main.headers.push(("x-session-affinity", "window-1".to_owned()));
    let first = main.ask(&lab).await.text();
    let mut title = talk("Make a title: My name is Ada.");
    title.headers = main.headers.clone();
    system(&mut title, "You make titles.");
    assert_ne!(id(&title.ask(&lab).await.text()), id(&first));
    main.say("What is my name?");
    let second = main.ask(&lab).await.text();
    assert_eq!(id(&second), id(&first));
    assert_eq!(
        second.matches("My name is Ada.").count(),
        first.matches("Ada").count().max(2),
        "{second}"
    );
    assert_eq!(lab.fates().continued, 1);
    lab.assert_gone().await;
}

/// Programs that send this header with everything ask for titles and summaries under the
/// same name, each time without a past.
#[tokio::test(start_paused = true)]
async fn helpers_of_a_named_client_are_separate() {
    let lab = Lab::scenario(TELL);
    let ask = async |text: &str, with_tools: bool| {
        let mut talk = talk(text);
        talk.headers.push(("x-session-affinity", "window-1".to_owned()));
        if with_tools {
            talk.body["tools"] = tools(&["bash"]);
        }
        talk.ask(&lab).await.text()
    };
    let first = ask("Make a title: My name is Ada.", false).await;
    let second = ask("Make a title: What is the time?", false).await;
    assert!(id(&first) != id(&second) && !second.contains("Ada"), "{second}");
    // However many of them there are, the main conversation is still found.
    let main = ask("My name is Bob.", true).await;
    for n in 0..9 {
        ask(&format!("Make a title: {n}"), false).await;
    }
    let later = ask("Something else", true).await;
    assert!(id(&later) == id(&main) && later.contains("Bob"), "{later}");
    assert_eq!(lab.fates().continued, 1);
    lab.assert_gone().await;
}

/// A name that leads nowhere does not hide what the history leads to.
#[tokio::test(start_paused = true)]
async fn history_is_recognised_under_another_name() {
    let lab = Lab::scenario(TELL);
    let mut talk = talk("My name is Ada.");
    talk.headers.push(("x-session-id", "a".to_owned()));
    let first = talk.ask(&lab).await.text();
    talk.headers = vec![("x-session-id", "b".to_owned())];
    talk.say("What is my name?");
    let second = talk.ask(&lab).await.text();
    assert_eq!(id(&second), id(&first));
    assert_eq!((lab.fates().continued, lab.fates().rebuilt), (1, 0));
    lab.assert_gone().await;
}

/// Names a conversation in one of the three ways, with a tool on offer.
fn named_as(way: Option<&'static str>, text: &str) -> Talk {
    let mut talk = Talk::new(text);
    match way {
        Some(header) => talk.headers.push((header, "window-1".to_owned())),
        None => system(&mut talk, "Session: session-window-1"),
    }
    talk
}

const WAYS: [Option<&str>; 3] = [None, Some("x-session-id"), Some("x-session-affinity")];

#[tokio::test(start_paused = true)]
async fn a_full_history_does_not_affect_requests_with_only_new_messages() {
    for way in WAYS {
        let lab = Lab::scenario(TELL);
        let mut main = named_as(way, "one");
        let first = main.ask(&lab).await.text();
        main.say("two");
        main.ask(&lab).await;
        let text = named_as(way, "three").ask(&lab).await.text();
        assert!(text.contains("two") && id(&text) == id(&first), "{way:?}: {text}");
        assert_eq!((lab.fates().continued, lab.fates().rebuilt), (2, 0), "{way:?}");
        lab.assert_gone().await;
    }
}

#[tokio::test(start_paused = true)]
async fn repeating_the_first_message_continues_the_conversation() {
    for way in WAYS {
        let lab = Lab::scenario(TELL);
        let first = named_as(way, "hello").ask(&lab).await.text();
        let second = named_as(way, "hello").ask(&lab).await.text();
        assert_eq!(id(&first), id(&second), "{way:?}");
        assert!(second.contains("user: hello"), "{way:?}: {second}");
        lab.assert_gone().await;
    }
}

/// The question, then the results with the whole history, then only the new message.
#[tokio::test(start_paused = true)]
async fn a_named_conversation_continues_after_a_tool_turn() {
    for way in WAYS {
        let lab = Lab::scenario(TOOL);
        let mut talk = named_as(way, "look");
        let call = talk.ask(&lab).await.call();
        talk.result(&call, "a b c");
        assert_eq!(talk.ask(&lab).await.text(), "It says: a b c");
        let text = named_as(way, "And now?").ask(&lab).await.text();
        assert!(text.contains("user: look"), "{way:?}: {text}");
        assert!(text.contains("It says: a b c"), "{way:?}: {text}");
        lab.assert_gone().await;
    }
}

/// The backend gave no state after the results, and they came with the whole history.
#[tokio::test(start_paused = true)]
async fn named_conversation_continues_after_an_unanswered_second_call() {
    let call =
        r#"{ exec = { arm = "mcp", args = { name = "bash", args = { command = "ls" } } } },"#;
    let lab = Lab::scenario(&TOOL.replacen(call, &format!("{call} {call}"), 1));
    let mut talk = named_as(None, "look");
    let first = talk.ask(&lab).await.call();
    talk.result(&first, "a b c");
    let second = talk.ask(&lab).await.call();
    assert_ne!(first.id, second.id);
    let text = named_as(None, "never mind").ask(&lab).await.text();
    assert!(text.contains("user: look") && text.contains("a b c"), "{text}");
    assert_eq!((lab.fates().continued, lab.fates().superseded), (1, 1));
    lab.assert_gone().await;
}

/// A header is a hint that clients send by themselves. A marker is a name that was chosen.
#[tokio::test(start_paused = true)]
async fn another_prompt_forks_under_a_header_and_continues_under_a_marker() {
    for way in WAYS {
        let lab = Lab::scenario(TELL);
        let first = named_as(way, "My name is Ada.").ask(&lab).await.text();
        let mut other = named_as(way, "What is my name?");
        system(&mut other, "You are brief.");
        let text = other.ask(&lab).await.text();
        assert!(text.contains("You are brief."), "{way:?}: {text}");
        let continues = way.is_none();
        assert_eq!(id(&text) == id(&first), continues, "{way:?}");
        assert_eq!(text.contains("Ada"), continues, "{way:?}: {text}");
        let fates = lab.fates();
        assert_eq!((fates.continued, fates.forked), if continues { (1, 0) } else { (0, 1) });
        // What the first one began is still there.
        let text = named_as(way, "And now?").ask(&lab).await.text();
        assert!(text.contains("Ada") && id(&text) == id(&first), "{way:?}: {text}");
        lab.assert_gone().await;
    }
}

#[tokio::test(start_paused = true)]
async fn named_history_that_differs_from_the_stored_one_forks() {
    for way in WAYS {
        let lab = Lab::scenario(TELL);
        let mut talk = named_as(way, "My name is Ada.");
        let first = talk.ask(&lab).await.text();
        talk.say("What is my name?");
        let messages = talk.body["messages"].as_array_mut().unwrap();
        for message in messages.iter_mut().filter(|message| message["role"] == "user") {
            message["content"] = json!("My name is Bob.");
        }
        assert_ne!(id(&talk.ask(&lab).await.text()), id(&first), "{way:?}");
        assert_eq!((lab.fates().forked, lab.fates().rebuilt), (1, 0), "{way:?}");
        lab.assert_gone().await;
    }
}

#[tokio::test(start_paused = true)]
async fn history_is_recognised_by_its_content() {
    let lab = Lab::scenario(TELL);
    let mut talk = talk("My name is Ada.");
    let first = talk.ask(&lab).await.text();
    talk.say("What is my name?");
    let second = talk.ask(&lab).await.text();
    assert_eq!(id(&first), id(&second));
    assert!(second.contains("My name is Ada."), "{second}");
    // Another model takes over.
    talk.body["model"] = json!("composer-2");
    talk.say("Are you sure?");
    let third = talk.ask(&lab).await.text();
    assert_eq!(id(&third), id(&first));
    assert!(third.contains("What is my name?") && third.contains("composer-2"), "{third}");
    assert_eq!((lab.fates().continued, lab.fates().rebuilt), (2, 0));
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn edited_history_is_another_conversation() {
    let lab = Lab::scenario(TELL);
    let mut talk = talk("My name is Ada.");
    let first = talk.ask(&lab).await.text();
    talk.say("What is my name?");
    let mut edited = talk.clone();
    edited.body["messages"][0]["content"] = json!("My name is Bob.");
    let text = edited.ask(&lab).await.text();
    assert!(
        text.contains("My name is Bob.") && !text.contains("/ user: My name is Ada."),
        "{text}"
    );
    assert_ne!(id(&text), id(&first));
    assert_eq!((lab.fates().continued, lab.fates().rebuilt), (0, 1));
    // The one that was not edited continues.
    assert_eq!(id(&talk.ask(&lab).await.text()), id(&first));
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn simultaneous_continuations_do_not_share_a_conversation() {
    let lab = Lab::scenario(
        "[[rule]]\nsteps = [{ text = \"[{conversation}|x]\" }, { silence = 5 }, { text = \"!\" }]",
    );
    let mut talk = talk("hi");
    let first = talk.ask(&lab).await.text();
    talk.say("go on");
    let (one, two) = tokio::join!(talk.send(&lab), talk.send(&lab));
    let (one, two) = (id(&one.text()), id(&two.text()));
    assert_ne!(one, two);
    assert!([&one, &two].contains(&&id(&first)), "one of them goes on");
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn conversation_survives_a_restart() {
    let dir = crate::watch::folder();
    let scenario = Scenario::from_toml(TELL).unwrap();
    let lab = Lab::with(SimConfig::scenario(scenario), kept(dir.path()));
    let mut full = talk("My name is Ada.");
    let first = full.ask(&lab).await.text();
    let mut named = talk("My name is Bob.");
    named.headers.push(("x-session-id", "a".to_owned()));
    named.ask(&lab).await;

    let lab = lab.restarted(kept(dir.path())).await;
    full.say("What is my name?");
    let second = full.ask(&lab).await.text();
    assert_eq!(id(&second), id(&first));
    assert!(second.contains("My name is Ada."), "{second}");
    named.say("What is my name?");
    named.forget_past();
    let text = named.ask(&lab).await.text();
    assert!(text.contains("My name is Bob."), "{text}");
    assert_eq!(lab.fates().continued, 2);
    lab.assert_gone().await;
}

const TOOL: &str = r#"
    [[rule]]
    when = { nth = 1 }
    steps = [
      { exec = { arm = "mcp", args = { name = "bash", args = { command = "ls" } } } },
      { text = "It says: {result}" },
    ]
    [[rule]]
    steps = [{ text = "[{conversation}|x] told anew: {history} {result}" }]
"#;

/// The call went out, the program was restarted, the result comes.
#[tokio::test(start_paused = true)]
async fn call_and_result_survive_a_restart_between_them() {
    for only_results in [false, true] {
        let dir = crate::watch::folder();
        let scenario = Scenario::from_toml(TOOL).unwrap();
        let lab = Lab::with(SimConfig::scenario(scenario), kept(dir.path()));
        let mut talk = Talk::new("look");
        talk.headers.push(("x-session-id", "a".to_owned()));
        let call = talk.ask(&lab).await.call();
        let lab = lab.restarted(kept(dir.path())).await;
        talk.result(&call, "a b c");
        if only_results {
            talk.forget_past();
        }
        let text = talk.ask(&lab).await.text();
        assert!(text.contains("told anew") && text.contains("a b c"), "{only_results}: {text}");
        assert_eq!(lab.sim.stats().violations, Vec::<String>::new());
        lab.assert_gone().await;
    }
}

/// The second turn of a named conversation has a call under way when the program is
/// restarted, and the backend gave no newer state: the older one is continued.
#[tokio::test(start_paused = true)]
async fn bare_results_after_a_restart_find_the_conversation() {
    let dir = crate::watch::folder();
    let scenario = TOOL.replace("nth = 1", "nth = 2");
    let scenario = Scenario::from_toml(&scenario).unwrap();
    let lab = Lab::with(SimConfig::scenario(scenario), kept(dir.path()));
    let mut talk = Talk::new("My name is Ada.");
    talk.headers.push(("x-session-id", "a".to_owned()));
    talk.ask(&lab).await;
    talk.say("look");
    talk.forget_past();
    let call = talk.ask(&lab).await.call();
    let lab = lab.restarted(kept(dir.path())).await;
    talk.result(&call, "a b c");
    talk.forget_past();
    let text = talk.ask(&lab).await.text();
    assert!(text.contains("My name is Ada.") && text.contains("a b c"), "{text}");
    assert_eq!(lab.fates().continued, 1);
    lab.assert_gone().await;
}

/// A named client may send nothing but its results, too.
#[tokio::test(start_paused = true)]
async fn bare_results_find_the_parked_turn() {
    let lab = Lab::scenario(TOOL);
    let mut talk = Talk::new("look");
    talk.headers.push(("x-session-id", "a".to_owned()));
    let call = talk.ask(&lab).await.call();
    talk.result(&call, "a b c");
    talk.forget_past();
    assert_eq!(talk.body["messages"].as_array().map(Vec::len), Some(1));
    assert_eq!(talk.ask(&lab).await.text(), "It says: a b c");
    talk.say("thanks");
    talk.forget_past();
    let text = talk.ask(&lab).await.text();
    assert!(text.contains("look") && text.contains("It says: a b c"), "{text}");
    lab.assert_gone().await;
}

/// A named client gives its tool up and says something else.
#[tokio::test(start_paused = true)]
async fn new_message_ends_the_wait_for_results() {
    // There must be a state to continue.
    let lab = Lab::scenario(&TOOL.replacen("steps = [", "steps = [\"checkpoint\",", 1));
    let mut talk = Talk::new("look");
    talk.headers.push(("x-session-id", "a".to_owned()));
    talk.ask(&lab).await;
    talk.say("never mind");
    talk.forget_past();
    let text = talk.ask(&lab).await.text();
    assert!(text.contains("told anew") && text.contains("look"), "{text}");
    assert_eq!((lab.fates().superseded, lab.app.sessions().parked), (1, 0));
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn unusable_store_does_not_prevent_answers() {
    let dir = crate::watch::folder();
    std::fs::write(dir.path().join("store.db"), "not a database").unwrap();
    let scenario = Scenario::from_toml(TOOL).unwrap();
    let lab = Lab::with(SimConfig::scenario(scenario), kept(dir.path()));
    let mut talk = Talk::new("look");
    let call = talk.ask(&lab).await.call();
    talk.result(&call, "a b c");
    assert_eq!(talk.ask(&lab).await.text(), "It says: a b c");
    let health: Value = lab.get("/health").await.json();
    assert!(health["store"].is_object(), "{health}");
    lab.assert_gone().await;
}
