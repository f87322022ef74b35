//! OpenAI's vocabularies as they are stored in the program: compressed lists of merges.
//!
//! Byte-pair encoding makes every token of two earlier tokens, so a token is stored as the ranks
//! of its two parts, which takes less room than its bytes. The file is raw deflate over
//!
//! 1. the 256 tokens of one byte, in the order of their ranks;
//! 2. six planes, each with one byte per remaining token, in the order of their ranks: the low,
//!    middle and high byte of the left part's rank, then the same of the right part's. Bytes of
//!    one kind side by side compress best.
//!
//! `merges_tests.rs` writes the files and compares them with tiktoken-rs' own vocabularies.

use std::{io::Read as _, ops::Range};

use flate2::read::DeflateDecoder;

pub(super) const O200K: &[u8] =
    include_bytes!("../../assets/vocabularies/o200k_base.merges.deflate");
pub(super) const CL100K: &[u8] =
    include_bytes!("../../assets/vocabularies/cl100k_base.merges.deflate");

/// The number of tokens that are a single byte.
const SINGLE: usize = 256;
/// Three bytes for the rank of each part.
const PLANES: usize = 6;

/// All tokens, in the order of their ranks: one buffer, since there are 200,000 of them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TokenTable {
    bytes: Vec<u8>,
    /// Where each token begins, followed by the end of the last one.
    starts: Vec<usize>,
}

impl TokenTable {
    /// `None` when the data is damaged.
    pub(super) fn unpack(packed: &[u8]) -> Option<Self> {
        let mut data = Vec::with_capacity(packed.len() * 2);
        DeflateDecoder::new(packed).read_to_end(&mut data).ok()?;
        let (single, planes) = data.split_at_checked(SINGLE)?;
        let merges = planes.len() / PLANES;
        let byte = |plane: usize, merge: usize| planes.get(plane * merges + merge).copied();
        let rank = |low: usize, merge: usize| {
            let bytes = [byte(low, merge)?, byte(low + 1, merge)?, byte(low + 2, merge)?, 0];
            usize::try_from(u32::from_le_bytes(bytes)).ok()
        };

        let mut tokens = Self { bytes: single.to_vec(), starts: (0..=SINGLE).collect() };
        tokens.starts.reserve_exact(merges);
        for merge in 0..merges {
            for part in [rank(0, merge)?, rank(3, merge)?] {
                let range = tokens.range(part)?;
                tokens.bytes.extend_from_within(range);
            }
            tokens.starts.push(tokens.bytes.len());
        }
        Some(tokens)
    }

    /// Of known length, so that a map of them is allocated once.
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.starts.array_windows().map(|[start, end]| self.bytes.get(*start..*end).unwrap_or(&[]))
    }

    fn range(&self, rank: usize) -> Option<Range<usize>> {
        Some(*self.starts.get(rank)?..*self.starts.get(rank + 1)?)
    }
}

#[cfg(test)]
#[path = "merges_tests.rs"]
mod tests;
