//! Reads wishes out of plain words: "run `ls`", "read file a.txt, replace "x" with "y" in
//! it, then list files". No cleverness, only the forms in which people ask for such things.

use serde_json::{Map, Value};

use crate::words::{Word, words};

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

    /// The file it is about.
    fn file(&self) -> Option<&str> {
        match self {
            Self::Read(path) | Self::Write { path, .. } | Self::Edit { path, .. } => Some(path),
            _ => None,
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
            Self::Edit { path, old, new } => {
                let escaped = |text: &str| text.replace('\\', "\\\\").replace('/', "\\/");
                let script = format!("s/{}/{}/g", escaped(old), escaped(new).replace('&', "\\&"));
                format!("sed -i {} {}", quoted(&script), quoted(path))
            }
            Self::Named { .. } => return None,
        })
    }
}

/// All wishes of a text, in order. `offered` are the names of the client's tools.
pub(crate) fn all(text: &str, offered: &[&str]) -> Vec<Intent> {
    let mut file = None;
    let mut out = Vec::new();
    for clause in clauses(text) {
        let clause = Clause { words: &clause, offered, file: file.as_deref() };
        let intent = clause.intent();
        let named = intent.as_ref().and_then(Intent::file).map(str::to_owned);
        // "it" is the file that was spoken of last.
        file = named.or_else(|| clause.path(&[], true)).or(file);
        out.extend(intent);
    }
    out
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

/// Words that ask for something to be done.
const VERBS: &[&str] = &[
    "call",
    "cat",
    "change",
    "changing",
    "check",
    "create",
    "display",
    "download",
    "edit",
    "examine",
    "execute",
    "fetch",
    "find",
    "grep",
    "inspect",
    "invoke",
    "list",
    "look",
    "make",
    "modify",
    "open",
    "print",
    "put",
    "read",
    "replace",
    "replacing",
    "run",
    "save",
    "search",
    "show",
    "substitute",
    "swap",
    "update",
    "use",
    "view",
    "write",
];
/// Words behind which a new wish may begin.
const LINKS: &[&str] = &[
    "afterwards",
    "also",
    "and",
    "finally",
    "first",
    "last",
    "lastly",
    "next",
    "now",
    "please",
    "second",
    "step",
    "that",
    "third",
];

/// Splits at "then", at each verb that begins a new thought and, for parallel work, at
/// "and".
fn clauses(text: &str) -> Vec<Vec<Word>> {
    let parallel = in_parallel(text);
    let (mut out, mut clause) = (Vec::new(), Vec::new());
    let (mut acts, mut open) = (false, true);
    for word in words(text) {
        if word.is_any(&["then"]) || (parallel && word.is_any(&["and"])) {
            out.push(std::mem::take(&mut clause));
            (acts, open) = (false, true);
            continue;
        }
        let verb = word.is_any(VERBS);
        if verb && acts && (open || word.line) {
            out.push(std::mem::take(&mut clause));
        }
        acts |= verb;
        open = word.ends_clause() || word.is_any(LINKS);
        clause.push(word);
    }
    out.push(clause);
    out
}

/// A part of the text that asks for one thing at most.
struct Clause<'a> {
    words: &'a [Word],
    offered: &'a [&'a str],
    /// The file that was spoken of last.
    file: Option<&'a str>,
}

