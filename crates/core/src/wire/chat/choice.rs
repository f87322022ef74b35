//! `tool_choice`: a word, a named function, or a selection of the tools.

use std::collections::HashSet;

use super::types::{AllowedTools, ChatToolChoice, NamedFunction};
use crate::{
    error::TurnError,
    model::{Tool, ToolChoice},
    wire::{
        json::{invalid, unsupported},
        lenient::{Object, WordOr},
        tool_choice::{by_mode, by_word},
    },
};

/// Decodes the choice. A selection leaves only the selected tools in `tools`.
pub(super) fn decode(
    given: Option<WordOr<ChatToolChoice>>,
    tools: &mut Vec<Tool>,
) -> Result<ToolChoice, TurnError> {
    let choice = match given {
        None => ToolChoice::Auto,
        Some(WordOr::Word(word)) => by_word(&word, "tool_choice")?,
        Some(WordOr::Object(given)) => match given.r#type.as_deref() {
            None | Some("function" | "custom") => {
                let name = named(given.function.or(given.custom), "tool_choice")?;
                ToolChoice::Named(name)
            }
            Some("allowed_tools") => {
                let Some(Object(allowed)) = given.allowed_tools else {
                    return Err(invalid(
                        "tool_choice.allowed_tools",
                        "`allowed_tools` needs a `mode` and `tools`",
                    ));
                };
                select(allowed, tools)?
            }
            Some("any") => ToolChoice::Required,
            Some(word @ ("auto" | "none" | "required")) => by_word(word, "tool_choice.type")?,
            Some(_) => {
                return Err(unsupported(
                    "tool_choice.type",
                    "this kind of `tool_choice` is not supported; name a function",
                ));
            }
        },
    };
    match &choice {
        ToolChoice::Required if tools.is_empty() => {
            Err(invalid("tool_choice", "`tool_choice` requires a tool, but `tools` is empty"))
        }
        ToolChoice::Named(name) if !has(tools, name) => Err(invalid(
            "tool_choice.function.name",
            "`tool_choice` names a function that `tools` does not have",
        )),
        ToolChoice::Auto | ToolChoice::None | ToolChoice::Required | ToolChoice::Named(_) => {
            Ok(choice)
        }
    }
}

fn named(function: Option<Object<NamedFunction>>, path: &str) -> Result<String, TurnError> {
    match function.and_then(|Object(function)| function.name) {
        Some(name) if !name.is_empty() => Ok(name),
        _ => Err(invalid(
            format!("{path}.function.name"),
            "`tool_choice` needs the name of a function",
        )),
    }
}

fn select(allowed: AllowedTools, tools: &mut Vec<Tool>) -> Result<ToolChoice, TurnError> {
    const PATH: &str = "tool_choice.allowed_tools";
    let choice = by_mode(allowed.mode.as_deref(), "tool_choice.allowed_tools.mode")?;
    // Sets, because a body has room for a million names, and each is looked for.
    let offered: HashSet<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    let mut selected = HashSet::new();
    for (index, Object(tool)) in allowed.tools.into_iter().flatten().enumerate() {
        let path = format!("{PATH}.tools[{index}]");
        let name = named(tool.function.or(tool.custom), &path)?;
        if !offered.contains(name.as_str()) {
            return Err(invalid(
                format!("{path}.function.name"),
                "`allowed_tools` names a function that `tools` does not have",
            ));
        }
        selected.insert(name);
    }
    tools.retain(|tool| selected.contains(&tool.name));
    Ok(choice)
}

fn has(tools: &[Tool], name: &str) -> bool {
    tools.iter().any(|tool| tool.name == name)
}

#[cfg(test)]
#[path = "choice_tests.rs"]
mod tests;
