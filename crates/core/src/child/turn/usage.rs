//! What is left to count when the child does not say how many tokens a leg took.

use super::Turn;
use crate::{agent::Uncounted, answer::Produced, model::Usage, tokens::Sample};

impl Turn {
    /// Tells the turn what its client was told about the leg that ends, so that the next one
    /// only counts what is new.
    pub fn note_usage(&mut self, usage: &Usage) {
        self.counted = Some(usage.total());
        self.answer.note_output(usage.output, usage.reasoning);
        // A parked turn need not keep what nobody will ask for.
        self.new_texts = Vec::new();
        self.answer.forget_produced();
        if self.awaiting {
            self.request = None;
        }
    }

    /// What to count when the child did not: the leg that just ended.
    #[must_use]
    pub fn uncounted(&mut self) -> Uncounted {
        let Produced { answer, thoughts, output } = self.answer.produced();
        let (prompt, images) = match (self.counted, &self.request) {
            (None, Some(request)) => {
                (request.texts().map(str::to_owned).collect(), request.images())
            }
            (None, None) | (Some(_), _) => (std::mem::take(&mut self.new_texts), 0),
        };
        let before = self.counted.unwrap_or(0);
        Uncounted { before, prompt, images, answer, thoughts, output }
    }

    /// What the leg that ends teaches about the tokens of its model, if anything. Ask before
    /// [`Self::note_usage`].
    #[must_use]
    pub fn sample(&self, usage: &Usage) -> Option<Sample> {
        self.answer.sample(usage)
    }
}
