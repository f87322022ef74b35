//! How hard the model should think, and how much of it the client wants to see.

use serde_json::Number;

use super::types::{OutputConfig, ThinkingConfig};
use crate::{
    error::TurnError,
    model::Effort,
    wire::{
        json::{effort, invalid},
        lenient::Object,
    },
};

/// How the model's thoughts appear in the reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Thinking {
    /// The client did not ask for them, and may take the first block for the answer.
    #[default]
    Off,
    Shown,
    /// Blocks without their text.
    Omitted,
}

/// A budget is tokens and an effort is a word. The smallest that is not below the budget
/// counts; clients' own words for theirs were the measure: 1,024 is what they call minimal,
/// 4,096 low, 8,192 or 10,000 medium, 16,000 to 31,999 high.
const BUDGETS: [(u64, Effort); 5] = [
    (2_047, Effort::Minimal),
    (8_191, Effort::Low),
    (15_000, Effort::Medium),
    (32_000, Effort::High),
    (63_999, Effort::Xhigh),
];

pub(super) fn decode(
    given: Option<&Object<ThinkingConfig>>,
    config: Option<&Object<OutputConfig>>,
) -> Result<(Thinking, Option<Effort>), TurnError> {
    let word = config.and_then(|Object(config)| config.effort.as_deref());
    let named = effort(word, "output_config.effort")?;
    let Some(Object(given)) = given else { return Ok((Thinking::Off, named)) };
    let shown = match given.display.as_deref() {
        Some("omitted") => Thinking::Omitted,
        _ => Thinking::Shown,
    };
    match given.r#type.as_deref() {
        Some("disabled") => Ok((Thinking::Off, Some(Effort::None))),
        Some("adaptive" | "between_tools") => Ok((shown, named)),
        // An effort beside a budget wins.
        Some("enabled") => Ok((shown, named.or_else(|| by_budget(given.budget_tokens.as_ref())))),
        _ => Err(invalid("thinking.type", "`thinking.type` must be enabled, adaptive or disabled")),
    }
}

/// `None` for a budget that is not positive: some clients write -1 when they have no limit to
/// divide.
fn by_budget(tokens: Option<&Number>) -> Option<Effort> {
    let tokens = tokens?.as_u64().filter(|tokens| *tokens > 0)?;
    let fits = BUDGETS.iter().find(|(most, _)| tokens <= *most);
    Some(fits.map_or(Effort::Max, |(_, effort)| *effort))
}
