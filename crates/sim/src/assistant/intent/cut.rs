//! Splits a text into clauses that ask for one thing each.

use super::{
    in_parallel,
    words::{Word, words},
};

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
/// Words after which a new request may begin.
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
/// Verbs that often take several objects.
const LISTING: &[&str] = &[
    "cat", "display", "download", "examine", "execute", "fetch", "inspect", "list", "open",
    "print", "read", "run", "show", "view",
];
/// Verbs whose objects are the arguments of one call, unless calls run in parallel.
const CALLING: &[&str] = &["call", "invoke", "use"];

/// Splits at "then", at each verb that begins a new request, between the objects of a verb and,
/// for parallel work, at "and".
pub(super) fn clauses(text: &str) -> Vec<Vec<Word>> {
    let parallel = in_parallel(text);
    thoughts(text).into_iter().flat_map(|clause| spread(clause, parallel)).collect()
}

fn thoughts(text: &str) -> Vec<Vec<Word>> {
    let (mut out, mut clause) = (Vec::new(), Vec::new());
    let (mut acts, mut open) = (false, true);
    for word in words(text) {
        if word.is_any(&["then"]) {
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

/// "read a.txt, b.txt and c.txt" becomes one clause for each file.
fn spread(clause: Vec<Word>, parallel: bool) -> Vec<Vec<Word>> {
    let start = clause.iter().position(is_thing).unwrap_or(clause.len());
    let (head, rest) = clause.split_at(start);
    let lists = |word: &Word| word.is_any(LISTING) || (parallel && word.is_any(CALLING));
    let (things, tail) = listed(rest);
    let verb = head.iter().find(|word| word.is_any(VERBS));
    if things.len() > 1 && verb.is_some_and(lists) {
        let mut out: Vec<Vec<Word>> =
            things.into_iter().map(|thing| [head, &[thing]].concat()).collect();
        if let Some(last) = out.last_mut() {
            last.extend_from_slice(tail);
        }
        return out;
    }
    if parallel {
        return clause.split(|word| word.is_any(&["and"])).map(<[Word]>::to_vec).collect();
    }
    vec![clause]
}

/// The leading objects of one kind, joined by commas and "and", and the words after them.
fn listed(words: &[Word]) -> (Vec<Word>, &[Word]) {
    let mut things: Vec<Word> = Vec::new();
    let mut rest = words;
    while let Some((word, after)) = rest.split_first() {
        if !is_thing(word) || things.last().is_some_and(|last| last.quoted != word.quoted) {
            break;
        }
        things.push(word.clone());
        let joined = after.iter().take_while(|word| word.is_comma() || word.is_any(&["and"]));
        let joined = joined.count();
        rest = after.get(joined..).unwrap_or_default();
        if joined == 0 && !word.ends_with_comma() {
            break;
        }
    }
    (things, rest)
}

/// What can be the object of a verb: a quote, a path, a URL.
fn is_thing(word: &Word) -> bool {
    word.is_quote() || word.is_path() || word.value().contains("://")
}
