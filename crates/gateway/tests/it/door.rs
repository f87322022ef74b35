//! The front door of a real process on real sockets: what should not come in is refused
//! cheaply, while a stream that runs goes on.
//!
//! Run with `--no-capture` to see the numbers.

use std::{
    fmt::Write as _,
    io::{BufRead as _, BufReader, Read, Write},
    net::{Shutdown, TcpStream},
    process::{Child, Command, Stdio},
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::lab::chat;

/// The sockets of the crowd, and then some.
const FILES: u64 = 6_000;
const CROWD: usize = 5_000;
const PLACES: usize = 4_096;

/// A stream that runs may be this late with an event, on a machine that has much else to
/// do. It is a hundred times its pace.
const LATE: Duration = Duration::from_secs(1);

const TICKS: &str =
    "[[rule]]\nsteps = [{ text = { text = \"tick \", repeat = 100000, pace_ms = 10 } }]";

struct Gateway {
    child: Child,
    address: String,
    key: String,
    home: tempfile::TempDir,
}

impl Gateway {
    fn start(settings: &str) -> Self {
        let home = crate::watch::folder();
        let scenario = home.path().join("ticks.toml");
        std::fs::write(&scenario, TICKS).unwrap();
        let ibeam = |line: &str| {
            let mut command = Command::new(crate::watch::program());
            command.args(line.split_whitespace()).env_clear().env("HOME", home.path());
            command.stdin(Stdio::null()).stderr(Stdio::null());
            command
        };
        let made = ibeam("keys add test").output().unwrap();
        assert!(made.status.success());
        let mut serve =
            ibeam(&format!("serve --sim --port 0 --log-level off {settings} --scenario"));
        let mut child = serve.arg(&scenario).stdout(Stdio::piped()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        let key = String::from_utf8(made.stdout).unwrap().trim().to_owned();
        crate::watch::secret(&key);
        Self { child, address: url.trim().strip_prefix("http://").unwrap().to_owned(), key, home }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }

    fn host(&self) -> String {
        format!("host: {}\r\n", self.address)
    }

    fn auth(&self) -> String {
        format!("authorization: Bearer {}\r\n", self.key)
    }

    /// The status of the answer to these headers.
    fn status(&self, headers: &str) -> u16 {
        let mut stream = self.connect();
        let request = format!("GET /v1/models HTTP/1.1\r\n{headers}connection: close\r\n\r\n");
        // It may be refused before all of it was sent.
        let _ = stream.write_all(request.as_bytes());
        status(&mut stream)
    }

    /// The head of a chat request with a body of some length.
    fn post(&self, framing: &str) -> String {
        let (host, auth) = (self.host(), self.auth());
        format!("POST /v1/chat/completions HTTP/1.1\r\n{host}{auth}{framing}\r\n\r\n")
    }

    /// Resident memory, and the most there was of it, in MiB.
    fn memory(&self) -> (u64, u64) {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let read = |name: &str| -> u64 {
            let line = status.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().nth(1).unwrap().parse().unwrap()
        };
        (read("VmRSS:") / 1024, read("VmHWM:") / 1024)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The status of an answer, 0 if the connection was closed without one.
fn status(stream: &mut TcpStream) -> u16 {
    let mut head = [0; 12];
    match stream.read_exact(&mut head) {
        Ok(()) => std::str::from_utf8(&head[9..]).unwrap().parse().unwrap(),
        Err(_) => 0,
    }
}

/// Reads a stream on a thread of its own, and takes the time between its events.
struct Watch {
    seen: Arc<Mutex<Seen>>,
    stream: TcpStream,
    reader: Option<JoinHandle<()>>,
}

#[derive(Clone, Copy)]
struct Seen {
    last: Instant,
    worst: Duration,
    events: usize,
    ended: bool,
}

impl Watch {
    fn start(gateway: &Gateway) -> Self {
        let mut stream = gateway.connect();
        let body = chat("go", true).to_string();
        stream
            .write_all(gateway.post(&format!("content-length: {}", body.len())).as_bytes())
            .unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        assert_eq!(status(&mut stream), 200);
        let now = Instant::now();
        let seen = Seen { last: now, worst: Duration::ZERO, events: 0, ended: false };
        let seen = Arc::new(Mutex::new(seen));
        let (mut input, shared) = (stream.try_clone().unwrap(), Arc::clone(&seen));
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 16 * 1024];
            while let Ok(read @ 1..) = input.read(&mut bytes) {
                let events = bytes[..read].windows(6).filter(|window| window == b"data: ").count();
                let mut seen = shared.lock();
                if events > 0 {
                    seen.worst = seen.worst.max(seen.last.elapsed());
                    seen.last = Instant::now();
                    seen.events += events;
                }
            }
            shared.lock().ended = true;
        });
        Self { seen, stream, reader: Some(reader) }
    }

    /// Events since the last look.
    fn events(&self) -> usize {
        self.seen.lock().events
    }

    /// What was seen since the last time.
    fn look(&self) -> Seen {
        let mut seen = self.seen.lock();
        // A silence that still goes on counts.
        let worst = seen.worst.max(seen.last.elapsed());
        let look = Seen { worst, ..*seen };
        (seen.worst, seen.events) = (Duration::ZERO, 0);
        look
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

/// What each attempt came to, and how the stream did meanwhile.
struct Report<'a> {
    gateway: &'a Gateway,
    watch: &'a Watch,
    table: String,
}

impl Report<'_> {
    fn phase(&mut self, what: &str, tries: usize, run: impl FnOnce() -> String) {
        self.watch.look();
        let began = Instant::now();
        let outcome = run();
        let took = began.elapsed();
        // However short it was, a few events belong to it.
        while self.watch.events() < 3 && began.elapsed() < Duration::from_secs(10) {
            std::thread::yield_now();
        }
        let seen = self.watch.look();
        let (memory, peak) = self.gateway.memory();
        writeln!(
            self.table,
            "{what:<34} {tries:>5} x {:>9.3} ms  {outcome:<42} events {:>4}, worst gap {:>4} ms, \
             memory {memory} MiB (most {peak})",
            took.as_secs_f64() * 1000.0 / tries as f64,
            seen.events,
            seen.worst.as_millis(),
        )
        .unwrap();
        assert!(!seen.ended, "{what}: the stream ended\n{}", self.table);
        assert!(seen.events >= 3, "{what}: the stream stood still\n{}", self.table);
        assert!(seen.worst < LATE, "{what}: the stream was disturbed\n{}", self.table);
    }

    /// Many requests that must all get the same answer.
    fn refused(&mut self, what: &str, headers: &str, expect: u16) {
        const TRIES: usize = 100;
        let gateway = self.gateway;
        self.phase(what, TRIES, || {
            for _ in 0..TRIES {
                assert_eq!(gateway.status(headers), expect, "{what}");
            }
            expect.to_string()
        });
    }
}

#[test]
fn whatever_knocks_a_stream_goes_on() {
    let gateway = Gateway::start("--set clocks.client_idle=3s --set clocks.body=1s");
    let watch = Watch::start(&gateway);
    let (host, auth) = (gateway.host(), gateway.auth());
    let mut report = Report { gateway: &gateway, watch: &watch, table: String::new() };

    report.phase("nothing (100 good requests)", 100, || {
        for _ in 0..100 {
            assert_eq!(gateway.status(&format!("{host}{auth}")), 200);
        }
        "200".to_owned()
    });
    report.refused(
        "a page of another origin",
        &format!("{host}{auth}origin: https://evil.example\r\n"),
        403,
    );
    report.refused(
        "a page without an origin (null)",
        &format!("{host}{auth}origin: null\r\n"),
        403,
    );
    report.refused("a rebound name", &format!("host: evil.example:18741\r\n{auth}"), 403);
    report.refused("a wrong key", &format!("{host}authorization: Bearer ibk_wrong\r\n"), 401);
    report.refused("a wrong key (x-api-key)", &format!("{host}x-api-key: ibk_wrong\r\n"), 401);
    report.refused("no key", &host, 401);
    let long = format!("{host}{auth}x-long: {}\r\n", "x".repeat(70 * 1024));
    report.refused("a header of 70 KiB", &long, 431);
    let mut many = format!("{host}{auth}");
    for n in 0..150 {
        write!(many, "x-{n}: 1\r\n").unwrap();
    }
    report.refused("150 headers", &many, 431);

    large_bodies(&mut report);
    slow_clients(&mut report);
    println!("\n{}", report.table);
}

fn large_bodies(report: &mut Report<'_>) {
    const GIB: usize = 1 << 30;
    let gateway = report.gateway;
    report.phase("a body of 1 GiB, announced", 1, || {
        let mut stream = gateway.connect();
        stream.write_all(gateway.post(&format!("content-length: {GIB}")).as_bytes()).unwrap();
        let sent = send(&mut stream, GIB, |stream, piece| stream.write_all(piece));
        let status = status(&mut stream);
        assert!(matches!(status, 413 | 0), "{status}");
        assert!(sent < 64 << 20, "{sent} bytes were taken");
        format!("{status} after {} MiB", sent >> 20)
    });
    report.phase("a body of 1 GiB, asked first", 10, || {
        for _ in 0..10 {
            let mut stream = gateway.connect();
            let framing = format!("content-length: {GIB}\r\nexpect: 100-continue");
            stream.write_all(gateway.post(&framing).as_bytes()).unwrap();
            assert_eq!(status(&mut stream), 413);
        }
        "413 after 0 bytes".to_owned()
    });
    report.phase("a body of 1 GiB, in chunks", 1, || {
        let mut stream = gateway.connect();
        stream.write_all(gateway.post("transfer-encoding: chunked").as_bytes()).unwrap();
        let sent = send(&mut stream, GIB, |stream, piece| {
            write!(stream, "{:x}\r\n", piece.len())?;
            stream.write_all(piece)?;
            stream.write_all(b"\r\n")
        });
        let status = status(&mut stream);
        assert!(matches!(status, 413 | 0), "{status}");
        assert!(sent < 128 << 20, "{sent} bytes were taken");
        format!("{status} after {} MiB", sent >> 20)
    });
    report.phase("a body of 1 GiB, wrong key", 10, || {
        for _ in 0..10 {
            let mut stream = gateway.connect();
            let head = gateway.post(&format!("content-length: {GIB}"));
            stream.write_all(head.replace(&gateway.key, "ibk_wrong").as_bytes()).unwrap();
            assert_eq!(status(&mut stream), 401);
        }
        "401 after 0 bytes".to_owned()
    });
    let (_, peak) = gateway.memory();
    assert!(peak < 512, "{peak} MiB");
}

/// Sends until nobody takes it any more. Gives how much that was.
fn send(
    stream: &mut TcpStream,
    total: usize,
    write: impl Fn(&mut TcpStream, &[u8]) -> std::io::Result<()>,
) -> usize {
    let piece = vec![b' '; 256 << 10];
    let mut sent = 0;
    while sent < total && write(stream, &piece).is_ok() {
        sent += piece.len();
    }
    sent
}

fn slow_clients(report: &mut Report<'_>) {
    const SLOW: usize = 200;
    let gateway = report.gateway;
    report.phase("slow heads, a byte at a time", SLOW, || {
        let began = Instant::now();
        let mut crowd: Vec<TcpStream> = (0..SLOW).map(|_| gateway.connect()).collect();
        let longest = drip(&mut crowd, gateway.post("x-slow: yes").as_bytes(), began);
        assert!(longest < Duration::from_secs(9), "{longest:?}");
        format!("all closed after {:.1} s", longest.as_secs_f64())
    });
    report.phase("slow bodies, a byte at a time", SLOW, || {
        let began = Instant::now();
        let head = gateway.post("content-length: 1000000");
        let mut crowd: Vec<TcpStream> = (0..SLOW).map(|_| gateway.connect()).collect();
        for stream in &mut crowd {
            stream.write_all(head.as_bytes()).unwrap();
        }
        let longest = drip(&mut crowd, &[b' '; 1000], began);
        assert!(longest < Duration::from_secs(10), "{longest:?}");
        format!("all closed after {:.1} s", longest.as_secs_f64())
    });
}

/// Sends these bytes slowly, until the last of the crowd was cut off. Gives when.
fn drip(crowd: &mut Vec<TcpStream>, bytes: &[u8], began: Instant) -> Duration {
    for byte in bytes.chunks(1).cycle() {
        crowd.retain_mut(|stream| {
            stream.set_nonblocking(true).unwrap();
            let closed = match stream.read(&mut [0; 4096]) {
                Ok(0) => true,
                // What it was told; the end comes right after.
                Ok(_) => false,
                Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
            };
            stream.set_nonblocking(false).unwrap();
            !closed && stream.write_all(byte).is_ok()
        });
        if crowd.is_empty() || began.elapsed() > Duration::from_secs(30) {
            break;
        }
        pause(Duration::from_millis(100));
    }
    began.elapsed()
}

/// They have half a minute to ask for something. Meanwhile everyone who does gets in.
#[test]
fn five_thousand_idle_connections_make_room() {
    raise_files();
    let gateway = Gateway::start("");
    let watch = Watch::start(&gateway);
    let (host, auth) = (gateway.host(), gateway.auth());
    let mut report = Report { gateway: &gateway, watch: &watch, table: String::new() };
    let mut crowd: Vec<TcpStream> = Vec::with_capacity(CROWD);
    report.phase("5,000 idle connections", CROWD, || {
        let began = Instant::now();
        crowd.extend((0..CROWD).map(|_| gateway.connect()));
        let opening = began.elapsed();
        assert!(opening < Duration::from_secs(25), "too slow to tell anything: {opening:?}");
        let began = Instant::now();
        for _ in 0..20 {
            assert_eq!(gateway.status(&format!("{host}{auth}")), 200);
        }
        let each = began.elapsed().as_secs_f64() * 50.0;
        // The stream has one place, and each request needed one. The oldest went first.
        let closed = crowd.iter().filter(|stream| is_closed(stream)).count();
        let expect = CROWD - (PLACES - 1);
        assert!((expect..=expect + 20).contains(&closed), "{closed} were closed");
        assert!(crowd.iter().take(expect).all(is_closed));
        format!("{closed} made room, 20 requests in {each:.1} ms each")
    });
    report.phase("  while they stay", 1, || {
        pause(Duration::from_secs(2));
        String::new()
    });
    let (memory, _) = gateway.memory();
    assert!(memory < 256, "{memory} MiB");
    println!("\n{}", report.table);
}

fn is_closed(mut stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    match stream.read(&mut [0; 64]) {
        Ok(read) => read == 0,
        Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
    }
}

#[expect(clippy::disallowed_methods, reason = "real time on real sockets, in a plain thread")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}

fn raise_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let now = getrlimit(Resource::Nofile);
    if now.current.is_some_and(|current| current < FILES) {
        let raised = Rlimit { current: Some(FILES), maximum: now.maximum };
        // Fails where 5,000 sockets are not allowed: then this cannot be tested.
        setrlimit(Resource::Nofile, raised).unwrap();
    }
}

