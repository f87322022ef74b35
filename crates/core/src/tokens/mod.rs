//! Token counts for what the backend does not report.
//!
//! OpenAI's tokenizers are public: for its models a count is theirs, exactly. For all
//! others it is an estimate: the same count times a factor, which [`Calibration`] learns
//! from what the backend reports.
//!
//! The first count loads a vocabulary (some 50 MB, a third of a second), so callers in a
//! server keep it off their event loop.

mod cache;
mod calibration;
#[cfg(feature = "tokens")]
mod merges;
mod pieces;
mod quick;
mod vocabulary;

pub use cache::Cache;
pub use calibration::{Calibration, Sample};
pub use quick::{IMAGE_TOKENS, quick_estimate};
pub use vocabulary::Vocabulary;

use pieces::TextPieces;

use crate::models::Family;

/// Text beyond this is not read; its share is extrapolated from what was.
pub const INPUT_CAP: usize = 4 << 20;

/// A number of tokens, and whether it is the tokenizer's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    pub tokens: u64,
    /// Nothing was scaled, extrapolated or guessed.
    pub exact: bool,
}

impl Count {
    pub const NONE: Self = Self { tokens: 0, exact: true };

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { tokens: self.tokens.saturating_add(other.tokens), exact: self.exact && other.exact }
    }

    /// Something that cannot be counted.
    #[must_use]
    pub fn guess(tokens: u64) -> Self {
        Self { tokens, exact: tokens == 0 }
    }
}

/// How the tokens of one model are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TokenMeasure {
    vocabulary: Vocabulary,
    /// How many of the model's tokens a thousand of the vocabulary are; `None`: the
    /// vocabulary is the model's own.
    per_mille: Option<u32>,
}

impl TokenMeasure {
    /// By what is known about a model beforehand. `model` is its id at the backend.
    #[must_use]
    pub fn of(family: Family, model: &str) -> Self {
        match family {
            Family::Gpt => Self { vocabulary: Vocabulary::of(model), per_mille: None },
            family => {
                Self { vocabulary: Vocabulary::default(), per_mille: Some(per_mille(family)) }
            }
        }
    }

    #[must_use]
    pub fn count(self, text: &str) -> Count {
        self.convert(self.vocabulary.count(text))
    }

    /// Converts tokens of the vocabulary into tokens of the model.
    #[must_use]
    pub fn convert(self, counted: Count) -> Count {
        match self.per_mille {
            None => counted,
            Some(factor) => Count {
                tokens: scale(counted.tokens, u64::from(factor), 1000),
                exact: counted.tokens == 0,
            },
        }
    }

    #[must_use]
    pub fn vocabulary(self) -> Vocabulary {
        self.vocabulary
    }

    /// Whether it is worth learning how far off this is.
    #[must_use]
    pub fn is_estimate(self) -> bool {
        self.per_mille.is_some()
    }
}

/// How many tokens `text` probably is for a model of this family.
#[must_use]
pub fn count(text: &str, family: Family) -> u64 {
    let counted = Vocabulary::default().count(text).tokens;
    scale(counted, u64::from(per_mille(family)), 1000)
}

/// How many tokens of the vocabulary correspond to a number of a family's tokens.
#[must_use]
pub fn in_vocabulary(count: u64, family: Family) -> u64 {
    let product = u128::from(count) * 1000 / u128::from(per_mille(family));
    u64::try_from(product).unwrap_or(u64::MAX)
}

/// A short text in tokens of the vocabulary: how many there are, and in how many bytes the
/// first `most` of them end, at most. That is the end of a character.
#[must_use]
pub fn measure(text: &str, most: u64) -> (u64, usize) {
    Vocabulary::default().measure(text, most)
}

/// On the high side, since a client that compacts its context a little early fares better
/// than one that is too late.
fn per_mille(family: Family) -> u32 {
    match family {
        Family::Gpt => 1000,
        Family::Claude => 1200,
        Family::Gemini | Family::Grok | Family::Kimi | Family::Glm => 1050,
        Family::Composer | Family::Auto | Family::Other => 1100,
    }
}

/// `count * by / of`, rounded up.
fn scale(count: u64, by: u64, of: u64) -> u64 {
    let product = u128::from(count) * u128::from(by);
    u64::try_from(product.div_ceil(u128::from(of.max(1)))).unwrap_or(u64::MAX)
}

fn as_u64(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

/// The last character boundary at or before `at`.
fn floor_boundary(text: &str, at: usize) -> usize {
    if at >= text.len() { text.len() } else { text.floor_char_boundary(at) }
}

#[cfg(test)]
#[path = "tokens_tests.rs"]
mod tests;
