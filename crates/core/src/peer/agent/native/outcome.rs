//! What a client's result says before anything of it is understood: done, failed,
//! or refused by its user.

use bytes::Bytes;

use super::{
    read_text, shell,
    table::{ERRORS, REFUSALS},
};
use crate::model::{ImageSource, Part, ToolResult};

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
        let unfit = text.len() <= NOTICE && text.contains(INVALID);
        if result.is_error || unfit || begins(&text, ERRORS) {
            Self::Failed(text)
        } else {
            Self::Done(text)
        }
    }

    /// For reading a file, whose text may itself begin like an error. A file that is
    /// there must not pass for missing: the model would create it anew.
    pub(super) fn of_read(result: &ToolResult, through_shell: bool, path: &str) -> Self {
        let text = result.text();
        if refused(&text, result.is_error) {
            return Self::Refused(text);
        }
        if through_shell {
            let output = shell::parse(&text, result.is_error);
            let complains = complains(&output.stdout) && names(&output.stdout, path);
            return match output.code {
                // Next to the output, the client reports that it is incomplete.
                0 if read_text::opening_says_cut(&output.stderr) => Self::Done(output.whole()),
                0 if !output.timed_out && !complains => Self::Done(output.stdout),
                _ => Self::Failed(output.whole()),
            };
        }
        if result.is_error || is_read_error(&text, path) {
            Self::Failed(text)
        } else {
            Self::Done(text)
        }
    }
}

/// How OpenCode says that arguments do not fit the schema.
const INVALID: &str = " tool was called with invalid arguments";

/// Whether a text that nothing marks is the error of a reading tool: one line in a
/// known client's words that names the file, or what only clients say.
fn is_read_error(text: &str, path: &str) -> bool {
    let text = text.trim();
    if text.len() > NOTICE {
        return false;
    }
    let (line, rest) = text.split_once('\n').unwrap_or((text, ""));
    let tagged = text.starts_with("<tool_use_error>") && text.ends_with("</tool_use_error>");
    let unfit = line.starts_with("The ") && line.contains(INVALID);
    // OpenCode lists files with similar names.
    let alone = rest.is_empty() || rest.trim_start().starts_with("Did you mean");
    let named = line.len() <= SHORT_NOTICE + path.len() && names(line, path);
    tagged || unfit || (alone && named && begins(line, ERRORS))
}

/// Whether a text names a file. Clients make paths absolute, or relative.
fn names(text: &str, path: &str) -> bool {
    let name = path.trim_end_matches('/').rsplit(['/', '\\']).next().unwrap_or(path);
    text.contains(path) || (!name.is_empty() && text.contains(name))
}

/// Whether a text is nothing but what looks like an error. It may be a file's only line, and it may
/// be why there is none.
pub(super) fn may_be_error(text: &str) -> bool {
    let text = text.trim();
    text.len() <= SHORT_NOTICE && !text.contains('\n') && begins(text, ERRORS)
}

/// Whether all that was printed is a complaint of one of our own commands. Some clients give no
/// exit code, and without one only this shows a failure.
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
        Part::Image(image) => {
            let ImageSource::Inline { data, .. } = &image.source;
            Some(data)
        }
        Part::Text(_) => None,
    })
}

#[cfg(test)]
#[path = "outcome_tests.rs"]
mod tests;