impl Clause<'_> {
    fn intent(&self) -> Option<Intent> {
        self.named()
            .or_else(|| self.shell())
            .or_else(|| self.edit())
            .or_else(|| self.write())
            .or_else(|| self.create())
            .or_else(|| self.search())
            .or_else(|| self.read())
    }

    fn find(&self, names: &[&str]) -> Option<usize> {
        self.words.iter().position(|word| word.is_any(names))
    }

    fn plain(&self, at: usize) -> &str {
        self.words.get(at).filter(|word| !word.quoted).map_or("", |word| word.plain.as_str())
    }

    /// Quoted texts from a word on, with their places.
    fn quotes(&self, from: usize) -> Vec<(usize, String)> {
        let words = self.words.iter().enumerate().skip(from);
        words.filter(|(_, word)| word.quoted).map(|(at, word)| (at, word.value())).collect()
    }

    /// Quoted texts after a word, else the plain words after it.
    fn values(&self, from: usize) -> Vec<String> {
        let quoted = self.quotes(from);
        if quoted.is_empty() {
            let words = self.words.iter().skip(from).filter(|word| !filler(&word.plain));
            words.map(Word::value).collect()
        } else {
            quoted.into_iter().map(|(_, text)| text).collect()
        }
    }

    /// Whether a place is introduced as one: "in the file x", "to x".
    fn is_placed(&self, at: usize) -> bool {
        const NOISE: &[&str] = &["the", "a", "an", "called", "named", "my", "this", "path"];
        const PLACES: &[&str] =
            &["in", "inside", "within", "into", "to", "from", "of", "at", "file"];
        let before = self.words.iter().take(at).rev();
        let mut before = before.skip_while(|word| word.is_any(NOISE));
        before.next().is_some_and(|word| word.is_any(PLACES))
    }

    /// The path in this clause, outside of the words that mean something else.
    fn path(&self, taken: &[usize], strict: bool) -> Option<String> {
        let words = self.words.iter().enumerate().filter(|(at, _)| !taken.contains(at));
        let paths: Vec<_> = words.clone().filter(|(_, word)| word.is_path()).collect();
        let placed = paths.iter().find(|(at, _)| self.is_placed(*at)).or(paths.first());
        if let Some((_, word)) = placed {
            return Some(word.value());
        }
        let mut quoted = words.clone().filter(|(_, word)| word.quoted);
        let after_file = |at: usize| {
            let before = at.checked_sub(1).and_then(|at| self.words.get(at));
            before.is_some_and(|word| word.is_any(&["file"]) && !word.ends_clause())
        };
        if let Some((_, word)) = quoted.clone().find(|(at, _)| after_file(*at)) {
            return Some(word.value());
        }
        // "the file Makefile"
        let mut named = words.filter(|(at, word)| {
            after_file(*at) && !word.quoted && !word.plain.is_empty() && !filler(&word.plain)
        });
        let name = named.next().filter(|(_, word)| !word.is_any(NOT_NAMES));
        let quoted = if strict { None } else { quoted.next() };
        name.or(quoted).map(|(_, word)| word.value())
    }

    /// "use the tool NAME", "the NAME tool", "call NAME": the name of a tool that is an
    /// everyday word counts only where the sentence is about tools.
    fn named(&self) -> Option<Intent> {
        let about_tools = self.find(&["use", "call", "tool", "invoke"]).is_some();
        let named = self.words.iter().map(Word::value).position(|word| {
            self.offered.contains(&word.as_str()) && (about_tools || word.contains(['_', '-']))
        });
        let unknown = || {
            self.find(&["use", "call"])?;
            let at = self.find(&["tool"])? + 1;
            self.words.get(at).filter(|word| !filler(&word.plain)).map(|_| at)
        };
        let at = named.or_else(unknown)?;
        let name = self.words.get(at)?.value();
        let table = self.words.iter().find(|word| word.table).map(Word::value);
        let args = table.and_then(|t| serde_json::from_str(&t).ok()).unwrap_or_default();
        let mut loose = self.values(at + 1);
        loose.retain(|word| {
            !word.starts_with('{') && !matches!(word.as_str(), "tool" | "tools" | "now" | "it")
        });
        Some(Intent::Named { tool: name, args, words: loose })
    }

    fn shell(&self) -> Option<Intent> {
        let at = self.find(&["run", "execute"])?;
        if let Some((_, command)) = self.quotes(at).into_iter().next() {
            return Some(Intent::Shell(command));
        }
        // Without quotes, only what is surely a command.
        let start = at + 1 + self.words.iter().skip(at + 1).position(|w| w.is_any(COMMANDS))?;
        if (at + 1..start).any(|at| !filler(self.plain(at)) && self.plain(at) != "command") {
            return None;
        }
        let mut command = Vec::new();
        for word in self.words.iter().skip(start) {
            if word.is_any(&["and"]) {
                break;
            }
            command.push(word.value());
            if word.ends_clause() {
                break;
            }
        }
        Some(Intent::Shell(command.join(" ")))
    }

    /// "replace X with Y in FILE", "change X to Y", "edit FILE so that X becomes Y".
    fn edit(&self) -> Option<Intent> {
        let sure = self.find(&["replace", "replacing", "change", "changing", "swap", "substitute"]);
        let at = sure.or_else(|| self.find(&["edit", "update", "modify"]))?;
        let first_quote = self.quotes(at).first().map_or(at, |(at, _)| *at);
        let is_mark = |at: &usize| {
            matches!(self.plain(*at), "with" | "by" | "to" | "into" | "for" | "becomes" | "become")
                && (!self.words.get(at + 1).is_some_and(Word::is_path)
                    || self.words.get(at + 1).is_some_and(|word| word.quoted))
        };
        let mark = (at + 1..self.words.len()).filter(|at| *at > first_quote).find(is_mark)?;
        let stop = (mark + 2..self.words.len())
            .find(|at| matches!(self.plain(*at), "in" | "inside" | "within" | "of" | "everywhere"))
            .unwrap_or(self.words.len());
        let (old_at, old) = self.meant(at + 1, mark, sure.is_some())?;
        let (new_at, new) = self.meant(mark + 1, stop, sure.is_some())?;
        let taken: Vec<usize> = old_at.into_iter().chain(new_at).collect();
        let path = self.path(&taken, false).or_else(|| self.file.map(str::to_owned))?;
        Some(Intent::Edit { path, old, new })
    }

    /// The quoted text between two places, else the words there without the noise.
    fn meant(&self, from: usize, to: usize, loose: bool) -> Option<(Vec<usize>, String)> {
        if let Some((at, text)) = self.quotes(from).into_iter().find(|(at, _)| *at < to) {
            return Some((vec![at], text));
        }
        const NOISE: &[&str] = &[
            "the",
            "word",
            "words",
            "text",
            "string",
            "every",
            "each",
            "all",
            "occurrence",
            "occurrences",
            "of",
            "from",
            "phrase",
            "line",
            "value",
            "a",
            "an",
            "in",
            "it",
        ];
        let mut words = Vec::new();
        for at in (from..to).filter(|_| loose) {
            let word = self.words.get(at)?;
            if !word.plain.is_empty() && !word.is_any(NOISE) && !self.is_placed_path(at) {
                words.push((at, word.value()));
            }
            if word.ends_clause() {
                break;
            }
        }
        let (places, words): (Vec<_>, Vec<_>) = words.into_iter().unzip();
        (!words.is_empty()).then(|| (places, words.join(" ")))
    }

    fn is_placed_path(&self, at: usize) -> bool {
        self.is_placed(at) && self.words.get(at).is_some_and(Word::is_path)
    }

    /// "write X to FILE", "in FILE put X".
    fn write(&self) -> Option<Intent> {
        let at = self.find(&["write", "save", "put"])?;
        let quotes = self.quotes(0);
        let (text, path) = match &quotes[..] {
            [] => {
                let [text, path, ..] = &self.values(at + 1)[..] else { return None };
                (text.clone(), path.clone())
            }
            [(place, text)] => {
                (text.clone(), self.path(&[*place], false).or_else(|| self.same_file())?)
            }
            [(a, first), (b, second), ..] if self.is_placed(*a) && !self.is_placed(*b) => {
                (second.clone(), first.clone())
            }
            [(_, first), (_, second), ..] => (first.clone(), second.clone()),
        };
        Some(Intent::Write { path, text })
    }

    fn same_file(&self) -> Option<String> {
        let spoken = self.find(&["it", "there"]).is_some() || self.find(&["file"]).is_some();
        self.file.filter(|_| spoken).map(str::to_owned)
    }

    fn create(&self) -> Option<Intent> {
        self.find(&["create", "make"])?;
        let (path, text) = match &self.quotes(0)[..] {
            [(_, path), (_, text), ..] => (path.clone(), text.clone()),
            [(at, text)] => match self.path(&[*at], true) {
                Some(path) => (path, text.clone()),
                None => (text.clone(), String::new()),
            },
            [] => (self.path(&[], true)?, String::new()),
        };
        (self.find(&["file"]).is_some() || self.words.iter().any(Word::is_path))
            .then_some(Intent::Write { path, text })
    }

    fn search(&self) -> Option<Intent> {
        let first = |at: usize| self.values(at + 1).into_iter().next();
        if let (Some(at), Some(_)) =
            (self.find(&["list"]), self.find(&["files", "directory", "folder"]))
        {
            return Some(Intent::List(first(at).unwrap_or_else(|| ".".to_owned())));
        }
        if let (Some(at), Some(_)) = (self.find(&["find"]), self.find(&["files", "file"])) {
            return first(at).map(Intent::Glob);
        }
        if let Some(at) = self.find(&["grep", "search"]) {
            return first(at).map(Intent::Grep);
        }
        self.find(&["fetch", "download"])?;
        self.words.iter().map(Word::value).find(|w| w.starts_with("http")).map(Intent::Fetch)
    }

    fn read(&self) -> Option<Intent> {
        let at = self.find(&[
            "read", "open", "look", "show", "view", "inspect", "display", "print", "examine",
            "check", "cat",
        ])?;
        let sure = self.plain(at) == "read" || self.find(&["file"]).is_some();
        let path = self.path(&[], !sure);
        let again =
            matches!(self.plain(at), "read" | "open" | "view") && self.plain(at + 1) == "it";
        path.or_else(|| self.file.filter(|_| again).map(str::to_owned)).map(Intent::Read)
    }
}

/// Words behind "file" that are not its name.
const NOT_NAMES: &[&str] = &[
    "and", "again", "as", "by", "contains", "first", "has", "is", "it", "now", "so", "that",
    "there", "where", "which",
];

/// Commands that are known without quotes around them.
const COMMANDS: &[&str] = &[
    "cargo", "cat", "cp", "date", "diff", "echo", "git", "grep", "head", "ls", "make", "mkdir",
    "mv", "node", "npm", "printf", "pwd", "python", "python3", "sed", "sh", "sort", "tail",
    "touch", "uname", "wc", "whoami",
];

fn filler(word: &str) -> bool {
    const FILLERS: &[&str] = &[
        "",
        "a",
        "all",
        "an",
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
