//! Logs: to stderr, or to a file, for people or as JSON, never with a secret in them.
//!
//! *Invariant:* every byte of log output passes through [`Redacting`].
//!
//! *Invariant:* logging never waits. The program that started us may not read our stderr, and a
//! full pipe must not stop the gateway.

mod log_file;

use std::{
    io::{self, IsTerminal as _, Write},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, SyncSender},
    },
    thread,
    time::Duration,
};

use ibeam_core::{redact, visible::visible};
use tracing_subscriber::{
    Layer as _, filter::Targets, fmt, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

use self::log_file::LogFile;
pub(crate) use self::log_file::older;
use ibeam_server::config::LogConfig;

/// Starts logging for the whole process. Later calls change nothing.
pub fn init(log: &LogConfig) {
    let filter = filter(log);
    let (lines, trouble) = lines(log);
    let Some(lines) = lines else { return };
    let stderr = move || Redacting(lines.clone());
    let registry = tracing_subscriber::registry();
    let started = if log.json {
        let layer = fmt::layer().json().flatten_event(true).with_current_span(true);
        registry
            .with(layer.with_span_list(false).with_writer(stderr).with_filter(filter))
            .try_init()
    } else {
        let colour = log.file.is_none() && io::stderr().is_terminal() && !no_color();
        let layer = fmt::layer().with_target(false).with_ansi(colour);
        registry.with(layer.with_writer(stderr).with_filter(filter)).try_init()
    };
    if started.is_err() {
        tracing::debug!("logging was already set up");
    }
    if let (Some(error), Some(file)) = (trouble, &log.file) {
        tracing::warn!(%error, "cannot log to {}", file.display());
    }
}

/// Lines that wait to be written; more are dropped, and counted.
const LINES: usize = 4096;

/// How long the end of the program waits for the last of them.
const LAST_LINES: Duration = Duration::from_millis(500);

enum LogEntry {
    Line(Vec<u8>),
    /// Reports when everything before it is written.
    Flush(SyncSender<()>),
}

/// The way to the thread that writes.
#[derive(Clone)]
struct LogLines {
    entries: SyncSender<LogEntry>,
    dropped: Arc<AtomicU64>,
}

static WRITER: OnceLock<Option<LogLines>> = OnceLock::new();

/// Where lines go, and why they do not go to the file that was named.
fn lines(log: &LogConfig) -> (Option<LogLines>, Option<io::Error>) {
    let mut trouble = None;
    let started = WRITER.get_or_init(|| match log.file.as_deref().map(LogFile::open) {
        Some(Ok(file)) => LogLines::start(file).ok(),
        Some(Err(error)) => {
            trouble = Some(error);
            LogLines::start(io::stderr()).ok()
        }
        None => LogLines::start(io::stderr()).ok(),
    });
    (started.clone(), trouble)
}

/// Waits a moment for what is still to be written. For the end of the program.
pub fn flush() {
    if let Some(Some(lines)) = WRITER.get() {
        lines.wait(LAST_LINES);
    }
}

impl LogLines {
    fn start(mut to: impl Write + Send + 'static) -> io::Result<Self> {
        let (entries, queue) = mpsc::sync_channel(LINES);
        let dropped = Arc::new(AtomicU64::new(0));
        let lost = Arc::clone(&dropped);
        thread::Builder::new().name("log".to_owned()).spawn(move || {
            for entry in queue {
                let missed = lost.swap(0, Ordering::Relaxed);
                if missed > 0 {
                    let why = "the reader of the log is too slow";
                    let _ = writeln!(to, "({missed} log lines were dropped: {why})");
                }
                // A closed stderr does not stop the program.
                match entry {
                    LogEntry::Line(line) => drop(to.write_all(&line)),
                    LogEntry::Flush(done) => drop(done.send(())),
                }
            }
        })?;
        Ok(Self { entries, dropped })
    }

    fn wait(&self, time: Duration) {
        let (done, written) = mpsc::sync_channel(1);
        if self.entries.try_send(LogEntry::Flush(done)).is_ok() {
            let _ = written.recv_timeout(time);
        }
    }
}

impl Write for LogLines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.entries.try_send(LogEntry::Line(line.to_vec())).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// `debug` means ours; the libraries below stay quiet unless named.
fn filter(log: &LogConfig) -> Targets {
    let text = log.filter.as_str();
    let quiet = ["h2", "hyper", "hyper_util", "rustls", "tokio_util", "tower"];
    let mut targets: Targets = text.parse().unwrap_or_default();
    for name in quiet {
        if !text.contains(name) {
            targets = targets.with_target(name, tracing::Level::WARN);
        }
    }
    if log.timing {
        // One line per turn, from its actor.
        targets = targets.with_target("ibeam::timing", tracing::Level::DEBUG);
    }
    targets
}

/// <https://no-color.org>: any value but an empty one.
fn no_color() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

/// Takes out what looks like a secret, and shows what could not be seen. The subscriber hands
/// over whole lines.
#[derive(Debug)]
pub struct Redacting<W>(pub W);

impl<W: Write> Write for Redacting<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        self.0.write_all(visible(&redact::text(&text)).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
#[path = "telemetry_tests.rs"]
mod tests;
