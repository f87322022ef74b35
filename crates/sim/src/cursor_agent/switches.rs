//! The switches of `IBEAM_FAKE_AGENT`, which make the stand-in misbehave.

use std::{path::PathBuf, time::Duration};

use crate::behaviour::BehaviourChanges;

/// One switch, named as in the table of the module above.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FakeSwitch {
    NoResult,
    ErrorResult,
    Exit(String),
    NotLoggedIn,
    UsageLimit,
    TrustPrompt,
    Empty,
    Snapshots,
    NoPartial,
    NoThinking,
    Crlf,
    Noise,
    Ansi,
    HugeLine,
    SplitUtf8,
    Hang,
    Zombie,
    IgnoreSigterm,
    OwnTools,
    OldNames,
    RepeatText,
    AskMcp,
    AcpIgnoresMcp,
    Slow(Duration),
    McpTimeout(Duration),
    CrashAfter(u64),
}

/// All switches that are on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FakeSwitches {
    list: Vec<FakeSwitch>,
    pub(super) scenario: Option<PathBuf>,
    /// The folder for its state; overrides `IBEAM_FAKE_AGENT_HOME`.
    pub(super) home: Option<PathBuf>,
    /// Switches of the simulator; they override those of the scenario.
    pub(super) behaviour: BehaviourChanges,
}

impl FakeSwitches {
    /// # Errors
    /// Names the unknown switch.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut switches = Self::default();
        let mut rest = text.trim();
        while !rest.is_empty() {
            // The text for stderr may contain commas, so it comes last.
            if let Some(words) = rest.strip_prefix("exit-1:") {
                switches.list.push(FakeSwitch::Exit(words.to_owned()));
                break;
            }
            let (word, tail) = rest.split_once(',').unwrap_or((rest, ""));
            rest = tail.trim_start();
            let word = word.trim();
            if let Some(file) = word.strip_prefix("scenario=") {
                switches.scenario = Some(PathBuf::from(file));
            } else if let Some(folder) = word.strip_prefix("home=") {
                switches.home = Some(PathBuf::from(folder));
            } else if let Some(change) = word.strip_prefix("set:") {
                let change = change.parse::<BehaviourChanges>();
                switches
                    .behaviour
                    .extend(change.map_err(|error| format!("IBEAM_FAKE_AGENT: {error}"))?);
            } else if !word.is_empty() {
                let bad = || format!("IBEAM_FAKE_AGENT: unknown switch `{word}`");
                switches.list.push(switch(word).ok_or_else(bad)?);
            }
        }
        Ok(switches)
    }

    pub(super) fn has(&self, switch: &FakeSwitch) -> bool {
        self.list.contains(switch)
    }

    pub(super) fn exit(&self) -> Option<&str> {
        self.list.iter().find_map(|switch| match switch {
            FakeSwitch::Exit(words) => Some(words.as_str()),
            _ => None,
        })
    }

    pub(super) fn slow(&self) -> Option<Duration> {
        self.list.iter().find_map(|switch| match switch {
            FakeSwitch::Slow(pace) => Some(*pace),
            _ => None,
        })
    }

    pub(super) fn mcp_timeout(&self) -> Option<Duration> {
        self.list.iter().find_map(|switch| match switch {
            FakeSwitch::McpTimeout(time) => Some(*time),
            _ => None,
        })
    }

    pub(super) fn crash_after(&self) -> Option<u64> {
        self.list.iter().find_map(|switch| match switch {
            FakeSwitch::CrashAfter(lines) => Some(*lines),
            _ => None,
        })
    }
}

fn switch(word: &str) -> Option<FakeSwitch> {
    let (name, value) = word.split_once(':').unwrap_or((word, ""));
    let plain = match name {
        "slow" => return Some(FakeSwitch::Slow(duration(value)?)),
        "mcp-timeout" => return Some(FakeSwitch::McpTimeout(duration(value)?)),
        "crash-after" => return Some(FakeSwitch::CrashAfter(value.parse().ok()?)),
        "no-result" => FakeSwitch::NoResult,
        "error-result" => FakeSwitch::ErrorResult,
        "not-logged-in" => FakeSwitch::NotLoggedIn,
        "usage-limit" => FakeSwitch::UsageLimit,
        "trust-prompt" => FakeSwitch::TrustPrompt,
        "empty" => FakeSwitch::Empty,
        "snapshots" => FakeSwitch::Snapshots,
        "no-partial" => FakeSwitch::NoPartial,
        "no-thinking" => FakeSwitch::NoThinking,
        "crlf" => FakeSwitch::Crlf,
        "noise" => FakeSwitch::Noise,
        "ansi" => FakeSwitch::Ansi,
        "huge-line" => FakeSwitch::HugeLine,
        "split-utf8" => FakeSwitch::SplitUtf8,
        "hang" => FakeSwitch::Hang,
        "zombie" => FakeSwitch::Zombie,
        "ignore-sigterm" => FakeSwitch::IgnoreSigterm,
        "own-tools" => FakeSwitch::OwnTools,
        "old-names" => FakeSwitch::OldNames,
        "repeat-text" => FakeSwitch::RepeatText,
        "ask-mcp" => FakeSwitch::AskMcp,
        "acp-ignores-mcp" => FakeSwitch::AcpIgnoresMcp,
        _ => return None,
    };
    value.is_empty().then_some(plain)
}

/// `100ms` or `5s`.
fn duration(text: &str) -> Option<Duration> {
    match text.strip_suffix("ms") {
        Some(ms) => ms.parse().ok().map(Duration::from_millis),
        None => text.strip_suffix('s')?.parse().ok().map(Duration::from_secs),
    }
}

#[cfg(test)]
#[path = "switches_tests.rs"]
mod tests;
