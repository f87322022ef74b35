//! What is left to count when the backend does not say how many tokens a leg took.

use super::Turn;

/// The texts of a leg whose usage nobody reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uncounted {
    /// Tokens of the prompt that are counted already.
    pub before: u64,
    pub prompt: Vec<String>,
    pub images: usize,
    pub answer: String,
    /// The output, where only that was counted.
    pub output: Option<u64>,
}

impl Turn {
    /// Tells the turn how many tokens its answer so far was counted at, prompt included,
    /// so that the next estimate only counts what is new.
    pub fn note_usage(&mut self, total: u64) {
        self.counted = Some(total);
        // A parked turn need not keep what nobody will ask for.
        self.new_texts = Vec::new();
        self.answer.forget_produced();
    }

    /// What to count when the backend did not: the leg that just ended.
    #[must_use]
    pub fn uncounted(&mut self) -> Uncounted {
        let (answer, output) = self.answer.produced();
        let (prompt, images) = match self.counted {
            None => self.spec.prompt_texts(),
            Some(_) => (std::mem::take(&mut self.new_texts), 0),
        };
        Uncounted { before: self.counted.unwrap_or(0), prompt, images, answer, output }
    }
}
