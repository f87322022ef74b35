//! Scenario files: rules that pick a script for each run. TOML and JSON have the same
//! shape. A scenario is checked when it is read, so that a run never finds an unknown name.

mod faults;
mod quirks;
mod step;

use std::path::Path;

use serde::Deserialize;

use crate::behaviour::BehaviourChanges;

pub(crate) use self::step::{EncodedArm, message_bytes};
pub use self::{
    faults::{Chaos, ChaosEffect, ErrorSpec, Refuse, ResetCode, StreamCut, StreamFault},
    quirks::{Quirk, Quirks},
    step::{
        AbortStep, Blob, BlobRef, ExecStep, MessageArm, RawFrame, Say, ScenarioStep, StepError,
        UnknownArm, UsageStep,
    },
};

/// The largest scenario file that is read.
const MAX_FILE: u64 = 16 * 1024 * 1024;

/// A list of rules; the first one that matches a run applies. Without a match, the built-in
/// assistant answers.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    #[serde(default)]
    pub name: String,
    /// Switches for every run, also without a matching rule.
    #[serde(default)]
    pub quirks: Quirks,
    /// The preset of the service's behaviour, and what differs from it.
    #[serde(default)]
    pub behaviour: BehaviourChanges,
    /// Random faults for every run.
    pub chaos: Option<Chaos>,
    #[serde(default, rename = "rule")]
    pub rules: Vec<ScenarioRule>,
}

/// A script and when to use it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScenarioRule {
    pub when: When,
    /// How often the rule applies at most.
    pub times: Option<u64>,
    pub quirks: Quirks,
    /// Switches that differ for these runs; only what comes after the request was read.
    pub behaviour: BehaviourChanges,
    /// An HTTP status instead of a stream.
    pub refuse: Option<Refuse>,
    /// Ends the stream early.
    pub cut: Option<StreamCut>,
    /// A delay before the response begins.
    pub delay_ms: u64,
    /// Compresses every frame, if the client accepts that.
    pub gzip: bool,
    /// Splits the bytes into DATA frames of this size.
    pub split: Option<usize>,
    /// Frames per DATA frame; 0 fills each DATA frame.
    pub frames_per_chunk: Option<usize>,
    /// Without steps, the built-in assistant answers.
    pub steps: Vec<ScenarioStep>,
}

/// Conditions; all of them must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct When {
    /// The model id on the wire.
    pub model: Option<String>,
    /// Part of the last user message; upper and lower case are the same.
    pub contains: Option<String>,
    /// Whether the client offers tools.
    pub tools: Option<bool>,
    /// A tool of this name is offered.
    pub tool: Option<String>,
    /// The number of the run in this simulator, from 1.
    pub nth: Option<u64>,
    /// Whether the run is a resume.
    pub resume: Option<bool>,
    /// Whether the run uses RunSSE.
    pub http1: Option<bool>,
    /// Whether the run has a history.
    pub history: Option<bool>,
}

/// What conditions are compared with.
#[derive(Debug, Default)]
pub(crate) struct RunFacts<'a> {
    pub(crate) model: &'a str,
    pub(crate) tools: &'a [String],
    pub(crate) nth: u64,
    pub(crate) http1: bool,
    /// What is only known after the history was read; `None` before.
    pub(crate) history: Option<HistoryFacts<'a>>,
}

/// What the history decides.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HistoryFacts<'a> {
    pub(crate) text: &'a str,
    pub(crate) resume: bool,
    pub(crate) history: bool,
}

/// An invalid scenario, with the place of the error.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    #[error("{file}: {source}")]
    Read { file: String, source: std::io::Error },
    #[error("{file}: {source}")]
    Toml { file: String, source: Box<toml::de::Error> },
    #[error("{file}: {source}")]
    Json { file: String, source: serde_json::Error },
    #[error("{file}: rule {rule}, step {step}: {source}")]
    Step { file: String, rule: usize, step: usize, source: StepError },
    #[error("{file}: rule {rule}: {what}")]
    Rule { file: String, rule: usize, what: String },
}

// === impl Scenario ===

impl Scenario {
    /// The small deterministic assistant, and nothing else.
    #[must_use]
    pub fn builtin() -> Self {
        Self { name: "builtin".to_owned(), ..Self::default() }
    }

    /// # Errors
    /// Names the line and the field that is wrong.
    pub fn from_toml(text: &str) -> Result<Self, ScenarioError> {
        Self::parse_toml("scenario", text)
    }

