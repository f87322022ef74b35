//! The model lists in proto3 JSON: fields that are not set are left out, never `null`.

use ibeam_proto::{
    agent::ModelDetails,
    aiserver::{
        AvailableModel, AvailableModelsResponse, ParameterDefinition, ParameterValue, Variant,
        parameter_type,
    },
};
use serde_json::{Map, Value, json};

pub(crate) fn details(model: &ModelDetails) -> Value {
    let mut out = json!({
        "modelId": model.model_id,
        "displayModelId": model.display_model_id,
        "displayName": model.display_name,
        "displayNameShort": model.display_name_short,
        "aliases": model.aliases,
    });
    if let Some(table) = out.as_object_mut() {
        table.extend(model.thinking_details.map(|_| ("thinkingDetails".to_owned(), json!({}))));
        table.extend(model.max_mode.map(|max| ("maxMode".to_owned(), max.into())));
    }
    out
}

pub(crate) fn available(message: &AvailableModelsResponse) -> Value {
    json!({
        "modelNames": message.model_names,
        "models": message.models.iter().map(model).collect::<Vec<_>>(),
        "useModelParameters": message.use_model_parameters,
    })
}

fn model(model: &AvailableModel) -> Value {
    let vendor = model.vendor.as_ref();
    set_only([
        ("name", json!(model.name)),
        ("defaultOn", json!(model.default_on)),
        ("supportsAgent", json!(model.supports_agent)),
        ("supportsThinking", json!(model.supports_thinking)),
        ("supportsImages", json!(model.supports_images)),
        ("supportsMaxMode", json!(model.supports_max_mode)),
        ("supportsNonMaxMode", json!(model.supports_non_max_mode)),
        ("contextTokenLimit", json!(model.context_token_limit)),
        ("contextTokenLimitForMaxMode", json!(model.context_token_limit_for_max_mode)),
        ("clientDisplayName", json!(model.client_display_name)),
        ("serverModelName", json!(model.server_model_name)),
        ("parameterDefinitions", model.parameter_definitions.iter().map(definition).collect()),
        ("variants", model.variants.iter().map(variant).collect()),
        ("isHidden", json!(model.is_hidden)),
        ("legacySlugs", json!(model.legacy_slugs)),
        ("idAliases", json!(model.id_aliases)),
        ("vendor", json!(vendor.map(|v| json!({ "id": v.id, "displayName": v.display_name })))),
    ])
}

fn definition(parameter: &ParameterDefinition) -> Value {
    let kind = parameter.r#type.as_ref().and_then(|kind| kind.r#type.as_ref());
    let kind = kind.map(|kind| {
        let (name, list) = match kind {
            parameter_type::Type::Boolean(list) => ("boolean", list),
            parameter_type::Type::Enumeration(list) => ("enum", list),
        };
        json!({ name: { "values": list.values.iter().map(value).collect::<Vec<_>>() } })
    });
    set_only([("id", json!(parameter.id)), ("name", json!(parameter.name)), ("type", json!(kind))])
}

fn value(value: &ParameterValue) -> Value {
    set_only([
        ("value", json!(value.value)),
        ("displayName", json!(value.display_name)),
        ("increasesModelCost", json!(value.increases_model_cost.then_some(true))),
    ])
}

fn variant(variant: &Variant) -> Value {
    let values = variant.parameter_values.iter();
    set_only([
        ("parameterValues", values.map(|p| json!({ "id": p.id, "value": p.value })).collect()),
        ("displayName", json!(variant.display_name)),
        ("isMaxMode", json!(variant.is_max_mode.then_some(true))),
        ("isDefaultMaxConfig", json!(variant.is_default_max_config)),
        ("isDefaultNonMaxConfig", json!(variant.is_default_non_max_config)),
        ("variantStringRepresentation", json!(variant.variant_string_representation)),
        ("legacySlug", json!(variant.legacy_slug)),
    ])
}

/// An object of the fields that are set.
fn set_only<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    };
    let set = fields.into_iter().filter(|(_, value)| !empty(value));
    Value::Object(set.map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
}
