//! Reads wishes out of plain words: "run `ls`", "read file a.txt", "write `x` to b.txt,
//! then list files". No cleverness, only a few fixed forms.

use serde_json::{Map, Value};

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
    /// A tool by its name, with arguments as a table or as loose words.
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

    /// The same by a shell, where that is simple.
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
            Self::Edit { .. } | Self::Named { .. } => return None,
        })
    }
}

/// All wishes of a text, in order. `offered` are the names of the client's tools.
pub(crate) fn all(text: &str, offered: &[&str]) -> Vec<Intent> {
    clauses(text).iter().filter_map(|clause| one(clause, offered)).collect()
}

/// Whether they may be done at the same time.
pub(crate) fn in_parallel(text: &str) -> bool {
    let lower = text.to_lowercase();
    lower.contains("in parallel") || lower.contains("at the same time")
}

/// Cuts out blocks that clients put into user messages for the model's eyes only.
pub(crate) fn without_reminders(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    loop {
        let block = ["system-reminder", "environment_context", "user_instructions"]
            .iter()
            .filter_map(|tag| Some((rest.find(&format!("<{tag}>"))?, format!("</{tag}>"))))
            .min();
        let Some((start, close)) = block else { break };
        let (head, tail) = rest.split_at(start);
        out.push_str(head);
        rest = match tail.find(&close) {
            Some(end) => tail.get(end + close.len()..).unwrap_or_default(),
            None => "",
        };
    }
    out.push_str(rest);
    // Some clients put the whole message into quotes.
    let text = out.trim();
    let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    inner.filter(|inner| inner.contains(' ')).unwrap_or(text).trim().to_owned()
}

/// Splits at "then" and, for parallel work, "and", outside of quotes and tables.
fn clauses(text: &str) -> Vec<String> {
    let parallel = in_parallel(text);
    let (mut out, mut clause) = (Vec::new(), String::new());
    for token in tokens(text) {
        let plain = token.to_lowercase();
        let plain = plain.trim_matches(|c: char| !c.is_alphanumeric());
        let quoted = token.starts_with(['`', '"', '{']);
        if !quoted && (plain == "then" || (parallel && plain == "and")) {
            out.push(std::mem::take(&mut clause));
        } else {
            clause.push_str(&token);
            clause.push(' ');
        }
    }
    out.push(clause);
    out
}

/// Words, with quoted text and JSON tables in one piece.
fn tokens(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let len = match first {
            '`' | '"' => rest
                .get(1..)
                .and_then(|inner| inner.find(first))
                .map(|end| end + 2)
                .unwrap_or_else(|| word_len(rest)),
            '{' => table_len(rest).unwrap_or_else(|| word_len(rest)),
            _ => word_len(rest),
        };
        let (token, tail) = rest.split_at_checked(len.max(first.len_utf8())).unwrap_or((rest, ""));
        out.push(token.to_owned());
        rest = tail.trim_start();
    }
    out
}

/// A word ends at a space, and before an opening quote.
fn word_len(text: &str) -> usize {
    text.char_indices()
        .skip(1)
        .find(|(_, c)| c.is_whitespace() || *c == '`')
        .map_or(text.len(), |(at, _)| at)
}

/// The length of the JSON table at the start.
fn table_len(text: &str) -> Option<usize> {
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Map<String, Value>>();
    stream.next()?.ok()?;
    Some(stream.byte_offset())
}

