//! The models of the simulated backend, and their ids in each list.

pub(crate) mod proto_json;

use ibeam_core::codec::connect::{Code, ConnectError};
use ibeam_proto::{
    agent::{ModelDetails, ThinkingDetails},
    aiserver::{
        AvailableModel, ParameterDefinition, ParameterType, ParameterValue, ParameterValues,
        Variant, VariantParameter, Vendor, parameter_type,
    },
};

use crate::scenario::{Quirk, Quirks};

const EFFORTS: &[&str] = &["low", "medium", "high", "xhigh"];
const BOTH: &[&str] = &["false", "true"];

/// One model family.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SimModel {
    pub(crate) id: &'static str,
    name: &'static str,
    vendor: (i32, &'static str),
    context: i32,
    context_max: i32,
    thinking: bool,
    images: bool,
    /// The parameter that sets the effort.
    effort: Option<&'static str>,
    fast: bool,
    /// Available in max mode only.
    pub(crate) max_only: bool,
}

const ANTHROPIC: (i32, &str) = (1, "Anthropic");
const OPENAI: (i32, &str) = (2, "OpenAI");
const GOOGLE: (i32, &str) = (3, "Google");
const XAI: (i32, &str) = (4, "xAI");
const MOONSHOT: (i32, &str) = (5, "Moonshot");
const CURSOR: (i32, &str) = (6, "Cursor");

