//! Takes a model name apart: prefixes, brackets, and the words at its end.

use super::family::Family;
use crate::model::{Effort, RunModes};

/// What a name asks for beside the model itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wish {
    pub(super) effort: Option<Effort>,
    pub(super) thinking: Option<bool>,
    pub(super) fast: Option<bool>,
    /// A long context that was only noted, as in `[1m]`.
    pub(super) long: Option<String>,
    /// Parameters written out in brackets that have no field here.
    pub(super) other: Vec<(String, String)>,
}

impl Wish {
    /// An effort by itself also says whether to think at all.
    pub(super) fn effort(effort: Option<Effort>) -> Self {
        Self { effort, thinking: effort.map(|effort| effort != Effort::None), ..Self::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// `self` where it says something, `weaker` elsewhere.
    pub(super) fn or(mut self, weaker: Self) -> Self {
        // A client that names an effort has also decided about thinking.
        if self.effort.is_none() {
            self.effort = weaker.effort;
            self.thinking = self.thinking.or(weaker.thinking);
        }
        self.fast = self.fast.or(weaker.fast);
        self.long = self.long.or(weaker.long);
        for (id, value) in weaker.other {
            if !self.other.iter().any(|(own, _)| *own == id) {
                self.other.push((id, value));
            }
        }
        self
    }

    fn set(&mut self, id: &str, value: &str) {
        if RunModes::is_name(id) {
            return;
        }
        match (id, Effort::parse(value), parse_bool(value)) {
            ("effort" | "reasoning" | "reasoning_effort", Some(effort), _) => {
                self.effort = Some(effort);
            }
            ("thinking", _, Some(on)) => self.thinking = Some(on),
            ("fast", _, Some(on)) => self.fast = Some(on),
            _ => self.other.push((id.to_owned(), value.to_owned())),
        }
    }
}

fn parse_bool(word: &str) -> Option<bool> {
    match word {
        "true" | "1" | "on" => Some(true),
        "false" | "0" | "off" => Some(false),
        _ => None,
    }
}

/// Clients put their provider's name in front.
const PREFIXES: [&str; 4] = ["cursor/", "cursor:", "cursor-plan:", "models/"];

pub(super) fn strip_prefixes(name: &str) -> &str {
    let mut name = name.trim();
    while let Some(rest) = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix)) {
        name = rest;
    }
    name
}

/// Splits off `[fast=true]`, `[1m]` and `:high`. `None` when such a part is there
/// and says nothing we know.
pub(super) fn strip_controls(name: &str) -> Option<(&str, Wish)> {
    let (mut rest, mut wish) = strip_brackets(name)?;
    if let Some((before, word)) = rest.rsplit_once(':') {
        match (word, Effort::parse(word)) {
            (_, Some(effort)) => wish = wish.or(Wish::effort(Some(effort))),
            ("thinking", None) => wish.thinking = Some(true),
            ("fast", None) => wish.fast = Some(true),
            ("latest", None) => {}
            _ => return None,
        }
        rest = before;
    }
    Some((rest, wish))
}

/// The first half of [`strip_controls`]: what is left has no bracket in it.
pub(super) fn strip_brackets(name: &str) -> Option<(&str, Wish)> {
    let mut wish = Wish::default();
    let (rest, inside) = match name.strip_suffix(']').and_then(|rest| rest.split_once('[')) {
        Some((rest, inside)) => (rest, inside),
        None => (name, ""),
    };
    if rest.contains(BRACKETS) || inside.contains(BRACKETS) {
        return None;
    }
    for word in words(inside) {
        match word.split_once('=') {
            Some((id, value)) => wish.set(id.trim(), value.trim()),
            None if is_size(word) => {
                wish.long = Some(word.to_owned()).filter(|size| is_long(size)).or(wish.long);
            }
            None => return None,
        }
    }
    Some((rest, wish))
}

const BRACKETS: [char; 2] = ['[', ']'];

fn words(inside: &str) -> impl Iterator<Item = &str> {
    inside.split(',').map(str::trim).filter(|word| !word.is_empty())
}