fn one(clause: &str, offered: &[&str]) -> Option<Intent> {
    let tokens = tokens(clause);
    let words: Vec<String> = tokens
        .iter()
        .map(|t| t.to_lowercase().trim_matches(|c: char| !c.is_alphanumeric()).to_owned())
        .collect();
    let find = |names: &[&str]| {
        words.iter().zip(&tokens).position(|(word, token)| {
            !token.starts_with(['`', '"', '{']) && names.contains(&word.as_str())
        })
    };
    // Quoted values after a word, else the plain words after it.
    let values = |from: usize| -> Vec<String> {
        let quoted: Vec<_> =
            tokens.iter().skip(from).filter(|t| is_quoted(t)).map(|t| unquote(t)).collect();
        if quoted.is_empty() {
            let plain = tokens.iter().zip(&words).skip(from).filter(|(_, w)| !filler(w));
            plain.map(|(t, _)| unquote(t)).collect()
        } else {
            quoted
        }
    };
    let first_quoted = |from: usize| tokens.iter().skip(from).find(|t| is_quoted(t));

    // "use the tool NAME", "the NAME tool", "call NAME": the name of a tool that is an
    // everyday word counts only where the sentence is about tools.
    let about_tools = find(&["use", "call", "tool", "invoke"]).is_some();
    let named = tokens.iter().map(|token| unquote(token)).position(|word| {
        offered.contains(&word.as_str()) && (about_tools || word.contains(['_', '-']))
    });
    let unknown = || {
        find(&["use", "call"])?;
        let at = find(&["tool"])? + 1;
        words.get(at).filter(|word| !filler(word)).map(|_| at)
    };
    if let Some(at) = named.or_else(unknown)
        && let Some(name) = tokens.get(at)
    {
        let args = tokens.iter().find_map(|t| serde_json::from_str(t).ok()).unwrap_or_default();
        let mut loose = values(at + 1);
        loose.retain(|word| {
            !word.starts_with('{') && !matches!(word.as_str(), "tool" | "tools" | "now" | "it")
        });
        return Some(Intent::Named { tool: unquote(name), args, words: loose });
    }
    if let Some(at) = find(&["run", "execute"])
        && let Some(command) = first_quoted(at)
    {
        return Some(Intent::Shell(unquote(command)));
    }
    if let Some(at) = find(&["replace", "change"])
        && let [old, new, path, ..] = &values(at + 1)[..]
    {
        return Some(Intent::Edit { path: path.clone(), old: old.clone(), new: new.clone() });
    }
    if let Some(at) = find(&["write", "save", "put"])
        && let [text, path, ..] = &values(at + 1)[..]
    {
        return Some(Intent::Write { path: path.clone(), text: text.clone() });
    }
    if let (Some(at), Some(_)) = (find(&["create"]), find(&["file"]))
        && let [path, text, ..] = &values(at + 1)[..]
    {
        return Some(Intent::Write { path: path.clone(), text: text.clone() });
    }
    if let (Some(at), Some(_)) = (find(&["list"]), find(&["files", "directory", "folder"])) {
        return Some(Intent::List(values(at + 1).into_iter().next().unwrap_or_else(|| ".".into())));
    }
    if let (Some(at), Some(_)) = (find(&["find"]), find(&["files", "file"])) {
        return values(at + 1).into_iter().next().map(Intent::Glob);
    }
    if let Some(at) = find(&["grep", "search"]) {
        return values(at + 1).into_iter().next().map(Intent::Grep);
    }
    if find(&["fetch", "download"]).is_some() {
        let url = tokens.iter().map(|t| unquote(t)).find(|t| t.starts_with("http"))?;
        return Some(Intent::Fetch(url));
    }
    if let (Some(at), Some(file)) = (find(&["read", "show", "open", "cat"]), find(&["file"])) {
        return values(at.max(file) + 1).into_iter().next().map(Intent::Read);
    }
    if let Some(at) = find(&["read"]) {
        return first_quoted(at).map(|path| Intent::Read(unquote(path)));
    }
    None
}

fn is_quoted(token: &str) -> bool {
    token.len() > 1 && token.starts_with(['`', '"'])
}

fn unquote(token: &str) -> String {
    let plain = token.trim_end_matches([',', '.', ';', '!', '?', ')']);
    if is_quoted(token) {
        token.trim_matches(['`', '"']).to_owned()
    } else {
        plain.trim_matches(['\'', '(', ':']).to_owned()
    }
}

fn filler(word: &str) -> bool {
    const FILLERS: &[&str] = &[
        "",
        "a",
        "an",
        "all",
        "and",
        "content",
        "contents",
        "directory",
        "file",
        "files",
        "folder",
        "for",
        "from",
        "here",
        "in",
        "into",
        "matching",
        "me",
        "named",
        "of",
        "please",
        "text",
        "the",
        "to",
        "with",
    ];
    FILLERS.contains(&word)
}

#[cfg(test)]
#[path = "intent_tests.rs"]
mod tests;
