//! A real process on real sockets: requests that must not be served are refused
//! cheaply, while a running stream is not disturbed. The numbers are printed.

mod report;
#[cfg(target_os = "linux")]
mod unread;

use std::{
    fmt::Write as _,
    io::{BufRead as _, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Command, Stdio},
    time::Duration,
};

use tokio::time::Instant;

use self::report::{Outcome, Report, Watch};

/// The sockets of all clients, and then some.
const FILES: u64 = 6_000;
const CROWD: usize = 5_000;
const PLACES: usize = 4_096;

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
        Self::start_with(settings, TICKS)
    }

    fn start_with(settings: &str, plays: &str) -> Self {
        let home = crate::watch::folder();
        let scenario = home.path().join("ticks.toml");
        std::fs::write(&scenario, plays).unwrap();
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
        self.ask(headers).0
    }

    /// The same, and how many bytes were sent for it.
    fn ask(&self, headers: &str) -> (u16, usize) {
        let mut stream = self.connect();
        let request = format!("GET /v1/models HTTP/1.1\r\n{headers}connection: close\r\n\r\n");
        // It may be refused before all of it was sent.
        let _ = stream.write_all(request.as_bytes());
        (status(&mut stream), request.len())
    }

    /// The status of the answer to a small body, which has to be read for it.
    fn small(&self) -> u16 {
        let mut stream = self.connect();
        let head = self.post("connection: close\r\ncontent-length: 18");
        stream.write_all(format!("{head}{{\"messages\": [42]}}").as_bytes()).unwrap();
        status(&mut stream)
    }

    /// The head of a chat request with a body of some length.
    fn post(&self, framing: &str) -> String {
        let (host, auth) = (self.host(), self.auth());
        format!("POST /v1/chat/completions HTTP/1.1\r\n{host}{auth}{framing}\r\n\r\n")
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

#[test]
fn refusals_do_not_disturb_a_running_stream() {
    let gateway = Gateway::start(
        "--set clocks.client_idle=3s --set clocks.body=1s --set limits.body_memory=96MiB",
    );
    let watch = Watch::start(&gateway);
    let (host, auth) = (gateway.host(), gateway.auth());
    let mut report = Report::new(&gateway, &watch);

    report.phase("nothing: good requests", 100, || {
        let sent = (0..100).map(|_| {
            let (status, sent) = gateway.ask(&format!("{host}{auth}"));
            assert_eq!(status, 200);
            sent
        });
        Outcome { sent: sent.sum(), words: "200".to_owned() }
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
    report.refused(
        "an image on a foreign page",
        &format!("{host}{auth}sec-fetch-site: cross-site\r\nsec-fetch-mode: no-cors\r\n"),
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
    wide_bodies(&mut report);
    many_bodies(&mut report);
    slow_clients(&mut report);
    report.print();
}

const GIB: usize = 1 << 30;

fn large_bodies(report: &mut Report<'_>) {
    let gateway = report.gateway;
    let announced = report.phase("a body of 1 GiB, announced", 1, || {
        let mut stream = gateway.connect();
        stream.write_all(gateway.post(&format!("content-length: {GIB}")).as_bytes()).unwrap();
        let sent = send(&mut stream, GIB, |stream, piece| stream.write_all(piece));
        let status = status(&mut stream);
        assert!(matches!(status, 413 | 0), "{status}");
        assert!(sent < 64 << 20, "{sent} bytes were taken");
        Outcome { sent, words: format!("{status} after {} MiB", sent >> 20) }
    });
    report.phase("a body of 1 GiB, asked first", 10, || {
        let sent = (0..10).map(|_| {
            let mut stream = gateway.connect();
            let head = gateway.post(&format!("content-length: {GIB}\r\nexpect: 100-continue"));
            stream.write_all(head.as_bytes()).unwrap();
            assert_eq!(status(&mut stream), 413);
            head.len()
        });
        Outcome { sent: sent.sum(), words: "413 after 0 bytes of it".to_owned() }
    });
    let chunked = report.phase("a body of 1 GiB, in chunks", 1, || {
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
        Outcome { sent, words: format!("{status} after {} MiB", sent >> 20) }
    });
    report.phase("a body of 1 GiB, wrong key", 10, || {
        let sent = (0..10).map(|_| {
            let mut stream = gateway.connect();
            let head = gateway.post(&format!("content-length: {GIB}"));
            let head = head.replace(&gateway.key, "ibk_wrong");
            stream.write_all(head.as_bytes()).unwrap();
            assert_eq!(status(&mut stream), 401);
            head.len()
        });
        Outcome { sent: sent.sum(), words: "401 after 0 bytes of it".to_owned() }
    });
    assert!(announced < 32 << 10, "what is thrown away is not kept: {announced} KiB");
    assert!(chunked < 256 << 10, "it is kept up to its limit of 64 MiB: {chunked} KiB");
}

/// Bodies that are much more in memory than on the wire, and large ones that are not.
fn wide_bodies(report: &mut Report<'_>) {
    let gateway = report.gateway;
    let messages = |piece: &str, size: usize| {
        let elements = format!("{piece},").repeat(size / (piece.len() + 1));
        // The last element is invalid, so all of it has to be read.
        format!(r#"{{"model":"auto","messages":[{elements}42]}}"#)
    };
    let mut send = |what: &str, bodies: usize, body: &str| {
        let grown = report.phase(what, bodies, || {
            let statuses: Vec<u16> = std::thread::scope(|scope| {
                let send = || {
                    let mut stream = gateway.connect();
                    let head = gateway.post(&format!("content-length: {}", body.len()));
                    stream.write_all(head.as_bytes()).unwrap();
                    stream.write_all(body.as_bytes()).unwrap();
                    status(&mut stream)
                };
                let sending: Vec<_> = (0..bodies).map(|_| scope.spawn(send)).collect();
                sending.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            assert_eq!(statuses, vec![400; bodies], "{what}");
            Outcome { sent: body.len() * bodies, words: "400".to_owned() }
        });
        // What a small body becomes does not matter: the allocator takes 32 MiB at a time.
        let most = (4 * body.len() * bodies).max(32 << 20);
        assert!(grown << 10 < most, "{what}: {grown} KiB for {} bytes", body.len() * bodies);
    };
    send("60 MiB of empty messages", 1, &messages("{}", 60 << 20));
    send("16 MiB of them, three at a time", 3, &messages("{}", 16 << 20));
    // One more would be refused before it is decoded.
    send("as many as are decoded", 1, &messages("{}", 3 * 49_998));
    send("16 MiB of nested schemas", 1, &nested_schemas(16 << 20));
    let text = "x".repeat(10_000);
    let message = format!(r#"{{"role":"user","content":"{text}"}}"#);
    send("16 MiB of text, three at a time", 3, &messages(&message, 16 << 20));
}

/// A request with tools whose schemas are chains of objects of one field: six bytes each, and
/// hundreds in a tree. No object has too many fields, and none is too deep.
fn nested_schemas(size: usize) -> String {
    const LEVELS: usize = 110;
    let chain = format!("{}0{}", r#"{"a":"#.repeat(LEVELS), "}".repeat(LEVELS));
    let chains: Vec<String> =
        (0..size / chain.len()).map(|n| format!(r#""k{n}":{chain}"#)).collect();
    let tools: Vec<String> = chains
        .chunks(9_000)
        .enumerate()
        .map(|(n, chains)| {
            let schema = chains.join(",");
            format!(
                r#"{{"type":"function","function":{{"name":"t{n}","parameters":{{{schema}}}}}}}"#
            )
        })
        .collect();
    let message = r#"{"role":"user","content":"hi"}"#;
    format!(r#"{{"model":"auto","tools":[{}],"messages":[{message}]}}"#, tools.join(","))
}

/// Each of them is allowed, all of them together are not. Small requests come through.
fn many_bodies(report: &mut Report<'_>) {
    const BODIES: usize = 8;
    const EACH: usize = 24 << 20;
    let gateway = report.gateway;
    let grown = report.phase("24 MiB, eight at a time", BODIES, || {
        let answers: Vec<(u16, usize)> = std::thread::scope(|scope| {
            let large: Vec<_> = (0..BODIES)
                .map(|_| {
                    scope.spawn(|| {
                        let mut stream = gateway.connect();
                        let head = gateway.post(&format!("content-length: {EACH}"));
                        stream.write_all(head.as_bytes()).unwrap();
                        // The last piece is missing, so that no request is ever complete.
                        let sent = send(&mut stream, EACH - (256 << 10), |stream, piece| {
                            stream.write_all(piece)
                        });
                        (status(&mut stream), sent)
                    })
                })
                .collect();
            // Read to their end, and decoded: they are not chat requests.
            for _ in 0..20 {
                assert_eq!(gateway.small(), 400);
            }
            large.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let crowded = answers.iter().filter(|(status, _)| matches!(status, 503 | 0)).count();
        let stalled = answers.iter().filter(|(status, _)| *status == 408).count();
        assert_eq!(crowded + stalled, BODIES, "{answers:?}");
        assert!(crowded > 0 && stalled > 1, "those that fit are waited for: {answers:?}");
        let sent = answers.iter().map(|(_, sent)| sent).sum();
        Outcome { sent, words: format!("503 for {crowded}, 20 small ones answered") }
    });
    assert!(grown < 400 << 10, "{grown} KiB");
}

/// Sends until the socket is full. Returns the number of bytes.
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
    let (gateway, watch) = (report.gateway, report.watch);
    report.phase("slow heads, a byte at a time", SLOW, || {
        let began = Instant::now();
        let mut crowd: Vec<TcpStream> = (0..SLOW).map(|_| gateway.connect()).collect();
        let sent = drip(&mut crowd, gateway.post("x-slow: yes").as_bytes(), watch);
        let longest = began.elapsed();
        assert!(longest < Duration::from_secs(9), "{longest:?}");
        Outcome { sent, words: format!("all closed after {:.1} s", longest.as_secs_f64()) }
    });
    report.phase("slow bodies, a byte at a time", SLOW, || {
        let began = Instant::now();
        let head = gateway.post("content-length: 1000000");
        let mut crowd: Vec<TcpStream> = (0..SLOW).map(|_| gateway.connect()).collect();
        for stream in &mut crowd {
            stream.write_all(head.as_bytes()).unwrap();
        }
        let sent = SLOW * head.len() + drip(&mut crowd, &[b' '; 1000], watch);
        let longest = began.elapsed();
        assert!(longest < Duration::from_secs(10), "{longest:?}");
        Outcome { sent, words: format!("all closed after {:.1} s", longest.as_secs_f64()) }
    });
}

/// Sends these bytes slowly, until the last of the crowd was cut off. Returns how many those were.
fn drip(crowd: &mut Vec<TcpStream>, bytes: &[u8], watch: &Watch) -> usize {
    let (began, mut sent) = (Instant::now(), 0);
    for byte in bytes.chunks(1).cycle() {
        crowd.retain_mut(|stream| {
            stream.set_nonblocking(true).unwrap();
            let closed = match stream.read(&mut [0; 4096]) {
                Ok(0) => true,
                // The answer; the end comes right after.
                Ok(_) => false,
                Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
            };
            stream.set_nonblocking(false).unwrap();
            sent += 1;
            !closed && stream.write_all(byte).is_ok()
        });
        if crowd.is_empty() || began.elapsed() > Duration::from_secs(30) {
            break;
        }
        // A tenth of a second, by the clock of the stream.
        watch.pass(10);
    }
    sent
}

/// They have half a minute to ask for something. Meanwhile everyone who does gets in.
#[test]
fn five_thousand_idle_connections_are_evicted() {
    raise_files();
    let gateway = Gateway::start("");
    let watch = Watch::start(&gateway);
    let (host, auth) = (gateway.host(), gateway.auth());
    let mut report = Report::new(&gateway, &watch);
    let mut crowd: Vec<TcpStream> = Vec::with_capacity(CROWD);
    let grown = report.phase("5,000 idle connections", CROWD, || {
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
        let words = format!("{closed} made room, 20 requests in {each:.1} ms each");
        Outcome { words, sent: 0 }
    });
    report.phase("  while they stay", CROWD, || {
        watch.pass(200);
        Outcome { words: String::new(), sent: 0 }
    });
    assert!(grown < 256 << 10, "{grown} KiB");
    report.print();
}

fn is_closed(mut stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    match stream.read(&mut [0; 64]) {
        Ok(read) => read == 0,
        Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
    }
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
    let began = Instant::now();
    while get(&gateway.key) == 200 {
        assert!(began.elapsed() < Duration::from_secs(5), "a revoked key still works");
    }
    assert_eq!(get(&gateway.key), 401);
    assert_eq!(gateway.status(&gateway.host()), 401, "requests are still refused");
    assert!(home.join(".config/ibeam/keys.json").exists());
}
