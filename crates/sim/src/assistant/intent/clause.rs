//! A clause, and where in it its objects are.

use super::words::Word;

/// A part of the text that asks for one thing at most.
pub(super) struct Clause<'a> {
    pub(super) words: &'a [Word],
    pub(super) offered: &'a [&'a str],
    /// The file that was mentioned last.
    pub(super) file: Option<&'a str>,
}

impl Clause<'_> {
    pub(super) fn find(&self, names: &[&str]) -> Option<usize> {
        self.words.iter().position(|word| word.is_any(names))
    }

    pub(super) fn plain(&self, at: usize) -> &str {
        self.words.get(at).filter(|word| !word.quoted).map_or("", |word| word.plain.as_str())
    }

    /// Quoted texts from a word onwards, with their positions.
    pub(super) fn quotes(&self, from: usize) -> Vec<(usize, String)> {
        let words = self.words.iter().enumerate().skip(from);
        words.filter(|(_, word)| word.quoted).map(|(at, word)| (at, word.value())).collect()
    }

    /// Quoted texts after a word, else the plain words after it.
    pub(super) fn values(&self, from: usize) -> Vec<String> {
        let quoted = self.quotes(from);
        if quoted.is_empty() {
            let words = self.words.iter().skip(from).filter(|word| !filler(&word.plain));
            words.map(Word::value).collect()
        } else {
            quoted.into_iter().map(|(_, text)| text).collect()
        }
    }

    /// Whether a preposition introduces the word at this position: "in the file x", "to x".
    pub(super) fn is_placed(&self, at: usize) -> bool {
        const NOISE: &[&str] = &["the", "a", "an", "called", "named", "my", "this", "path"];
        const PLACES: &[&str] =
            &["in", "inside", "within", "into", "to", "from", "of", "at", "file"];
        let before = self.words.iter().take(at).rev();
        let mut before = before.skip_while(|word| word.is_any(NOISE));
        before.next().is_some_and(|word| word.is_any(PLACES))
    }

    /// The path in this clause, apart from words that have another meaning.
    pub(super) fn path(&self, taken: &[usize], strict: bool) -> Option<String> {
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
}

/// Words after "file" that are not its name.
const NOT_NAMES: &[&str] = &[
    "and", "again", "as", "by", "contains", "first", "has", "is", "it", "now", "so", "that",
    "there", "where", "which",
];

/// Words without a meaning of their own.
pub(super) fn filler(word: &str) -> bool {
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
