//! Repeats that are not loops: waiting for something, and steps that are the same
//! each time they are taken.

use super::classify::{OutcomeClass, ToolKind, words};

/// The likely purpose of a repetition, judged by name and arguments of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    Plain,
    /// Lets time pass.
    Waits,
    /// Asks how something is going.
    Asks,
    /// A key, a click, a page on: the next one does something else.
    Steps,
}

const WAITS: [&str; 4] = ["sleep", "wait", "await", "delay"];
const ASKS: [&str; 9] =
    ["poll", "status", "check", "job", "progress", "monitor", "health", "watch", "ping"];
const STEPS: [&str; 9] =
    ["press", "click", "scroll", "next", "key", "type", "advance", "tap", "swipe"];
/// What a step answers that has nothing to say.
const ACKNOWLEDGED: [&str; 9] =
    ["", "ok", "okay", "done", "success", "successful", "true", "null", "ok true"];
/// A longer text is about something else than how it is going.
const SHORT: usize = 400;

impl Manner {
    pub(super) fn of(name: &str, kind: ToolKind, arguments: &str) -> Self {
        let words = words(name);
        let any = |known: &[&str]| words.iter().any(|word| known.contains(&word.as_str()));
        let shell = kind == ToolKind::Other;
        if any(&WAITS) || (shell && sleeps(arguments)) {
            Self::Waits
        } else if any(&STEPS) {
            Self::Steps
        } else if any(&ASKS) || (shell && connects(arguments)) {
            Self::Asks
        } else {
            Self::Plain
        }
    }

    /// Whether this outcome of the call is only a reason to ask again.
    pub(super) fn goes_on(self, class: OutcomeClass, text: &str) -> bool {
        if class == OutcomeClass::Refused {
            return false;
        }
        let patient = matches!(self, Self::Waits | Self::Asks);
        let waited = self == Self::Waits && class == OutcomeClass::Success;
        let text = text.trim().to_lowercase();
        let refused =
            || ["connection refused", "econnrefused"].iter().any(|said| text.contains(said));
        waited
            || ((patient || text.len() <= SHORT) && is_under_way(&text))
            || (patient && (refused() || timed_out(&text)))
    }

    /// How many times as often this outcome may come.
    pub(super) fn allowance(self, text: &str) -> u32 {
        let plain = |c: char| if c.is_alphanumeric() { c } else { ' ' };
        let text: String = text.chars().take(SHORT).map(plain).collect::<String>().to_lowercase();
        let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if self == Self::Steps && ACKNOWLEDGED.contains(&said.as_str()) { 4 } else { 1 }
    }
}

/// A command that waits: `sleep 5`, `wait`.
fn sleeps(arguments: &str) -> bool {
    commands(arguments).any(|word| word == "wait")
        || timed(arguments, "sleep")
        || timed(arguments, "start-sleep")
}

/// A command that asks another program whether it is there, or gives up after a time:
/// `timeout 30 …`.
fn connects(arguments: &str) -> bool {
    commands(arguments).any(|word| ["curl", "wget", "nc", "pg_isready", "ping"].contains(&word))
        || timed(arguments, "timeout")
}

/// Whether this command has a number. The name of a parameter does not count.
fn timed(arguments: &str, command: &str) -> bool {
    arguments.match_indices(command).any(|(at, found)| {
        let before = arguments.get(..at).and_then(|text| text.chars().next_back());
        let after = arguments.get(at + found.len()..).and_then(|text| text.strip_prefix(' '));
        before.is_none_or(|c| !c.is_alphanumeric())
            && after.is_some_and(|text| text.starts_with(|c: char| c.is_ascii_digit()))
    })
}

fn commands(arguments: &str) -> impl Iterator<Item = &str> {
    arguments
        .split(|c: char| c.is_whitespace() || "\"';&|(){},:`".contains(c))
        .filter(|word| !word.is_empty())
}

fn timed_out(text: &str) -> bool {
    let last = text.lines().next_back().unwrap_or_default();
    text.lines().next().into_iter().chain([last]).any(|line| {
        line.contains("timed out")
            || (line.contains("exit") && line.contains("code") && line.contains("124"))
    })
}

/// Whether a text says that something is not finished; lower case.
fn is_under_way(text: &str) -> bool {
    const PHRASES: [&str; 7] = [
        "in progress",
        "in_progress",
        "in-progress",
        "inprogress",
        "not ready",
        "not yet",
        "waiting for",
    ];
    const WORDS: [&str; 3] = ["pending", "queued", "provisioning"];
    if PHRASES.iter().any(|phrase| text.contains(phrase)) {
        return true;
    }
    let mut words = text
        .split(|c: char| !c.is_alphanumeric() && c != '`')
        .filter(|word| !word.is_empty())
        .peekable();
    while let Some(word) = words.next() {
        let next = words.peek().copied().unwrap_or_default();
        let state = match word {
            // `running 3 tests`, "running `a.out`" name what follows, not a state.
            "running" => {
                !next.starts_with(|c: char| c.is_ascii_digit() || c == '`') && next != "unittests"
            }
            "still" => {
                let lasts = next.ends_with("ing") && !["failing", "missing"].contains(&next);
                lasts || ["in", "not"].contains(&next)
            }
            _ => WORDS.contains(&word),
        };
        if state {
            return true;
        }
    }
    false
}
