//! How tools are offered and called: questions e, f, g, j, k, p and q.

use serde_json::{Map, Value};

use super::{
    ProbeEnd, ProbeObservation as Seen, ProbeTrace,
    draft::{ProbeSubject, RunDraft, tool},
    plan::{Runs, settled},
    run::ProbeRun,
    trace::CallNotice,
};
use crate::peer::agent::service_facts::{McpStatus, ToolDeclaration};

const ECHO: &str = "ibeam_probe_echo";
const CALL_ECHO: &str = "Call the tool ibeam_probe_echo with {\"text\":\"one\"}, then repeat the \
                         word that it answered.";

fn echo(subject: &ProbeSubject, name: &str) -> RunDraft {
    RunDraft::new(subject, name).tools(&[tool(ECHO, "text")]).ask(CALL_ECHO)
}

/// Whether the model called the tool. `None`: it never came to that.
fn called(run: &ProbeTrace) -> Option<bool> {
    match run.end() {
        _ if run.calls() > 0 => Some(true),
        ProbeEnd::Answered | ProbeEnd::Empty => Some(false),
        ProbeEnd::Failed(_)
        | ProbeEnd::Lost
        | ProbeEnd::Silent
        | ProbeEnd::Slow
        | ProbeEnd::Stopped => None,
    }
}

// === e ===

pub(super) fn partial_arguments(subject: &ProbeSubject, runs: &Runs<'_>) -> Option<ProbeRun> {
    const NOTE: &str = "ibeam_probe_note";
    const TEXT: &str = "Call the tool ibeam_probe_note with {\"text\":\"The quick brown fox jumps \
                        over the lazy dog, and the five boxing wizards jump quickly, while the \
                        sphinx of black quartz judges every vow that is made before it.\"}, then \
                        repeat the word that it answered.";
    let draft = || RunDraft::new(subject, "e").tools(&[tool(NOTE, "text")]).ask(TEXT);
    runs.is_empty().then(|| draft().finish())
}

pub(super) fn judge_partial_arguments(runs: &Runs<'_>) -> Seen {
    let [run] = runs[..] else { return Seen::Unclear };
    if called(run) != Some(true) {
        return Seen::Unclear;
    }
    let has = |text| run.notices.contains(&CallNotice::Partial(text));
    if !has(true) {
        return if has(false) { Seen::PartialsEmpty } else { Seen::PartialsAbsent };
    }
    // The text may come as it grows, or piece by piece.
    let object = |text: &str| serde_json::from_str::<Map<String, Value>>(text).ok();
    let read = object(&run.longest_partial).or_else(|| object(&run.joined_partials));
    settled(read.map(|arguments| {
        let is_wrapper = arguments.contains_key("toolName") && arguments.contains_key("arguments");
        if is_wrapper { Seen::PartialsWrapper } else { Seen::PartialsInner }
    }))
}

// === f ===

/// Without the options for the meta tools, with them, and where that is not enough with nothing
/// but them.
pub(super) fn tools_declared(subject: &ProbeSubject, runs: &Runs<'_>) -> Option<ProbeRun> {
    let (name, declaration) = match runs[..] {
        [] => ("f1", ToolDeclaration::NotForMeta),
        [_] => ("f2", ToolDeclaration::Everywhere),
        [first, second] if called(first) != Some(true) && called(second) != Some(true) => {
            ("f3", ToolDeclaration::OnlyForMeta)
        }
        _ => return None,
    };
    Some(echo(subject, name).declared(declaration).finish())
}

pub(super) fn judge_tools_declared(runs: &Runs<'_>) -> Seen {
    let silent = |run: &ProbeTrace| *run.end() == ProbeEnd::Silent;
    match runs[..] {
        [without, with] => match (called(without), called(with)) {
            (Some(true), Some(true)) => Seen::MetaOptional,
            (Some(false), Some(true)) => Seen::MetaNeeded,
            (Some(true), Some(false)) => Seen::MetaHarmful,
            _ => Seen::Unclear,
        },
        // Silence alone proves nothing: some models think for minutes.
        [first, second, only] if silent(first) && silent(second) => {
            settled((called(only) == Some(true)).then_some(Seen::DoubleStalls))
        }
        _ => Seen::Unclear,
    }
}

// === g ===

const STATUSES: [McpStatus; 3] = [McpStatus::Connected, McpStatus::Ready, McpStatus::Absent];

pub(super) fn server_status(subject: &ProbeSubject, runs: &Runs<'_>) -> Option<ProbeRun> {
    if runs.first().is_some_and(|run| !run.asked_status) {
        return None;
    }
    let status = *STATUSES.get(runs.len())?;
    Some(echo(subject, &format!("g{}", runs.len())).status(status).finish())
}

