//! What survives a sudden end. Between a tool call and its result the gateway is killed,
//! as the kernel does it when memory is short, or the backend is; the result must still
//! get its answer.

use std::net::TcpListener;

use ibeam_sim::Sim;
use serde_json::{Value, json};

use crate::{
    cli::{Home, Server},
    client::{Said, ask, send, tool},
};

/// The simulator and the gateway, each a process of its own; the gateway keeps its home
/// folder when it is started again.
struct Pair {
    home: Home,
    port: u16,
    sim: Server,
    gateway: Server,
}

impl Pair {
    fn start() -> Self {
        let home = Home::new();
        let port = free_port();
        let sim = start_sim(&home, port);
        let gateway = start_gateway(&home, &sim.url);
        Self { home, port, sim, gateway }
    }

    fn kill_gateway(&mut self) {
        self.gateway.child.kill().unwrap();
        self.gateway.child.wait().unwrap();
        self.gateway = start_gateway(&self.home, &self.sim.url);
    }

    /// The backend forgets everything, and every stream to it is reset.
    fn kill_sim(&mut self) {
        self.sim.child.kill().unwrap();
        self.sim.child.wait().unwrap();
        self.sim = start_sim(&self.home, self.port);
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn start_sim(home: &Home, port: u16) -> Server {
    Server::start(home.ibeam(&format!("sim --port {port}")))
}

fn start_gateway(home: &Home, backend: &str) -> Server {
    let mut command = home.ibeam("serve --port 0");
    command.env("CURSOR_API_URL", backend).env("CURSOR_ACCESS_TOKEN", Sim::TOKEN);
    Server::start(command)
}

fn body(messages: &[Value], stream: bool) -> Value {
    let tools = [tool("get_weather", &["city"]), tool("get_time", &["city"])];
    json!({ "model": "auto", "stream": stream, "messages": messages, "tools": tools })
}

fn user(text: &str) -> Value {
    json!({ "role": "user", "content": text })
}

/// Asks, and reads no further than the call. A streamed answer is left unread behind it:
/// whatever the gateway wants to keep for later must be kept by now.
fn call(url: &str, headers: &[(&str, &str)], messages: &[Value], stream: bool) -> Said {
    let mut incoming = send(url, headers, &body(messages, stream));
    let said = if stream {
        let text = incoming.until("\"finish_reason\":\"tool_calls\"");
        Said::read(&text)
    } else {
        Said::read(&incoming.rest())
    };
    assert_eq!(said.finish, "tool_calls", "{said:?}");
    said
}

/// Not a word of it is in the request or the scenario.
fn secret(case: &str) -> String {
    format!("sunny-{case}-{}", free_port())
}

const QUESTION: &str = "Use the tool get_weather {\"city\":\"Oslo\"}";

fn two_wishes() -> String {
    format!("{QUESTION}, then use the tool get_time {{\"city\":\"Rome\"}}")
}

fn whole_history(stream: bool, end: impl FnOnce(&mut Pair)) {
    let mut pair = Pair::start();
    let messages = [user(QUESTION)];
    let said = call(&pair.gateway.url, &[], &messages, stream);
    assert_eq!(said.calls[0].name, "get_weather");
    end(&mut pair);
    let result = secret("whole");
    let next = [messages[0].clone(), said.message(), said.calls[0].result(&result)];
    let answer = ask(&pair.gateway.url, &[], &body(&next, stream));
    assert_eq!(answer.finish, "stop", "{answer:?}");
    assert!(answer.text.contains(&result), "{answer:?}");
}

#[test]
fn a_killed_gateway_answers_the_result_after_its_restart() {
    whole_history(false, Pair::kill_gateway);
}

#[test]
fn gateway_killed_during_a_stream_answers_after_its_restart() {
    whole_history(true, Pair::kill_gateway);
}

#[test]
fn backend_that_dies_while_parked_is_replaced() {
    whole_history(false, Pair::kill_sim);
    whole_history(true, Pair::kill_sim);
}

#[test]
fn gateway_and_backend_killed_at_once_recover() {
    whole_history(true, |pair| {
        pair.kill_sim();
        pair.kill_gateway();
    });
}

/// One result came before the end, the other comes after it.
#[test]
fn second_call_of_a_chain_survives_a_kill() {
    let mut pair = Pair::start();
    let mut messages = vec![user(&two_wishes())];
    let first = call(&pair.gateway.url, &[], &messages, true);
    messages.extend([first.message(), first.calls[0].result(&secret("first"))]);
    let second = call(&pair.gateway.url, &[], &messages, true);
    assert_eq!(second.calls[0].name, "get_time", "{second:?}");
    assert_ne!(second.calls[0].id, first.calls[0].id);
    pair.kill_gateway();
    let result = secret("second");
    messages.extend([second.message(), second.calls[0].result(&result)]);
    let answer = ask(&pair.gateway.url, &[], &body(&messages, true));
    assert!(answer.text.contains(&result), "{answer:?}");
}

/// The client sends the result alone. That there is a second wish, and which, is known
/// only to who kept the conversation.
fn named(stream: bool, end: impl FnOnce(&mut Pair)) {
    let mut pair = Pair::start();
    let headers = [("x-session-id", "killed-session")];
    let first = call(&pair.gateway.url, &headers, &[user(&two_wishes())], stream);
    end(&mut pair);
    let next = [first.calls[0].result(&secret("named"))];
    let second = call(&pair.gateway.url, &headers, &next, stream);
    assert_eq!(second.calls[0].name, "get_time", "{second:?}");
    assert!(second.calls[0].arguments.contains("Rome"), "{second:?}");
    let result = secret("last");
    let last = body(&[second.calls[0].result(&result)], stream);
    let answer = ask(&pair.gateway.url, &headers, &last);
    assert_eq!(answer.finish, "stop", "{answer:?}");
    assert!(answer.text.contains(&result), "{answer:?}");
}

#[test]
fn named_session_continues_with_only_a_result() {
    named(false, |_| {});
    named(true, |_| {});
}

#[test]
fn a_named_session_survives_a_killed_gateway() {
    named(false, Pair::kill_gateway);
    named(true, Pair::kill_gateway);
}

#[test]
fn a_named_session_survives_a_lost_backend() {
    named(true, Pair::kill_sim);
}

/// What was said before the kill is known after it, and only under that name.
#[test]
fn named_session_remembers_messages_from_before_the_kill() {
    let mut pair = Pair::start();
    let headers = [("x-session-id", "long-memory")];
    let word = secret("memory");
    let question = format!("My word is {word}. {QUESTION}");
    let said = call(&pair.gateway.url, &headers, &[user(&question)], true);
    pair.kill_gateway();
    let result = body(&[said.calls[0].result("rain")], true);
    assert_eq!(ask(&pair.gateway.url, &headers, &result).finish, "stop");
    let next = body(&[user("What did I say?")], false);
    let answer = ask(&pair.gateway.url, &headers, &next);
    assert!(answer.text.contains(&word), "{answer:?}");
    let answer = ask(&pair.gateway.url, &[("x-session-id", "another")], &next);
    assert!(!answer.text.contains(&word), "{answer:?}");
}
