//! Which models there are, and which one a name means.
//!
//! A list is put together from what the backend says ([`ModelList::merge`]), a name
//! is looked up in it ([`ModelList::resolve`]). The backend has two ways to name one
//! choice: a base id with parameters (`gpt-5.4`, `reasoning=high`) and a slug that
//! spells them out (`gpt-5.4-high`). Both are understood, whichever the list uses.

mod alias;
mod family;
mod likeness;
mod merge;
mod parameters;
mod resolve;
mod slug;

use serde::{Deserialize, Serialize};

pub use family::Family;
pub(crate) use likeness::{Likeness, likeness};
pub use resolve::{ModelPick, Resolved, UnknownName, Via};

/// The id the backend knows its own choice by.
pub const AUTO_WIRE_ID: &str = "default";
/// What users and clients call it.
pub const AUTO_NAME: &str = "auto";

/// What the families call the effort.
const EFFORT_PARAMETERS: [&str; 3] = ["effort", "reasoning", "reasoning_effort"];

/// One model of the user's plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelInfo {
    /// The id on the wire.
    pub id: String,
    /// What the backend shows as id, when that differs; may be empty.
    pub display_id: String,
    pub name: String,
    pub short_name: String,
    pub aliases: Vec<String>,
    /// Names from before the backend had parameters.
    pub legacy_slugs: Vec<String>,
    /// It can reason before it answers.
    pub thinking: bool,
    /// It only runs in max mode.
    pub max_mode: bool,
    pub images: bool,
    /// Tokens, without max mode.
    pub context_window: u32,
    /// Tokens in max mode, when it has one.
    pub max_context_window: Option<u32>,
    pub output_limit: u32,
    pub parameters: Vec<ParameterInfo>,
    pub variants: Vec<VariantInfo>,
    /// Usable, yet not shown in lists.
    pub hidden: bool,
}

/// A control of a model, such as `effort`, and what it may be set to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ParameterInfo {
    pub id: String,
    pub values: Vec<String>,
}

/// A combination of parameters that the backend offers under a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VariantInfo {
    /// The bracketed form, such as `composer-2[fast=true]`; may be empty.
    pub name: String,
    /// The slug that used to mean this; may be empty.
    pub legacy_slug: String,
    pub parameters: Vec<(String, String)>,
    pub max_mode: bool,
    /// What the backend's own clients choose by default.
    pub is_default: bool,
    /// The same for max mode.
    pub is_default_max: bool,
}

/// The models of one account.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ModelList {
    models: Vec<ModelInfo>,
}

impl ModelInfo {
    /// A model of which only the id is known: limits come from the table.
    #[must_use]
    pub fn from_id(id: impl Into<String>) -> Self {
        let id = id.into();
        let limits = family::limits(&id);
        Self {
            name: id.clone(),
            thinking: id.contains("thinking"),
            images: true,
            context_window: limits.context,
            output_limit: limits.output,
            id,
            ..Self::default()
        }
    }

    /// The id to show: `auto` for the backend's own choice.
    #[must_use]
    pub fn public_id(&self) -> &str {
        if self.id == AUTO_WIRE_ID {
            AUTO_NAME
        } else if self.display_id.is_empty() {
            &self.id
        } else {
            &self.display_id
        }
    }

    #[must_use]
    pub fn family(&self) -> Family {
        Family::of(&self.id)
    }

    /// Its maker, for `owned_by`.
    #[must_use]
    pub fn owner(&self) -> &'static str {
        self.family().owner()
    }

    /// The efforts it can be asked for, in the list's order.
    pub fn efforts(&self) -> impl Iterator<Item = &str> {
        let parameter = EFFORT_PARAMETERS.iter().find_map(|id| self.parameter(id));
        parameter.into_iter().flat_map(|parameter| &parameter.values).map(String::as_str)
    }

    /// The parameter of that id, if the model has it.
    #[must_use]
    pub fn parameter(&self, id: &str) -> Option<&ParameterInfo> {
        self.parameters.iter().find(|parameter| parameter.id == id)
    }
}

impl ModelList {
    /// Keeps the order; a second model with the same id is dropped.
    #[must_use]
    pub fn new(models: Vec<ModelInfo>) -> Self {
        let mut seen = std::collections::HashSet::new();
        let models =
            models.into_iter().filter(|m| !m.id.is_empty() && seen.insert(m.id.clone())).collect();
        Self { models }
    }

    #[must_use]
    pub fn models(&self) -> &[ModelInfo] {
        &self.models
    }

    /// The models to show in lists.
    pub fn visible(&self) -> impl Iterator<Item = &ModelInfo> {
        self.models.iter().filter(|model| !model.hidden)
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.models.is_empty()
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.models.len()
    }
}

#[cfg(test)]
#[path = "models_tests.rs"]
mod tests;
