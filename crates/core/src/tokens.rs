//! Token counts for what the backend does not report. Always an estimate: only one
//! family's tokenizer is public, the others are that count times a factor.
//!
//! The first call loads the vocabulary (some 50 MB, a sixth of a second), so callers
//! in a server keep it off their event loop.

use crate::models::Family;

/// Text beyond this is not read; its share is extrapolated from what was.
pub const INPUT_CAP: usize = 4 << 20;

/// Text goes to the tokenizer in pieces of this size. One long run without a break
/// costs far more than its length otherwise, and a cut adds a token at most.
const PIECE: usize = 8 << 10;

/// How many tokens `text` is for a model of this family, as far as we can tell.
#[must_use]
pub fn count(text: &str, family: Family) -> u64 {
    let read = floor_boundary(text, INPUT_CAP);
    let (head, _) = text.split_at_checked(read).unwrap_or((text, ""));
    let counted: u64 = Pieces(head).map(count_piece).sum();
    let whole = if head.len() == text.len() {
        counted
    } else {
        // Both lengths are far below 2^64 / counted.
        scale(counted, as_u64(text.len()), as_u64(head.len()))
    };
    scale(whole, factor_per_mille(family), 1000)
}

/// Loads the vocabulary, so that the next count is quick.
pub fn preload() {
    let _ = count_piece("a");
}

/// Measured against reported usage elsewhere; on the high side, since a client that
/// compacts its context a little early fares better than one that is too late.
fn factor_per_mille(family: Family) -> u64 {
    match family {
        Family::Gpt => 1000,
        Family::Claude => 1200,
        Family::Gemini | Family::Grok | Family::Kimi | Family::Glm => 1050,
        Family::Composer | Family::Auto | Family::Other => 1100,
    }
}

fn scale(count: u64, by: u64, of: u64) -> u64 {
    let product = u128::from(count) * u128::from(by);
    u64::try_from(product.div_ceil(u128::from(of.max(1)))).unwrap_or(u64::MAX)
}

fn as_u64(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

#[cfg(feature = "tokens")]
fn vocabulary() -> Option<&'static tiktoken_rs::CoreBPE> {
    use std::sync::OnceLock;

    static VOCABULARY: OnceLock<Option<tiktoken_rs::CoreBPE>> = OnceLock::new();
    VOCABULARY.get_or_init(|| tiktoken_rs::o200k_base().ok()).as_ref()
}

#[cfg(feature = "tokens")]
fn count_piece(piece: &str) -> u64 {
    match vocabulary() {
        Some(vocabulary) => as_u64(vocabulary.encode_ordinary(piece).len()),
        None => rough(piece),
    }
}

#[cfg(not(feature = "tokens"))]
fn count_piece(piece: &str) -> u64 {
    rough(piece)
}

/// How many tokens of the vocabulary make up so many of a family's.
pub(crate) fn in_vocabulary(count: u64, family: Family) -> u64 {
    let product = u128::from(count) * 1000 / u128::from(factor_per_mille(family).max(1));
    u64::try_from(product).unwrap_or(u64::MAX)
}

/// A short text in tokens of the vocabulary: how many there are, and in how many bytes the
/// first `most` of them end, at most. That is the end of a character.
#[cfg(feature = "tokens")]
pub(crate) fn measure(text: &str, most: u64) -> (u64, usize) {
    let Some(vocabulary) = vocabulary() else { return measure_rough(text, most) };
    let tokens = vocabulary.encode_ordinary(text);
    let first = usize::try_from(most).unwrap_or(usize::MAX).min(tokens.len());
    let first = tokens.get(..first).unwrap_or_default();
    let bytes = vocabulary.decode_bytes(first).map_or(text.len(), |bytes| bytes.len());
    (as_u64(tokens.len()), floor_boundary(text, bytes))
}

#[cfg(not(feature = "tokens"))]
pub(crate) fn measure(text: &str, most: u64) -> (u64, usize) {
    measure_rough(text, most)
}

fn measure_rough(text: &str, most: u64) -> (u64, usize) {
    let most = usize::try_from(most).unwrap_or(usize::MAX).saturating_mul(4);
    let end = text.char_indices().nth(most).map_or(text.len(), |(at, _)| at);
    (rough(text), end)
}

/// The rule of thumb: four characters a token.
fn rough(piece: &str) -> u64 {
    as_u64(piece.chars().count()).div_ceil(4)
}

/// Cuts a text at white space where there is some, else at any character.
struct Pieces<'a>(&'a str);

impl<'a> Iterator for Pieces<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        if self.0.is_empty() {
            return None;
        }
        let end = floor_boundary(self.0, PIECE);
        let end = if end == self.0.len() {
            end
        } else {
            // The space belongs to the word after it.
            self.0
                .get(..end)
                .and_then(|head| head.rfind(char::is_whitespace))
                .filter(|at| *at > 0)
                .unwrap_or(end)
        };
        let (piece, rest) = self.0.split_at_checked(end)?;
        self.0 = rest;
        Some(piece)
    }
}

/// The last character boundary at or before `at`, never zero for a non-empty text.
fn floor_boundary(text: &str, at: usize) -> usize {
    if at >= text.len() { text.len() } else { text.floor_char_boundary(at) }
}

#[cfg(test)]
#[path = "tokens_tests.rs"]
mod tests;
