//! Whether two ids mean the same model, spelled as a slug (`gpt-5.4-high`) or with
//! brackets (`gpt-5.4[reasoning=high]`).

use super::{
    AUTO_NAME, AUTO_WIRE_ID,
    slug::{self, Wish},
};
use crate::model::Effort;

/// How much alike two ids are; more is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Likeness {
    /// The same model with other settings.
    Model,
    /// The same model with the same settings.
    Variant,
    /// The same id.
    Id,
}

/// `None`: they are different models.
pub(crate) fn likeness(wanted: &str, listed: &str) -> Option<Likeness> {
    if wanted == listed {
        return Some(Likeness::Id);
    }
    let (base, wish) = slug::split(wanted);
    let (other_base, other_wish) = slug::split(listed);
    if key(base) != key(other_base) {
        return None;
    }
    let alike = set(&wish) == set(&other_wish);
    Some(if alike { Likeness::Variant } else { Likeness::Model })
}

fn key(base: &str) -> String {
    let base = if base == AUTO_NAME { AUTO_WIRE_ID } else { base };
    slug::same_model_key(base)
}

/// A setting that is not mentioned is off.
fn set(wish: &Wish) -> (Option<Effort>, bool, bool) {
    (wish.effort, wish.thinking == Some(true), wish.fast == Some(true))
}

#[cfg(test)]
#[path = "likeness_tests.rs"]
mod tests;
