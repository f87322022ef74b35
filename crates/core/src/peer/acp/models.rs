//! The models that a session offers, and the choice among them.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    codec::jsonrpc::{read, text},
    error::{ErrorCode, TurnError},
    models::{AUTO_NAME, AUTO_WIRE_ID, Likeness, likeness},
};

/// What the option is called that sets the model.
pub(super) const MODEL: &str = "model";

/// The longest list of names in an error, and the most models that are looked at.
const NAMES: usize = 40;
const MODELS: usize = 2000;

/// The models of a session, as its opening told them.
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
    /// It is the one already, or nobody says which there are.
    Stay,
    Set(String),
}

impl ModelOffer {
    /// Reads the answer to `session/new` or `session/load`. The newer builds list the
    /// models as an option, the older ones by themselves, some do both.
    pub(super) fn read(opened: Option<&RawValue>) -> Self {
        let opened: Opened<'_> = read(opened).unwrap_or_default();
        let options: Vec<&RawValue> = read(opened.config_options).unwrap_or_default();
        let option = options
            .into_iter()
            .filter_map(|raw| read::<Select<'_>>(Some(raw)))
            .find(|option| [option.id, option.category].into_iter().any(is_model));
        if let Some(option) = option {
            let ids = values(option.options);
            if !ids.is_empty() {
                let id = text(option.id).unwrap_or_else(|| MODEL.to_owned());
                return Self { option: id, ids, current: text(option.current_value) };
            }
        }
        let models: Models<'_> = read(opened.models).unwrap_or_default();
        let listed: Vec<&RawValue> = read(models.available_models).unwrap_or_default();
        let ids = listed.into_iter().filter_map(|raw| text(read::<Model<'_>>(Some(raw))?.model_id));
        Self {
            option: MODEL.to_owned(),
            ids: ids.take(MODELS).collect(),
            current: text(models.current_model_id),
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
            // Whoever lists no such thing chooses by itself when nothing is set.
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

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Opened<'a> {
    #[serde(borrow)]
    config_options: Option<&'a RawValue>,
    #[serde(borrow)]
    models: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Select<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    category: Option<&'a RawValue>,
    #[serde(borrow)]
    current_value: Option<&'a RawValue>,
    #[serde(borrow)]
    options: Option<&'a RawValue>,
}

/// One value, or a group of them.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Value<'a> {
    #[serde(borrow)]
    value: Option<&'a RawValue>,
    #[serde(borrow)]
    options: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Models<'a> {
    #[serde(borrow)]
    current_model_id: Option<&'a RawValue>,
    #[serde(borrow)]
    available_models: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Model<'a> {
    #[serde(borrow)]
    model_id: Option<&'a RawValue>,
}

fn is_model(raw: Option<&RawValue>) -> bool {
    text(raw).is_some_and(|word| word == MODEL)
}

fn values(options: Option<&RawValue>) -> Vec<String> {
    let listed = |raw| -> Vec<Value<'_>> {
        let raw: Vec<&RawValue> = read(raw).unwrap_or_default();
        raw.into_iter().filter_map(|raw| read(Some(raw))).collect()
    };
    let mut ids = Vec::new();
    for option in listed(options) {
        let group = listed(option.options);
        ids.extend(std::iter::once(option).chain(group).filter_map(|option| text(option.value)));
    }
    ids.truncate(MODELS);
    ids
}

#[cfg(test)]
#[path = "models_tests.rs"]
mod tests;
