//! The tokens of a run, in the words of either protocol.

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::model::{Usage, UsageSource};

/// Cursor's own names, and those of ACP. A count of a wrong type is ignored.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ReportedTokens {
    #[serde(deserialize_with = "lenient")]
    input_tokens: Option<u64>,
    #[serde(deserialize_with = "lenient")]
    output_tokens: Option<u64>,
    #[serde(alias = "cachedReadTokens", deserialize_with = "lenient")]
    cache_read_tokens: Option<u64>,
    #[serde(alias = "cachedWriteTokens", deserialize_with = "lenient")]
    cache_write_tokens: Option<u64>,
    #[serde(alias = "thoughtTokens", deserialize_with = "lenient")]
    reasoning_tokens: Option<u64>,
}

impl ReportedTokens {
    /// None where neither prompt nor answer was counted.
    pub(crate) fn usage(self) -> Option<Usage> {
        if self.input_tokens.is_none() && self.output_tokens.is_none() {
            return None;
        }
        let input = self.input_tokens.unwrap_or(0);
        let output = self.output_tokens.unwrap_or(0);
        let cache_read = self.cache_read_tokens.unwrap_or(0);
        let cache_write = self.cache_write_tokens.unwrap_or(0);
        let cached = cache_read.saturating_add(cache_write);
        Some(Usage {
            // The cached part is in the prompt. Where it cannot be, it was left out.
            input: if cached > input { input.saturating_add(cached) } else { input },
            output,
            cache_read,
            cache_write,
            reasoning: self.reasoning_tokens.unwrap_or(0).min(output),
            source: UsageSource::Backend,
        })
    }
}

fn lenient<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let raw = <&'de RawValue>::deserialize(deserializer)?;
    Ok(serde_json::from_str(raw.get()).ok())
}
