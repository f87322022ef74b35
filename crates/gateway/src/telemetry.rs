//! Logs: to stderr, for people or as JSON, never with a secret in them.
//!
//! *Invariant:* every byte of log output passes through [`Redacting`].

use std::io::{self, IsTerminal as _, Write};

use ibeam_core::redact;
use tracing_subscriber::{
    Layer as _, filter::Targets, fmt, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

use crate::config::Log;

/// Starts logging for the whole process. Later calls change nothing.
pub fn init(log: &Log) {
    let filter = filter(log);
    let stderr = || Redacting(io::stderr());
    let registry = tracing_subscriber::registry();
    let started = if log.json {
        let layer = fmt::layer().json().flatten_event(true).with_current_span(true);
        registry
            .with(layer.with_span_list(false).with_writer(stderr).with_filter(filter))
            .try_init()
    } else {
        let colour = io::stderr().is_terminal() && !no_color();
        let layer = fmt::layer().with_target(false).with_ansi(colour);
        registry.with(layer.with_writer(stderr).with_filter(filter)).try_init()
    };
    if started.is_err() {
        tracing::debug!("logging was already set up");
    }
}

/// `debug` means ours; the libraries below stay quiet unless named.
fn filter(log: &Log) -> Targets {
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

/// Takes out what looks like a secret. The subscriber hands over whole lines.
#[derive(Debug)]
pub struct Redacting<W>(pub W);

impl<W: Write> Write for Redacting<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.write_all(redact::text(&String::from_utf8_lossy(line)).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
#[path = "telemetry_tests.rs"]
mod tests;
