//! Builds the list from the backend's two answers: `GetUsableModels`, which knows
//! what the account may use, and `AvailableModels`, which knows parameters and
//! limits. Either may be missing.

use ibeam_proto::{
    agent::ModelDetails,
    aiserver::{AvailableModel, ParameterDefinition, Variant, parameter_type},
};

use super::{EFFORT_PARAMETERS, ModelInfo, ModelList, ParameterInfo, VariantInfo, slug};

impl ModelList {
    /// The rich entries first, in their order, then what only the other list has.
    #[must_use]
    pub fn merge(usable: &[ModelDetails], available: &[AvailableModel]) -> Self {
        let mut models: Vec<ModelInfo> = available
            .iter()
            // A model that cannot run an agent cannot be used over this API.
            .filter(|model| model.supports_agent != Some(false))
            .map(ModelInfo::from)
            .collect();
        for details in usable {
            match models.iter_mut().find(|model| model.id == details.model_id) {
                Some(model) => model.add_details(details),
                None => models.push(ModelInfo::from(details)),
            }
        }
        let spelled_out: Vec<bool> =
            models.iter().map(|model| is_spelled_out(model, &models)).collect();
        for (model, spelled_out) in models.iter_mut().zip(spelled_out) {
            model.hidden |= spelled_out;
        }
        Self::new(models)
    }
}

/// Whether a slug only spells out a listed base with parameters. Such slugs are accepted but not
/// listed: a dozen of them for each model would clutter the list.
fn is_spelled_out(model: &ModelInfo, models: &[ModelInfo]) -> bool {
    let (base, wish) = slug::split(&model.id);
    let Some(base) = models.iter().find(|other| other.id == base && other.id != model.id) else {
        return false;
    };
    let effort = EFFORT_PARAMETERS.iter().any(|id| base.parameter(id).is_some());
    (wish.effort.is_none() || effort)
        && (wish.thinking.is_none() || effort || base.parameter("thinking").is_some())
        && (wish.fast.is_none() || base.parameter("fast").is_some())
}

impl ModelInfo {
    fn add_details(&mut self, details: &ModelDetails) {
        let other = Self::from(details);
        self.thinking |= other.thinking;
        self.max_mode |= other.max_mode;
        self.hidden = false;
        for alias in other.aliases {
            push_new(&mut self.aliases, &alias);
        }
        let fill = |own: &mut String, theirs: String| {
            if own.is_empty() {
                *own = theirs;
            }
        };
        fill(&mut self.display_id, other.display_id);
        fill(&mut self.short_name, other.short_name);
        if self.name.is_empty() || self.name == self.id {
            self.name = other.name;
        }
    }
}

impl From<&ModelDetails> for ModelInfo {
    fn from(details: &ModelDetails) -> Self {
        let known = Self::from_id(details.model_id.as_str());
        Self {
            display_id: details.display_model_id.clone(),
            name: non_empty(&details.display_name).unwrap_or(&details.model_id).to_owned(),
            short_name: details.display_name_short.clone(),
            aliases: details.aliases.clone(),
            thinking: known.thinking || details.thinking_details.is_some(),
            max_mode: details.max_mode.unwrap_or(false),
            ..known
        }
    }
}

impl From<&AvailableModel> for ModelInfo {
    fn from(model: &AvailableModel) -> Self {
        let id = model.server_model_name.as_deref().and_then(non_empty).unwrap_or(&model.name);
        let known = Self::from_id(id);
        let tokens = |limit: Option<i32>| {
            limit.and_then(|limit| u32::try_from(limit).ok()).filter(|limit| *limit > 0)
        };
        let mut aliases = model.id_aliases.clone();
        if model.name != id {
            push_new(&mut aliases, &model.name);
        }
        let parameters: Vec<ParameterInfo> =
            model.parameter_definitions.iter().map(ParameterInfo::from).collect();
        let thinks =
            parameters.iter().any(|p| matches!(p.id.as_str(), "thinking" | "effort" | "reasoning"));
        Self {
            display_id: String::new(),
            name: model.client_display_name.as_deref().and_then(non_empty).unwrap_or(id).to_owned(),
            aliases,
            legacy_slugs: model.legacy_slugs.clone(),
            thinking: known.thinking || thinks || model.supports_thinking.unwrap_or(false),
            max_mode: model.supports_non_max_mode == Some(false)
                && model.supports_max_mode == Some(true),
            images: model.supports_images.unwrap_or(true),
            context_window: tokens(model.context_token_limit).unwrap_or(known.context_window),
            max_context_window: tokens(model.context_token_limit_for_max_mode),
            parameters,
            variants: model.variants.iter().map(VariantInfo::from).collect(),
            hidden: model.is_hidden.unwrap_or(false),
            ..known
        }
    }
}

impl From<&ParameterDefinition> for ParameterInfo {
    fn from(definition: &ParameterDefinition) -> Self {
        let values = match definition.r#type.as_ref().and_then(|kind| kind.r#type.as_ref()) {
            Some(parameter_type::Type::Boolean(values)) if values.values.is_empty() => {
                vec!["true".to_owned(), "false".to_owned()]
            }
            Some(
                parameter_type::Type::Boolean(values) | parameter_type::Type::Enumeration(values),
            ) => values.values.iter().map(|value| value.value.clone()).collect(),
            None => Vec::new(),
        };
        Self { id: definition.id.clone(), values }
    }
}

impl From<&Variant> for VariantInfo {
    fn from(variant: &Variant) -> Self {
        Self {
            name: variant.variant_string_representation.clone(),
            legacy_slug: variant.legacy_slug.clone(),
            parameters: variant
                .parameter_values
                .iter()
                .map(|pair| (pair.id.clone(), pair.value.clone()))
                .collect(),
            max_mode: variant.is_max_mode,
            is_default: variant.is_default_non_max_config.unwrap_or(false),
            is_default_max: variant.is_default_max_config.unwrap_or(false),
        }
    }
}

fn non_empty(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

fn push_new(list: &mut Vec<String>, item: &str) {
    if !list.iter().any(|own| own == item) {
        list.push(item.to_owned());
    }
}
