//! Turns that end badly leave nothing behind: no process, no folder, no socket, no room.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use super::{
    BACKENDS, Gateway, body,
    machine::{Process, children, descriptors, entries, marked},
    nothing_left, pause, tell, user,
};
use crate::client::{Said, ask, send};

/// Clients at once, and children.
const CLIENTS: usize = 6;

/// For what a turn started to go, once the turn is over. A child that does not want to end
/// is given 2 s.
const GONE: Duration = Duration::from_secs(20);

/// What may stay open after the first turn: the listener of the rooms, and its task.
const SLACK: usize = 4;

/// A way for a turn to end badly.
struct Trouble {
    name: &'static str,
    /// The stand-in's behaviour.
    words: &'static str,
    client: fn(&Gateway, usize, &Rooms),
    /// There are calls, so there are rooms for them.
    calls: bool,
    /// Turns of it with each backend, in a short run and in a long one.
    turns: [usize; 2],
}

/// Half of 60, and half of 500: the other half is the other backend's.
const TROUBLES: [Trouble; 7] = [
    Trouble {
        name: "client leaves",
        words: "slow:20ms",
        client: leave,
        calls: false,
        turns: [6, 55],
    },
    Trouble {
        name: "client leaves its tools",
        words: "",
        client: leave_tools,
        calls: true,
        turns: [5, 40],
    },
    Trouble {
        name: "crash",
        words: "crash-after:5",
        client: hear_an_error,
        calls: false,
        turns: [6, 55],
    },
    Trouble { name: "silence", words: "hang", client: hear_an_error, calls: false, turns: [4, 30] },
    Trouble {
        name: "grandchild",
        words: "zombie",
        client: leave_or_stay,
        calls: false,
        turns: [4, 30],
    },
    Trouble {
        name: "deaf child",
        words: "ignore-sigterm,slow:300ms",
        client: leave,
        calls: false,
        turns: [2, 15],
    },
    Trouble {
        name: "child gives up",
        words: "mcp-timeout:1s",
        client: answer_late,
        calls: true,
        turns: [3, 25],
    },
];

const SETTINGS: &[&str] = &[
    "cursor_agent.max_processes=6",
    "cursor_agent.warm=0",
    "cursor_agent.idle=200ms",
    "clocks.cancel_grace=50ms",
    "clocks.heartbeats_only=500ms",
    "clocks.drain=1s",
    "retry.max=1",
    "retry.base_delay=10ms",
    "sessions.ttl=500ms",
];

const QUESTION: &str = "Use the tool get_weather {\"city\":\"Oslo\"}";

/// Addresses of rooms, and what opens them.
type Rooms = Mutex<BTreeSet<(String, String)>>;

#[test]
fn thirty_bad_turns_over_stream_json_leave_nothing() {
    all_troubles("cli", 0, 30);
}

#[test]
fn thirty_bad_turns_over_acp_leave_nothing() {
    all_troubles("acp", 0, 30);
}

#[test]
#[ignore = "takes a minute; `cargo xtask test --only children-500` runs it"]
fn five_hundred_bad_turns_leave_nothing() {
    for backend in BACKENDS {
        all_troubles(backend, 1, 250);
    }
}

fn all_troubles(backend: &str, run: usize, turns: usize) {
    let began = Instant::now();
    assert_eq!(TROUBLES.iter().map(|trouble| trouble.turns[run]).sum::<usize>(), turns);
    for trouble in &TROUBLES {
        let what = format!("{backend}: {}", trouble.name);
        let gateway = Gateway::start(backend, trouble.words, SETTINGS);
        let before = Before::of(&gateway);
        let rooms = Rooms::default();
        let (next, turns) = (AtomicUsize::new(0), trouble.turns[run]);
        thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| {
                    loop {
                        let turn = next.fetch_add(1, Ordering::Relaxed);
                        if turn >= turns {
                            return;
                        }
                        (trouble.client)(&gateway, turn, &rooms);
                    }
                });
            }
        });
        before.is_again(&what, &gateway);
        let rooms = rooms.into_inner();
        assert_eq!(rooms.is_empty(), !trouble.calls, "{what}: {rooms:?}");
        for (url, bearer) in &rooms {
            assert!(is_closed(url, bearer), "{what}: {url} is still open");
        }
        tell(&format!("{what}: {turns} turns, {:?}", began.elapsed()));
    }
}

/// What there is before the first turn.
struct Before {
    children: Vec<Process>,
    descriptors: usize,
}

impl Before {
    fn of(gateway: &Gateway) -> Self {
        // Asking which account is signed in starts a child, too.
        nothing_left("at the start", GONE, || shown(&gateway.marked()));
        let descriptors = descriptors(gateway.id()).values().sum();
        Self { children: children(gateway.id()), descriptors }
    }

    fn is_again(&self, what: &str, gateway: &Gateway) {
        nothing_left(&format!("{what}: turns"), GONE, || {
            let sessions = gateway.sessions();
            let idle = sessions["active"] == 0 && sessions["parked"] == 0;
            if idle { Vec::new() } else { vec![sessions.to_string()] }
        });
        nothing_left(&format!("{what}: processes"), GONE, || shown(&gateway.marked()));
        nothing_left(&format!("{what}: children"), GONE, || {
            let mut now = children(gateway.id());
            now.retain(|child| !self.children.contains(child));
            shown(&now)
        });
        nothing_left(&format!("{what}: folders"), GONE, || {
            gateway.folders().iter().map(|path| path.display().to_string()).collect()
        });
        nothing_left(&format!("{what}: descriptors"), GONE, || {
            let now: BTreeMap<_, _> = descriptors(gateway.id());
            let more = now.values().sum::<usize>().saturating_sub(self.descriptors);
            if more <= SLACK { Vec::new() } else { vec![format!("{more} more: {now:?}")] }
        });
    }
}

