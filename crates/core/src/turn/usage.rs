//! What remains to be counted when the backend does not report the tokens of a leg.

use super::{TapeEntry, Turn, TurnState, view};
use crate::{answer::Produced, model::Usage, peer::Peer, tokens::Sample};

/// What was counted of the turn's prompt.
#[derive(Debug, Default)]
pub(super) struct Counted {
    /// Tokens of the legs before.
    before: Option<u64>,
    /// What the present leg adds to them.
    pub(super) new_texts: Vec<String>,
}

/// The texts of a leg whose usage the backend did not report.
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

impl<P: Peer> Turn<P> {
    /// Notes the tokens that were reported for the leg that ends, so that the next one counts only
    /// what is new.
    pub fn note_usage(&mut self, usage: &Usage) {
        if let Some(tape) = &mut self.tape {
            tape.note(TapeEntry::UsageNoted(*usage));
        }
        self.counted = Counted { before: Some(usage.total()), new_texts: Vec::new() };
        self.answer.note_output(usage.output, usage.reasoning);
        // A parked turn keeps only what the next leg needs.
        self.answer.forget_produced();
        if self.state == TurnState::AwaitingTools {
            self.request = None;
        }
    }

    /// What to count of the leg that just ended, if the backend did not report it.
    #[must_use]
    pub fn uncounted(&mut self) -> Uncounted {
        let Produced { answer, thoughts, output } = self.answer.produced();
        let view = view(self.state, &self.answer, &self.calls, self.request.as_deref());
        let whole = match self.counted.before {
            None => self.peer.prompt_texts(&view),
            Some(_) => None,
        };
        let (prompt, images) =
            whole.unwrap_or_else(|| (std::mem::take(&mut self.counted.new_texts), 0));
        let before = self.counted.before.unwrap_or(0);
        Uncounted { before, prompt, images, answer, thoughts, output }
    }

    /// A sample of how the model counts tokens, if the leg that ends is one: its text is all that
    /// the backend counted. Must be called before [`Self::note_usage`].
    #[must_use]
    pub fn sample(&self, usage: &Usage) -> Option<Sample> {
        self.answer.sample(usage)
    }
}