pub(super) fn judge_server_status(runs: &Runs<'_>) -> Seen {
    if let [only] = runs[..] {
        let seen = called(only) == Some(true) && !only.asked_status;
        return settled(seen.then_some(Seen::StatusNotAsked));
    }
    let works: Vec<Option<bool>> = runs.iter().map(|run| called(run)).collect();
    match works[..] {
        [Some(true), Some(true), Some(true)] => Seen::StatusAny,
        [Some(true), Some(_), Some(_)] => Seen::StatusConnected,
        [Some(false), Some(true), Some(_)] => Seen::StatusReady,
        [Some(false), Some(false), Some(true)] => Seen::StatusAbsent,
        _ => Seen::Unclear,
    }
}

// === j ===

pub(super) fn listed_calls(subject: &ProbeSubject, runs: &Runs<'_>) -> Option<ProbeRun> {
    const NAMES: [&str; 2] = ["ibeam_probe_one", "ibeam_probe_two"];
    const THREE: &str = "Do all of this in one step, in parallel: call the tool ibeam_probe_one \
                         with {\"text\":\"1\"}, call the tool ibeam_probe_two with \
                         {\"text\":\"2\"}, call the tool ibeam_probe_none with {\"text\":\"3\"} \
                         although it is not listed. Say what each of them answered.";
    let tools = NAMES.map(|name| tool(name, "text"));
    let draft = || RunDraft::new(subject, "j").tools(&tools).ask(THREE);
    runs.is_empty().then(|| draft().finish())
}

/// The number is that of the calls which were listed and never made: 1 when the refused one is
/// in the count, 0 when it is not.
pub(super) fn judge_listed_calls(runs: &Runs<'_>) -> (Seen, Option<u32>) {
    let [run] = runs[..] else { return (Seen::Unclear, None) };
    let at = |wanted: fn(&CallNotice) -> bool| run.notices.iter().position(wanted);
    let listed = at(|notice| matches!(notice, CallNotice::Listed(_)));
    let started = at(|notice| matches!(notice, CallNotice::Started | CallNotice::Partial(_)));
    let (Some(exec), 2..) = (at(|notice| *notice == CallNotice::Exec), run.calls()) else {
        return (Seen::Unclear, None);
    };
    let Some(listed) = listed else { return (Seen::ListedNever, None) };
    let seen = match started {
        Some(started) if listed < started => Seen::ListedBeforeStarted,
        None if listed < exec => Seen::ListedBeforeStarted,
        _ if listed < exec => Seen::ListedBetween,
        _ => Seen::ListedAfterExecs,
    };
    // Only with a refused call the count shows anything.
    let refused = run.notices.contains(&CallNotice::Refused);
    let count = run.notices.iter().find_map(|notice| match notice {
        CallNotice::Listed(count) => usize::try_from(*count).ok(),
        _ => None,
    });
    let beyond = count.filter(|_| refused).and_then(|count| count.checked_sub(run.calls()));
    (seen, beyond.and_then(|beyond| u32::try_from(beyond).ok()))
}

// === k ===

pub(super) fn empty_tool_list(subject: &ProbeSubject, runs: &Runs<'_>) -> Option<ProbeRun> {
    const SHELL: &str = "Run the shell command `echo ibeam-probe` and show its output.";
    runs.is_empty().then(|| RunDraft::new(subject, "k").ask(SHELL).finish())
}

pub(super) fn judge_empty_tool_list(runs: &Runs<'_>) -> Seen {
    match runs[..] {
        [run] if run.natives > 0 => Seen::EmptyIgnored,
        [run] if run.answered() => Seen::EmptyHonoured,
        _ => Seen::Unclear,
    }
}

// === p ===

pub(super) fn builtin_names(subject: &ProbeSubject, runs: &Runs<'_>) -> Option<ProbeRun> {
    const READ: &str = "Call the tool `read` of the namespace `ibeam` with \
                        {\"path\":\"probe.txt\"}, then repeat the word that it answered.";
    let draft = || RunDraft::new(subject, "p").tools(&[tool("read", "path")]).ask(READ);
    runs.is_empty().then(|| draft().finish())
}

pub(super) fn judge_builtin_names(runs: &Runs<'_>) -> Seen {
    match runs[..] {
        [run] if run.calls() > 0 => Seen::NamesFree,
        [run] if run.natives > 0 => Seen::NativeInstead,
        [run] if run.is_refusal() => Seen::NamesCollide,
        _ => Seen::Unclear,
    }
}

// === q ===

pub(super) fn held_call(subject: &ProbeSubject, runs: &Runs<'_>) -> Option<ProbeRun> {
    runs.is_empty().then(|| echo(subject, "q").hold(subject.hold).finish())
}

pub(super) fn judge_held_call(runs: &Runs<'_>) -> (Seen, Option<u32>) {
    let [run] = runs[..] else { return (Seen::Unclear, None) };
    let seconds = run.held.and_then(|held| u32::try_from(held / 1000).ok());
    match (run.end(), seconds) {
        (ProbeEnd::Answered, Some(_)) => (Seen::CallHeld, seconds),
        (ProbeEnd::Lost | ProbeEnd::Failed(_), Some(_)) => (Seen::CallLost, seconds),
        _ => (Seen::Unclear, None),
    }
}

#[cfg(test)]
#[path = "tool_probes_tests.rs"]
mod tests;
