//! Text that was made for a terminal, as plain text within bounds.

use std::{iter::Peekable, str::Chars};

/// Without escape sequences and control characters. What a terminal would draw over
/// becomes a line of its own.
pub(crate) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\x1b' => skip_escape(&mut chars),
            '\r' if chars.peek() != Some(&'\n') => out.push('\n'),
            '\n' | '\t' => out.push(c),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

fn skip_escape(chars: &mut Peekable<Chars<'_>>) {
    match chars.next() {
        // `ESC [ … letter`: colours and the cursor.
        Some('[') => {
            let _ = chars.find(|c| ('@'..='~').contains(c));
        }
        // `ESC ] … BEL` or `ESC ] … ESC \`: titles and links.
        Some(']') => {
            let end = chars.find(|c| matches!(c, '\x07' | '\x1b'));
            let _ = end.filter(|c| *c == '\x1b').and_then(|_| chars.next_if_eq(&'\\'));
        }
        _ => {}
    }
}

/// At most `most` characters of it in one line, with a mark where it was cut.
pub(crate) fn one_line(text: &str, limit: usize) -> String {
    // More than that is never shown, however much of it is blank or for the terminal.
    let seen = text.get(..text.floor_char_boundary(limit.saturating_mul(16))).unwrap_or(text);
    let plain = plain(seen);
    let mut out = String::new();
    for (index, word) in plain.split_whitespace().enumerate() {
        if index > 0 {
            out.push(' ');
        }
        out.push_str(word);
    }
    let cut = out.char_indices().nth(limit).map(|(at, _)| at);
    if let Some(at) = cut {
        out.truncate(at);
    }
    if cut.is_some() || seen.len() < text.len() {
        out.push('…');
    }
    out
}

/// The last part of a text that has no end.
#[derive(Debug, Default)]
pub(super) struct NoiseTail(String);

/// How much of it is kept.
const TAIL: usize = 8 * 1024;

impl NoiseTail {
    pub(super) fn push_line(&mut self, line: &str) {
        // Of a longer line only its end could stay.
        let from = line.ceil_char_boundary(line.len().saturating_sub(TAIL));
        self.0.push_str(line.get(from..).unwrap_or_default());
        self.0.push('\n');
        let over = self.0.ceil_char_boundary(self.0.len().saturating_sub(TAIL));
        self.0.drain(..over);
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
#[path = "plain_tests.rs"]
mod tests;