#[test]
fn keys_are_managed_while_the_gateway_runs() {
    let gateway = Gateway::start("");
    let home = gateway.home.path();
    let ibeam = |line: &str| {
        let mut command = Command::new(crate::watch::program());
        command.args(line.split_whitespace()).env_clear().env("HOME", home);
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let get = |key: &str| gateway.status(&format!("{}x-api-key: {key}\r\n", gateway.host()));
    let (code, json, _) = ibeam("keys add ci --limit 3 --json");
    let added: serde_json::Value = serde_json::from_str(&json).unwrap();
    let key = added["key"].as_str().unwrap();
    crate::watch::secret(key);
    assert_eq!(
        (code, added["name"].as_str(), added["limit"].as_u64()),
        (Some(0), Some("ci"), Some(3))
    );
    assert_eq!(get(key), 200, "a new key works at once");
    let (_, list, _) = ibeam("keys list");
    assert!(list.contains("test") && list.contains("ci") && !list.contains("ibk_"), "{list}");
    let (code, _, words) = ibeam("keys add ci");
    assert!(code == Some(1) && words.contains("keys revoke ci"), "{words}");
    assert_eq!(ibeam("keys revoke ci").0, Some(0));
    let (code, _, words) = ibeam("keys revoke ci");
    assert!(code == Some(1) && words.contains("no key named"), "{words}");
    let began = Instant::now();
    while get(key) == 200 {
        assert!(began.elapsed() < Duration::from_secs(5), "a revoked key still works");
    }
    assert_eq!(get(&gateway.key), 200);
    let (_, _, words) = ibeam("keys revoke test");
    assert!(words.contains("last key"), "{words}");
    pause(Duration::from_millis(1100));
    assert_eq!(get(&gateway.key), 401);
    assert_eq!(gateway.status(&gateway.host()), 401, "the door stays shut");
    assert!(home.join(".config/ibeam/keys.json").exists());
}