const fn model(
    id: &'static str,
    name: &'static str,
    vendor: (i32, &'static str),
    context: i32,
) -> SimModel {
    SimModel {
        id,
        name,
        vendor,
        context,
        context_max: 0,
        thinking: false,
        images: true,
        effort: None,
        fast: false,
        max_only: false,
    }
}

const fn claude(id: &'static str, name: &'static str, context: i32) -> SimModel {
    let base = model(id, name, ANTHROPIC, context);
    SimModel { thinking: true, effort: Some("effort"), context_max: 1_000_000, ..base }
}

const fn gpt(id: &'static str, name: &'static str) -> SimModel {
    let base = model(id, name, OPENAI, 272_000);
    SimModel { thinking: true, effort: Some("reasoning"), fast: true, ..base }
}

/// The families, the default first.
pub(crate) const MODELS: &[SimModel] = &[
    model("default", "Auto", CURSOR, 200_000),
    SimModel { fast: true, ..model("composer-2.5", "Composer 2.5", CURSOR, 200_000) },
    SimModel { fast: true, ..model("composer-2", "Composer 2", CURSOR, 200_000) },
    claude("claude-opus-5", "Opus 5", 300_000),
    claude("claude-opus-4-8", "Opus 4.8", 300_000),
    SimModel { max_only: true, ..claude("claude-opus-4-7", "Opus 4.7", 300_000) },
    claude("claude-fable-5", "Fable 5", 300_000),
    claude("claude-sonnet-5", "Sonnet 5", 200_000),
    claude("claude-sonnet-4-6", "Sonnet 4.6", 200_000),
    model("claude-haiku-4-5", "Haiku 4.5", ANTHROPIC, 200_000),
    gpt("gpt-5.6-sol", "GPT-5.6 Sol"),
    gpt("gpt-5.5", "GPT-5.5"),
    gpt("gpt-5.4", "GPT-5.4"),
    gpt("gpt-5.4-mini", "GPT-5.4 Mini"),
    gpt("gpt-5.3-codex", "GPT-5.3 Codex"),
    SimModel { thinking: true, ..model("gemini-3.1-pro", "Gemini 3.1 Pro", GOOGLE, 200_000) },
    model("gemini-3.5-flash", "Gemini 3.5 Flash", GOOGLE, 200_000),
    SimModel { thinking: true, ..model("grok-4.5", "Grok 4.5", XAI, 256_000) },
    SimModel { images: false, ..model("kimi-k2.6", "Kimi K2.6", MOONSHOT, 200_000) },
];

impl SimModel {
    /// The ids under which the old list shows this family: `<base>[-thinking][-<effort>][-fast]`.
    pub(crate) fn slugs(&self) -> Vec<(String, bool)> {
        let mut out = vec![(self.id.to_owned(), self.thinking && self.vendor.0 != ANTHROPIC.0)];
        if self.effort.is_some() {
            for effort in EFFORTS {
                if self.vendor.0 == ANTHROPIC.0 {
                    out.push((format!("{}-{effort}", self.id), false));
                    out.push((format!("{}-thinking-{effort}", self.id), true));
                } else {
                    out.push((format!("{}-{effort}", self.id), true));
                    out.push((format!("{}-{effort}-fast", self.id), true));
                }
            }
        } else if self.fast {
            out.push((format!("{}-fast", self.id), self.thinking));
        }
        out
    }

    /// Whether another company serves it.
    pub(crate) fn external(&self) -> bool {
        self.vendor.0 != CURSOR.0
    }

    pub(crate) fn context(&self) -> u32 {
        u32::try_from(self.context).unwrap_or_default()
    }

    pub(crate) fn details(&self, slug: &str, thinking: bool) -> ModelDetails {
        let suffix = slug.strip_prefix(self.id).unwrap_or_default().replace('-', " ");
        ModelDetails {
            model_id: slug.to_owned(),
            thinking_details: thinking.then_some(ThinkingDetails {}),
            display_model_id: if slug == "default" { "auto".to_owned() } else { slug.to_owned() },
            display_name: format!("{}{suffix}", self.name),
            display_name_short: self.name.to_owned(),
            aliases: if slug == "default" { vec!["auto".to_owned()] } else { Vec::new() },
            max_mode: self.max_only.then_some(true),
            ..ModelDetails::default()
        }
    }

    /// Whether the model's own definitions have this parameter with this value.
    pub(crate) fn knows(&self, id: &str, value: &str) -> bool {
        self.parameters().iter().any(|(known, values)| *known == id && values.contains(&value))
    }

    fn parameters(&self) -> Vec<(&'static str, &'static [&'static str])> {
        let mut out = Vec::new();
        if self.vendor.0 == ANTHROPIC.0 && self.thinking {
            out.push(("thinking", BOTH));
            out.push(("context", &["300k", "1m"][..]));
        }
        out.extend(self.effort.map(|id| (id, EFFORTS)));
        if self.fast {
            out.push(("fast", BOTH));
        }
        out
    }

    pub(crate) fn available(&self, with_parameters: bool) -> AvailableModel {
        let mut available = AvailableModel {
            name: self.id.to_owned(),
            default_on: true,
            supports_agent: Some(true),
            supports_thinking: Some(self.thinking),
            supports_images: Some(self.images),
            supports_max_mode: Some(self.context_max > 0),
            supports_non_max_mode: Some(!self.max_only),
            context_token_limit: Some(self.context),
            context_token_limit_for_max_mode: (self.context_max > 0).then_some(self.context_max),
            client_display_name: Some(self.name.to_owned()),
            server_model_name: Some(self.id.to_owned()),
            legacy_slugs: self.slugs().into_iter().skip(1).map(|(slug, _)| slug).collect(),
            id_aliases: if self.id == "default" { vec!["auto".to_owned()] } else { Vec::new() },
            vendor: Some(Vendor { id: self.vendor.0, display_name: self.vendor.1.to_owned() }),
            ..AvailableModel::default()
        };
        if with_parameters {
            available.parameter_definitions =
                self.parameters().into_iter().map(|(id, values)| definition(id, values)).collect();
            available.variants = self.variants();
        }
        available
    }

    /// Every effort, and once more with the long context where there is one.
    fn variants(&self) -> Vec<Variant> {
        let Some(id) = self.effort else { return Vec::new() };
        let mut out = Vec::new();
        for effort in EFFORTS {
            if !self.max_only {
                out.push(self.variant(&[(id, effort)], effort, false));
            }
            if self.context_max > 0 {
                out.push(self.variant(&[("context", "1m"), (id, effort)], effort, true));
            }
        }
        out
    }

    fn variant(&self, parameters: &[(&str, &str)], effort: &str, max: bool) -> Variant {
        let default = (effort == "medium").then_some(true);
        let written: Vec<_> =
            parameters.iter().map(|(id, value)| format!("{id}={value}")).collect();
        Variant {
            parameter_values: parameters
                .iter()
                .map(|(id, value)| VariantParameter {
                    id: (*id).to_owned(),
                    value: (*value).to_owned(),
                })
                .collect(),
            display_name: format!("{} {effort}{}", self.name, if max { " max" } else { "" }),
            is_max_mode: max,
            is_default_max_config: default.filter(|_| max),
            is_default_non_max_config: default.filter(|_| !max),
            variant_string_representation: format!("{}[{}]", self.id, written.join(",")),
            legacy_slug: if max { String::new() } else { format!("{}-{effort}", self.id) },
        }
    }
}

fn definition(id: &str, values: &[&str]) -> ParameterDefinition {
    let list = ParameterValues {
        values: values
            .iter()
            .map(|value| ParameterValue {
                value: (*value).to_owned(),
                display_name: (*value).to_owned(),
                increases_model_cost: false,
            })
            .collect(),
    };
    let kind = if values == BOTH {
        parameter_type::Type::Boolean(list)
    } else {
        parameter_type::Type::Enumeration(list)
    };
    ParameterDefinition {
        id: id.to_owned(),
        name: id.to_owned(),
        r#type: Some(ParameterType { r#type: Some(kind) }),
    }
}

/// The two parts of a variant string such as `composer-2[fast=true]`; `None` for an id
/// without brackets, or with broken ones.
pub(crate) fn split_variant(id: &str) -> Option<(&str, Vec<(String, String)>)> {
    let (base, rest) = id.split_once('[')?;
    let pairs = rest.strip_suffix(']')?.split(',').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| {
        pair.split_once('=').map(|(id, value)| (id.trim().to_owned(), value.trim().to_owned()))
    });
    Some((base, pairs.collect::<Option<_>>()?))
}

/// The family that has this id or slug.
pub(crate) fn family(id: &str) -> Option<&'static SimModel> {
    let by_id = MODELS.iter().find(|model| model.id == id);
    by_id.or_else(|| MODELS.iter().find(|m| m.slugs().iter().any(|(slug, _)| slug == id)))
}

