//! Honest clients that an attack must not disturb: a stream that runs, and a request now and then.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::{Context as _, ensure};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::{Instant, timeout},
};

use super::target::AttackTarget;

/// An honest client waits this long for its answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// A stream that is read on a thread of its own: the attackers' tasks do not delay it.
pub(super) struct HonestStream {
    seen: Arc<StreamGaps>,
}

struct StreamGaps {
    begun: Instant,
    /// Both in microseconds since the start.
    last: AtomicU64,
    longest: AtomicU64,
    ended: AtomicBool,
}

impl StreamGaps {
    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn event(&self) {
        let now = self.now();
        let gap = now.saturating_sub(self.last.swap(now, Ordering::Relaxed));
        self.longest.fetch_max(gap, Ordering::Relaxed);
    }
}

impl HonestStream {
    pub(super) fn start(target: &AttackTarget) -> anyhow::Result<Self> {
        let mut socket = TcpStream::connect(target.socket())?;
        socket.set_nodelay(true)?;
        let request = chat(target.socket(), target.honest_key(), "go on", true);
        socket.write_all(request.as_bytes())?;
        let mut first = [0; 4096];
        let read = socket.read(&mut first)?;
        let head = first.get(..read).unwrap_or_default();
        ensure!(head.starts_with(b"HTTP/1.1 200 "), "the honest stream is refused");
        let seen = Arc::new(StreamGaps {
            begun: Instant::now(),
            last: AtomicU64::new(0),
            longest: AtomicU64::new(0),
            ended: AtomicBool::new(false),
        });
        let theirs = Arc::clone(&seen);
        let read = move || {
            let mut buffer = vec![0; 1 << 16];
            while matches!(socket.read(&mut buffer), Ok(read) if read > 0) {
                theirs.event();
            }
            theirs.ended.store(true, Ordering::Relaxed);
        };
        thread::Builder::new().name("honest stream".to_owned()).spawn(read)?;
        Ok(Self { seen })
    }

    /// Begins a new measurement.
    pub(super) fn forget(&self) {
        self.seen.longest.store(0, Ordering::Relaxed);
    }

    /// The longest time between two events, the present one counted in. None: it has ended.
    pub(super) fn longest_gap(&self) -> Option<Duration> {
        let open = self.seen.now().saturating_sub(self.seen.last.load(Ordering::Relaxed));
        let longest = self.seen.longest.load(Ordering::Relaxed).max(open);
        let ended = self.seen.ended.load(Ordering::Relaxed);
        (!ended).then(|| Duration::from_micros(longest))
    }
}

/// A chat request over HTTP/1.1.
pub(super) fn chat(address: SocketAddr, key: &str, text: &str, stream: bool) -> String {
    let message = serde_json::json!({ "role": "user", "content": text });
    let body = serde_json::json!({ "model": "auto", "messages": [message], "stream": stream });
    post(address, key, "/v1/chat/completions", &body.to_string())
}

pub(super) fn post(address: SocketAddr, key: &str, path: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\n\
         content-type: application/json\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

/// How long a new client waits for a whole answer. None: it gets none.
pub(super) async fn probe(target: &AttackTarget) -> Option<Duration> {
    let begun = Instant::now();
    let asking = async {
        let mut socket = tokio::net::TcpStream::connect(target.socket()).await?;
        let request = chat(target.socket(), target.honest_key(), "quick", false);
        socket.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        while !answer.windows(4).any(|bytes| bytes == b"done") {
            let read = socket.read_buf(&mut answer).await?;
            ensure!(read > 0, "closed");
        }
        ensure!(answer.starts_with(b"HTTP/1.1 200 "), "refused");
        anyhow::Ok(())
    };
    timeout(PATIENCE, asking).await.context("slow").ok()?.ok()?;
    Some(begun.elapsed())
}
