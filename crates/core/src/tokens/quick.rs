//! An estimate that needs no vocabulary and reads a text once, for the start of a stream: loading
//! a vocabulary takes longer than the first event may.

use super::{as_u64, per_mille, scale};
use crate::{model::TurnRequest, models::Family};

/// What an image costs when it was not counted; providers charge about this for one of ordinary
/// size.
pub const IMAGE_TOKENS: u64 = 1000;

/// How many tokens the model would read, roughly. The family is that of the name in the request.
#[must_use]
pub fn quick_estimate(request: &TurnRequest) -> u64 {
    let tokens: u64 = request.texts().map(of_text).sum();
    let images = as_u64(request.images()).saturating_mul(IMAGE_TOKENS);
    scale(tokens, u64::from(per_mille(Family::of(&request.model))), 1000).saturating_add(images)
}

/// Of ASCII two tokens for seven bytes, which is between prose and code. Of other letters one for
/// two where they take two bytes (Cyrillic, accents), and one for each where they take more
/// (Chinese, emoji).
fn of_text(text: &str) -> u64 {
    let bytes = as_u64(text.len());
    if text.is_ascii() {
        return (bytes * 2).div_ceil(7);
    }
    let leads = |first: u8, last: u8| {
        as_u64(text.bytes().filter(|byte| (first..=last).contains(byte)).count())
    };
    let (two, three, four) = (leads(0xc0, 0xdf), leads(0xe0, 0xef), leads(0xf0, 0xff));
    let ascii = bytes.saturating_sub(two * 2 + three * 3 + four * 4);
    (ascii * 2).div_ceil(7) + two.div_ceil(2) + three + four
}

#[cfg(test)]
#[path = "quick_tests.rs"]
mod tests;
