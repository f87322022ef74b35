//! OpenAI's vocabularies, each loaded when it is first needed.

use super::{Count, INPUT_CAP, TextPieces, as_u64, floor_boundary, scale};

/// One of OpenAI's tokenizers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Vocabulary {
    /// The vocabulary of OpenAI's models since GPT-4o, with which other families are measured, too.
    #[default]
    O200k,
    /// Of GPT-4 and GPT-3.5.
    Cl100k,
}

impl Vocabulary {
    /// The vocabulary of an OpenAI model.
    #[must_use]
    pub(super) fn of(model: &str) -> Self {
        let older = ["gpt-4", "gpt-3.5", "gpt-35"].iter().any(|name| {
            model.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        });
        if older { Self::Cl100k } else { Self::O200k }
    }

    /// How many tokens the text is. Special tokens count as the text they are written with.
    #[must_use]
    pub fn count(self, text: &str) -> Count {
        self.count_while(text, || true).unwrap_or(Count::NONE)
    }

    /// The same, asking before each piece whether the count is still wanted. `None`: it is
    /// not.
    pub fn count_while(self, text: &str, mut wanted: impl FnMut() -> bool) -> Option<Count> {
        let (head, _) =
            text.split_at_checked(floor_boundary(text, INPUT_CAP)).unwrap_or((text, ""));
        let mut pieces = TextPieces::new(head);
        let mut tokens = 0;
        let mut exact = true;
        for piece in &mut pieces {
            if !wanted() {
                return None;
            }
            let counted = self.piece(piece);
            tokens += counted.tokens;
            exact &= counted.exact;
        }
        if head.len() < text.len() {
            tokens = scale(tokens, as_u64(text.len()), as_u64(head.len()));
            exact = false;
        }
        Some(Count { tokens, exact: exact && pieces.is_clean() })
    }
}

#[cfg(feature = "tokens")]
mod real {
    use std::sync::OnceLock;

    use tiktoken_rs::CoreBPE;

    use super::{Count, Vocabulary, as_u64, floor_boundary};
    use crate::tokens::merges::{self, TokenTable};

    /// Empty until it is loaded; `None` if it could not be loaded.
    type Slot = OnceLock<Option<CoreBPE>>;

    /// How `cl100k_base` splits text into words; tiktoken-rs exports only the other pattern.
    const CL100K_PATTERN: &str = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s";

    static O200K: Slot = OnceLock::new();
    static CL100K: Slot = OnceLock::new();

    impl Vocabulary {
        /// Whether a count is quick.
        #[must_use]
        pub fn is_loaded(self) -> bool {
            self.slot().get().is_some()
        }

        pub(super) fn piece(self, piece: &str) -> Count {
            match self.get() {
                Some(bpe) => {
                    Count { tokens: as_u64(bpe.encode_ordinary(piece).len()), exact: true }
                }
                None => Count::guess(super::rough(piece)),
            }
        }

        pub(in crate::tokens) fn measure(self, text: &str, most: u64) -> (u64, usize) {
            let Some(bpe) = self.get() else { return super::measure_rough(text, most) };
            let tokens = bpe.encode_ordinary(text);
            let first = usize::try_from(most).unwrap_or(usize::MAX).min(tokens.len());
            let first = tokens.get(..first).unwrap_or_default();
            let bytes = bpe.decode_bytes(first).map_or(text.len(), |bytes| bytes.len());
            (as_u64(tokens.len()), floor_boundary(text, bytes))
        }

        fn get(self) -> Option<&'static CoreBPE> {
            self.slot().get_or_init(|| self.load()).as_ref()
        }

        /// From our own copy of the vocabulary: a reference to `tiktoken_rs::o200k_base` or
        /// `tiktoken_rs::cl100k_base` would link tiktoken-rs' copy too, which is five times as large.
        pub(super) fn load(self) -> Option<CoreBPE> {
            let (packed, pattern) = match self {
                Self::O200k => (merges::O200K, tiktoken_rs::O200K_BASE_PAT_STR),
                Self::Cl100k => (merges::CL100K, CL100K_PATTERN),
            };
            let tokens = TokenTable::unpack(packed)?;
            let ranks = tokens.iter().map(<[u8]>::to_vec).zip(0..).collect();
            // Special tokens are counted as text, so none are needed.
            let special = [].into_iter().collect();
            CoreBPE::new(ranks, special, pattern).ok()
        }

        fn slot(self) -> &'static Slot {
            match self {
                Self::O200k => &O200K,
                Self::Cl100k => &CL100K,
            }
        }
    }
}

#[cfg(not(feature = "tokens"))]
impl Vocabulary {
    /// Whether a count is quick.
    #[must_use]
    pub fn is_loaded(self) -> bool {
        true
    }

    fn piece(self, piece: &str) -> Count {
        Count::guess(rough(piece))
    }

    pub(super) fn measure(self, text: &str, most: u64) -> (u64, usize) {
        measure_rough(text, most)
    }
}

/// The rule of thumb: four characters a token.
fn rough(piece: &str) -> u64 {
    as_u64(piece.chars().count()).div_ceil(4)
}

fn measure_rough(text: &str, most: u64) -> (u64, usize) {
    let most = usize::try_from(most).unwrap_or(usize::MAX).saturating_mul(4);
    let end = text.char_indices().nth(most).map_or(text.len(), |(at, _)| at);
    (rough(text), end)
}

#[cfg(test)]
#[path = "vocabulary_tests.rs"]
mod tests;
