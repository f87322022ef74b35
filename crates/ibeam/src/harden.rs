//! Keeps secrets inside this process: out of crash reports, core dumps and other
//! programs' reach.

use std::{
    backtrace::{Backtrace, BacktraceStatus},
    io::Write as _,
    panic::{self, PanicHookInfo},
    thread,
};

use ibeam_core::redact;

use crate::telemetry;

/// More of a panic's message than this is the text that it failed on.
const MESSAGE_CAP: usize = 512;

/// For the beginning of the program, before it has read a secret.
pub fn harden() {
    panic::set_hook(Box::new(report));
    #[cfg(unix)]
    no_core_dumps();
    #[cfg(target_os = "linux")]
    unreadable();
}

/// Of a panic in any thread or task.
fn report(info: &PanicHookInfo<'_>) {
    let text = describe(info);
    if tracing::enabled!(tracing::Level::ERROR) {
        tracing::error!("{text}");
        // This may be the main thread, and the end.
        telemetry::flush();
    } else {
        let _ = writeln!(std::io::stderr().lock(), "{text}");
    }
}

/// Where it was and what it said. The message is the failing code's own, which may quote
/// what it worked on: it is cut, and masked before that, so that no half of a secret is left.
fn describe(info: &PanicHookInfo<'_>) -> String {
    let thread = thread::current();
    let name = thread.name().unwrap_or("<unnamed>");
    let place = info.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
    let message = redact::text(info.payload_as_str().unwrap_or("no message"));
    let end = message.floor_char_boundary(MESSAGE_CAP);
    let cut = if end < message.len() { " …" } else { "" };
    let message = message.get(..end).unwrap_or_default();
    let mut text = format!("thread '{name}' panicked at {place}: {message}{cut}");
    // Only if RUST_BACKTRACE asks for one. It has names of functions and no values.
    let trace = Backtrace::capture();
    if trace.status() == BacktraceStatus::Captured {
        text.push_str(&format!("\n{trace}"));
    }
    text
}

/// The soft limit that we found.
#[cfg(unix)]
static FOUND: std::sync::OnceLock<Option<u64>> = std::sync::OnceLock::new();

/// The hard limit stays: what we start may have core dumps if it wants to.
#[cfg(unix)]
fn no_core_dumps() {
    let found = rustix::process::getrlimit(rustix::process::Resource::Core).current;
    FOUND.get_or_init(|| found);
    limit_core_dumps(Some(0));
}

#[cfg(unix)]
fn limit_core_dumps(current: Option<u64>) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Core).maximum;
    // Up to what it was, it is always allowed.
    let _ = setrlimit(Resource::Core, Rlimit { current, maximum });
}

/// Starts a program of the user's with the limit that it would have without us.
pub(crate) fn as_found<T>(start: impl FnOnce() -> T) -> T {
    #[cfg(unix)]
    if let Some(found) = FOUND.get() {
        limit_core_dumps(*found);
        let started = start();
        limit_core_dumps(Some(0));
        return started;
    }
    start()
}

/// A core dump that goes to a program knows no limit, and another program of the same user
/// could read our memory and environment. Neither can be done to a process that is not
/// dumpable. A program that traces us from the start sees everything anyway, so `strace ibeam …` and
/// debuggers continue to work.
#[cfg(target_os = "linux")]
fn unreadable() {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    if !is_traced(&status) {
        // Systems that forbid the call protect processes themselves.
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
}

#[cfg(target_os = "linux")]
fn is_traced(status: &str) -> bool {
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.is_some_and(|pid| pid.trim() != "0")
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    #[test]
    fn tracer_is_detected() {
        assert!(is_traced("Name:\tibeam\nTracerPid:\t4711\nUid:\t0\n"));
        assert!(!is_traced("Name:\tibeam\nTracerPid:\t0\nUid:\t0\n"));
        assert!(!is_traced(""));
    }
}
