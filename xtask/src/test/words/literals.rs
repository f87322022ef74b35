//! The string literals and the doc comments of a Rust file, without those of its tests.

/// A piece of text and the line that it begins in.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Text {
    pub(super) line: usize,
    pub(super) text: String,
}

/// Doc comments of items, each line for itself.
pub(super) fn comments(source: &str) -> Vec<Text> {
    let line = |(line, number): (&str, usize)| {
        let text = line.trim_start().strip_prefix("///")?;
        Some(Text { line: number, text: text.to_owned() })
    };
    product(source).lines().zip(1..).filter_map(line).collect()
}

pub(super) fn literals(source: &str) -> Vec<Text> {
    let mut found = Vec::new();
    let mut reader = Reader { rest: product(source), line: 1 };
    while let Some(c) = reader.rest.chars().next() {
        let line = reader.line;
        if reader.rest.starts_with("//") {
            reader.until("\n");
        } else if reader.rest.starts_with("/*") {
            reader.until("*/");
        } else if let Some(hashes) = raw_hashes(reader.rest) {
            reader.until("\"");
            let end = format!("\"{}", "#".repeat(hashes));
            let text = reader.until(&end).to_owned();
            found.push(Text { line, text });
        } else if c == '"' {
            reader.skip(1);
            let text = reader.quoted();
            found.push(Text { line, text });
        } else if c == '\'' {
            reader.skip(char_length(reader.rest));
        } else if c.is_alphanumeric() || c == '_' {
            // Whole, so that the `r` in `for"` is not taken for a raw string.
            let more = |c: char| !(c.is_alphanumeric() || c == '_');
            reader.skip(reader.rest.find(more).unwrap_or(reader.rest.len()));
        } else {
            reader.skip(c.len_utf8());
        }
    }
    found
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

/// How many `#` the raw string that begins here has.
fn raw_hashes(rest: &str) -> Option<usize> {
    let rest = rest.strip_prefix('b').unwrap_or(rest).strip_prefix('r')?;
    let bare = rest.trim_start_matches('#');
    bare.starts_with('"').then(|| rest.len() - bare.len())
}

/// A character, or the tick of a lifetime.
fn char_length(rest: &str) -> usize {
    let inside = rest.strip_prefix('\'').unwrap_or_default();
    let mut chars = inside.chars();
    let first = chars.next().unwrap_or_default();
    if first == '\\' {
        let end = inside.get(2..).and_then(|after| after.find('\''));
        return end.map_or(1, |end| 1 + 2 + end + 1);
    }
    if chars.next() == Some('\'') { 2 + first.len_utf8() } else { 1 }
}

struct Reader<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Reader<'a> {
    fn skip(&mut self, bytes: usize) -> &'a str {
        let (before, after) = self.rest.split_at_checked(bytes).unwrap_or((self.rest, ""));
        self.line += before.matches('\n').count();
        self.rest = after;
        before
    }

    /// What is before `end`, which is skipped as well.
    fn until(&mut self, end: &str) -> &'a str {
        let at = self.rest.find(end).unwrap_or(self.rest.len());
        let before = self.skip(at);
        self.skip(end.len());
        before
    }

    /// The rest of a literal in plain quotes. A line that is continued becomes one.
    fn quoted(&mut self) -> String {
        let mut text = String::new();
        while let Some(c) = self.rest.chars().next() {
            self.skip(c.len_utf8());
            match c {
                '"' => break,
                '\\' if self.rest.starts_with('\n') => {
                    let bare = self.rest.trim_start();
                    self.skip(self.rest.len() - bare.len());
                }
                '\\' => {
                    let escaped = self.rest.chars().next().map_or(0, char::len_utf8);
                    self.skip(escaped);
                    text.push(' ');
                }
                c => text.push(c),
            }
        }
        text
    }
}
