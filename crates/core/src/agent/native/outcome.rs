//! What a client's result says before anything of it is understood: done, failed,
//! or refused by its user.

use bytes::Bytes;

use super::{
    shell,
    table::{ERRORS, REFUSALS},
};
use crate::model::{ImageSource, ToolContent, ToolResult};

/// A result, roughly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done(String),
    Failed(String),
    Refused(String),
}

/// A refusal or an error that nothing marks is short; a longer text is content.
const NOTICE: usize = 2_000;
const SHORT_NOTICE: usize = 300;

impl Outcome {
    /// For tools whose success is any text at all.
    pub(super) fn of(result: &ToolResult, through_shell: bool) -> Self {
        let text = result.text();
        if refused(&text, result.is_error) {
            return Self::Refused(text);
        }
        if through_shell {
            let output = shell::parse(&text, result.is_error);
            return match output.code {
                0 if !output.timed_out && !complains(&output.stdout) => Self::Done(output.stdout),
                _ => Self::Failed(output.whole()),
            };
        }
        let unfit =
            text.len() <= NOTICE && text.contains(" tool was called with invalid arguments");
        if result.is_error || unfit || begins(&text, ERRORS) {
            Self::Failed(text)
        } else {
            Self::Done(text)
        }
    }
}

/// Whether all that was printed is a complaint of one of our own commands. Some
/// clients give no exit code, and without one only this tells a failure.
fn complains(stdout: &str) -> bool {
    const PROGRAMS: [&str; 12] =
        ["cat", "sed", "ls", "find", "grep", "rg", "rm", "mkdir", "printf", "bash", "sh", "zsh"];
    let mut lines = stdout.lines().filter(|line| !line.trim().is_empty()).peekable();
    lines.peek().is_some()
        && lines.all(|line| {
            let program = line.split(':').next().unwrap_or_default();
            PROGRAMS.contains(&program.rsplit('/').next().unwrap_or_default())
                && line.contains(": ")
        })
}

/// Whether the client's user said no.
pub(super) fn refused(text: &str, is_error: bool) -> bool {
    // What has an exit code has run, whatever it printed.
    if text.starts_with("Exit code") {
        return false;
    }
    if is_error && text.len() <= NOTICE {
        let text = text.to_lowercase();
        return REFUSALS.iter().any(|phrase| text.contains(phrase));
    }
    // Some clients put the command before it.
    let named = text.len() <= SHORT_NOTICE && text.trim_end().ends_with("rejected by user");
    named || begins(text, REFUSALS)
}

/// Whether a short text begins with one of these, after what clients put before.
fn begins(text: &str, phrases: &[&str]) -> bool {
    if text.len() > NOTICE {
        return false;
    }
    let text = text.trim_start().to_lowercase();
    let bare = text.strip_prefix("<tool_use_error>").unwrap_or(&text);
    let bare = bare.strip_prefix("error:").unwrap_or(bare).trim_start();
    phrases.iter().any(|phrase| text.starts_with(phrase) || bare.starts_with(phrase))
}

/// An error's text without the tags around it.
pub(super) fn bare(text: &str) -> &str {
    let text = text.trim();
    let text = text.strip_prefix("<tool_use_error>").unwrap_or(text);
    text.strip_suffix("</tool_use_error>").unwrap_or(text).trim()
}

/// Whether an error's text holds one of these phrases.
pub(super) fn mentions(text: &str, phrases: &[&str]) -> bool {
    let text = text.to_lowercase();
    phrases.iter().any(|phrase| text.contains(phrase))
}

/// How errors say that nothing is there, and that it may not be touched.
pub(super) const MISSING: &[&str] =
    &["not found", "no such file", "does not exist", "doesn't exist", "enoent"];
pub(super) const FORBIDDEN: &[&str] =
    &["permission denied", "eacces", "eperm", "not permitted", "read-only file system"];

/// The first image of a result.
pub(super) fn image(result: &ToolResult) -> Option<&Bytes> {
    result.content.iter().find_map(|part| match part {
        ToolContent::Image(image) => {
            let ImageSource::Inline { data, .. } = &image.source;
            Some(data)
        }
        ToolContent::Text(_) => None,
    })
}

#[cfg(test)]
#[path = "outcome_tests.rs"]
mod tests;
