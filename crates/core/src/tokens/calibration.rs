//! How far the estimate for a model is off, learned from what the backend reports.
//!
//! Only answers are learned from: of them both the text and the backend's count are known,
//! while a prompt holds texts of the backend's own. For each model the middle one of the
//! newest ratios counts, so that a single odd report changes nothing.

use super::{TokenMeasure, Vocabulary};
use crate::models::Family;

/// How many models are remembered; the least recently used one is evicted.
const MODELS: usize = 64;

/// How many of a model's newest ratios are kept.
const RATIOS: usize = 31;

/// With fewer than this, what is known beforehand counts.
const ENOUGH: usize = 5;

/// Shorter texts are ignored: one token more or less changes their ratio too much.
const SHORTEST: u64 = 50;

/// Ratios that no tokenizer has. Such a report counts something else than the text.
const CREDIBLE: std::ops::RangeInclusive<u32> = 500..=3000;

/// The text of an answer, and how many tokens the backend says it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    pub text: String,
    pub reported: u64,
}

/// What was learned so far, of all models.
#[derive(Debug, Default)]
pub struct Calibration {
    /// The one used last is at the end.
    models: Vec<Learned>,
}

#[derive(Debug)]
struct Learned {
    model: String,
    /// In per mille of the vocabulary's count, the newest at the end.
    ratios: Vec<u32>,
}

impl Calibration {
    /// How to count for a model. `model` is its id at the backend.
    #[must_use]
    pub fn measure(&self, family: Family, model: &str) -> TokenMeasure {
        let known = TokenMeasure::of(family, model);
        if !known.is_estimate() {
            return known;
        }
        let learned = self.models.iter().find(|learned| learned.model == model);
        match learned.and_then(Learned::middle) {
            Some(ratio) => TokenMeasure { per_mille: Some(ratio), ..known },
            None => known,
        }
    }

    /// The backend says that a text of `counted` tokens of the vocabulary is `reported` tokens
    /// of the model. Says whether anything was learned from it.
    pub fn learn(&mut self, model: &str, counted: u64, reported: u64) -> bool {
        if counted < SHORTEST {
            return false;
        }
        let ratio = u128::from(reported) * 1000 / u128::from(counted);
        let Some(ratio) = u32::try_from(ratio).ok().filter(|ratio| CREDIBLE.contains(ratio)) else {
            return false;
        };
        let mut learned = match self.models.iter().position(|learned| learned.model == model) {
            Some(at) => self.models.remove(at),
            None => Learned { model: model.to_owned(), ratios: Vec::new() },
        };
        if learned.ratios.len() == RATIOS {
            learned.ratios.remove(0);
        }
        learned.ratios.push(ratio);
        if self.models.len() == MODELS {
            self.models.remove(0);
        }
        self.models.push(learned);
        true
    }

    /// Whether a sample may teach anything, so that it need not be counted if not.
    #[must_use]
    pub fn wants(family: Family, model: &str, sample: &Sample) -> bool {
        // A token is a few bytes, and an answer of many is worth no more than one of some.
        const TEXT: std::ops::RangeInclusive<usize> = 200..=64 << 10;
        let measure = TokenMeasure::of(family, model);
        measure.is_estimate()
            && measure.vocabulary().is_loaded()
            && TEXT.contains(&sample.text.len())
            && sample.reported >= SHORTEST
    }

    /// A sample in tokens of the vocabulary that counts for its model.
    #[must_use]
    pub fn count(sample: &Sample) -> u64 {
        Vocabulary::default().count(&sample.text).tokens
    }
}

impl Learned {
    fn middle(&self) -> Option<u32> {
        if self.ratios.len() < ENOUGH {
            return None;
        }
        let mut sorted = self.ratios.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied()
    }
}

#[cfg(test)]
#[path = "calibration_tests.rs"]
mod tests;
