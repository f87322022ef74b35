//! The gateway is killed, and another takes its place.

use serde_json::{Value, json};

use super::{
    Backend, Gateway,
    gateway::{soon, user},
    on_each_backend,
};
use crate::client::{Said, ask, tool};

fn body(messages: &[Value]) -> Value {
    let tools = [tool("get_weather", &["city"]), tool("get_time", &["city"])];
    json!({ "model": "auto", "stream": true, "messages": messages, "tools": tools })
}

const TWO: &str = "Use the tool get_weather {\"city\":\"Oslo\"}, then use the tool get_time \
                   {\"city\":\"Rome\"}";

/// Kills it; nothing of what it started is left.
fn replace(gateway: &mut Gateway) {
    let (processes, folders) = (gateway.processes(), gateway.folders());
    if gateway.backend != Backend::Agent {
        assert!(!processes.is_empty() && !folders.is_empty(), "{}", gateway.log());
    }
    gateway.kill_and_restart();
    let left = |gateway: &Gateway| {
        let alive = gateway.processes().iter().any(|id| processes.contains(id));
        alive || folders.iter().any(|folder| folder.exists())
    };
    soon("something of the killed gateway is left", || !left(gateway));
}

fn a_result_is_answered_after_a_restart(backend: Backend) {
    let mut gateway = Gateway::start(backend, "");
    let mut messages = vec![user(TWO)];
    let first: Said = gateway.ask(&body(&messages));
    assert_eq!(first.calls[0].name, "get_weather", "{first:?}");
    messages.extend([first.message(), first.calls[0].result("rain in Oslo")]);
    replace(&mut gateway);
    // The chain continues.
    let second = gateway.ask(&body(&messages));
    assert_eq!(second.calls[0].name, "get_time", "{second:?}");
    messages.extend([second.message(), second.calls[0].result("noon in Rome")]);
    let last = gateway.ask(&body(&messages));
    assert!(last.text.contains("noon in Rome"), "{last:?}");
    gateway.assert_idle();
}

/// Both are sent by a client that names its session and sends only what is new.
fn a_conversation_goes_on_after_a_restart(backend: Backend) {
    let mut gateway = Gateway::start_lasting(backend);
    let session = [("x-session-id", "restarted")];
    let first = ask(&gateway.url, &session, &body(&[user("My word is heliotrope.")]));
    assert_eq!(first.finish, "stop", "{first:?}");
    if backend == Backend::Acp {
        replace(&mut gateway);
    } else {
        // There is no process where there is no turn.
        gateway.assert_idle();
        gateway.kill_and_restart();
    }
    let next = body(&[user("What did I say?")]);
    let told = ask(&gateway.url, &session, &next);
    assert!(told.text.contains("My word is heliotrope."), "{told:?}\n{}", gateway.log());
    let told = ask(&gateway.url, &[("x-session-id", "another")], &next);
    assert!(!told.text.contains("heliotrope"), "{told:?}");
}

/// What is kept of a conversation can be continued only by the backend that had it.
#[test]
fn a_conversation_is_not_continued_on_another_backend() {
    let session = [("x-session-id", "moved")];
    let mut gateway = Gateway::start(Backend::Cli, "");
    for backend in [Backend::Acp, Backend::Agent, Backend::Cli] {
        let word = format!("My word for {} is heliotrope.", gateway.backend.name());
        let first = ask(&gateway.url, &session, &body(&[user(&word)]));
        assert_eq!(first.finish, "stop", "{first:?}");
        gateway.assert_idle();
        gateway.kill_and_restart_as(backend);
        if backend != Backend::Cli {
            let told = ask(&gateway.url, &session, &body(&[user("What did I say?")]));
            assert!(!told.text.contains("heliotrope"), "{told:?}\n{}", gateway.log());
        }
    }
    // The first one still has what it kept.
    let told = ask(&gateway.url, &session, &body(&[user("What did I say?")]));
    assert!(told.text.contains("My word for cli is heliotrope."), "{told:?}\n{}", gateway.log());
}

on_each_backend!(a_result_is_answered_after_a_restart, a_conversation_goes_on_after_a_restart);
