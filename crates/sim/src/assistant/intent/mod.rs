//! Reads intents out of plain text: "run `ls`", "read file a.txt, replace "x" with "y" in
//! it, then list files". Only the common phrases are understood.

mod clause;
mod cut;
mod forms;
mod reminders;
mod words;

use serde_json::{Map, Value};

pub(crate) use self::reminders::without_reminders;
use self::{clause::Clause, cut::clauses};

/// One thing the user wants done.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Intent {
    Shell(String),
    Read(String),
    Write {
        path: String,
        text: String,
    },
    Edit {
        path: String,
        old: String,
        new: String,
    },
    List(String),
    Glob(String),
    Grep(String),
    Fetch(String),
    /// A tool by its name, with arguments as a JSON object or as plain words.
    Named {
        tool: String,
        args: Map<String, Value>,
        words: Vec<String>,
    },
}

impl Intent {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Shell(_) => "shell",
            Self::Read(_) => "read",
            Self::Write { .. } => "write",
            Self::Edit { .. } => "edit",
            Self::List(_) => "list",
            Self::Glob(_) => "glob",
            Self::Grep(_) => "grep",
            Self::Fetch(_) => "fetch",
            Self::Named { tool, .. } => tool,
        }
    }

    /// The file it is about.
    fn file(&self) -> Option<&str> {
        match self {
            Self::Read(path) | Self::Write { path, .. } | Self::Edit { path, .. } => Some(path),
            _ => None,
        }
    }

    /// The shell command for it, where there is a simple one.
    pub(crate) fn as_command(&self) -> Option<String> {
        let quoted = |text: &str| format!("'{}'", text.replace('\'', "'\\''"));
        Some(match self {
            Self::Shell(command) => command.clone(),
            Self::Read(path) => format!("cat {}", quoted(path)),
            Self::Write { path, text } => {
                format!("printf '%s' {} > {}", quoted(text), quoted(path))
            }
            Self::List(path) => format!("ls {}", quoted(path)),
            Self::Glob(pattern) => format!("find . -name {}", quoted(pattern)),
            Self::Grep(pattern) => format!("grep -rn {} .", quoted(pattern)),
            Self::Fetch(url) => format!("curl -sL {}", quoted(url)),
            Self::Edit { path, old, new } => {
                let escaped = |text: &str| text.replace('\\', "\\\\").replace('/', "\\/");
                let script = format!("s/{}/{}/g", escaped(old), escaped(new).replace('&', "\\&"));
                format!("sed -i {} {}", quoted(&script), quoted(path))
            }
            Self::Named { .. } => return None,
        })
    }
}

/// All intents of a text, in order. `offered` are the names of the client's tools.
pub(crate) fn all(text: &str, offered: &[&str]) -> Vec<Intent> {
    let mut file = None;
    let mut out = Vec::new();
    for clause in clauses(text) {
        let clause = Clause { words: &clause, offered, file: file.as_deref() };
        let intent = clause.intent();
        let named = intent.as_ref().and_then(Intent::file).map(str::to_owned);
        // "it" is the file that was mentioned last.
        file = named.or_else(|| clause.path(&[], true)).or(file);
        out.extend(intent);
    }
    out
}

/// Whether the user asks for parallel calls.
pub(crate) fn in_parallel(text: &str) -> bool {
    let lower = text.to_lowercase();
    lower.contains("in parallel") || lower.contains("at the same time")
}

#[cfg(test)]
mod tests;
