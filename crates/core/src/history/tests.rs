use bytes::Bytes;
use proptest::prelude::*;
use serde_json::value::RawValue;

use super::{Fingerprint, HistoryChain, setup, split, take_marker};
use crate::model::{
    Dialect, FinishReason, Hints, Image, ImageSource, Item, Message, Part, Reasoning, Role,
    Sampling, Tool, ToolCall, ToolChoice, ToolResult, TurnEvent, TurnRequest,
    ids::{CallId, hex},
};

fn message(role: Role, text: &str) -> Item {
    Item::Message(Message { role, parts: vec![Part::Text(text.to_owned())] })
}

fn user(text: &str) -> Item {
    message(Role::User, text)
}

fn assistant(text: &str) -> Item {
    message(Role::Assistant, text)
}

fn reasoning() -> Item {
    Item::Reasoning(Reasoning { text: "hm".to_owned() })
}

fn call(id: &str, name: &str, arguments: &str) -> Item {
    Item::ToolCall(ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
    })
}

fn result(id: &str, text: &str) -> Item {
    let content = vec![Part::Text(text.to_owned())];
    Item::ToolResult(ToolResult { call_id: id.to_owned(), content, is_error: false })
}

fn picture(data: &'static [u8]) -> Image {
    let data = Bytes::from_static(data);
    Image { source: ImageSource::Inline { mime: "image/png".to_owned(), data } }
}

fn of(items: &[Item]) -> Fingerprint {
    HistoryChain::of(items).fingerprint()
}