fn shown(processes: &[Process]) -> Vec<String> {
    processes.iter().map(|process| format!("{process:?}")).collect()
}

// === what the clients do ===

/// Goes away in the middle of the answer.
fn leave(gateway: &Gateway, turn: usize, _: &Rooms) {
    let question = format!("{turn}: tell me of the sea, and take your time with it");
    send(gateway.url(), &[], &body(&[user(&question)])).until("\"content\":\"I");
}

/// Takes a call and never comes back with its result.
fn leave_tools(gateway: &Gateway, turn: usize, rooms: &Rooms) {
    call(gateway, turn, rooms);
}

fn hear_an_error(gateway: &Gateway, turn: usize, _: &Rooms) {
    let question = format!("{turn}: hello");
    let answer = send(gateway.url(), &[], &body(&[user(&question)])).rest();
    assert!(answer.contains("\"error\""), "{answer}");
}

fn leave_or_stay(gateway: &Gateway, turn: usize, rooms: &Rooms) {
    if turn.is_multiple_of(2) {
        return leave(gateway, turn, rooms);
    }
    let said = ask(gateway.url(), &[], &body(&[user("hello")]));
    assert_eq!(said.finish, "stop", "{said:?}");
}

/// The child has given up on the call by then; every other client has, too.
fn answer_late(gateway: &Gateway, turn: usize, rooms: &Rooms) {
    let (question, said) = call(gateway, turn, rooms);
    if turn.is_multiple_of(2) {
        return;
    }
    pause(Duration::from_millis(1_050));
    let late = [question, said.message(), said.calls[0].result("rain")];
    // Whatever is said to that, it is an answer.
    send(gateway.url(), &[], &body(&late)).until("data: [DONE]");
}

fn call(gateway: &Gateway, turn: usize, rooms: &Rooms) -> (Value, Said) {
    let question = user(&format!("{QUESTION} ({turn})"));
    let mut answer = send(gateway.url(), &[], &body(std::slice::from_ref(&question)));
    let said = Said::read(&answer.until("\"finish_reason\":\"tool_calls\""));
    for folder in gateway.folders() {
        // It may go at any time.
        let servers = fs::read(folder.join(".cursor/mcp.json")).unwrap_or_default();
        let servers: Value = serde_json::from_slice(&servers).unwrap_or_default();
        let server = &servers["mcpServers"]["ibeam"];
        if let (Some(url), Some(bearer)) =
            (server["url"].as_str(), server["headers"]["Authorization"].as_str())
        {
            rooms.lock().insert((url.to_owned(), bearer.to_owned()));
        }
    }
    (question, said)
}

/// The port is closed, or the path is unknown.
fn is_closed(url: &str, bearer: &str) -> bool {
    let (address, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let Ok(mut stream) = TcpStream::connect(address) else { return true };
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    write!(
        stream,
        "POST /{path} HTTP/1.1\r\nhost: {address}\r\nauthorization: {bearer}\r\n\
         connection: close\r\naccept: application/json, text/event-stream\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{ping}",
        ping.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.starts_with("HTTP/1.1 404")
}

// === the end of the program ===

/// One turn that waits for its tool, one that streams; the children of both have
/// children of their own, and are deaf.
fn busy(backend: &str) -> Gateway {
    let words = "zombie,ignore-sigterm,slow:100ms";
    let settings = ["clocks.drain=1s", "cursor_agent.warm=0"];
    let gateway = Gateway::start(backend, words, &settings);
    let rooms = Rooms::default();
    call(&gateway, 0, &rooms);
    let (url, bearer) = rooms.into_inner().pop_first().unwrap();
    assert!(!is_closed(&url, &bearer), "{url} should be open");
    leave(&gateway, 1, &Rooms::default());
    // Two children, and what each of them left behind.
    assert!(gateway.marked().len() >= 4, "{:?}", gateway.marked());
    assert_eq!(gateway.folders().len(), 2, "{:?}", gateway.folders());
    gateway
}

#[test]
fn stopped_gateway_ends_all_children() {
    for backend in BACKENDS {
        let gateway = busy(backend);
        let runs = gateway.runs();
        let began = Instant::now();
        let Gateway { home, server, .. } = gateway;
        let log = server.stop();
        let took = began.elapsed();
        assert!(took < Duration::from_secs(5), "{backend}: {took:?}");
        assert_eq!(shown(&marked(home.0.path())), <[String; 0]>::default(), "{backend}");
        // The place of the first program stays, with nothing in it but its lock.
        let left: Vec<_> = entries(&runs).iter().flat_map(|home| entries(home)).collect();
        assert_eq!(left, [runs.join("first/lock")], "{backend}");
        assert!(!log.contains("ERROR"), "{backend}: {log}");
    }
}

#[test]
fn next_gateway_cleans_up_after_a_killed_one() {
    for backend in BACKENDS {
        let mut gateway = busy(backend);
        let before = gateway.marked();
        gateway.kill_and_restart();
        nothing_left(&format!("{backend}: processes"), GONE, || {
            let mut now = gateway.marked();
            now.retain(|process| before.contains(process));
            shown(&now)
        });
        nothing_left(&format!("{backend}: folders"), GONE, || {
            gateway.folders().iter().map(|path| path.display().to_string()).collect()
        });
    }
}
