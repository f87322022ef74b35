//! `tool_choice`: a word, a named tool, or a selection of the tools.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::tools::{Catalogue, CatalogueEntry};
use crate::{
    error::TurnError,
    model::{Tool, ToolChoice},
    wire::{
        json::{invalid, parse_at, required, unsupported},
        lenient::{Object, WordOr},
        tool_choice::{by_mode, by_word},
    },
};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ResponsesToolChoice {
    r#type: Option<String>,
    name: Option<String>,
    namespace: Option<String>,
    mode: Option<String>,
    tools: Option<Vec<Object<Allowed>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Allowed {
    r#type: Option<String>,
    name: Option<String>,
    namespace: Option<String>,
}

/// Understands the choice. A selection (`allowed_tools`) leaves only its tools in `tools`:
/// the backend sees nothing else.
pub(super) fn decode(
    given: Option<&RawValue>,
    catalogue: &Catalogue,
    tools: &mut Vec<Tool>,
) -> Result<ToolChoice, TurnError> {
    let Some(given) = given else { return Ok(ToolChoice::Auto) };
    let choice = match parse_at::<WordOr<ResponsesToolChoice>>(given, "tool_choice")? {
        WordOr::Word(word) => by_word(&word, "tool_choice")?,
        WordOr::Object(choice) => match choice.r#type.as_deref() {
            None | Some("function" | "custom") => {
                let name = (choice.namespace.as_deref(), choice.name.as_deref());
                ToolChoice::Named(find(catalogue, name, "tool_choice")?.offered.clone())
            }
            Some("allowed_tools") => select(&choice, catalogue, tools)?,
            Some(word @ ("auto" | "none" | "required")) => by_word(word, "tool_choice.type")?,
            Some(_) => {
                return Err(unsupported(
                    "tool_choice.type",
                    "this kind of `tool_choice` is not supported; name a function or a custom tool",
                ));
            }
        },
    };
    if choice == ToolChoice::Required && tools.is_empty() {
        return Err(invalid(
            "tool_choice",
            "`tool_choice` requires a tool, but `tools` has none that can be called",
        ));
    }
    Ok(choice)
}

fn find<'a>(
    catalogue: &'a Catalogue,
    (namespace, name): (Option<&str>, Option<&str>),
    path: &str,
) -> Result<&'a CatalogueEntry, TurnError> {
    let name = required(name, path, "name", "`tool_choice` needs the name of a tool")?;
    catalogue.named(namespace, name).ok_or_else(|| {
        invalid(format!("{path}.name"), "`tool_choice` names a tool that `tools` does not have")
    })
}

fn select(
    choice: &ResponsesToolChoice,
    catalogue: &Catalogue,
    tools: &mut Vec<Tool>,
) -> Result<ToolChoice, TurnError> {
    let mode = by_mode(choice.mode.as_deref(), "tool_choice.mode")?;
    let mut selected = HashSet::new();
    for (index, Object(tool)) in choice.tools.iter().flatten().enumerate() {
        // A tool that was not offered cannot be selected either.
        if matches!(tool.r#type.as_deref(), None | Some("function" | "custom")) {
            let path = format!("tool_choice.tools[{index}]");
            let name = (tool.namespace.as_deref(), tool.name.as_deref());
            selected.insert(find(catalogue, name, &path)?.offered.as_str());
        }
    }
    tools.retain(|tool| selected.contains(tool.name.as_str()));
    Ok(mode)
}

#[cfg(test)]
#[path = "choice_tests.rs"]
mod tests;