/// The id without a variant's brackets: they are never part of it on the wire.
pub(super) fn plain(id: &str) -> &str {
    id.split_once('[').map_or(id, |(id, _)| id)
}

/// The parameters in the brackets of a name, as written.
pub(super) fn written_out(name: &str) -> Vec<(String, String)> {
    let inside = name.strip_suffix(']').and_then(|rest| rest.split_once('['));
    words(inside.map_or("", |(_, inside)| inside))
        .filter_map(|word| word.split_once('='))
        .map(|(id, value)| (id.trim().to_owned(), value.trim().to_owned()))
        .filter(|(id, _)| !RunModes::is_name(id))
        .collect()
}

/// Whether a size of context is one that only max mode has.
pub(super) fn is_long(size: &str) -> bool {
    size.ends_with(['m', 'M'])
}

fn is_size(word: &str) -> bool {
    word.strip_suffix(['m', 'M', 'k', 'K'])
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}

/// Splits `gpt-5.4-high-fast` into `gpt-5.4` and what the rest asks for. Brackets, as
/// in a listed `gpt-5.4[fast=true]`, say the same.
pub(super) fn split(slug: &str) -> (&str, Wish) {
    let (base, suffixes) = split_suffixes(plain(slug));
    let mut brackets = Wish::default();
    for (id, value) in written_out(slug) {
        brackets.set(&id, &value);
    }
    (base, brackets.or(suffixes))
}

fn split_suffixes(slug: &str) -> (&str, Wish) {
    let gpt = Family::of(slug) == Family::Gpt;
    let mut wish = Wish::default();
    let mut base = slug;
    loop {
        let rest = if let Some(rest) = base.strip_suffix("-fast").filter(|_| wish.fast.is_none()) {
            wish.fast = Some(true);
            rest
        } else if let Some(rest) =
            base.strip_suffix("-thinking").filter(|_| wish.thinking.is_none())
        {
            wish.thinking = Some(true);
            rest
        } else if let Some((rest, effort)) =
            split_effort(base, gpt).filter(|_| wish.effort.is_none())
        {
            wish.effort = Some(effort);
            rest
        } else {
            return (base, wish);
        };
        // Nothing but a first word would be left: then it was no suffix.
        if rest.is_empty() {
            return (slug, Wish::default());
        }
        base = rest;
    }
}

fn split_effort(slug: &str, gpt: bool) -> Option<(&str, Effort)> {
    if let Some(rest) = slug.strip_suffix("-extra-high") {
        return Some((rest, Effort::Xhigh));
    }
    let (rest, word) = slug.rsplit_once('-')?;
    // `gpt-5.1-codex-max` is a model, `max` is not one of that family's efforts.
    let effort = Effort::parse(word).filter(|effort| !(gpt && *effort == Effort::Max))?;
    Some((rest, effort))
}

/// The form under which slugs with the same meaning compare equal: old Claude ids
/// put the version before the tier, new ones after it.
pub(super) fn same_model_key(base: &str) -> String {
    let words: Vec<&str> = base
        .strip_prefix("claude-")
        .unwrap_or(base)
        .split(['-', '.'])
        .filter(|word| !is_date(word) && !matches!(*word, "latest" | "preview"))
        .collect();
    if Family::of(base) != Family::Claude {
        return base.to_ascii_lowercase();
    }
    let (digits, mut letters): (Vec<&str>, Vec<&str>) =
        words.into_iter().partition(|word| word.bytes().all(|b| b.is_ascii_digit()));
    letters.sort_unstable();
    // `claude-sonnet-4-0` is an alias for `claude-sonnet-4`.
    let version: Vec<&str> = match digits.as_slice() {
        [major, "0"] => vec![*major],
        other => other.to_vec(),
    };
    format!("claude-{}-{}", letters.join("-"), version.join(".")).to_ascii_lowercase()
}

fn is_date(word: &str) -> bool {
    word.len() == 8 && word.bytes().all(|b| b.is_ascii_digit())
}
