//! Which models each question is put to.

use super::{ProbeQuestion, ProbedModels, question::FAMILIES};
use crate::{
    error::TurnError,
    models::{Family, ModelInfo, ModelList, ModelPick, UnknownName},
};

/// A question, and whom it is put to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeItem {
    pub question: ProbeQuestion,
    /// None: no model is asked.
    pub model: Option<ModelPick>,
}

impl ProbeItem {
    /// The model, where the answer is about models.
    #[must_use]
    pub fn subject(&self) -> Option<&str> {
        let each = self.question.asks() == ProbedModels::EachFamily;
        self.model.as_ref().filter(|_| each).map(|model| model.id.as_str())
    }
}

/// All that is to be asked. `named` are the models that the user wants to be asked; without any,
/// the smallest of each family is.
///
/// # Errors
/// A named model does not exist.
pub fn schedule(
    questions: &[ProbeQuestion],
    list: &ModelList,
    named: &[String],
    unknown: UnknownName,
) -> Result<Vec<ProbeItem>, TurnError> {
    let named: Vec<ModelPick> =
        named.iter().map(|name| pick(list, name, unknown)).collect::<Result<_, _>>()?;
    let mut items = Vec::new();
    for question in questions {
        let asks = question.asks();
        let models = match (asks, named.first()) {
            (ProbedModels::NoModel, _) => {
                items.push(ProbeItem { question: *question, model: None });
                continue;
            }
            (ProbedModels::EachFamily, Some(_)) => named.clone(),
            (_, Some(first)) => vec![first.clone()],
            (asks, None) => {
                let chosen = chosen(list, asks);
                let ids = chosen.iter().map(|model| model.public_id());
                ids.map(|id| pick(list, id, unknown)).collect::<Result<_, _>>()?
            }
        };
        let thinking = asks == ProbedModels::Thinking;
        items.extend(models.into_iter().map(|model| {
            let model = if thinking { with_thinking(model, list) } else { model };
            ProbeItem { question: *question, model: Some(model) }
        }));
    }
    Ok(items)
}

fn pick(list: &ModelList, name: &str, unknown: UnknownName) -> Result<ModelPick, TurnError> {
    let found = list.resolve_with(name, None, unknown)?;
    Ok(ModelPick { id: found.wire_id, parameters: found.parameters, max_mode: found.max_mode })
}

/// Thinking, where that has to be asked for.
fn with_thinking(mut model: ModelPick, list: &ModelList) -> ModelPick {
    const THINKING: &str = "thinking";
    let info = list.models().iter().find(|info| info.id == model.id);
    let has = info.and_then(|info| info.parameter(THINKING)).is_some();
    if has && !model.parameters.iter().any(|(id, _)| id == THINKING) {
        model.parameters.push((THINKING.to_owned(), "true".to_owned()));
    }
    model
}

fn chosen(list: &ModelList, asks: ProbedModels) -> Vec<&ModelInfo> {
    match asks {
        ProbedModels::EachFamily => {
            FAMILIES.iter().filter_map(|family| smallest(list, *family)).collect()
        }
        ProbedModels::AnyOne => {
            let auto = smallest(list, Family::Auto);
            auto.or_else(|| usable(list).next()).into_iter().collect()
        }
        ProbedModels::External => {
            let families = [Family::Claude, Family::Gpt, Family::Grok, Family::Gemini];
            let known = families.iter().find_map(|family| smallest(list, *family));
            known.or_else(|| usable(list).next()).into_iter().collect()
        }
        ProbedModels::Thinking => {
            let thinks = |model: &&ModelInfo| model.thinking && model.family() == Family::Claude;
            let thinking = usable(list).find(thinks);
            match thinking.or_else(|| usable(list).find(|model| model.thinking)) {
                Some(thinking) => vec![thinking],
                None => chosen(list, ProbedModels::External),
            }
        }
        ProbedModels::NoModel => Vec::new(),
    }
}

/// Models that cost no more than usual.
fn usable(list: &ModelList) -> impl Iterator<Item = &ModelInfo> {
    list.visible().filter(|model| !model.max_mode)
}

/// A family behaves alike, so the one that costs least is asked.
fn smallest(list: &ModelList, family: Family) -> Option<&ModelInfo> {
    const SMALL: [&str; 4] = ["haiku", "mini", "flash", "nano"];
    let all = || usable(list).filter(|model| model.family() == family);
    let small = all().find(|model| SMALL.iter().any(|word| model.id.contains(word)));
    small.or_else(|| all().next())
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
