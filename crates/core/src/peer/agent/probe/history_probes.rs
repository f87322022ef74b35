//! How a history and a system prompt reach the model: questions a to d.

use super::{
    ProbeObservation as Seen,
    draft::{ProbeSubject, RunDraft},
    plan::{Runs, settled},
    run::ProbeRun,
};

// === a ===

const PROMPT_WORD: &str = "QUARTZ-1";
const PROMPT: &str =
    "Whatever you are asked, answer with the single word QUARTZ-1 and nothing else.";
const WHO: &str = "Who are you, and which tools can you call?";

/// Resumed first; the fallback only where that does not work.
pub(super) fn resumed_prompt(subject: &ProbeSubject, runs: &Runs<'_>) -> Option<ProbeRun> {
    let draft = |name| RunDraft::new(subject, name);
    match runs[..] {
        [] => Some(draft("a1").system(PROMPT).resume(WHO).finish()),
        [first] if first.is_refusal() || !first.says(PROMPT_WORD) && settles(first) => {
            let draft = draft("a2").system(PROMPT).rules_entry(PROMPT);
            let greeting = "<user_query>\nGood morning.\n</user_query>";
            Some(draft.user(greeting).assistant("Good morning.").ask(WHO).finish())
        }
        _ => None,
    }
}

pub(super) fn judge_resumed_prompt(runs: &Runs<'_>) -> Seen {
    match runs[..] {
        [first] if first.answered() && first.is_only(PROMPT_WORD) => Seen::PromptAlone,
        [first] if first.answered() && first.says(PROMPT_WORD) => Seen::PromptAmongOthers,
        [_, second] if second.answered() && second.says(PROMPT_WORD) => Seen::RulesEntryOnly,
        [_, second] if second.is_refusal() || settles(second) => Seen::NeitherForm,
        _ => Seen::Unclear,
    }
}

/// Whether the run came to its end, with an answer or without.
fn settles(run: &super::ProbeTrace) -> bool {
    matches!(run.end(), super::ProbeEnd::Answered | super::ProbeEnd::Empty)
}

// === b ===

const RULE_WORD: &str = "BASALT-1";
const RULE: &str = "End every answer with the word BASALT-1.";
const COLOUR: &str = "Name a colour.";

/// Without entries, with a system entry only, with a pair of messages.
pub(super) fn rules_shown(subject: &ProbeSubject, runs: &Runs<'_>) -> Option<ProbeRun> {
    let draft = |name| RunDraft::new(subject, name).rule(RULE).ask(COLOUR);
    let draft = match runs.len() {
        0 => draft("b1"),
        1 => draft("b2").system("Answer briefly."),
        2 => draft("b3").system("Answer briefly.").user("Name a fruit.").assistant("An apple."),
        _ => return None,
    };
    Some(draft.finish())
}

pub(super) fn judge_rules_shown(runs: &Runs<'_>) -> Seen {
    let shown = |run: &&super::ProbeTrace| {
        run.answered()
            .then(|| run.says(RULE_WORD) || run.rule_tokens.is_some_and(|tokens| tokens > 0))
    };
    let shown: Vec<Option<bool>> = runs.iter().map(shown).collect();
    match shown[..] {
        [Some(true), Some(true), Some(true)] => Seen::RulesAlways,
        [Some(true), Some(true), Some(false)] => Seen::RulesWithoutHistory,
        [Some(true), Some(false), Some(false)] => Seen::RulesWithoutRoots,
        [Some(false), Some(false), Some(false)] => Seen::RulesNever,
        _ => Seen::Unclear,
    }
}

// === c ===

/// Leaves out one thing more each time, until the run is empty.
pub(super) fn resume_needs(subject: &ProbeSubject, runs: &Runs<'_>) -> Option<ProbeRun> {
    if runs.last().is_some_and(|run| !run.answered()) {
        return None;
    }
    let draft = |name| {
        let draft = RunDraft::new(subject, name).system("Answer briefly.");
        draft.resume("Name a colour.").without_agent_type()
    };
    let draft = match runs.len() {
        0 => draft("c1"),
        1 => draft("c2").without_mode(),
        2 => draft("c3").without_mode().without_turn(),
        _ => return None,
    };
    Some(draft.finish())
}

pub(super) fn judge_resume_needs(runs: &Runs<'_>) -> Seen {
    let Some(last) = runs.last() else { return Seen::Unclear };
    if last.answered() {
        return if runs.len() == 3 { Seen::NothingNeeded } else { Seen::Unclear };
    }
    let lacks = matches!(last.end(), super::ProbeEnd::Empty) || last.is_refusal();
    settled(lacks.then_some(match runs.len() {
        1 => Seen::AgentTypeNeeded,
        2 => Seen::ModeNeeded,
        _ => Seen::TurnNeeded,
    }))
}

// === d ===

/// How many entries the runs have.
const ENTRIES: [u32; 3] = [150, 200, 250];

pub(super) fn root_limit(subject: &ProbeSubject, runs: &Runs<'_>) -> Option<ProbeRun> {
    if runs.last().is_some_and(|run| !run.answered()) {
        return None;
    }
    let count = *ENTRIES.get(runs.len())?;
    let mut draft = RunDraft::new(subject, &format!("d{count}")).system("Answer briefly.");
    for pair in 0..count.saturating_sub(1).div_ceil(2) {
        draft = draft.user(&format!("Note {pair}."));
        if pair * 2 + 2 < count {
            draft = draft.assistant("Noted.");
        }
    }
    Some(draft.ask("Say OK.").finish())
}

pub(super) fn judge_root_limit(runs: &Runs<'_>) -> (Seen, Option<u32>) {
    let accepted = runs.iter().take_while(|run| run.answered()).count();
    let refused = runs.get(accepted).is_some_and(|run| run.is_refusal());
    if !refused && accepted < ENTRIES.len() {
        return (Seen::Unclear, None);
    }
    let most = accepted.checked_sub(1).and_then(|at| ENTRIES.get(at)).copied();
    (Seen::RootsAccepted, Some(most.unwrap_or_default()))
}

#[cfg(test)]
#[path = "history_probes_tests.rs"]
mod tests;
