//! What probes have found out about the service, and what running gateways have learned.

use crate::doctor::{
    findings::Findings,
    report::{Check, CheckLine, Code},
};
use ibeam_core::peer::agent::probe::ProbeFindings;

use super::span;

/// Older answers may no longer be true, in seconds.
const OLD: u64 = 90 * 86_400;

pub(super) fn probes(found: &Findings, now: u64, lines: &mut Vec<CheckLine>) {
    let check = Check::Probes;
    match &found.probes {
        None => lines.push(CheckLine::skipped(check, "this backend does not go by them")),
        Some(Err(why)) => {
            let what = format!("the answers of `ibeam probe` are not used: {why}");
            let line = CheckLine::warn(check, Code::ProbesUnusable, what);
            lines.push(line.fix("ibeam probe --forget"));
        }
        Some(Ok(answers)) => lines.push(kept(answers, now)),
    }
    for running in found.running.iter().filter(|running| !running.history.is_empty()) {
        let forms: Vec<String> =
            running.history.iter().map(|(model, form)| format!("{model} {form}")).collect();
        let what =
            format!("the gateway at {} rebuilds histories as: {}", running.url, forms.join(", "));
        lines.push(CheckLine::ok(check, what));
    }
}

fn kept(answers: &ProbeFindings, now: u64) -> CheckLine {
    let check = Check::Probes;
    let Some(oldest) = answers.oldest() else {
        return CheckLine::skipped(check, "none were made; see `ibeam probe --list`");
    };
    let age = now.saturating_sub(oldest);
    let count = answers.iter().count();
    let plural = if count == 1 { "" } else { "s" };
    let effects: Vec<String> = answers.iter().filter_map(|answer| answer.effect()).collect();
    let effects = match effects.is_empty() {
        true => "they change nothing".to_owned(),
        false => effects.join("; "),
    };
    let what = format!("{count} answer{plural}, the oldest {} old: {effects}", span(age));
    let current = env!("CARGO_PKG_VERSION");
    let stale = answers.iter().any(|answer| answer.ibeam_version != current);
    match age > OLD || stale {
        true => CheckLine::warn(check, Code::ProbesOld, what).fix("ibeam probe"),
        false => CheckLine::ok(check, what),
    }
}
