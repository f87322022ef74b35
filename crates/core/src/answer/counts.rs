//! The backend's counters of one run, and which of its tokens belong to which leg.
//!
//! During a run, the backend reports tokens of output as they come (`token_delta`) and
//! the size of the context with each checkpoint. At its end, it reports the numbers of
//! the whole run. Each leg reports what is its own, so that the outputs of a run's legs add
//! up to the run's; the prompt is the one that the model read last, cached part included.

use crate::{
    model::{Usage, UsageSource},
    peer::RunTokens,
};

#[derive(Debug, Default)]
pub(crate) struct TokenCounts {
    /// Output that was reported for earlier legs of this run, and how much of it was reasoning.
    earlier: u64,
    earlier_reasoning: u64,
    /// This is not the first leg of the run.
    later: bool,
    /// Output of this leg, as the backend reported it bit by bit.
    output: u64,
    context: Option<Context>,
    ended: Option<RunTokens>,
}

/// The size of the context at some time in this leg.
#[derive(Clone, Copy, Debug)]
struct Context {
    used: u64,
    /// How much of it this leg had said.
    output: u64,
}

impl TokenCounts {
    pub(crate) fn output_tokens(&mut self, tokens: i32) {
        self.output += u64::try_from(tokens).unwrap_or(0);
    }

    pub(crate) fn context_tokens(&mut self, used: u64) {
        self.context = Some(Context { used, output: self.output });
    }

    pub(crate) fn run_ended(&mut self, totals: RunTokens) {
        self.ended = Some(totals);
    }

    /// So many tokens of output were reported for a leg of this run.
    pub(crate) fn note_reported(&mut self, output: u64, reasoning: u64) {
        self.earlier = self.earlier.saturating_add(output);
        self.earlier_reasoning = self.earlier_reasoning.saturating_add(reasoning);
    }

    /// The counters with which the next leg begins. An old context does not help: it
    /// knows nothing of the results.
    pub(crate) fn next_leg(&self) -> Self {
        let Self { earlier, earlier_reasoning, .. } = *self;
        Self { earlier, earlier_reasoning, later: true, ..Self::default() }
    }

    /// The output of this leg so far, if the backend counts it.
    pub(crate) fn output(&self) -> Option<u64> {
        (self.output > 0).then_some(self.output)
    }

    /// The tokens of this leg: by the numbers of the run when it has ended, else by the
    /// running counters. Of the `bytes` that the leg said, so many were `thoughts`.
    pub(crate) fn usage(&self, thoughts: usize, bytes: usize) -> Option<Usage> {
        match &self.ended {
            Some(ended) if ended.input.is_some() || ended.output.is_some() => {
                Some(self.of_run(ended, thoughts, bytes))
            }
            _ => self.so_far(thoughts, bytes),
        }
    }

    fn of_run(&self, ended: &RunTokens, thoughts: usize, bytes: usize) -> Usage {
        let whole = ended.output.is_some_and(|total| self.is_of_all_legs(total));
        let before = |reported: u64| if whole { reported } else { 0 };
        let output = ended.output.map_or(self.output, |all| all - before(self.earlier));
        // Earlier legs may have been estimated too high. What was said is not nothing.
        let output = output.max(u64::from(bytes > 0));
        let reasoning = ended.reasoning.unwrap_or(0);
        let reasoning = match (self.later, thoughts) {
            // Those are of earlier legs.
            (true, 0) => 0,
            _ => reasoning.saturating_sub(before(self.earlier_reasoning)).min(output),
        };
        let cache_read = ended.cache_read.unwrap_or(0);
        let cache_write = ended.cache_write.unwrap_or(0);
        let cached = cache_read.saturating_add(cache_write);
        let input = ended.input.or(self.prompt()).unwrap_or(0);
        // The cached part is in the prompt. Where it cannot be, it was left out.
        let left_out = cached > input;
        let whole = Usage {
            input: if left_out { input.saturating_add(cached) } else { input },
            output,
            cache_read,
            cache_write,
            reasoning,
            source: UsageSource::Backend,
        };
        match self.context {
            // By a clear margin: the two numbers are not counted in the same way.
            Some(Context { used, .. }) if !left_out && input > used.saturating_add(used / 2) => {
                of_newest_step(whole, self.prompt())
            }
            Some(_) | None => whole,
        }
    }

    /// Whether the run's output is that of all its legs. Less than they had together is what
    /// a backend reports that only counts since the last results.
    fn is_of_all_legs(&self, total: u64) -> bool {
        total >= self.earlier.saturating_add(self.output)
    }

    fn so_far(&self, thoughts: usize, bytes: usize) -> Option<Usage> {
        let (input, output) = (self.prompt()?, self.output()?);
        let source = UsageSource::BackendPartial;
        // The backend counts both as one, so thoughts have their share by length.
        let share = u128::from(output) * thoughts as u128 / bytes.max(1) as u128;
        let reasoning = u64::try_from(share).unwrap_or(output).min(output);
        Some(Usage { input, output, reasoning, source, ..Usage::default() })
    }

    /// The context without what this leg said.
    fn prompt(&self) -> Option<u64> {
        self.context.map(|context| context.used.saturating_sub(context.output))
    }
}

/// The prompt of a run is much larger than its context: it is that of all steps together. Clients want to
/// know how full the context is, so they get the newest prompt, with the same share of it cached.
fn of_newest_step(whole: Usage, newest: Option<u64>) -> Usage {
    let Some(input) = newest else { return whole };
    let share = |part: u64| {
        let part = u128::from(part) * u128::from(input) / u128::from(whole.input.max(1));
        u64::try_from(part).unwrap_or(u64::MAX)
    };
    Usage {
        input,
        cache_read: share(whole.cache_read),
        cache_write: share(whole.cache_write),
        source: UsageSource::BackendPartial,
        ..whole
    }
}

#[cfg(test)]
#[path = "counts_tests.rs"]
mod tests;
