//! What is left to count when the backend does not say how many tokens a leg took.

use super::Turn;
use crate::{answer::Produced, model::Usage, tokens::Sample};

/// The texts of a leg whose usage nobody reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uncounted {
    /// Tokens of the prompt that are counted already.
    pub before: u64,
    pub prompt: Vec<String>,
    pub images: usize,
    pub answer: String,
    pub thoughts: String,
    /// The output, where only that was counted.
    pub output: Option<u64>,
}

impl Turn {
    /// Tells the turn what its client was told about the leg that ends, so that the next one
    /// only counts what is new.
    pub fn note_usage(&mut self, usage: &Usage) {
        self.counted = Some(usage.total());
        self.answer.note_output(usage.output, usage.reasoning);
        // A parked turn need not keep what nobody will ask for.
        self.new_texts = Vec::new();
        self.answer.forget_produced();
    }

    /// What to count when the backend did not: the leg that just ended.
    #[must_use]
    pub fn uncounted(&mut self) -> Uncounted {
        let Produced { answer, thoughts, output } = self.answer.produced();
        let (prompt, images) = match self.counted {
            None => self.spec.prompt_texts(),
            Some(_) => (std::mem::take(&mut self.new_texts), 0),
        };
        let before = self.counted.unwrap_or(0);
        Uncounted { before, prompt, images, answer, thoughts, output }
    }

    /// What the leg that ends teaches about the tokens of its model, if anything: a text that
    /// is all of what the backend counted. Ask before [`Self::note_usage`].
    #[must_use]
    pub fn sample(&self, usage: &Usage) -> Option<Sample> {
        self.answer.sample(usage)
    }
}
