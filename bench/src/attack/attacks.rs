//! The attacks. Each begins at once and runs in tasks that end when they are dropped.

use std::{
    future::Future,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    task::JoinSet,
    time::sleep,
};

use super::{
    AttackScale, bodies,
    honest_stream::{chat, post},
    hosted_tools, http2,
    target::TargetAddress,
};

/// An attack that is about to begin.
type Beginning = Pin<Box<dyn Future<Output = anyhow::Result<RunningAttack>>>>;

pub(super) struct Attack {
    pub(super) name: &'static str,
    /// Memory that it may cost, in MB, and how many times the bytes that it sends.
    growth: (f64, f64),
    /// Memory that the gateway may keep after it, in MB: caches, and what the allocator holds.
    pub(super) kept: f64,
    /// The longest gap of the honest stream that it may cause.
    pub(super) gap: Duration,
    /// The gateway has to end its connections while the attack runs.
    pub(super) must_close: bool,
    /// The gateway runs its turns in Cursor's CLI, for which it hosts the tools of its clients.
    pub(super) hosted_tools: bool,
    /// Its clients leave at once, and the gateway has to stop working for them.
    pub(super) must_rest: bool,
    pub(super) run: fn(TargetAddress, AttackScale) -> Beginning,
}

impl Attack {
    #[expect(clippy::cast_precision_loss, reason = "megabytes, rounded")]
    pub(super) fn growth_mb(&self, sent: usize) -> f64 {
        let (fixed, times) = self.growth;
        fixed + times * (sent as f64 / f64::from(1 << 20))
    }
}

/// A running attack.
pub(super) struct RunningAttack {
    /// Dropping them closes its connections.
    pub(super) tasks: JoinSet<()>,
    pub(super) sent: usize,
    /// What is to be said of it at its end.
    pub(super) note: Box<dyn Fn() -> String>,
}

impl RunningAttack {
    pub(super) fn new(tasks: JoinSet<()>, sent: usize) -> Self {
        Self { tasks, sent, note: Box::new(String::new) }
    }
}

const GAP: Duration = Duration::from_millis(100);
/// Where the attack is work that anyone could ask for, and takes all cores.
const BUSY_GAP: Duration = Duration::from_millis(500);

/// The first one: what a gateway costs that is not attacked.
pub(super) const NOTHING: &str = "nothing";

/// What most attacks have in common.
const QUIET: Attack = Attack {
    name: NOTHING,
    growth: (16.0, 0.0),
    kept: 32.0,
    gap: GAP,
    must_close: false,
    hosted_tools: false,
    must_rest: false,
    run: |_, _| Box::pin(async { Ok(RunningAttack::new(JoinSet::new(), 0)) }),
};