    /// # Errors
    /// Names the line and the field that is wrong.
    pub fn from_json(text: &str) -> Result<Self, ScenarioError> {
        Self::parse_json("scenario", text)
    }

    /// Reads a file: JSON if its extension is `json`, else TOML.
    ///
    /// # Errors
    /// Names the file, the line and the field that is wrong.
    pub fn from_path(path: impl AsRef<Path>) -> Result<Self, ScenarioError> {
        let path = path.as_ref();
        let file = path.display().to_string();
        let read = |path: &Path| {
            if std::fs::metadata(path)?.len() > MAX_FILE {
                return Err(std::io::Error::other("the file is too large for a scenario"));
            }
            std::fs::read_to_string(path)
        };
        let text =
            read(path).map_err(|source| ScenarioError::Read { file: file.clone(), source })?;
        if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("json")) {
            Self::parse_json(&file, &text)
        } else {
            Self::parse_toml(&file, &text)
        }
    }

    fn parse_toml(file: &str, text: &str) -> Result<Self, ScenarioError> {
        let scenario: Self = toml::from_str(text).map_err(|source| ScenarioError::Toml {
            file: file.to_owned(),
            source: Box::new(source),
        })?;
        scenario.check(file)
    }

    fn parse_json(file: &str, text: &str) -> Result<Self, ScenarioError> {
        let scenario: Self = serde_json::from_str(text)
            .map_err(|source| ScenarioError::Json { file: file.to_owned(), source })?;
        scenario.check(file)
    }

    /// Compiles the steps, which finds wrong arms and fields.
    fn check(self, file: &str) -> Result<Self, ScenarioError> {
        for (at, rule) in self.rules.iter().enumerate() {
            let bad = |what| ScenarioError::Rule { file: file.to_owned(), rule: at + 1, what };
            if rule.behaviour.names_preset() {
                return Err(bad("a rule cannot choose a preset".to_owned()));
            }
            if rule.split == Some(0) {
                return Err(bad("`split` must be at least 1".to_owned()));
            }
            if let Some(refuse) = &rule.refuse {
                refuse.error.check().map_err(bad)?;
                if http::StatusCode::from_u16(refuse.status).is_err() {
                    return Err(bad(format!("{} is not an HTTP status", refuse.status)));
                }
            }
            for (number, step) in rule.steps.iter().enumerate() {
                step.check().map_err(|source| ScenarioError::Step {
                    file: file.to_owned(),
                    rule: at + 1,
                    step: number + 1,
                    source,
                })?;
            }
        }
        Ok(self)
    }

    /// Whether the rule can only be chosen when the tools are known, which may come with
    /// the request context.
    pub(crate) fn decides_late(&self) -> bool {
        !self.decides_early()
            && self.rules.iter().any(|rule| rule.when.tools.is_some() || rule.when.tool.is_some())
    }

    /// Whether a rule must be chosen before the response begins.
    pub(crate) fn decides_early(&self) -> bool {
        self.rules.iter().any(ScenarioRule::decides_early)
    }
}

impl ScenarioRule {
    fn decides_early(&self) -> bool {
        self.refuse.is_some()
            || self.cut.is_some()
            || self.delay_ms > 0
            || self.gzip
            || self.split.is_some()
            || self.frames_per_chunk.is_some()
    }
}

// === impl When ===

impl When {
    /// Whether all conditions hold; `None` when that depends on facts that are not known yet.
    pub(crate) fn fits(&self, facts: &RunFacts<'_>) -> Option<bool> {
        let known = self.model.as_ref().is_none_or(|model| model == facts.model)
            && self.tools.is_none_or(|want| want != facts.tools.is_empty())
            && self.tool.as_ref().is_none_or(|name| facts.tools.contains(name))
            && self.nth.is_none_or(|nth| nth == facts.nth)
            && self.http1.is_none_or(|want| want == facts.http1);
        if !known {
            return Some(false);
        }
        let asks = self.contains.is_some() || self.resume.is_some() || self.history.is_some();
        let Some(past) = facts.history else { return (!asks).then_some(true) };
        let text = |part: &String| past.text.to_lowercase().contains(&part.to_lowercase());
        Some(
            self.contains.as_ref().is_none_or(text)
                && self.resume.is_none_or(|want| want == past.resume)
                && self.history.is_none_or(|want| want == past.history),
        )
    }
}

#[cfg(test)]
mod tests;
