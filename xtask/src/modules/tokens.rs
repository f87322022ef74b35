//! Rust sources as trees of words, signs and groups in brackets, with their lines. Comments,
//! literals and lifetimes are dropped: none of them names a module.

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Tree<'a> {
    Word(&'a str, usize),
    /// One character, or `::` or `=>`.
    Sign(&'a str),
    /// By the bracket that opens it.
    Group(char, Vec<Tree<'a>>),
}

/// A bracket without its partner ends its group or the text: the compiler reports it.
pub(super) fn trees(source: &str) -> Vec<Tree<'_>> {
    let mut open = Vec::new();
    let mut inner = Vec::new();
    let (mut rest, mut line) = (source, 1);
    while let Some((token, length)) = next(rest) {
        let (text, after) = rest.split_at(length);
        match token {
            Token::Dropped => {}
            Token::Word => inner.push(Tree::Word(text, line)),
            Token::Sign => inner.push(Tree::Sign(text)),
            Token::Open(bracket) => open.push((bracket, std::mem::take(&mut inner))),
            Token::Close => {
                if let Some((bracket, outer)) = open.pop() {
                    let group = std::mem::replace(&mut inner, outer);
                    inner.push(Tree::Group(bracket, group));
                }
            }
        }
        line += text.matches('\n').count();
        rest = after;
    }
    for (bracket, outer) in open.into_iter().rev() {
        let group = std::mem::replace(&mut inner, outer);
        inner.push(Tree::Group(bracket, group));
    }
    inner
}

enum Token {
    Dropped,
    Word,
    Sign,
    Open(char),
    Close,
}

/// The first token and its length in bytes; None at the end.
fn next(rest: &str) -> Option<(Token, usize)> {
    let first = rest.chars().next()?;
    let literal = || string(rest).or_else(|| raw_string(rest)).or_else(|| character(rest));
    let found = if first.is_whitespace() {
        (Token::Dropped, first.len_utf8())
    } else if rest.starts_with("//") {
        (Token::Dropped, rest.find('\n').unwrap_or(rest.len()))
    } else if rest.starts_with("/*") {
        (Token::Dropped, comment(rest))
    } else if let Some(length) = literal() {
        (Token::Dropped, length)
    } else if is_word(first) {
        (Token::Word, rest.find(|it| !is_word(it)).unwrap_or(rest.len()))
    } else if rest.starts_with("::") || rest.starts_with("=>") {
        (Token::Sign, 2)
    } else {
        let token = match first {
            '(' | '[' | '{' => Token::Open(first),
            ')' | ']' | '}' => Token::Close,
            _ => Token::Sign,
        };
        (token, first.len_utf8())
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