pub(super) const ATTACKS: &[Attack] = &[
    QUIET,
    Attack {
        name: "HTTP/2 without a window",
        growth: (48.0, 0.0),
        must_close: true,
        run: |address, scale| Box::pin(without_window(address, scale)),
        ..QUIET
    },
    Attack {
        name: "a page on every connection",
        // Some 40 kB for each, which the allocator keeps for the next ones.
        growth: (224.0, 0.0),
        kept: 224.0,
        run: |address, scale| {
            Box::pin(async move { Ok(page_on_every_connection(&address, scale)) })
        },
        ..QUIET
    },
    Attack {
        name: "stalled readers of a stream",
        // What a stalled answer may wait with, on both sides of the gateway: 6 to 8 MB each. The
        // allocator keeps the memory of the first wave.
        growth: (192.0, 0.0),
        kept: 160.0,
        // Twenty answers at full speed need both cores for seconds.
        gap: BUSY_GAP,
        must_close: true,
        run: |address, scale| Box::pin(stalled_readers(address, scale)),
        ..QUIET
    },
    Attack {
        name: "wide bodies",
        growth: (32.0, 4.0),
        run: |address, scale| {
            let body = bodies::wide(scale.pick(4 << 20, 16 << 20));
            Box::pin(async move { Ok(large_bodies(&address, scale, &body)) })
        },
        ..QUIET
    },
    Attack {
        name: "deep schemas",
        growth: (32.0, 4.0),
        run: |address, scale| {
            let body = bodies::deep_schema(scale.pick(4 << 20, 16 << 20));
            Box::pin(async move { Ok(large_bodies(&address, scale, &body)) })
        },
        ..QUIET
    },
    Attack {
        name: "schemas as deep as are accepted",
        // A tree of 32 MB for each, on two threads.
        growth: (192.0, 0.0),
        kept: 96.0,
        run: |address, scale| {
            let body = bodies::deep_schema(bodies::MOST_NESTED);
            Box::pin(async move { Ok(large_bodies(&address, scale, &body)) })
        },
        ..QUIET
    },
    Attack {
        name: "long texts that are accepted",
        // The text is there in the body, in the request, in the message to the backend and in the
        // frame around it.
        growth: (48.0, 7.0),
        // The allocator keeps a part of it.
        kept: 192.0,
        run: |address, scale| {
            let body = bodies::long_text(scale.pick(4 << 20, 16 << 20));
            Box::pin(async move { Ok(large_bodies(&address, scale, &body)) })
        },
        ..QUIET
    },
    Attack {
        name: "slow heads",
        growth: (32.0, 0.0),
        must_close: true,
        run: |address, scale| Box::pin(slow_heads(address, scale)),
        ..QUIET
    },
    Attack {
        name: "slow bodies",
        growth: (32.0, 0.0),
        must_close: true,
        run: |address, scale| Box::pin(slow_bodies(address, scale)),
        ..QUIET
    },
    Attack {
        name: "token counts that are left",
        growth: (160.0, 4.0),
        // The first of them loads the vocabulary, which stays.
        kept: 96.0,
        must_rest: true,
        run: |address, scale| Box::pin(token_counts(address, scale)),
        ..QUIET
    },
    Attack {
        name: "idle connections",
        growth: (64.0, 0.0),
        run: |address, scale| Box::pin(idle_connections(address, scale)),
        ..QUIET
    },
    Attack {
        name: "idle connections to hosted tools",
        growth: (32.0, 0.0),
        hosted_tools: true,
        run: |address, scale| {
            Box::pin(async move { hosted_tools::idle_connections(&address, scale) })
        },
        ..QUIET
    },
    Attack {
        name: "one key takes all turns",
        growth: (64.0, 0.0),
        run: |address, scale| Box::pin(all_turns(address, scale)),
        ..QUIET
    },
    Attack {
        name: "one key takes all background slots",
        growth: (96.0, 0.0),
        run: |address, scale| Box::pin(async move { Ok(background_slots(&address, scale)) }),
        ..QUIET
    },
    Attack {
        name: "compressed messages of a hostile backend",
        // Eight messages at once.
        growth: (320.0, 0.0),
        // Each message is inflated to 33 MiB where its stream is read, dozens of them in a second.
        gap: BUSY_GAP,
        run: |address, _| Box::pin(async move { Ok(hostile_backend(&address, "bomb")) }),
        ..QUIET
    },
    Attack {
        name: "last frames of a hostile backend",
        growth: (32.0, 0.0),
        run: |address, _| Box::pin(async move { Ok(hostile_backend(&address, "last frame")) }),
        ..QUIET
    },
];

/// This many connections, each of which sends the request and is then left to a task.
async fn connections<F: Future<Output = ()> + Send + 'static>(
    address: &TargetAddress,
    count: usize,
    request: &[u8],
    task: impl Fn(TcpStream) -> F,
) -> anyhow::Result<RunningAttack> {
    let mut tasks = JoinSet::new();
    for _ in 0..count {
        let mut socket = TcpStream::connect(address.socket).await?;
        socket.write_all(request).await?;
        tasks.spawn(task(socket));
    }
    Ok(RunningAttack::new(tasks, request.len() * count))
}

/// This many requests at once, each of which is read to its end or until it is refused.
fn exchanges(address: &TargetAddress, count: usize, request: String) -> RunningAttack {
    let (mut tasks, sent) = (JoinSet::new(), request.len() * count);
    let request = Arc::new(request);
    for _ in 0..count {
        let (request, socket) = (Arc::clone(&request), address.socket);
        tasks.spawn(async move { drop(exchange(socket, &request).await) });
    }
    RunningAttack::new(tasks, sent)
}

