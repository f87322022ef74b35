//! Changes as one patch, for clients whose edit tool takes a patch rather than a path and
//! strings.

use serde_json::{Map, Value, json};

use super::{
    intent::Intent,
    tool_fit::{ToolPurpose, fit},
};
use crate::prompt::{HistoryMessage, OfferedTool};

/// Names of the argument that takes the patch.
const PATCH_NAMES: &[&str] = &["input", "patch", "patchText", "diff"];

/// The offered tool with the patch for an intent. `None` without such a tool, or when the lines
/// to change were never shown.
pub(crate) fn call<'a>(
    tools: &'a [OfferedTool],
    intent: &Intent,
    seen: &[HistoryMessage],
) -> Option<(&'a OfferedTool, Map<String, Value>)> {
    let tool = ToolPurpose::Patch.find(tools)?;
    let patch = write(intent, seen)?;
    Some((tool, fit(&tool.schema, &[(PATCH_NAMES, json!(patch))])))
}

fn write(intent: &Intent, seen: &[HistoryMessage]) -> Option<String> {
    let body = match intent {
        Intent::Write { path, text } => {
            let lines: String = text.lines().map(|line| format!("+{line}\n")).collect();
            format!("*** Add File: {path}\n{lines}")
        }
        Intent::Edit { path, old, new } => {
            let lines = lines_with(old, seen);
            let change = |line: &&str| format!("@@\n-{line}\n+{}\n", line.replace(old, new));
            let hunks: String = lines.iter().map(change).collect();
            (!hunks.is_empty()).then(|| format!("*** Update File: {path}\n{hunks}"))?
        }
        _ => return None,
    };
    Some(format!("*** Begin Patch\n{body}*** End Patch"))
}

/// The lines that contain a text, from the newest result that has any.
fn lines_with<'a>(text: &str, seen: &'a [HistoryMessage]) -> Vec<&'a str> {
    seen.iter()
        .rev()
        .map(|said| said.result().lines().filter(|line| line.contains(text)).map(bare).collect())
        .find(|lines: &Vec<_>| !lines.is_empty())
        .unwrap_or_default()
}

/// A line without the line number that many file readers put in front of it.
fn bare(line: &str) -> &str {
    let digits = line.trim_start();
    let rest = digits.trim_start_matches(|c: char| c.is_ascii_digit());
    if rest.len() == digits.len() {
        return line;
    }
    let marks = ["\t", "→", "| ", ": ", "|"];
    marks.iter().find_map(|mark| rest.strip_prefix(mark)).unwrap_or(line)
}

#[cfg(test)]
#[path = "patch_tool_tests.rs"]
mod tests;
