//! The string literals and the doc comments of a Rust file, without those of its tests.

use crate::lexer::{SourceTree, trees};

/// A piece of text and the line that it begins in.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TextLine {
    pub(super) line: usize,
    pub(super) text: String,
}

/// Doc comments of items, each line for itself.
pub(super) fn comments(source: &str) -> Vec<TextLine> {
    let line = |(line, number): (&str, usize)| {
        let text = line.trim_start().strip_prefix("///")?;
        Some(TextLine { line: number, text: text.to_owned() })
    };
    product(source).lines().zip(1..).filter_map(line).collect()
}

pub(super) fn literals(source: &str) -> anyhow::Result<Vec<TextLine>> {
    let mut found = Vec::new();
    collect(&trees(product(source))?, &mut found);
    Ok(found)
}

fn collect(trees: &[SourceTree<'_>], found: &mut Vec<TextLine>) {
    for tree in trees {
        match tree {
            SourceTree::Text(literal, line) => {
                let (before, quoted) = literal.split_once('"').unwrap_or_default();
                let text = quoted.rsplit_once('"').map_or(quoted, |(text, _)| text);
                let raw = before.contains('r');
                let text = if raw { text.to_owned() } else { without_escapes(text) };
                found.push(TextLine { line: *line, text });
            }
            SourceTree::Group(_, inner) => collect(inner, found),
            SourceTree::Word(..) | SourceTree::Sign(_) => {}
        }
    }
}

/// The part of a file before its tests.
fn product(source: &str) -> &str {
    let inline = |at: &usize| {
        let after = source.get(*at..).unwrap_or_default();
        after.lines().nth(1).is_some_and(|line| line.starts_with("mod ") && line.ends_with('{'))
    };
    let tests = source.match_indices("#[cfg(test)]\n").map(|(at, _)| at).find(inline);
    tests.and_then(|at| source.get(..at)).unwrap_or(source)
}

/// A space for each escaped character. A line that is continued becomes one.
fn without_escapes(literal: &str) -> String {
    let mut text = String::new();
    let mut chars = literal.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' if chars.peek() == Some(&'\n') => {
                while chars.next_if(|next| next.is_whitespace()).is_some() {}
            }
            '\\' => {
                chars.next();
                text.push(' ');
            }
            c => text.push(c),
        }
    }
    text
}
