//! A text in pieces that can be counted one by one.
//!
//! A tokenizer first cuts a text into words by a pattern, and then each word into tokens.
//! A text may be taken apart wherever that pattern ends a word anyway, whatever stands
//! around it: the counts of the pieces then add up to the count of the whole.

/// About how much is counted at once.
pub(super) const PIECE: usize = 8 << 10;

/// A run without a border is cut here all the same: what it costs to count grows faster
/// than its length. Nothing that people write has such runs.
pub(super) const LONGEST_RUN: usize = 256 << 10;

/// The pieces of a text, in order.
pub(super) struct TextPieces<'a> {
    rest: &'a str,
    /// Every cut so far was at a border.
    clean: bool,
}

impl<'a> TextPieces<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { rest: text, clean: true }
    }

    pub(super) fn is_clean(&self) -> bool {
        self.clean
    }
}

impl<'a> Iterator for TextPieces<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        if self.rest.is_empty() {
            return None;
        }
        let from = super::floor_boundary(self.rest, PIECE);
        let longest = super::floor_boundary(self.rest, LONGEST_RUN);
        let end = match border(self.rest, from, longest) {
            Some(end) => end,
            None => {
                self.clean &= longest == self.rest.len();
                longest
            }
        };
        let (piece, rest) = self.rest.split_at_checked(end)?;
        self.rest = rest;
        Some(piece)
    }
}

/// The first place from `from` on, and before `end`, at which every pattern ends a word.
fn border(text: &str, from: usize, end: usize) -> Option<usize> {
    let mut before = text.get(..from)?.chars().next_back()?;
    for (at, after) in text.get(from..end)?.char_indices() {
        if ends_word(before, after) {
            return Some(from + at);
        }
        before = after;
    }
    None
}

/// Whether a word always ends between these two. The patterns of `o200k_base` and
/// `cl100k_base` know four sorts of words: letters with at most one sign or space in front,
/// up to three digits, signs with a space in front and line breaks (or slashes) behind, and
/// white space. So
///
/// - a space or tab that follows something else only ever begins a word, and
/// - after a line break a word continues with white space or a slash, or not at all.
///
/// What the piece in front looks like at its end does not depend on what follows it: it ends
/// in no white space, or in white space up to a line break, which is one word either way.
fn ends_word(before: char, after: char) -> bool {
    match (before, after) {
        (before, ' ' | '\t') => !before.is_whitespace(),
        ('\n', after) => !after.is_whitespace() && after != '/',
        _ => false,
    }
}

#[cfg(test)]
#[path = "pieces_tests.rs"]
mod tests;
