//! The phrases that are understood: one function for each kind of intent.

use super::{
    Intent,
    clause::{Clause, filler},
    words::Word,
};

impl Clause<'_> {
    /// What the clause asks for; the more specific phrases are tried first.
    pub(super) fn intent(&self) -> Option<Intent> {
        self.named()
            .or_else(|| self.shell())
            .or_else(|| self.edit())
            .or_else(|| self.write())
            .or_else(|| self.create())
            .or_else(|| self.search())
            .or_else(|| self.read())
    }

    /// "use the tool NAME", "the NAME tool", "call NAME". A tool name that is an everyday word
    /// counts only in a sentence about tools.
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
        // Without quotes, only well-known commands count.
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

    /// The quoted text between two positions, else the words there without fillers.
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

/// Commands that are recognised without quotes.
const COMMANDS: &[&str] = &[
    "cargo", "cat", "cp", "date", "diff", "echo", "git", "grep", "head", "ls", "make", "mkdir",
    "mv", "node", "npm", "printf", "pwd", "python", "python3", "sed", "sh", "sort", "tail",
    "touch", "uname", "wc", "whoami",
];
