//! From the name a client wrote to what goes on the wire.

use super::{
    AUTO_NAME, AUTO_WIRE_ID, EFFORT_PARAMETERS, Family, ModelInfo, ModelList, VariantInfo,
    alias::Target,
    slug::{self, Wish},
};
use crate::{
    error::{ErrorCode, TurnError},
    model::Effort,
};

/// A model, chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    pub wire_id: String,
    /// In the order in which they are sent.
    pub parameters: Vec<(String, String)>,
    pub max_mode: bool,
    /// What the list says about it; `None` for names that were passed through and
    /// for `auto` without a list.
    pub info: Option<ModelInfo>,
    /// The effort that the choice carries, be it as parameter or in the id.
    pub effort: Option<Effort>,
    pub via: Via,
}

/// How the name led to the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// The list has this name.
    Listed,
    /// A listed model plus an effort, `fast` or the like.
    Parameters,
    /// Our table of well-known names: the model is another than the one named.
    Alias,
    /// Nobody knows it here; the backend may.
    PassedThrough,
}

/// What to do with a name that nothing knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unknown {
    #[default]
    Refuse,
    PassThrough,
}

/// What a name was found to be.
#[derive(Clone, Copy)]
enum Hit<'a> {
    Model(&'a ModelInfo),
    Variant(&'a ModelInfo, &'a VariantInfo),
    /// A base that is only listed with suffixes; any of them stands for it here.
    Base(&'a ModelInfo),
}

impl ModelList {
    /// # Errors
    /// [`ErrorCode::ModelNotFound`], with the names that come close.
    pub fn resolve(&self, name: &str, effort: Option<Effort>) -> Result<Resolved, TurnError> {
        self.resolve_with(name, effort, Unknown::Refuse)
    }

    /// # Errors
    /// As [`ModelList::resolve`], unless unknown names are passed through.
    pub fn resolve_with(
        &self,
        name: &str,
        effort: Option<Effort>,
        unknown: Unknown,
    ) -> Result<Resolved, TurnError> {
        let plain = slug::strip_prefixes(name);
        let field = Wish::effort(effort);
        if let Some(found) = self.by_name(plain, &field) {
            return Ok(found);
        }
        // `anthropic/claude-…`, as routers write it.
        let bare = plain.rsplit_once('/').map_or(plain, |(_, bare)| bare);
        if bare != plain
            && let Some(found) = self.by_name(bare, &field)
        {
            return Ok(found);
        }
        if let Some(found) = self.by_alias(bare, &field) {
            return Ok(found);
        }
        match unknown {
            Unknown::PassThrough if !plain.is_empty() => Ok(passed_through(plain, field)),
            Unknown::PassThrough | Unknown::Refuse => Err(self.not_found(name)),
        }
    }

    /// By what the list itself says.
    fn by_name(&self, name: &str, field: &Wish) -> Option<Resolved> {
        if let Some(hit) = self.find(name) {
            return Some(self.settle(hit, field.clone(), Via::Listed));
        }
        let (name, controls) = slug::strip_controls(name)?;
        if is_auto(name) {
            return Some(self.auto());
        }
        if let Some(hit) = self.find(name) {
            return Some(self.settle(hit, controls.or(field.clone()), Via::Parameters));
        }
        let (base, suffixes) = slug::split(name);
        let hit = self.find(base).or_else(|| self.find_base(base))?;
        Some(self.settle(hit, suffixes.or(controls).or(field.clone()), Via::Parameters))
    }

    fn by_alias(&self, name: &str, field: &Wish) -> Option<Resolved> {
        if self.is_empty() {
            return None;
        }
        let (name, controls) = slug::strip_controls(name)?;
        let (base, suffixes) = slug::split(name);
        let target = self.alias(base)?;
        let wish = suffixes.or(controls).or(field.clone());
        Some(match target {
            Target::Model(model) => self.settle(Hit::Base(model), wish, Via::Alias),
            Target::Auto => Resolved { via: Via::Alias, ..self.auto() },
        })
    }

    /// A listed name of any sort: as written first, then without regard to case.
    fn find(&self, name: &str) -> Option<Hit<'_>> {
        // Display ids may be empty, and an empty name means none of them.
        if name.is_empty() {
            return None;
        }
        self.find_by(|listed| listed == name)
            .or_else(|| self.find_by(|listed| listed.eq_ignore_ascii_case(name)))
    }

    fn find_by(&self, is: impl Fn(&str) -> bool) -> Option<Hit<'_>> {
        let models = self.models();
        let listed = |names: &[String]| names.iter().any(|name| is(name));
        models
            .iter()
            .find(|model| is(&model.id))
            .or_else(|| models.iter().find(|model| is(&model.display_id)))
            .or_else(|| models.iter().find(|model| listed(&model.aliases)))
            .map(Hit::Model)
            .or_else(|| {
                models.iter().find_map(|model| {
                    let named = |variant: &&VariantInfo| {
                        (!variant.name.is_empty() && is(&variant.name))
                            || (!variant.legacy_slug.is_empty() && is(&variant.legacy_slug))
                    };
                    Some(Hit::Variant(model, model.variants.iter().find(named)?))
                })
            })
            .or_else(|| models.iter().find(|model| listed(&model.legacy_slugs)).map(Hit::Model))
    }

    /// A base that only occurs with suffixes, or in the other spelling.
    fn find_base(&self, base: &str) -> Option<Hit<'_>> {
        let key = slug::same_model_key(base);
        let same = |model: &&ModelInfo| slug::same_model_key(slug::split(&model.id).0) == key;
        self.models().iter().find(same).map(Hit::Base)
    }

    fn auto(&self) -> Resolved {
        Resolved {
            wire_id: AUTO_WIRE_ID.to_owned(),
            parameters: Vec::new(),
            max_mode: false,
            info: self.models().iter().find(|model| model.id == AUTO_WIRE_ID).cloned(),
            effort: None,
            via: Via::Listed,
        }
    }

    /// Decides id and parameters for a model and what was asked of it.
    fn settle(&self, hit: Hit<'_>, wish: Wish, via: Via) -> Resolved {
        let (model, wish) = match hit {
            Hit::Variant(model, variant) => {
                return with_parameters(model, Some(variant), &wish, via);
            }
            Hit::Model(model) | Hit::Base(model) if model.id == AUTO_WIRE_ID => {
                return Resolved { via, info: Some(model.clone()), ..self.auto() };
            }
            Hit::Model(model) if !model.parameters.is_empty() => {
                return with_parameters(model, None, &wish, via);
            }
            // The slug's own words count more than the request's effort field.
            Hit::Model(model) => (model, slug::split(&model.id).1.or(wish)),
            Hit::Base(model) => (model, wish),
        };
        let base = slug::split(&model.id).0;
        let listed_base = self.models().iter().find(|other| other.id == base);
        if let Some(listed) = listed_base.filter(|listed| !listed.parameters.is_empty())
            && (model.family() == Family::Gpt || model.id == base)
        {
            return with_parameters(listed, None, &wish, via);
        }
        if model.family() == Family::Gpt {
            return gpt(base, listed_base.unwrap_or(model), &wish, via);
        }
        self.closest_slug(model, base, &wish, via)
    }

    /// For families whose slugs are ids: the listed slug that fits best.
    fn closest_slug(&self, model: &ModelInfo, base: &str, wish: &Wish, via: Via) -> Resolved {
        let key = slug::same_model_key(base);
        let best = self
            .models()
            .iter()
            .map(|other| (other, slug::split(&other.id)))
            .filter(|(_, (base, _))| slug::same_model_key(base) == key)
            .min_by_key(|(other, (_, own))| (distance(own, wish), other.id != model.id))
            .map_or(model, |(other, _)| other);
        if !best.parameters.is_empty() {
            return with_parameters(best, None, wish, via);
        }
        Resolved {
            wire_id: best.id.clone(),
            parameters: wish.other.clone(),
            max_mode: best.max_mode,
            effort: slug::split(&best.id).1.effort,
            info: Some(best.clone()),
            via,
        }
    }

    fn not_found(&self, name: &str) -> TurnError {
        let near = self.close_to(name);
        let mut message =
            format!("The model `{}` does not exist or is not in your plan.", cut(name));
        if !near.is_empty() {
            let names: Vec<String> = near.iter().map(|name| format!("`{name}`")).collect();
            message.push_str(&format!(" Did you mean {}?", names.join(", ")));
        }
        message.push_str(" `ibeam models` lists what you can use.");
        TurnError::new(ErrorCode::ModelNotFound, message).param("model")
    }

    /// Up to three public ids that look like `name`.
    fn close_to(&self, name: &str) -> Vec<&str> {
        let name = cut(slug::strip_prefixes(name)).to_ascii_lowercase();
        let mut near: Vec<(f64, &str)> = self
            .visible()
            .map(|model| (strsim::jaro_winkler(&name, model.public_id()), model.public_id()))
            .filter(|(score, _)| *score >= CLOSE)
            .collect();
        near.sort_by(|a, b| b.0.total_cmp(&a.0));
        near.into_iter().take(3).map(|(_, id)| id).collect()
    }
}

