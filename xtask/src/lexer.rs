//! The tokens of Rust sources, as far as the checks of modules and of texts need them.

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SourceTokenKind {
    /// White space, comments, characters and lifetimes.
    Dropped,
    /// A string in quotes; `raw` if backslashes stand for themselves.
    Text {
        raw: bool,
    },
    Word,
    /// One character, or `::` or `=>`.
    Sign,
    Open(char),
    Close,
}

pub(crate) struct SourceToken<'a> {
    pub(crate) kind: SourceTokenKind,
    pub(crate) text: &'a str,
    /// The line that it begins in.
    pub(crate) line: usize,
}

pub(crate) fn tokens(source: &str) -> impl Iterator<Item = SourceToken<'_>> {
    let (mut rest, mut line) = (source, 1);
    std::iter::from_fn(move || {
        let (kind, length) = next(rest)?;
        let (text, after) = rest.split_at(length);
        let token = SourceToken { kind, text, line };
        line += text.matches('\n').count();
        rest = after;
        Some(token)
    })
}

/// The first token and its length in bytes; None at the end.
fn next(rest: &str) -> Option<(SourceTokenKind, usize)> {
    let first = rest.chars().next()?;
    let found = if first.is_whitespace() {
        (SourceTokenKind::Dropped, first.len_utf8())
    } else if rest.starts_with("//") {
        (SourceTokenKind::Dropped, rest.find('\n').unwrap_or(rest.len()))
    } else if rest.starts_with("/*") {
        (SourceTokenKind::Dropped, comment(rest))
    } else if let Some(length) = string(rest) {
        (SourceTokenKind::Text { raw: false }, length)
    } else if let Some(length) = raw_string(rest) {
        (SourceTokenKind::Text { raw: true }, length)
    } else if let Some(length) = character(rest) {
        (SourceTokenKind::Dropped, length)
    } else if is_word(first) {
        (SourceTokenKind::Word, rest.find(|it| !is_word(it)).unwrap_or(rest.len()))
    } else if rest.starts_with("::") || rest.starts_with("=>") {
        (SourceTokenKind::Sign, 2)
    } else {
        let kind = match first {
            '(' | '[' | '{' => SourceTokenKind::Open(first),
            ')' | ']' | '}' => SourceTokenKind::Close,
            _ => SourceTokenKind::Sign,
        };
        (kind, first.len_utf8())
    };
    Some(found)
}
fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// A comment in which others may be nested.
fn comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(tail) = rest.get(at..).filter(|tail| !tail.is_empty()) {
        if tail.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if tail.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += tail.chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

/// `"…"`, `b"…"` or `c"…"`.
fn string(rest: &str) -> Option<usize> {
    let text = rest.strip_prefix(['b', 'c']).unwrap_or(rest).strip_prefix('"')?;
    let mut escaped = false;
    let end = text.find(|it| {
        let ends = it == '"' && !escaped;
        escaped = it == '\\' && !escaped;
        ends
    });
    Some(end.map_or(rest.len(), |end| rest.len() - text.len() + end + 1))
}

/// `r"…"` or `r#"…"#`, also with a `b` or `c` before it.
fn raw_string(rest: &str) -> Option<usize> {
    let text = rest.strip_prefix(['b', 'c']).unwrap_or(rest).strip_prefix('r')?;
    let quoted = text.trim_start_matches('#');
    let hashes = text.len() - quoted.len();
    let quoted = quoted.strip_prefix('"')?;
    let end = quoted.find(&format!("\"{}", "#".repeat(hashes)));
    Some(end.map_or(rest.len(), |end| rest.len() - quoted.len() + end + 1 + hashes))
}

/// `'a'`, `'\n'`, `b'a'`, or the mark of a lifetime.
fn character(rest: &str) -> Option<usize> {
    let text = rest.strip_prefix('b').filter(|text| text.starts_with('\'')).unwrap_or(rest);
    let text = text.strip_prefix('\'')?;
    let before = rest.len() - text.len();
    let mut characters = text.chars();
    let first = characters.next()?;
    if first == '\\' {
        let escape = characters.next()?;
        let from = first.len_utf8() + escape.len_utf8();
        return Some(before + from + text.get(from..)?.find('\'')? + 1);
    }
    if characters.next() == Some('\'') {
        return Some(before + first.len_utf8() + 1);
    }
    Some(before + text.find(|it| !is_word(it)).unwrap_or(text.len()))
}