/// The display name of a model, by its id or a variant string. `None` if there is no such model.
pub(crate) fn display_name(id: &str) -> Option<String> {
    let base = split_variant(id).map_or(id, |(base, _)| base);
    let base = if base == "auto" { "default" } else { base };
    family(base).map(|model| model.details(base, false).display_name)
}

/// Every id that the CLI lists, and its name.
pub(crate) fn cli_list() -> Vec<(String, String)> {
    let slugs = MODELS.iter().flat_map(|m| m.slugs().into_iter().map(move |(slug, _)| (m, slug)));
    slugs
        .map(|(model, slug)| {
            let details = model.details(&slug, false);
            (details.display_model_id, details.display_name)
        })
        .collect()
}

/// One variant string for each family, as ACP lists them, and its name.
pub(crate) fn acp_list() -> Vec<(String, String)> {
    let variant = |model: &SimModel| match model.effort {
        Some(effort) => format!("{}[{effort}=medium]", model.id),
        None if model.fast => format!("{}[fast=true]", model.id),
        None => format!("{}[]", model.id),
    };
    MODELS.iter().map(|model| (variant(model), model.name.to_owned())).collect()
}

/// The family of a wire id. Brackets are only read when the request says that the id is a
/// variant string.
///
/// # Errors
/// The id is unknown, or is an effort slug where the provider wants a parameter.
pub(crate) fn judge(
    id: &str,
    variant: bool,
    quirks: &Quirks,
) -> Result<&'static SimModel, ConnectError> {
    let base = match split_variant(id) {
        Some((base, _)) if variant => base,
        _ => id,
    };
    let default = || MODELS.first();
    let not_found = || ConnectError::new(Code::NotFound, format!("Model not found: {id}"));
    match family(base) {
        // Row 13: no detail, no hint.
        Some(model)
            if model.id != base
                && model.vendor.0 == OPENAI.0
                && !quirks.has(Quirk::EffortSlugsOk) =>
        {
            Err(ConnectError::new(Code::ResourceExhausted, "Error"))
        }
        Some(model) => Ok(model),
        // Row 11: `auto` is a display name only.
        None if base == "auto" && quirks.has(Quirk::AutoIdOk) => default().ok_or_else(not_found),
        None if quirks.has(Quirk::UnknownModelOk) => default().ok_or_else(not_found),
        None => Err(not_found()),
    }
}

#[cfg(test)]
mod tests;
