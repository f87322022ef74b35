//! What the service makes of the client itself: questions i, l, m and n.

use super::{
    CallAnswer, ProbeObservation as Seen, ProbeSeen,
    draft::{ProbeSubject, RunDraft},
    plan::{Runs, settled},
    run::ProbeRun,
};
use crate::error::ErrorCode;

const SHORT: &str = "Say OK.";

fn short(subject: &ProbeSubject, name: &str) -> RunDraft {
    RunDraft::new(subject, name).ask(SHORT)
}

// === i ===

/// A build of January 2026, which was accepted in September.
pub const OLD_VERSION: &str = "cli-2026.01.09-231024f";

pub(super) fn version_floor(subject: &ProbeSubject, runs: &Runs<'_>) -> Option<ProbeRun> {
    runs.is_empty().then(|| short(subject, "i").client_version(OLD_VERSION).finish())
}

pub(super) fn judge_version_floor(runs: &Runs<'_>) -> Seen {
    let [run] = runs[..] else { return Seen::Unclear };
    let refused = run.failure().is_some_and(|f| f.error.code == ErrorCode::ClientOutdated);
    match run.answered() {
        true => Seen::OldVersionAccepted,
        false => settled(refused.then_some(Seen::OldVersionRefused)),
    }
}

// === l ===

pub(super) fn judge_usage_call(seen: &[ProbeSeen]) -> Seen {
    match seen {
        [ProbeSeen::Called(Ok(_))] => Seen::UsageAvailable,
        [ProbeSeen::Called(Err(failure))] => {
            let refused = matches!(failure.wire.split('/').next(), Some("permission_denied"))
                || matches!(failure.wire.as_str(), "http-401" | "http-403")
                || failure.error.code == ErrorCode::NotAuthenticated;
            settled(refused.then_some(Seen::UsageUnavailable))
        }
        _ => Seen::Unclear,
    }
}

// === m ===

/// The addresses that may be contacted: those of the service and no other.
fn addresses(seen: &[ProbeSeen]) -> Vec<(&'static str, String)> {
    let Some(ProbeSeen::Called(Ok(CallAnswer::Addresses { agent, agentn }))) = seen.first() else {
        return Vec::new();
    };
    let named = [("m-agent", agent), ("m-agentn", agentn)];
    let trusted = named.into_iter().filter(|(_, url)| is_trusted(url));
    trusted.map(|(name, url)| (name, url.trim_end_matches('/').to_owned())).collect()
}

/// An https address of a host under cursor.sh, without a path.
#[must_use]
pub fn is_trusted(url: &str) -> bool {
    let Some(name) = url.strip_prefix("https://") else { return false };
    let name = name.trim_end_matches('/');
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    name.ends_with(".cursor.sh") && name.chars().all(legal)
}

pub(super) fn agent_address(
    subject: &ProbeSubject,
    seen: &[ProbeSeen],
    runs: &Runs<'_>,
) -> Option<ProbeRun> {
    let (name, url) = addresses(seen).into_iter().nth(runs.len())?;
    Some(short(subject, name).host(url).finish())
}

pub(super) fn judge_agent_address(seen: &[ProbeSeen], runs: &Runs<'_>) -> Seen {
    let addresses = addresses(seen);
    if !matches!(seen.first(), Some(ProbeSeen::Called(Ok(_)))) || runs.len() < addresses.len() {
        return Seen::Unclear;
    }
    let answers = |wanted: &str| {
        let at = addresses.iter().position(|(name, _)| *name == wanted);
        at.and_then(|at| runs.get(at)).is_some_and(|run| run.answered())
    };
    match (addresses.is_empty(), answers("m-agent"), answers("m-agentn")) {
        (true, _, _) => Seen::AddressesAbsent,
        (_, true, true) => Seen::BothAnswer,
        (_, true, false) => Seen::AgentAnswers,
        (_, false, true) => Seen::AgentnAnswers,
        (_, false, false) => Seen::NeitherAnswers,
    }
}

// === n ===

pub(super) fn blob_key(subject: &ProbeSubject, runs: &Runs<'_>) -> Option<ProbeRun> {
    match runs.len() {
        0 => Some(short(subject, "n1").blob_key(true).finish()),
        1 => Some(short(subject, "n2").blob_key(false).finish()),
        _ => None,
    }
}

pub(super) fn judge_blob_key(runs: &Runs<'_>) -> Seen {
    match runs[..] {
        [with, without] => match (with.answered(), without.answered()) {
            (true, true) => Seen::KeyIgnored,
            (false, true) => settled(with.failure().map(|_| Seen::KeyRefused)),
            (true, false) => settled(without.failure().map(|_| Seen::KeyNeeded)),
            (false, false) => Seen::Unclear,
        },
        _ => Seen::Unclear,
    }
}

#[cfg(test)]
#[path = "client_probes_tests.rs"]
mod tests;