/// Peers that answer pings and read nothing else, without a key.
async fn without_window(
    address: TargetAddress,
    scale: AttackScale,
) -> anyhow::Result<RunningAttack> {
    let requests = http2::requests(address.socket, "/docs", 100);
    let answer_pings = |socket| async { drop(http2::keep_alive(socket).await) };
    connections(&address, scale.pick(8, 40), &requests, answer_pings).await
}

/// More of them than the gateway accepts. None is idle, and each reconnects when it is closed.
fn page_on_every_connection(address: &TargetAddress, scale: AttackScale) -> RunningAttack {
    let mut tasks = JoinSet::new();
    let request = http2::requests(address.socket, "/docs", 1).freeze();
    let count = scale.pick(600, 4_200);
    for _ in 0..count {
        let (socket, request) = (address.socket, request.clone());
        tasks.spawn(async move {
            loop {
                if let Ok(mut socket) = TcpStream::connect(socket).await
                    && socket.write_all(&request).await.is_ok()
                {
                    drop(http2::keep_alive(socket).await);
                }
                sleep(Duration::from_millis(500)).await;
            }
        });
    }
    RunningAttack::new(tasks, request.len() * count)
}

/// Clients of a stream that comes as fast as they read, who do not.
async fn stalled_readers(
    address: TargetAddress,
    scale: AttackScale,
) -> anyhow::Result<RunningAttack> {
    let (mut tasks, mut sent) = (JoinSet::new(), 0);
    for _ in 0..scale.pick(8, 20) {
        let socket = TcpSocket::new_v4()?;
        socket.set_recv_buffer_size(4096)?;
        let mut socket = socket.connect(address.socket).await?;
        let request = chat(address.socket, &address.key, "flood", true);
        socket.write_all(request.as_bytes()).await?;
        sent += request.len();
        tasks.spawn(hold(socket));
    }
    Ok(RunningAttack::new(tasks, sent))
}

async fn hold(_socket: TcpStream) {
    std::future::pending().await
}

/// A few requests with this body at once.
fn large_bodies(address: &TargetAddress, scale: AttackScale, body: &str) -> RunningAttack {
    let request = post(address.socket, &address.key, "/v1/chat/completions", body);
    exchanges(address, scale.pick(2, 3), request)
}

/// Sends these bytes one at a time, again and again.
async fn drip(mut socket: TcpStream, bytes: &'static [u8]) {
    for byte in bytes.iter().cycle() {
        if socket.write_all(std::slice::from_ref(byte)).await.is_err() {
            return;
        }
        sleep(Duration::from_millis(200)).await;
    }
}

async fn slow_heads(address: TargetAddress, scale: AttackScale) -> anyhow::Result<RunningAttack> {
    let head = format!("GET /health HTTP/1.1\r\nhost: {}\r\nx-slow: ", address.socket);
    let slowly = |socket| drip(socket, b"slow");
    connections(&address, scale.pick(100, 400), head.as_bytes(), slowly).await
}

async fn slow_bodies(address: TargetAddress, scale: AttackScale) -> anyhow::Result<RunningAttack> {
    let TargetAddress { socket, key, .. } = &address;
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {socket}\r\nauthorization: Bearer {key}\r\n\
         content-length: 16777216\r\n\r\n"
    );
    // Each pauses for longer than it may.
    connections(&address, scale.pick(50, 200), head.as_bytes(), hold).await
}

/// Long enough for a request to be worked on.
const MOMENT: Duration = Duration::from_millis(500);

/// Clients that ask for a long count and leave before it is made.
async fn token_counts(address: TargetAddress, scale: AttackScale) -> anyhow::Result<RunningAttack> {
    let mut sent = 0;
    // The tokenizer is slowest with text that has no words.
    let text = "a".repeat(scale.pick(1 << 20, 4 << 20));
    let message = serde_json::json!({ "role": "user", "content": text });
    let body = serde_json::json!({ "model": "auto", "messages": [message] }).to_string();
    let request = post(address.socket, &address.key, "/v1/messages/count_tokens", &body);
    let mut open = Vec::new();
    for _ in 0..scale.pick(8, 32) {
        let mut socket = TcpStream::connect(address.socket).await?;
        socket.write_all(request.as_bytes()).await?;
        sent += request.len();
        open.push(socket);
    }
    sleep(MOMENT).await;
    drop(open);
    Ok(RunningAttack::new(JoinSet::new(), sent))
}