#[test]
fn fingerprint_ignores_what_clients_reformat() {
    let past = [
        user("look"),
        assistant("I look.\n\nAnd list."),
        call("1", "read", "{}"),
        call("2", "ls", r#"{"a":1}"#),
        result("1", "text"),
        result("2", "names\n"),
        assistant("Done."),
    ];
    let sent = [
        user(" look\n"),
        reasoning(),
        call("2", "ls", r#"{ "a": 1.0 }"#),
        assistant("I look."),
        assistant(""),
        call("1", "read", ""),
        assistant("And list. "),
        result("2", "names"),
        reasoning(),
        result("1", "text"),
        assistant("Done.\n"),
    ];
    assert_eq!(of(&past), of(&sent));
}

/// Stored conversations are found by it, so it must never change.
#[test]
fn fingerprint_of_a_streamed_answer_equals_that_of_its_text() {
    let text = "one\u{a0}two\u{2003}three\u{85}fo\u{b}ur \t\r\nfünf 六 ".repeat(100);
    let mut pieces = HistoryChain::of(&[]);
    for piece in text.split_inclusive(char::is_whitespace) {
        pieces.hear(&TurnEvent::Text(piece.to_owned()));
    }
    let known = "fbe05496ba0d7f531fd999bf2b5f4597755516ea1046d665835bd8064ae751fe";
    assert_eq!(hex(&pieces.fingerprint().0), known);
    assert_eq!(hex(&of(&[assistant(&text)]).0), known);
}

#[test]
fn fingerprint_changes_with_the_content() {
    let past = [user("a"), assistant("b"), call("1", "read", ""), result("1", "c"), user("d")];
    let others = [
        vec![user("a")],
        vec![],
        vec![user("A"), assistant("b"), call("1", "read", ""), result("1", "c"), user("d")],
        vec![user("a"), assistant("B"), call("1", "read", ""), result("1", "c"), user("d")],
        vec![user("a"), assistant("b"), call("2", "read", ""), result("1", "c"), user("d")],
        vec![user("a"), assistant("b"), call("1", "ls", ""), result("1", "c"), user("d")],
        vec![user("a"), assistant("b"), call("1", "read", ""), result("1", "C"), user("d")],
        vec![user("a"), assistant("b"), call("1", "read", ""), result("2", "c"), user("d")],
        vec![user("a"), call("1", "read", ""), result("1", "c"), user("d")],
        vec![user("a"), assistant("b"), call("1", "read", ""), user("d"), result("1", "c")],
        vec![user("a"), user("b"), call("1", "read", ""), result("1", "c"), user("d")],
        vec![user("ab"), call("1", "read", ""), result("1", "c"), user("d")],
    ];
    let mut all: Vec<Fingerprint> = others.iter().map(|items| of(items)).collect();
    all.push(of(&past));
    all.sort();
    all.dedup();
    assert_eq!(all.len(), others.len() + 1);
}

#[test]
fn images_are_compared_by_their_bytes() {
    let ask = |image: Image| {
        let parts = vec![Part::Text("see".to_owned()), Part::Image(image)];
        of(&[Item::Message(Message { role: Role::User, parts })])
    };
    let answer = |image: Image| {
        let content = vec![Part::Image(image)];
        of(&[Item::ToolResult(ToolResult { call_id: "1".to_owned(), content, is_error: false })])
    };
    let renamed = |mut image: Image| {
        let ImageSource::Inline { mime, .. } = &mut image.source;
        "image/jpeg".clone_into(mime);
        image
    };
    for print in [ask, answer as fn(Image) -> Fingerprint] {
        assert_eq!(print(picture(b"a")), print(renamed(picture(b"a"))));
        assert_ne!(print(picture(b"a")), print(picture(b"b")));
    }
    assert_ne!(ask(picture(b"a")), of(&[user("see")]));
}

#[test]
fn new_items_begin_after_the_last_assistant_item() {
    for (items, expect) in [
        (vec![], 0),
        (vec![user("a")], 0),
        (vec![user("a"), assistant("b")], 2),
        (vec![user("a"), assistant("b"), user("c"), user("d")], 2),
        (vec![user("a"), call("1", "x", ""), result("1", "r"), user("c")], 2),
        (vec![user("a"), call("1", "x", ""), result("1", "r"), reasoning(), user("c")], 4),
    ] {
        assert_eq!(split(&items), expect, "{items:?}");
    }
}

fn request(system: &[&str], tools: &[(&str, &str, Option<&str>)]) -> TurnRequest {
    let tools = tools.iter().map(|(name, description, schema)| Tool {
        name: (*name).to_owned(),
        description: (*description).to_owned(),
        schema: schema.map(|schema| RawValue::from_string(schema.to_owned()).unwrap()),
    });
    TurnRequest {
        model: "auto".to_owned(),
        system: system.iter().map(|text| (*text).to_owned()).collect(),
        items: Vec::new(),
        tools: tools.collect(),
        tool_choice: ToolChoice::Auto,
        parallel_tool_calls: true,
        sampling: Sampling::default(),
        dialect: Dialect::Chat,
        hints: Hints::default(),
    }
}

#[test]
fn setup_is_the_prompt_and_the_tools() {
    let tool = ("read", "Reads", Some(r#"{"type":"object","required":["a"],"x":1}"#));
    let same =
        ("read", "Reads", Some("{ \"x\": 1.0, \"required\": [\"a\"], \"type\": \"object\" }"));
    let base = setup(&request(&["be kind"], &[tool, ("ls", "", None)]));
    assert_eq!(base, setup(&request(&["be kind\n"], &[("ls", "", None), same])));
    for (system, tools) in [
        (&["be rude"][..], &[tool, ("ls", "", None)][..]),
        (&["be kind", "x"], &[tool, ("ls", "", None)]),
        (&[], &[tool, ("ls", "", None)]),
        (&["be kind"], &[tool]),
        (&["be kind"], &[tool, ("ls", "Lists", None)]),
        (&["be kind"], &[tool, ("lz", "", None)]),
        (&["be kind"], &[("read", "Reads", Some("{}")), ("ls", "", None)]),
    ] {
        assert_ne!(base, setup(&request(system, tools)), "{system:?} {tools:?}");
    }
}

#[test]
fn session_markers_are_found_and_removed() {
    let long = format!("Session: session-{}", "a".repeat(128));
    let too_long = format!("{long}a");
    for (system, name, left) in [
        (&["Session: session-a.B_1-2"][..], Some("session-a.B_1-2"), &[][..]),
        (&["  Session:session-a \n"], Some("session-a"), &[]),
        (&["x", "Session: session-a", "y"], Some("session-a"), &["x", "y"]),
        (&["one\r\nSession: session-a\r\ntwo"], Some("session-a"), &["one\r\ntwo"]),
        (&["one\nSession: session-a"], Some("session-a"), &["one\n"]),
        (&["Session: session-a\nSession: session-b"], Some("session-a"), &[]),
        (&["Session: session-a", "x\nSession: session-b\n"], Some("session-a"), &["x\n"]),
        (&[long.as_str()], long.strip_prefix("Session: "), &[]),
        (&[too_long.as_str()], None, &[too_long.as_str()]),
        (&["Session: session-"], None, &["Session: session-"]),
        (&["Session: a"], None, &["Session: a"]),
        (&["Session: session-a b"], None, &["Session: session-a b"]),
        (&["Session: session-é"], None, &["Session: session-é"]),
        (&["the Session: session-a"], None, &["the Session: session-a"]),
        (&["", " "], None, &["", " "]),
    ] {
        let mut texts: Vec<String> = system.iter().map(|text| (*text).to_owned()).collect();
        assert_eq!(take_marker(&mut texts).as_deref(), name, "{system:?}");
        assert_eq!(texts, left, "{system:?}");
    }
}

// === properties ===

/// One leg: what goes out, and what the client does with it.
#[derive(Clone, Debug)]
struct Leg {
    steps: Vec<Step>,
    text_last: bool,
    reversed: bool,
    padding: String,
    /// Ends with results of its calls, or else with a user message.
    input: String,
}

#[derive(Clone, Debug)]
enum Step {
    Text(String),
    Reasoning,
    Call(String),
}

fn leg() -> impl Strategy<Value = Leg> {
    let step = prop_oneof![
        "[a-c é\n]{0,6}".prop_map(Step::Text),
        Just(Step::Reasoning),
        "[x-z]{1,2}".prop_map(Step::Call),
    ];
    (prop::collection::vec(step, 0..6), any::<bool>(), any::<bool>(), "[ \n\t]{0,3}", "[a-c ]{0,5}")
        .prop_map(|(steps, text_last, reversed, padding, input)| Leg {
            steps,
            text_last,
            reversed,
            padding,
            input,
        })
}

impl Leg {
    fn events(&self, n: usize) -> Vec<TurnEvent> {
        let mut events = vec![TurnEvent::Started];
        for (place, step) in self.steps.iter().enumerate() {
            let id = CallId::sanitised(&format!("c{n}_{place}"));
            match step {
                Step::Text(text) => events.push(TurnEvent::Text(text.clone())),
                Step::Reasoning => events.push(TurnEvent::Reasoning("hm".to_owned())),
                Step::Call(name) => {
                    events.push(TurnEvent::ToolCallBegin { id: id.clone(), name: name.clone() });
                    let delta = "{}".to_owned();
                    events.push(TurnEvent::ToolCallArgs { id: id.clone(), delta });
                    events.push(TurnEvent::ToolCallEnd { id });
                }
            }
        }
        events.push(TurnEvent::Finished(FinishReason::Stop));
        events
    }

    /// The answer as a client sends it back, and the input that follows.
    fn items(&self, n: usize) -> (Vec<Item>, Vec<Item>) {
        let mut text = self.padding.clone();
        let mut calls = Vec::new();
        for (place, step) in self.steps.iter().enumerate() {
            match step {
                Step::Text(piece) => text.push_str(piece),
                Step::Reasoning => {}
                Step::Call(name) => calls.push((format!("c{n}_{place}"), name)),
            }
        }
        text.push_str(&self.padding);
        if self.reversed {
            calls.reverse();
        }
        let mut answer: Vec<Item> =
            calls.iter().map(|(id, name)| call(id, name, " { } ")).collect();
        answer.insert(if self.text_last { answer.len() } else { 0 }, assistant(&text));
        let mut input: Vec<Item> = calls.iter().map(|(id, _)| result(id, &self.input)).collect();
        if input.is_empty() || self.reversed {
            input.push(user(&self.input));
        }
        (answer, input)
    }
}

proptest! {
    #[test]
    fn streamed_and_returned_history_have_the_same_fingerprint(legs in prop::collection::vec(leg(), 1..6)) {
        let mut items = vec![user("go")];
        for (n, leg) in legs.iter().enumerate() {
            let mut chain = HistoryChain::of(&items);
            for event in leg.events(n) {
                chain.hear(&event);
            }
            let (answer, input) = leg.items(n);
            items.extend(answer);
            items.extend(input);
            let past = &items[..split(&items)];
            prop_assert_eq!(chain.fingerprint(), of(past), "{:?}", past);
        }
    }

    #[test]
    fn edited_history_has_another_fingerprint(
        legs in prop::collection::vec(leg(), 1..5), at in any::<prop::sample::Index>(),
    ) {
        let mut items = vec![user("go")];
        for (n, leg) in legs.iter().enumerate() {
            let (answer, input) = leg.items(n);
            items.extend(answer);
            items.extend(input);
        }
        let before = of(&items);
        let at = at.index(items.len());
        if let Item::Message(message) = &mut items[at] {
            message.parts.push(Part::Text("edited".to_owned()));
        } else {
            items.remove(at);
        }
        prop_assert_ne!(before, of(&items));
    }
}
