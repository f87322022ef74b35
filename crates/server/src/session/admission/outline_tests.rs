use super::*;
use bytes::Bytes;
use ibeam_core::model::{
    Dialect, Hints, Message, Part, Sampling, ToolCall, ToolChoice, ToolResult, ids::CallId,
};

const MINE: Scope = [7; 32];

fn session(n: u8) -> SessionId {
    SessionId::from_random([n; 16])
}

fn call_id(of: u8, n: u32) -> String {
    CallId::in_session(session(of), n).as_str().to_owned()
}

fn said(role: Role, text: &str) -> Item {
    Item::Message(Message { role, parts: vec![Part::Text(text.into())] })
}

fn user(text: &str) -> Item {
    said(Role::User, text)
}

fn call(of: u8, n: u32) -> Item {
    let (id, name, arguments) = (call_id(of, n), "bash".into(), "{}".into());
    Item::ToolCall(ToolCall { id, name, arguments })
}

fn result(of: u8, n: u32, text: &str) -> Item {
    let content = vec![Part::Text(text.into())];
    Item::ToolResult(ToolResult { call_id: call_id(of, n), content, is_error: false })
}

fn request(items: Vec<Item>) -> TurnRequest {
    TurnRequest {
        model: "auto".into(),
        system: vec![],
        items,
        tools: vec![],
        tool_choice: ToolChoice::Auto,
        parallel_tool_calls: true,
        sampling: Sampling::default(),
        dialect: Dialect::Chat,
        hints: Hints::default(),
    }
}

fn outline(request: &TurnRequest) -> RequestOutline {
    RequestOutline::new(request, None, MINE, ModelPick::default())
}

/// What is stored after `items` were said.
fn stored(items: &[Item]) -> StoredConversation {
    let request = request(items.to_vec());
    StoredConversation {
        scope: MINE,
        id: "c".into(),
        session: Some(session(1)),
        name: Some("n".into()),
        setup: history::setup(&request),
        fingerprint: HistoryChain::of(items).fingerprint(),
        opening: None,
        checkpoint: Some(Bytes::from_static(b"state")),
        calls: vec![],
        highest_call: None,
    }
}

fn past() -> Vec<Item> {
    vec![user("hi"), said(Role::Assistant, "hello")]
}

fn full() -> Vec<Item> {
    [past(), vec![user("more")]].concat()
}

