//! Token counts of one turn.

/// Where the numbers come from. Estimates are never passed off as the backend's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UsageSource {
    /// Reported by the backend at the end of the turn.
    Backend,
    /// Added up from the backend's running counters.
    BackendPartial,
    /// Counted here with a tokenizer.
    #[default]
    Estimate,
}

/// Tokens of one turn. `input` is the whole prompt and includes both cache fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    pub reasoning: u64,
    pub source: UsageSource,
}

impl Usage {
    #[must_use]
    pub fn total(&self) -> u64 {
        self.input.saturating_add(self.output)
    }

    /// Raises each number to at least that of a part of it.
    #[must_use]
    pub fn at_least(self, part: Self) -> Self {
        let output = self.output.max(part.output);
        Self {
            input: self.input.max(part.input),
            output,
            reasoning: self.reasoning.max(part.reasoning).min(output),
            source: if part.output > self.output { part.source } else { self.source },
            ..self
        }
    }

    /// Both together, as reliable as the less reliable one.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let source = match (self.source, other.source) {
            (UsageSource::Estimate, _) | (_, UsageSource::Estimate) => UsageSource::Estimate,
            (UsageSource::BackendPartial, _) | (_, UsageSource::BackendPartial) => {
                UsageSource::BackendPartial
            }
            (UsageSource::Backend, UsageSource::Backend) => UsageSource::Backend,
        };
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
            reasoning: self.reasoning.saturating_add(other.reasoning),
            source,
        }
    }
}
