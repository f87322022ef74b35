//! From the name a client wrote to what goes on the wire.

use super::{
    AUTO_NAME, AUTO_WIRE_ID, Family, ModelInfo, ModelList, VariantInfo,
    alias::AliasTarget,
    parameters::{CONTEXT, asks_for_long_context, gpt, set, set_composer_tier, with_parameters},
    slug::{self, Wish},
};
use crate::{
    error::{ErrorCode, TurnError},
    model::Effort,
};

/// The model of a turn, in the backend's words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelPick {
    pub id: String,
    pub parameters: Vec<(String, String)>,
    pub max_mode: bool,
}

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
    /// Unknown here; the backend may know it.
    PassedThrough,
}

/// What to do with a name that nothing knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownName {
    #[default]
    Refuse,
    PassThrough,
}

/// What a name was found to be.
#[derive(Clone, Copy)]
enum Hit<'a> {
    Model(&'a ModelInfo),
    Variant(&'a ModelInfo, &'a VariantInfo),
    /// By a slug of before the parameters, which may spell out some of them.
    Legacy(&'a ModelInfo, &'a str),
    /// A base that is only listed with suffixes; any of them stands for it here.
    Base(&'a ModelInfo),
}

impl Resolved {
    /// The same model in its maximum mode. A context that the effort or the name did not ask for
    /// becomes that of the list's own choice for this mode.
    #[must_use]
    pub fn in_max_mode(mut self) -> Self {
        self.max_mode = true;
        let variants = self.info.iter().flat_map(|info| &info.variants);
        let max = variants.filter(|variant| variant.max_mode);
        let chosen = max.max_by_key(|variant| variant.is_default_max);
        let context = chosen.and_then(|variant| {
            variant.parameters.iter().find(|(id, _)| id == CONTEXT).map(|(_, value)| value.clone())
        });
        if let Some(context) = context {
            set(&mut self.parameters, CONTEXT, &context);
        }
        self
    }
}

impl ModelList {
    /// # Errors
    /// [`ErrorCode::ModelNotFound`], with the names that come close.
    pub fn resolve(&self, name: &str, effort: Option<Effort>) -> Result<Resolved, TurnError> {
        self.resolve_with(name, effort, UnknownName::Refuse)
    }

    /// # Errors
    /// As [`ModelList::resolve`], unless unknown names are passed through.
    pub fn resolve_with(
        &self,
        name: &str,
        effort: Option<Effort>,
        unknown: UnknownName,
    ) -> Result<Resolved, TurnError> {
        let plain = slug::strip_prefixes(name);
        let field = Wish::effort(effort);
        if let Some(found) = self.by_name(plain, &field) {
            return with_known_controls(plain, found);
        }
        // `anthropic/claude-…`, as routers write it.
        let bare = plain.rsplit_once('/').map_or(plain, |(_, bare)| bare);
        if bare != plain
            && let Some(found) = self.by_name(bare, &field)
        {
            return with_known_controls(bare, found);
        }
        if let Some(found) = self.by_alias(bare, &field) {
            return with_known_controls(bare, found);
        }
        let passed = match unknown {
            UnknownName::PassThrough => passed_through(plain, field),
            UnknownName::Refuse => None,
        };
        passed.ok_or_else(|| self.not_found(name))
    }

    /// By what the list itself says.
    fn by_name(&self, name: &str, field: &Wish) -> Option<Resolved> {
        if let Some(hit) = self.find(name) {
            return Some(self.settle(hit, field.clone(), Via::Listed));
        }
        let (name, controls) = slug::strip_controls(name)?;
        if is_auto(name) {
            return Some(self.auto(&controls));
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
            AliasTarget::Model(model) => self.settle(Hit::Base(model), wish, Via::Alias),
            AliasTarget::Auto => Resolved { via: Via::Alias, ..self.auto(&wish) },
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
            .or_else(|| {
                models.iter().find_map(|model| {
                    let slug = model.legacy_slugs.iter().find(|slug| is(slug))?;
                    Some(Hit::Legacy(model, slug))
                })
            })
    }

    /// A base that only occurs with suffixes, or in the other spelling.
    fn find_base(&self, base: &str) -> Option<Hit<'_>> {
        let key = slug::same_model_key(base);
        let same = |model: &&ModelInfo| slug::same_model_key(slug::split(&model.id).0) == key;
        self.models().iter().find(same).map(Hit::Base)
    }

    fn auto(&self, wish: &Wish) -> Resolved {
        let goal = wish.other.iter().find(|(id, _)| id == ROUTER_GOAL);
        Resolved {
            wire_id: AUTO_WIRE_ID.to_owned(),
            parameters: goal.cloned().into_iter().collect(),
            max_mode: false,
            info: self.models().iter().find(|model| model.id == AUTO_WIRE_ID).cloned(),
            effort: None,
            via: Via::Listed,
        }
    }

    /// Decides id and parameters for a model and what was asked of it.
    fn settle(&self, hit: Hit<'_>, wish: Wish, via: Via) -> Resolved {
        let mut legacy: &[String] = &[];
        let (model, wish) = match hit {
            Hit::Variant(model, variant) => {
                return with_parameters(model, Some(variant), &wish, via);
            }
            Hit::Model(model) | Hit::Base(model) | Hit::Legacy(model, _)
                if model.id == AUTO_WIRE_ID =>
            {
                return Resolved { via, info: Some(model.clone()), ..self.auto(&wish) };
            }
            Hit::Model(model) if !model.parameters.is_empty() => {
                return with_parameters(model, None, &wish, via);
            }
            // The slug's own words count more than the request's effort field.
            Hit::Model(model) => (model, slug::split(&model.id).1.or(wish)),
            Hit::Base(model) => (model, wish),
            // An old name is the weaker one: the request's own fields come first.
            Hit::Legacy(model, slug) => {
                let wish = wish.or(slug::split(slug).1);
                if !model.parameters.is_empty() {
                    return with_parameters(model, None, &wish, via);
                }
                legacy = &model.legacy_slugs;
                (model, wish)
            }
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
        self.closest_slug(model, legacy, &wish, via)
    }

    /// For families whose slugs are ids: the slug that fits best, of the listed ones
    /// and the `legacy` ones of `model`.
    fn closest_slug(
        &self,
        model: &ModelInfo,
        legacy: &[String],
        wish: &Wish,
        via: Via,
    ) -> Resolved {
        let key = slug::same_model_key(slug::split(&model.id).0);
        let listed = self.models().iter().map(|other| (other, other.id.as_str()));
        let (best, id) = listed
            .filter(|(_, id)| slug::same_model_key(slug::split(id).0) == key)
            .chain(legacy.iter().map(|slug| (model, slug.as_str())))
            .min_by_key(|(_, id)| (distance(&slug::split(id).1, wish), *id != model.id))
            .unwrap_or((model, &model.id));
        if !best.parameters.is_empty() {
            return with_parameters(best, None, wish, via);
        }
        let mut parameters = slug::written_out(id);
        for (id, value) in &wish.other {
            set(&mut parameters, id, value);
        }
        set_composer_tier(&mut parameters, id, wish);
        Resolved {
            wire_id: slug::plain(id).to_owned(),
            max_mode: best.max_mode || asks_for_long_context(&parameters),
            parameters,
            effort: slug::split(id).1.effort,
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

/// What the backend's own choice of a model can be told to aim for.
const ROUTER_GOAL: &str = "optimization";
const ROUTER_GOALS: [&str; 3] = ["cost", "balance", "intelligence"];

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

/// `None` for what cannot be an id: nothing at all, and brackets that say nothing.
fn passed_through(name: &str, field: Wish) -> Option<Resolved> {
    let (base, wish) = slug::strip_controls(name).or_else(|| slug::strip_brackets(name))?;
    if base.is_empty() {
        return None;
    }
    let wish = wish.or(field);
    if Family::of(base) == Family::Gpt {
        let (base, suffixes) = slug::split(base);
        let resolved = gpt(base, &ModelInfo::from_id(base), &suffixes.or(wish), Via::PassedThrough);
        return Some(Resolved { info: None, ..resolved });
    }
    // Nothing is known about its controls: only what was written out is sent.
    let mut parameters = slug::written_out(name);
    set_composer_tier(&mut parameters, base, &wish);
    Some(Resolved {
        wire_id: base.to_owned(),
        max_mode: asks_for_long_context(&parameters),
        parameters,
        info: None,
        effort: None,
        via: Via::PassedThrough,
    })
}

/// Refuses controls in brackets that the model does not have, where the list says
/// which it has: a typo must not cost a turn.
fn with_known_controls(name: &str, found: Resolved) -> Result<Resolved, TurnError> {
    let controls = slug::strip_controls(name).map(|(_, controls)| controls.other);
    let described = |info: &&ModelInfo| !info.parameters.is_empty();
    let Some(info) = found.info.as_ref().filter(described) else {
        let goal = found.parameters.iter().find(|(id, _)| id == ROUTER_GOAL);
        return match goal.filter(|_| found.wire_id == AUTO_WIRE_ID) {
            Some((_, value)) if !ROUTER_GOALS.contains(&value.as_str()) => {
                let goals = ROUTER_GOALS.join(", ");
                let text = format!("`{ROUTER_GOAL}` of `{AUTO_NAME}` must be one of: {goals}");
                Err(TurnError::new(ErrorCode::InvalidValue, text).param("model"))
            }
            Some(_) | None => Ok(found),
        };
    };
    for (id, value) in controls.into_iter().flatten() {
        let text = match info.parameter(&id) {
            Some(known) if known.values.is_empty() || known.values.contains(&value) => continue,
            Some(known) => {
                format!("`{id}` of `{}` must be one of: {}", info.id, known.values.join(", "))
            }
            None => {
                let has: Vec<&str> =
                    info.parameters.iter().map(|known| known.id.as_str()).collect();
                format!("`{}` has no control `{id}`; it has: {}", info.id, has.join(", "))
            }
        };
        return Err(TurnError::new(ErrorCode::InvalidValue, text).param("model"));
    }
    Ok(found)
}

#[cfg(test)]
#[path = "resolve_tests.rs"]
mod tests;