#[test]
fn use_of_a_stored_conversation_depends_on_the_request() {
    type Change = fn(&mut StoredConversation);
    type Case = (&'static str, Vec<Item>, FoundBy, Change, bool, StoredUse);
    let same: Change = |_| {};
    let no_state: Change = |stored| stored.checkpoint = None;
    let other_setup: Change = |stored| stored.setup = [0; 32];
    let with_calls: Change = |stored| {
        let (id, name, arguments) = (call_id(1, 1), "bash".into(), "{}".into());
        stored.calls = vec![ToolCall { id, name, arguments }];
    };
    let new = || vec![user("more")];
    let told = || vec![user("hi"), call(1, 1), result(1, 1, "x")];
    let bare = || vec![result(1, 1, "x")];
    let edited = || vec![user("ho"), said(Role::Assistant, "hello"), user("more")];
    let at = |covers| StoredUse::Continue { covers, new_setup: false };
    let fresh_setup = StoredUse::Continue { covers: 0, new_setup: true };
    #[rustfmt::skip]
    let cases: Vec<Case> = vec![
        ("a history that goes on", full(), FoundBy::Past, same, true, at(2)),
        ("an edited one", edited(), FoundBy::Past, same, true, StoredUse::Not),
        ("nothing to go on from", full(), FoundBy::Past, no_state, true, StoredUse::Rebuild),
        ("other tools", full(), FoundBy::Past, other_setup, true, StoredUse::Fork),
        ("past unanswered calls", full(), FoundBy::Past, with_calls, true, StoredUse::Rebuild),
        ("reuse is off", full(), FoundBy::Past, same, false, StoredUse::Rebuild),
        ("a marker and the new message", new(), FoundBy::Marker, same, true, at(0)),
        ("a header and the new message", new(), FoundBy::Header, same, true, at(0)),
        ("a marker and unanswered calls", new(), FoundBy::Marker, with_calls, true, at(0)),
        ("a marker and the first words", vec![user("hi")], FoundBy::Marker, same, true, at(0)),
        ("a header and the first words", vec![user("hi")], FoundBy::Header, same, true, at(0)),
        ("a marker and another prompt", new(), FoundBy::Marker, other_setup, true, fresh_setup),
        ("a header and another prompt", new(), FoundBy::Header, other_setup, true, StoredUse::Fork),
        ("a name without a state", new(), FoundBy::Marker, no_state, true, StoredUse::Not),
        ("a name while reuse is off", new(), FoundBy::Marker, same, false, StoredUse::Not),
        ("a marker and the whole history", full(), FoundBy::Marker, same, true, at(2)),
        ("a whole history, another prompt", full(), FoundBy::Marker, other_setup, true, StoredUse::Fork),
        ("a header and the whole history", full(), FoundBy::Header, same, true, at(2)),
        ("a marker and an edited history", edited(), FoundBy::Marker, same, true, StoredUse::Fork),
        ("a header and an edited history", edited(), FoundBy::Header, same, true, StoredUse::Fork),
        ("edited, with another prompt", edited(), FoundBy::Header, other_setup, true, StoredUse::Not),
        ("a name, all of it, reuse off", full(), FoundBy::Header, same, false, StoredUse::Rebuild),
        ("results with their calls", told(), FoundBy::Session, with_calls, true, StoredUse::Rebuild),
        ("bare results", bare(), FoundBy::Session, with_calls, true, at(0)),
        ("bare results, no state", bare(), FoundBy::Session, no_state, true, StoredUse::Rebuild),
        ("results with other tools", told(), FoundBy::Session, other_setup, true, StoredUse::Fork),
        ("bare results, reuse off", bare(), FoundBy::Session, same, false, StoredUse::Rebuild),
    ];
    for (name, items, by, change, reuse, want) in cases {
        let mut stored = stored(&past());
        change(&mut stored);
        assert_eq!(outline(&request(items)).judge(&stored, by, reuse), want, "{name}");
    }
}

#[test]
fn results_name_their_session() {
    let results = |items| outline(&request(items)).results;
    let with = |of, calls: &[u32], has_calls| {
        Some(BroughtResults { session: session(of), calls: calls.to_vec(), has_calls })
    };
    assert_eq!(results(full()), None);
    assert_eq!(results(vec![user("x"), call(1, 1), result(1, 1, "r")]), with(1, &[1], true));
    assert_eq!(results(vec![result(1, 2, "r"), result(1, 1, "r")]), with(1, &[1, 2], false));
    let old = vec![user("x"), call(1, 1), result(1, 1, "r"), said(Role::Assistant, "y")];
    assert_eq!(results([old, vec![user("z")]].concat()), None, "these are history");
    let two = vec![call(1, 1), call(2, 1), result(1, 1, "r"), result(2, 1, "r"), user("z")];
    assert_eq!(results(two), with(2, &[1], true), "the newest");
}

#[test]
fn equal_results_are_the_same_leg() {
    let key = |items: Vec<Item>| outline(&request(items)).results_key;
    let told = |more: Vec<Item>| [vec![user("x"), call(1, 1), call(1, 2)], more].concat();
    let base = key(told(vec![result(1, 1, "a"), result(1, 2, "b")]));
    assert!(base.is_some());
    assert_eq!(base, key(told(vec![result(1, 2, "b"), result(1, 1, "a")])), "in any order");
    let twice = vec![result(1, 1, "old"), result(1, 2, "b"), result(1, 1, "a")];
    assert_eq!(base, key(told(twice)), "the later counts");
    for other in [
        vec![result(1, 1, "A"), result(1, 2, "b")],
        vec![result(1, 1, "b"), result(1, 2, "a")],
        vec![result(1, 1, "a")],
        vec![result(2, 1, "a"), result(2, 2, "b")],
        vec![result(1, 1, "a"), result(1, 2, "b"), user("and?")],
    ] {
        assert_ne!(base, key(told(other)));
    }
    let request = request(told(vec![result(1, 1, "a"), result(1, 2, "b")]));
    let yours = RequestOutline::new(&request, None, [8; 32], ModelPick::default());
    assert_ne!(base, yours.results_key, "someone else's");
    let effort = vec![("effort".to_owned(), "high".to_owned())];
    for model in [
        ModelPick { id: "gpt".into(), ..ModelPick::default() },
        ModelPick { parameters: effort, ..ModelPick::default() },
    ] {
        assert_ne!(base, RequestOutline::new(&request, None, MINE, model).results_key);
    }
    let forced = TurnRequest { tool_choice: ToolChoice::None, ..request };
    assert_ne!(base, outline(&forced).results_key);
}

#[test]
fn unknown_history_always_gets_the_same_id() {
    let id = |items, scope| {
        RequestOutline::new(&request(items), None, scope, ModelPick::default()).content_id()
    };
    assert_eq!(id(full(), MINE), id([past(), vec![user("other")]].concat(), MINE));
    assert_ne!(id(full(), MINE), id(full(), [8; 32]));
    assert_ne!(id(full(), MINE), id([full(), past(), vec![user("x")]].concat(), MINE));
}

#[test]
fn results_whose_call_is_not_in_the_request_are_found() {
    let found = |items: Vec<Item>| outline(&request(items)).missing_calls;
    assert_eq!(found(vec![user("x"), call(1, 1), result(1, 1, "r")]), [""; 0]);
    assert_eq!(found(vec![result(1, 1, "r")]), [call_id(1, 1)]);
    let beside = vec![user("x"), call(1, 1), result(1, 1, "r"), result(2, 1, "r")];
    assert_eq!(found(beside), [call_id(2, 1)]);
    // What was trimmed long ago is sent as text, and needs no call.
    let old = vec![result(1, 1, "r"), said(Role::Assistant, "y"), user("z")];
    assert_eq!(found(old), [""; 0]);
}
