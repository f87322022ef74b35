//! The models that a session offers, and the choice among them.

use serde_json::value::RawValue;

use crate::{
    codec::jsonrpc::Members,
    error::{ErrorCode, TurnError},
    models::{AUTO_NAME, AUTO_WIRE_ID, Likeness, likeness},
};

/// What the option is called that sets the model.
pub(super) const MODEL: &str = "model";

/// The longest list of names in an error, and the most models that are looked at.
const NAMES: usize = 40;
const MODELS: usize = 2000;

/// The models of a session, from the answer that opened it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ModelOffer {
    /// The option that sets it.
    pub(super) option: String,
    ids: Vec<String>,
    current: Option<String>,
}

/// What is to be done so that the wanted model answers.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ModelChoice {
    /// It is set already, or the models are not known.
    Stay,
    Set(String),
}

impl ModelOffer {
    /// Reads the answer to `session/new` or `session/load`. The newer builds list the
    /// models as an option, the older ones by themselves, some do both.
    pub(super) fn read(opened: Option<&RawValue>) -> Self {
        let opened = Members::of(opened).unwrap_or_default();
        let option = opened
            .objects("configOptions")
            .find(|option| ["id", "category"].iter().any(|key| is_model(option, key)));
        if let Some(option) = option {
            let ids = values(&option);
            if !ids.is_empty() {
                let id = option.text("id").unwrap_or_else(|| MODEL.to_owned());
                return Self { option: id, ids, current: option.text("currentValue") };
            }
        }
        let models = opened.object("models");
        let ids = models.objects("availableModels").filter_map(|model| model.text("modelId"));
        Self {
            option: MODEL.to_owned(),
            ids: ids.take(MODELS).collect(),
            current: models.text("currentModelId"),
        }
    }

    /// # Errors
    /// The wanted model is not among those that there are.
    pub(super) fn choose(&self, wanted: &str) -> Result<ModelChoice, TurnError> {
        if wanted.is_empty() || self.ids.is_empty() {
            return Ok(ModelChoice::Stay);
        }
        // The current one first, so that it stays where another fits no better.
        let current = self.current.iter().filter(|current| self.ids.contains(*current));
        let mut best: Option<(Likeness, &String)> = None;
        for id in current.chain(&self.ids) {
            let Some(like) = likeness(wanted, id) else { continue };
            if best.is_none_or(|(most, _)| like > most) {
                best = Some((like, id));
            }
        }
        match best {
            Some((_, id)) if self.current.as_ref() == Some(id) => Ok(ModelChoice::Stay),
            Some((_, id)) => Ok(ModelChoice::Set(id.clone())),
            // An agent that does not list it chooses by itself if nothing is set.
            None if [AUTO_NAME, AUTO_WIRE_ID].contains(&wanted) => Ok(ModelChoice::Stay),
            None => Err(self.not_found(wanted)),
        }
    }

    fn not_found(&self, wanted: &str) -> TurnError {
        let mut names: Vec<&str> = self.ids.iter().take(NAMES).map(String::as_str).collect();
        if self.ids.len() > NAMES {
            names.push("…");
        }
        let text = format!(
            "cursor-agent does not offer the model `{wanted}`. It offers: {}.",
            names.join(", ")
        );
        TurnError::new(ErrorCode::ModelNotFound, text).param("model")
    }
}

fn is_model(option: &Members<'_>, key: &str) -> bool {
    option.text(key).is_some_and(|word| word == MODEL)
}

/// The values of an option. One of them may be a group.
fn values(option: &Members<'_>) -> Vec<String> {
    let mut ids = Vec::new();
    for value in option.objects("options") {
        let group = value.objects("options");
        ids.extend(std::iter::once(value).chain(group).filter_map(|value| value.text("value")));
    }
    ids.truncate(MODELS);
    ids
}

#[cfg(test)]
#[path = "models_tests.rs"]
mod tests;
