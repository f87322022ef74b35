//! Which parameters go with a chosen model.

use super::{
    EFFORT_PARAMETERS, Family, ModelInfo, VariantInfo,
    resolve::{Resolved, Via},
    slug::{self, Wish},
};
use crate::model::Effort;

pub(super) const CONTEXT: &str = "context";

/// The OpenAI family refuses effort slugs as ids, so they always become parameters.
pub(super) fn gpt(base: &str, info: &ModelInfo, wish: &Wish, via: Via) -> Resolved {
    // The generations before 5 have no effort to set.
    let thinks = !base.starts_with("gpt-4") && !base.starts_with("gpt-3");
    let effort = wish.effort.filter(|_| thinks);
    let mut parameters = Vec::new();
    if let Some(effort) = effort {
        let effort = match effort {
            Effort::Minimal => Effort::Low,
            Effort::Max => Effort::Xhigh,
            Effort::None | Effort::Low | Effort::Medium | Effort::High | Effort::Xhigh => effort,
        };
        set(&mut parameters, Family::Gpt.effort_parameter(), effort.as_str());
    }
    if let Some(fast) = wish.fast {
        set(&mut parameters, "fast", bool_word(fast));
    }
    for (id, value) in &wish.other {
        set(&mut parameters, id, value);
    }
    Resolved {
        wire_id: base.to_owned(),
        max_mode: info.max_mode || asks_for_long_context(&parameters),
        parameters,
        effort,
        info: Some(ModelInfo { id: base.to_owned(), ..info.clone() }),
        via,
    }
}

/// For models whose parameters the list defines: the variant's or the default's
/// values, changed by what was asked. What a model does not know is not sent.
pub(super) fn with_parameters(
    model: &ModelInfo,
    variant: Option<&VariantInfo>,
    wish: &Wish,
    via: Via,
) -> Resolved {
    let chosen = variant.or_else(|| default_variant(model, wish));
    let mut parameters = chosen.map(|variant| variant.parameters.clone()).unwrap_or_default();
    let fixed = variant.is_some();
    let is_set = |parameters: &[(String, String)], id: &str| {
        fixed && parameters.iter().any(|(own, _)| own == id)
    };
    let names_effort = EFFORT_PARAMETERS.iter().any(|id| is_set(&parameters, id));
    let mut sent = None;
    if let Some(thinking) = wish.thinking
        && model.parameter("thinking").is_some()
        && !is_set(&parameters, "thinking")
        && !names_effort
    {
        set(&mut parameters, "thinking", bool_word(thinking));
    }
    if let Some(effort) = wish.effort
        && !names_effort
        && let Some(parameter) = EFFORT_PARAMETERS.iter().find_map(|id| model.parameter(id))
        && let Some((word, effort)) = nearest_effort(&parameter.values, effort)
    {
        set(&mut parameters, &parameter.id, word);
        sent = Some(effort);
    }
    if sent.is_none() {
        sent = parameters
            .iter()
            .find(|(id, _)| EFFORT_PARAMETERS.contains(&id.as_str()))
            .and_then(|(_, value)| Effort::parse(value));
    }
    if model.parameter("fast").is_some() && !is_set(&parameters, "fast") {
        // A bare Composer id means its fast tier unless specified otherwise.
        let composer = model.family() == Family::Composer && !fixed;
        if let Some(fast) = wish.fast.or(composer.then_some(false)) {
            set(&mut parameters, "fast", bool_word(fast));
        }
    }
    // A note such as `[1m]` counts where the model can be set to it.
    let noted = wish.long.as_deref().and_then(|size| {
        let values = &model.parameter(CONTEXT)?.values;
        values.iter().find(|value| value.eq_ignore_ascii_case(size))
    });
    if let Some(size) = noted {
        set(&mut parameters, CONTEXT, size);
    }
    for (id, value) in &wish.other {
        set(&mut parameters, id, value);
    }
    let asked = noted.is_some() || !wish.other.is_empty();
    let max_mode = model.max_mode
        || chosen.is_some_and(|variant| variant.max_mode)
        || (asked && asks_for_long_context(&parameters));
    Resolved {
        wire_id: slug::plain(&model.id).to_owned(),
        max_mode,
        parameters,
        effort: sent,
        info: Some(model.clone()),
        via,
    }
}

/// What the backend's own clients would choose: the default of max mode for a long
/// context and for models that run in no other.
fn default_variant<'a>(model: &'a ModelInfo, wish: &Wish) -> Option<&'a VariantInfo> {
    let variants = &model.variants;
    let max_only = model.max_mode || variants.iter().all(|variant| variant.max_mode);
    let long = wish.long.is_some() || asks_for_long_context(&wish.other);
    variants
        .iter()
        .find(|variant| variant.is_default_max && (max_only || long))
        .or_else(|| variants.iter().find(|variant| variant.is_default))
}

/// A bare Composer id means its fast tier unless specified otherwise. For ids of which the
/// list does not know the parameters.
pub(super) fn set_composer_tier(parameters: &mut Vec<(String, String)>, id: &str, wish: &Wish) {
    if Family::of(id) != Family::Composer || slug::split(id).1.fast.is_some() {
        return;
    }
    let written = parameters.iter().any(|(own, _)| own == "fast");
    if let Some(fast) = wish.fast.or((!written).then_some(false)) {
        set(parameters, "fast", bool_word(fast));
    }
}

pub(super) fn set(parameters: &mut Vec<(String, String)>, id: &str, value: &str) {
    match parameters.iter_mut().find(|(own, _)| own == id) {
        Some((_, own)) => value.clone_into(own),
        None => parameters.push((id.to_owned(), value.to_owned())),
    }
}

fn bool_word(on: bool) -> &'static str {
    if on { "true" } else { "false" }
}

/// The long context goes with max mode.
pub(super) fn asks_for_long_context(parameters: &[(String, String)]) -> bool {
    parameters.iter().any(|(id, value)| id == CONTEXT && slug::is_long(value))
}

/// The allowed value closest to what was asked; upwards when two are equally close.
/// `none` is only ever met exactly: "do not think" is not a small amount of thinking.
fn nearest_effort(values: &[String], wanted: Effort) -> Option<(&str, Effort)> {
    let rank = |effort: Effort| Effort::ALL.iter().position(|other| *other == effort).unwrap_or(0);
    values
        .iter()
        .filter_map(|value| Some((value.as_str(), Effort::parse(value)?)))
        .filter(|(_, have)| (*have == Effort::None) == (wanted == Effort::None))
        .min_by_key(|(_, have)| {
            (rank(*have).abs_diff(rank(wanted)), std::cmp::Reverse(rank(*have)))
        })
}