/// How alike two names must be for one to be offered in place of the other.
const CLOSE: f64 = 0.8;
/// A name that a message repeats is cut here.
const SHOWN_NAME: usize = 80;

fn cut(name: &str) -> &str {
    name.char_indices().nth(SHOWN_NAME).and_then(|(at, _)| name.get(..at)).unwrap_or(name)
}

fn is_auto(name: &str) -> bool {
    name.eq_ignore_ascii_case(AUTO_NAME) || name.eq_ignore_ascii_case(AUTO_WIRE_ID)
}

/// The OpenAI family refuses effort slugs as ids, so they always become parameters.
fn gpt(base: &str, info: &ModelInfo, wish: &Wish, via: Via) -> Resolved {
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
fn with_parameters(
    model: &ModelInfo,
    variant: Option<&VariantInfo>,
    wish: &Wish,
    via: Via,
) -> Resolved {
    let chosen = variant.or_else(|| model.variants.iter().find(|variant| variant.is_default));
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
        // A bare Composer id means its fast tier unless told otherwise.
        let composer = model.family() == Family::Composer && !fixed;
        if let Some(fast) = wish.fast.or(composer.then_some(false)) {
            set(&mut parameters, "fast", bool_word(fast));
        }
    }
    for (id, value) in &wish.other {
        set(&mut parameters, id, value);
    }
    let max_mode = model.max_mode
        || chosen.is_some_and(|variant| variant.max_mode)
        || (!wish.other.is_empty() && asks_for_long_context(&parameters));
    Resolved {
        wire_id: model.id.clone(),
        max_mode,
        parameters,
        effort: sent,
        info: Some(model.clone()),
        via,
    }
}

