//! The forms in which a conversation is sent to the backend when there is neither an open stream
//! nor a stored state for it, and what is known of each model.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::reasoning::{ReasoningScope, SignatureMemory, SignedItem};
use crate::model::TurnRequest;

/// How a history reaches the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryForm {
    /// As prompt entries that are replayed as sent, system prompt first.
    ResumeRoots,
    /// As prompt entries behind the backend's own system prompt; ours is an entry of the user.
    UserRoots,
    /// As one text before the user's message.
    Transcript,
    /// As prompt entries, with the system prompt as a rule: what the service took before autumn
    /// of 2026. `auto` never chooses it.
    RulesRoots,
}

/// Which form is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HistorySetting {
    /// By model, with another form when one fails.
    #[default]
    Auto,
    Only(HistoryForm),
}

impl HistoryForm {
    pub const ALL: [Self; 4] =
        [Self::ResumeRoots, Self::UserRoots, Self::Transcript, Self::RulesRoots];

    /// As the setting spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ResumeRoots => "resume-roots",
            Self::UserRoots => "user-roots",
            Self::Transcript => "transcript",
            Self::RulesRoots => "rules-roots",
        }
    }

    /// The form that depends on less of the backend.
    fn next(self) -> Option<Self> {
        match self {
            Self::ResumeRoots => Some(Self::UserRoots),
            Self::UserRoots => Some(Self::Transcript),
            Self::Transcript | Self::RulesRoots => None,
        }
    }

    /// What a model gets of which nothing is known. Some of Cursor's own models were seen to
    /// ignore what they are asked to resume.
    fn first(model: &str) -> Self {
        let own = model == "default" || model == "composer" || model.starts_with("composer-");
        if own { Self::UserRoots } else { Self::ResumeRoots }
    }
}

impl HistorySetting {
    /// Reads a setting; `None` if it is not one.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        if name == "auto" {
            return Some(Self::Auto);
        }
        HistoryForm::ALL.into_iter().find(|form| form.name() == name).map(Self::Only)
    }
}

/// What was learned about one model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelFacts {
    /// The form that worked after another one had failed.
    pub history: Option<HistoryForm>,
    /// It is served in its maximum mode only.
    pub max_mode: bool,
    /// Tools that the backend wants to find in the list of allowed ones.
    pub allowed_tools: Vec<String>,
    /// It is named in the newer of the two fields alone.
    pub one_model_field: bool,
    /// Signed reasoning made its runs fail.
    pub refuses_reasoning: bool,
}

impl ModelFacts {
    pub(super) fn allow_tool(&mut self, tool: String) {
        if self.allowed_tools.len() < TOOLS && !self.allowed_tools.contains(&tool) {
            self.allowed_tools.push(tool);
        }
    }
}

/// What was learned about models, shared by all turns. A file of findings can fill it at the
/// start.
#[derive(Debug, Default)]
pub struct ModelMemory {
    facts: Mutex<BTreeMap<String, ModelFacts>>,
    pub(super) signatures: SignatureMemory,
}

/// The number of models that are remembered; users have some dozens.
const MODELS: usize = 512;
/// The number of tools that are added to a list of allowed ones.
const TOOLS: usize = 16;

impl ModelMemory {
    #[must_use]
    pub fn of(&self, model: &str) -> ModelFacts {
        self.facts().get(model).cloned().unwrap_or_default()
    }

    /// Everything that was learned, by model.
    #[must_use]
    pub fn all(&self) -> BTreeMap<String, ModelFacts> {
        self.facts().clone()
    }

    pub fn set(&self, model: &str, facts: ModelFacts) {
        self.update(model, |known| *known = facts);
    }

    /// Changes what is known of a model, under one lock.
    pub(super) fn update(&self, model: &str, change: impl FnOnce(&mut ModelFacts)) {
        let mut all = self.facts();
        if all.len() < MODELS || all.contains_key(model) {
            change(all.entry(model.to_owned()).or_default());
        }
    }

    /// The reasoning in a request that this model may get again.
    #[must_use]
    pub fn signed_items(
        &self,
        scope: &ReasoningScope,
        model: &str,
        request: &TurnRequest,
    ) -> Vec<SignedItem> {
        self.signatures.of(scope, model, request)
    }

    fn facts(&self) -> MutexGuard<'_, BTreeMap<String, ModelFacts>> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The form for one turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct FormChoice {
    setting: HistorySetting,
    form: HistoryForm,
    /// The first form failed, and this is another one.
    stepped: bool,
}

impl FormChoice {
    pub(super) fn new(setting: HistorySetting, model: &str, memory: &ModelMemory) -> Self {
        let form = match setting {
            HistorySetting::Only(form) => form,
            HistorySetting::Auto => {
                memory.of(model).history.unwrap_or_else(|| HistoryForm::first(model))
            }
        };
        Self { setting, form, stepped: false }
    }

    pub(super) fn form(self) -> HistoryForm {
        self.form
    }

    /// The form failed: another one is tried, once. Returns whether there is one.
    pub(super) fn step(&mut self) -> bool {
        let may = self.setting == HistorySetting::Auto && !self.stepped;
        let Some(next) = self.form.next().filter(|_| may) else { return false };
        (self.form, self.stepped) = (next, true);
        true
    }

    /// The form to remember once it works.
    pub(super) fn learned(self) -> Option<HistoryForm> {
        self.stepped.then_some(self.form)
    }
}

#[cfg(test)]
#[path = "forms_tests.rs"]
mod tests;
