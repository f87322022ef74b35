//! What `tool_choice` has in common in OpenAI's two dialects.

use super::json::invalid;
use crate::{error::TurnError, model::ToolChoice};

pub(in crate::wire) fn by_word(word: &str, param: &'static str) -> Result<ToolChoice, TurnError> {
    let text = "unknown `tool_choice`; use none, auto, required or a named tool";
    match word {
        "auto" => Ok(ToolChoice::Auto),
        "none" => Ok(ToolChoice::None),
        "required" => Ok(ToolChoice::Required),
        _ => Err(invalid(param, text)),
    }
}

/// The mode of `allowed_tools`; `param` names its field.
pub(in crate::wire) fn by_mode(
    mode: Option<&str>,
    param: &'static str,
) -> Result<ToolChoice, TurnError> {
    match mode {
        None | Some("auto") => Ok(ToolChoice::Auto),
        Some("required") => Ok(ToolChoice::Required),
        Some(_) => Err(invalid(param, "the mode of `allowed_tools` must be auto or required")),
    }
}
