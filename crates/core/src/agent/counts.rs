//! The backend's counters of one run, and which of its tokens belong to which leg.
//!
//! While a run goes on, the backend tells tokens of output as they come (`token_delta`) and
//! the size of the context with each checkpoint. Once, at its end, it tells the numbers of
//! the whole run. Each leg reports what is its own, so that the outputs of a run's legs add
//! up to the run's; the prompt is the one that the model read last, cached part included.

use ibeam_proto::agent::{ConversationTokenDetails, TurnEndedUpdate};

use crate::model::{Usage, UsageSource};

#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Output that earlier legs of this run were told.
    earlier: u64,
    /// Output of this leg, as the backend told it bit by bit.
    output: u64,
    context: Option<Context>,
    ended: Option<TurnEndedUpdate>,
}

/// The size of the context at some time in this leg.
#[derive(Clone, Copy, Debug)]
struct Context {
    used: u64,
    /// How much of it this leg had said.
    output: u64,
}

impl Counts {
    pub(super) fn output_tokens(&mut self, tokens: i32) {
        self.output += u64::try_from(tokens).unwrap_or(0);
    }

    pub(super) fn context_tokens(&mut self, details: ConversationTokenDetails) {
        self.context = Some(Context { used: details.used_tokens.into(), output: self.output });
    }

    pub(super) fn turn_ended(&mut self, usage: TurnEndedUpdate) {
        self.ended = Some(usage);
    }

    /// A leg of this run was told to be so many tokens of output.
    pub(super) fn note_told(&mut self, output: u64) {
        self.earlier = self.earlier.saturating_add(output);
    }

    /// The counters with which the next leg begins. An old context is no use to it: that
    /// knows nothing of the results.
    pub(super) fn next_leg(&self) -> Self {
        Self { earlier: self.earlier, ..Self::default() }
    }

    /// The output of this leg so far, if the backend counts it.
    pub(super) fn output(&self) -> Option<u64> {
        (self.output > 0).then_some(self.output)
    }

    /// The tokens of this leg: by the numbers of the run when it has ended, else by the
    /// running counters.
    pub(super) fn usage(&self) -> Option<Usage> {
        match &self.ended {
            Some(ended) if ended.input_tokens.is_some() || ended.output_tokens.is_some() => {
                Some(self.of_run(ended))
            }
            _ => self.so_far(),
        }
    }

    fn of_run(&self, ended: &TurnEndedUpdate) -> Usage {
        let output = ended.output_tokens.map_or(self.output, |total| self.own_part(total));
        let cache_read = ended.cache_read_tokens.unwrap_or(0);
        let cache_write = ended.cache_write_tokens.unwrap_or(0);
        let cached = cache_read.saturating_add(cache_write);
        let input = ended.input_tokens.or(self.prompt()).unwrap_or(0);
        Usage {
            // The cached part is in the prompt. Where it cannot be, it was left out.
            input: if cached > input { input.saturating_add(cached) } else { input },
            output,
            cache_read,
            cache_write,
            // Those of earlier legs as well, which were told none.
            reasoning: ended.reasoning_tokens.unwrap_or(0).min(output),
            source: UsageSource::Backend,
        }
    }

    /// This leg's part of the run's output. Less than the legs had together is what a backend
    /// tells that only counts since the last results.
    fn own_part(&self, total: u64) -> u64 {
        if total >= self.earlier.saturating_add(self.output) { total - self.earlier } else { total }
    }

    fn so_far(&self) -> Option<Usage> {
        let (input, output) = (self.prompt()?, self.output()?);
        let source = UsageSource::BackendPartial;
        Some(Usage { input, output, source, ..Usage::default() })
    }

    /// The context without what this leg said.
    fn prompt(&self) -> Option<u64> {
        self.context.map(|context| context.used.saturating_sub(context.output))
    }
}

#[cfg(test)]
#[path = "counts_tests.rs"]
mod tests;
