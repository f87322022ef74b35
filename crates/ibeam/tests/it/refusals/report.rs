//! What a gateway spends on something, and how a stream that runs does meanwhile.

use std::{
    fmt::Write as _,
    io::{Read as _, Write as _},
    net::{Shutdown, TcpStream},
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};

use parking_lot::{Condvar, Mutex};
use tokio::time::Instant;

use super::{Gateway, status};
use crate::lab::chat;

/// A stream that runs may be this late with an event, on a machine that has much else to
/// do. It is a hundred times its pace.
const LATE: Duration = Duration::from_secs(1);

/// Memory in KiB, and processor time, which the system counts in hundredths.
struct Used {
    memory: usize,
    peak: usize,
    cpu: Duration,
}

impl Used {
    /// What the process has used so far. The peak of memory is counted from here on.
    fn of(gateway: &Gateway) -> Self {
        let id = gateway.child.id();
        let read = |name: &str| std::fs::read_to_string(format!("/proc/{id}/{name}")).unwrap();
        let status = read("status");
        let kib = |name: &str| -> usize {
            let line = status.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().nth(1).unwrap().parse().unwrap()
        };
        // The name before the fields may have spaces in it. User and system time are the
        // 14th and the 15th.
        let stat = read("stat");
        let fields = stat.rsplit(')').next().unwrap().split_whitespace();
        let ticks: u64 = fields.skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum();
        // Where that cannot be done, growth is reported too high, and never too low.
        let _ = std::fs::write(format!("/proc/{id}/clear_refs"), "5");
        Self { memory: kib("VmRSS:"), peak: kib("VmHWM:"), cpu: Duration::from_millis(ticks * 10) }
    }
}

/// Reads a stream on a thread of its own, and takes the time between its events.
pub(super) struct Watch {
    seen: Arc<(Mutex<Seen>, Condvar)>,
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
    pub(super) fn start(gateway: &Gateway) -> Self {
        let mut stream = gateway.connect();
        let body = chat("go", true).to_string();
        stream
            .write_all(gateway.post(&format!("content-length: {}", body.len())).as_bytes())
            .unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        assert_eq!(status(&mut stream), 200);
        let now = Instant::now();
        let seen = Seen { last: now, worst: Duration::ZERO, events: 0, ended: false };
        let seen = Arc::new((Mutex::new(seen), Condvar::new()));
        let (mut input, shared) = (stream.try_clone().unwrap(), Arc::clone(&seen));
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 16 * 1024];
            while let Ok(read @ 1..) = input.read(&mut bytes) {
                let events = bytes[..read].windows(6).filter(|window| window == b"data: ").count();
                let mut seen = shared.0.lock();
                if events > 0 {
                    seen.worst = seen.worst.max(seen.last.elapsed());
                    seen.last = Instant::now();
                    seen.events += events;
                    shared.1.notify_all();
                }
            }
            shared.0.lock().ended = true;
            shared.1.notify_all();
        });
        Self { seen, stream, reader: Some(reader) }
    }

    /// Waits until there were this many events since the last look. One comes every 10 ms.
    fn until(&self, events: usize) {
        let (seen, news) = &*self.seen;
        let late = |seen: &mut Seen| seen.events < events && !seen.ended;
        let _ = news.wait_while_for(&mut seen.lock(), late, Duration::from_secs(10));
    }

    /// As long as this many more of them take.
    pub(super) fn pass(&self, events: usize) {
        let already = self.seen.0.lock().events;
        self.until(already + events);
    }

    /// What was seen since the last time.
    fn look(&self) -> Seen {
        let mut seen = self.seen.0.lock();
        // A silence that has not ended counts.
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

/// What each attempt came to, what it cost, and how the stream did meanwhile.
pub(super) struct Report<'a> {
    pub(super) gateway: &'a Gateway,
    pub(super) watch: &'a Watch,
    table: String,
}

/// How something ended, and how many bytes were sent for it. The gateway read no more.
pub(super) struct Outcome {
    pub(super) words: String,
    pub(super) sent: usize,
}

impl<'a> Report<'a> {
    pub(super) fn new(gateway: &'a Gateway, watch: &'a Watch) -> Self {
        let table = format!(
            "{:<34} {:>5}   {:>9}   {:>9}   {:>10}   {:>9}   {:>11}   {:>6}   {}\n",
            "each of these",
            "tries",
            "time each",
            "cpu each",
            "bytes each",
            "memory",
            "longest gap",
            "events",
            "outcome"
        );
        Self { gateway, watch, table }
    }

    /// Returns by how many KiB the memory grew at most.
    pub(super) fn phase(
        &mut self,
        what: &str,
        tries: usize,
        run: impl FnOnce() -> Outcome,
    ) -> usize {
        self.watch.look();
        let before = Used::of(self.gateway);
        let began = Instant::now();
        let Outcome { words, sent } = run();
        let took = began.elapsed();
        // However short it was, a few events belong to it.
        self.watch.until(3);
        let (seen, after) = (self.watch.look(), Used::of(self.gateway));
        let each = |time: Duration| time.as_secs_f64() * 1000.0 / tries as f64;
        let grown = after.peak.saturating_sub(before.memory);
        writeln!(
            self.table,
            "{what:<34} {tries:>5}   {:>6.2} ms   {:>6.2} ms   {:>10}   +{:>4.1} MiB   {:>8} ms   {:>6}   {words}",
            each(took),
            each(after.cpu.saturating_sub(before.cpu)),
            sent / tries,
            grown as f64 / 1024.0,
            seen.worst.as_millis(),
            seen.events,
        )
        .unwrap();
        assert!(!seen.ended, "{what}: the stream ended\n{}", self.table);
        assert!(seen.events >= 3, "{what}: the stream stood still\n{}", self.table);
        assert!(seen.worst < LATE, "{what}: the stream was disturbed\n{}", self.table);
        grown
    }

    /// Many requests that must all get the same answer, and leave nothing behind.
    pub(super) fn refused(&mut self, what: &str, headers: &str, expect: u16) {
        const TRIES: usize = 100;
        let gateway = self.gateway;
        let grown = self.phase(what, TRIES, || {
            let sent = (0..TRIES).map(|_| {
                let (status, sent) = gateway.ask(headers);
                assert_eq!(status, expect, "{what}");
                sent
            });
            Outcome { sent: sent.sum(), words: expect.to_string() }
        });
        assert!(grown < 16 << 10, "{what}: {grown} KiB\n{}", self.table);
    }

    /// Not by `println!`, which test runners keep to themselves.
    pub(super) fn print(&self) {
        writeln!(std::io::stderr().lock(), "\n{}", self.table).unwrap();
    }
}