/// As many as this process may open, up to a few more than the gateway takes.
async fn idle_connections(
    address: TargetAddress,
    scale: AttackScale,
) -> anyhow::Result<RunningAttack> {
    let mut open = Vec::new();
    for _ in 0..scale.pick(600, 4_200) {
        match TcpStream::connect(address.socket).await {
            Ok(socket) => open.push(socket),
            Err(_) => break,
        }
    }
    // Room for the honest clients' own sockets.
    open.truncate(open.len().saturating_sub(64));
    let count = open.len();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let _open = open;
        std::future::pending().await
    });
    Ok(RunningAttack {
        note: Box::new(move || format!("{count} connections")),
        ..RunningAttack::new(tasks, 0)
    })
}

/// Twice as many streams as there are turns, all with one key.
async fn all_turns(address: TargetAddress, _: AttackScale) -> anyhow::Result<RunningAttack> {
    const STREAMS: usize = 64;
    let (mut tasks, mut sent) = (JoinSet::new(), 0);
    let running = Arc::new(AtomicUsize::new(0));
    for _ in 0..STREAMS {
        let mut socket = TcpStream::connect(address.socket).await?;
        let request = chat(address.socket, &address.key, "go on", true);
        socket.write_all(request.as_bytes()).await?;
        sent += request.len();
        let running = Arc::clone(&running);
        tasks.spawn(async move {
            let mut buffer = vec![0; 1 << 14];
            let mut first = true;
            while let Ok(read @ 1..) = socket.read(&mut buffer).await {
                let head = buffer.get(..read).unwrap_or_default();
                if std::mem::take(&mut first) && head.starts_with(b"HTTP/1.1 200 ") {
                    running.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
    }
    let note = move || format!("{} of {STREAMS} turns run", running.load(Ordering::Relaxed));
    Ok(RunningAttack { note: Box::new(note), ..RunningAttack::new(tasks, sent) })
}

/// Sends a request and reads its answer to the end. None: there is no answer.
pub(super) async fn exchange(socket: SocketAddr, request: &str) -> Option<Vec<u8>> {
    let mut socket = TcpStream::connect(socket).await.ok()?;
    socket.write_all(request.as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).await.ok()?;
    Some(answer)
}

/// More answers in the background than there are slots, all with one key.
fn background_slots(address: &TargetAddress, scale: AttackScale) -> RunningAttack {
    let (mut tasks, mut sent) = (JoinSet::new(), 0);
    let body = r#"{"model":"auto","input":"brief","background":true}"#;
    let request = Arc::new(post(address.socket, &address.key, "/v1/responses", body));
    let (all, taken) = (scale.pick(100, 400), Arc::new(AtomicUsize::new(0)));
    for _ in 0..all {
        let (request, socket, taken) = (Arc::clone(&request), address.socket, Arc::clone(&taken));
        sent += request.len();
        tasks.spawn(async move {
            let answer = exchange(socket, &request).await.unwrap_or_default();
            if answer.starts_with(b"HTTP/1.1 200 ") {
                taken.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let note = move || format!("{} of {all} are accepted", taken.load(Ordering::Relaxed));
    RunningAttack { note: Box::new(note), ..RunningAttack::new(tasks, sent) }
}

/// Clients whose backend answers with kilobytes that become many megabytes.
fn hostile_backend(address: &TargetAddress, question: &str) -> RunningAttack {
    const CLIENTS: usize = 8;
    let mut tasks = JoinSet::new();
    let request = Arc::new(chat(address.socket, &address.key, question, false));
    let (sent, answers) = (request.len() * CLIENTS, Arc::new(AtomicUsize::new(0)));
    for _ in 0..CLIENTS {
        let (request, socket) = (Arc::clone(&request), address.socket);
        let answers = Arc::clone(&answers);
        tasks.spawn(async move {
            while exchange(socket, &request).await.is_some() {
                answers.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let note = move || format!("{} answers", answers.load(Ordering::Relaxed));
    RunningAttack { note: Box::new(note), ..RunningAttack::new(tasks, sent) }
}
