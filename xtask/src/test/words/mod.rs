//! Keeps phrases that make a reader stop out of the texts that users read: string literals of the
//! program, its `--help`, the API descriptions, the OpenCode plugin, the npm launcher, the README
//! and the documentation.

mod literals;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use self::literals::{TextLine, comments, literals};

/// A phrase in lower case, and what to write instead.
const PHRASES: [(&str, &str); 25] = [
    ("nobody", "say what is missing: no client, no user, not accessible to other users"),
    ("somebody", "name the person or program: a user, a client, another process"),
    ("anybody", "name the person or program: a user, a client, another process"),
    ("everybody", "all users, all clients"),
    ("whom", "name the person or program first"),
    ("whoever", "name the person or program: a user, a client, another process"),
    ("told", "sent, reported, informed, known"),
    ("tells", "shows, reports, says"),
    ("told anew", "resending the full history"),
    ("is no", "is not a, is not an"),
    ("gone on with", "continued, resumed"),
    ("gone on from", "continued, resumed"),
    ("goes on from", "continues from, resumes"),
    ("go on from", "continue from, resume"),
    ("taken back", "undone"),
    ("takes back", "undoes"),
    ("is none of", "must be one of"),
    ("for ever", "without a limit, until it is stopped"),
    ("of no use", "has no effect, no longer works"),
    ("at home", "available, running"),
    ("anew", "again"),
    ("door", "address, endpoint, access"),
    ("mend", "fix"),
    ("mends", "fixes"),
    ("mended", "fixed"),
];

/// Where "is no" is fine: words before and after it.
const FINE_BEFORE: &str = "there";
const FINE_AFTER: [&str; 2] = ["longer", "more"];

/// Where the texts are, and how they are found in a file.
const PLACES: [(&str, &str, TextSource); 12] = [
    ("crates", "rs", TextSource::Literals),
    // clap shows the comments on commands and flags as `--help`.
    ("crates/ibeam/src/cli", "rs", TextSource::DocComments),
    ("crates/server/src/api/openapi", "json", TextSource::Whole),
    ("plugin/opencode/src", "ts", TextSource::Whole),
    ("packaging/npm/ibeam-gateway/bin", "js", TextSource::Whole),
    ("README.md", "md", TextSource::Whole),
    ("ARCHITECTURE.md", "md", TextSource::Whole),
    ("CHANGELOG.md", "md", TextSource::Whole),
    ("CONTRIBUTING.md", "md", TextSource::Whole),
    ("SECURITY.md", "md", TextSource::Whole),
    ("docs", "md", TextSource::Whole),
    ("plugin/opencode/README.md", "md", TextSource::Whole),
];

/// Folders and modules with texts that users do not see.
const NOT_READ: [&str; 6] = ["tests", "testing", "generated", "corpus", "examples", "node_modules"];

#[derive(Clone, Copy)]
enum TextSource {
    Literals,
    DocComments,
    Whole,
}

pub(super) fn check() -> anyhow::Result<()> {
    let mut seen = 0;
    let mut found = Vec::new();
    for (folder, kind, reading) in PLACES {
        for path in files(&crate::root().join(folder), kind)? {
            let source = crate::read(&path)?;
            let texts = match reading {
                TextSource::Literals => {
                    literals(&source).with_context(|| path.display().to_string())?
                }
                TextSource::DocComments => comments(&source),
                TextSource::Whole => whole(&source),
            };
            let shown = path.strip_prefix(crate::root()).unwrap_or(&path).display().to_string();
            seen += texts.len();
            found.extend(texts.iter().flat_map(|text| complaints(&shown, text)));
        }
    }
    if !found.is_empty() {
        bail!("plain words, please:\n  {}", found.join("\n  "));
    }
    println!("  {seen} texts, none with a phrase of the list");
    Ok(())
}

fn whole(source: &str) -> Vec<TextLine> {
    source.lines().zip(1..).map(|(text, line)| TextLine { line, text: text.to_owned() }).collect()
}

/// A single word is a name in the code, not a text.
fn complaints(path: &str, text: &TextLine) -> Vec<String> {
    if !text.text.trim().contains(' ') {
        return Vec::new();
    }
    let instead = |(phrase, instead): &(&str, &str)| {
        has(&text.text, phrase)
            .then(|| format!("{path}:{}: \"{phrase}\"; better: {instead}", text.line))
    };
    PHRASES.iter().filter_map(instead).collect()
}

/// Whether the phrase is there as whole words within one clause. Placeholders are names of
/// variables, which users do not see.
fn has(text: &str, phrase: &str) -> bool {
    let phrase: Vec<&str> = phrase.split(' ').collect();
    let text = without_placeholders(text).to_lowercase();
    text.split(['.', ',', ';', ':', '?', '!']).any(|clause| {
        let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '\'';
        let words: Vec<&str> = clause.split(|c| !is_word(c)).filter(|w| !w.is_empty()).collect();
        (0..words.len()).any(|at| {
            let (before, rest) = words.split_at_checked(at).unwrap_or_default();
            let is_fine = phrase == ["is", "no"]
                && (before.last() == Some(&FINE_BEFORE)
                    || rest.get(2).is_some_and(|next| FINE_AFTER.contains(next)));
            rest.starts_with(&phrase) && !is_fine
        })
    })
}

fn without_placeholders(text: &str) -> String {
    let mut depth = 0_usize;
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ if depth == 0 => out.push(c),
            _ => {}
        }
    }
    out
}

/// Files of a kind, tests and generated code left out; or the one file.
fn files(folder: &Path, kind: &str) -> anyhow::Result<Vec<PathBuf>> {
    if folder.is_file() {
        return Ok(vec![folder.to_owned()]);
    }
    let mut found = crate::files_below(folder, |name| {
        let stem = name.strip_suffix(".rs").unwrap_or(name);
        NOT_READ.contains(&stem) || stem.ends_with("_tests")
    })?;
    found.retain(|path| path.extension().is_some_and(|extension| extension == kind));
    Ok(found)
}

#[cfg(test)]
#[path = "words_tests.rs"]
mod tests;