fn set(parameters: &mut Vec<(String, String)>, id: &str, value: &str) {
    match parameters.iter_mut().find(|(own, _)| own == id) {
        Some((_, own)) => value.clone_into(own),
        None => parameters.push((id.to_owned(), value.to_owned())),
    }
}

fn bool_word(on: bool) -> &'static str {
    if on { "true" } else { "false" }
}

/// The long context goes with max mode.
fn asks_for_long_context(parameters: &[(String, String)]) -> bool {
    parameters.iter().any(|(id, value)| id == "context" && value.ends_with(['m', 'M']))
}

/// The allowed value closest to what was asked; upwards when two are equally close.
/// `none` is only ever met exactly: "do not think" is no small amount of thinking.
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

/// How far a slug is from what was asked, coarse to fine.
fn distance(own: &Wish, wish: &Wish) -> (bool, usize, usize) {
    let fast = own.fast.unwrap_or(false) != wish.fast.unwrap_or(false);
    let thinking = own.thinking.unwrap_or(false) != wish.thinking.unwrap_or(false);
    let rank = |effort: Option<Effort>| {
        // A slug without an effort is the model's own default.
        let effort = effort.unwrap_or(Effort::Medium);
        Effort::ALL.iter().position(|other| *other == effort).unwrap_or(0)
    };
    let effort = rank(own.effort).abs_diff(rank(wish.effort)) * 2
        + usize::from(own.effort.is_some() != wish.effort.is_some());
    (fast, usize::from(thinking), effort)
}

fn passed_through(name: &str, field: Wish) -> Resolved {
    let family = Family::of(name);
    let (base, wish) = match slug::strip_controls(name) {
        Some((rest, controls)) => (rest, controls.or(field)),
        None => (name, field),
    };
    let (base, wish) = match family {
        Family::Gpt => {
            let (base, suffixes) = slug::split(base);
            (base, suffixes.or(wish))
        }
        _ => (base, wish),
    };
    let mut resolved = gpt(base, &ModelInfo::from_id(base), &wish, Via::PassedThrough);
    if family != Family::Gpt {
        // Nothing is known about its controls: only what was written out is sent.
        resolved.parameters.clone_from(&wish.other);
        resolved.effort = None;
    }
    resolved.info = None;
    resolved
}
