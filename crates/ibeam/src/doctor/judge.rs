//! From what was found to what is to be said: a pure function.
//!
//! *Invariant:* what fails only because something before it does is not looked at, and not
//! blamed. So the first red line is the cause.

mod asked;
mod machine;
mod network;
mod probes;

pub(crate) use self::network::span;

use super::{
    findings::Findings,
    report::{Check, CheckLine, CheckState},
};

/// Clocks that differ by more make tokens look over or not yet valid. In seconds.
pub(super) const SKEW: u64 = 300;

/// All lines, in their order. `now` is our own clock, in seconds since 1970.
#[must_use]
pub fn judge(found: &Findings, now: u64) -> Vec<CheckLine> {
    let mut lines = Vec::new();
    machine::settings(found, &mut lines);
    machine::disk(found, &mut lines);
    machine::files(found, &mut lines);
    machine::access(found, &mut lines);
    machine::ports(found, &mut lines);
    machine::clients(found, &mut lines);
    probes::probes(found, now, &mut lines);
    if let Some(api) = &found.api {
        network::credential(api, found, now, &mut lines);
        network::network(api, found, now, &mut lines);
    }
    asked::asked(found, now, &mut lines);
    lines
}

/// A line for what was not looked at because of a red one.
fn after(check: Check, red: Check) -> CheckLine {
    CheckLine::skipped(check, format!("skipped because of {}", title(red)))
}

/// The check that keeps others from being looked at.
fn red(lines: &[CheckLine], among: &[Check]) -> Option<Check> {
    let red = |line: &&CheckLine| line.state == CheckState::Fail && among.contains(&line.check);
    lines.iter().find(red).map(|line| line.check)
}

/// What a check is called on the page.
#[must_use]
pub fn title(check: Check) -> &'static str {
    match check {
        Check::Settings => "settings",
        Check::Disk => "disk",
        Check::Files => "files",
        Check::Access => "access",
        Check::Port => "port",
        Check::Clients => "clients",
        Check::Probes => "probes",
        Check::Credential => "sign-in",
        Check::Agent => "cursor-agent",
        Check::Network => "network",
        Check::Clock => "clock",
        Check::Http2 => "HTTP/2",
        Check::Token => "token",
        Check::ClientVersion => "client version",
        Check::Models => "models",
        Check::Model => "model",
        Check::Answer => "answer",
        Check::Tools => "tools",
        Check::Drift => "drift",
    }
}
