//! Settings files without their secrets, line for line: masks the values of settings whose names
//! say that they are secret, in any format, and what [`super::text`] masks.
//!
//! Nothing here parses: a file may be one line, malformed or of an unknown format. It masks too
//! much rather than too little: in a file of settings `key` means a secret, in a log line rarely.

use super::MASK;

/// How far texts within texts are followed.
const DEEPEST: usize = 3;

/// A word of a name that says that its value is secret, beyond the names of [`super::text`].
const SECRET: [&str; 9] =
    ["key", "keys", "token", "tokens", "passphrase", "pass", "pwd", "auth", "credentials"];

/// The ends of names whose values say where a secret is, or how many there are.
const ABOUT: [&str; 11] =
    ["name", "file", "path", "env", "var", "variable", "url", "type", "limit", "count", "method"];

/// A text as it may be shown. It has the same number of lines.
#[must_use]
pub fn text(input: &str) -> String {
    scan(input, 0)
}

/// A value of a setting as it may be shown.
#[must_use]
pub fn value(name: &str, value: &serde_json::Value) -> String {
    match value.as_str() {
        Some(text) if is_secret(name) && !is_reference(text) => format!("\"{MASK}\""),
        None if is_secret(name) && (value.is_object() || value.is_array()) => MASK.to_owned(),
        _ => text(&value.to_string()),
    }
}

/// The values in a command line that their names say are secret: of `--token VALUE`,
/// `--token=VALUE`, `TOKEN=VALUE` and `Authorization: VALUE`.
pub fn secret_arguments(args: &[String]) -> impl Iterator<Item = &str> {
    let before = std::iter::once("").chain(args.iter().map(String::as_str));
    before.zip(args).filter_map(|(before, arg)| {
        let named = |mark: char| {
            let (_, value) = arg.split_once(mark).filter(|(name, _)| is_secret(name))?;
            Some(value.trim())
        };
        let value = named('=').or_else(|| named(':'));
        value.or_else(|| is_flag(before).then_some(arg)).filter(|value| !is_reference(value))
    })
}

fn scan(input: &str, depth: usize) -> String {
    let mut scan = Scan { rest: input, depth, ..Scan::default() };
    while let Some(c) = scan.rest.chars().next() {
        scan.step(c);
    }
    scan.out
}

#[derive(Default)]
struct OpenBracket {
    /// It is the value of a secret.
    secret: bool,
    list: bool,
    /// The item before was a flag that takes a secret.
    flag: bool,
}

#[derive(Default)]
struct Scan<'a> {
    rest: &'a str,
    depth: usize,
    out: String,
    stack: Vec<OpenBracket>,
    /// Whether the name that was read last, and that has no value yet, is a secret's.
    pending: Option<bool>,
    /// What was read of this line begins here, in `out`.
    line: usize,
}

impl<'a> Scan<'a> {
    fn step(&mut self, c: char) {
        match c {
            '\n' => self.end_line(),
            _ if c.is_whitespace() => self.take(c.len_utf8()),
            '{' | '[' => {
                let secret = self.is_secret_here();
                self.stack.push(OpenBracket { secret, list: c == '[', flag: false });
                self.pending = None;
                self.take(1);
            }
            '}' | ']' => {
                self.stack.pop();
                self.pending = None;
                self.take(1);
            }
            ',' => {
                let flag =
                    self.stack.last_mut().is_some_and(|frame| std::mem::take(&mut frame.flag));
                self.pending = flag.then_some(true);
                self.take(1);
            }
            '"' | '\'' | '`' => self.quoted(c),
            '#' => self.comment(1),
            '/' if self.rest.starts_with("//") => self.comment(2),
            _ => self.bare(),
        }
    }

    /// Copies this many bytes unchanged.
    fn take(&mut self, bytes: usize) {
        let (taken, rest) = self.rest.split_at_checked(bytes).unwrap_or((self.rest, ""));
        self.out.push_str(taken);
        self.rest = rest;
    }

    fn skip(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at_checked(bytes).unwrap_or((self.rest, ""));
        self.rest = rest;
        taken
    }

    fn is_secret_here(&self) -> bool {
        self.pending.unwrap_or_else(|| self.stack.last().is_some_and(|frame| frame.secret))
    }

    fn end_line(&mut self) {
        let indent = indent(self.out.get(self.line..).unwrap_or_default());
        self.take(1);
        self.line = self.out.len();
        if !self.stack.is_empty() {
            return;
        }
        if self.pending.take() == Some(true) {
            self.block(indent);
        }
    }

    /// What stands below a name, further to the right, or as a list.
    fn block(&mut self, outer: usize) {
        while !self.rest.is_empty() {
            let line = self.rest.split_inclusive('\n').next().unwrap_or_default();
            let text = line.trim();
            let within = indent(line) > outer || (indent(line) == outer && text.starts_with('-'));
            if !text.is_empty() && !within {
                return;
            }
            let shown = masked_line(line);
            self.out.push_str(&shown);
            self.skip(line.len());
            self.line = self.out.len();
        }
    }

    /// To the end of the line, by itself: what is open in it is not open below.
    fn comment(&mut self, mark: usize) {
        self.take(mark);
        let line = self.rest.split('\n').next().unwrap_or_default();
        let shown = if self.is_secret_here() && self.pending.is_some() {
            MASK.to_owned()
        } else if self.depth < DEEPEST {
            scan(line, self.depth + 1)
        } else {
            super::text(line).into_owned()
        };
        self.out.push_str(&shown);
        self.skip(line.len());
    }

    fn quoted(&mut self, quote: char) {
        let thrice = [quote; 3].iter().collect::<String>();
        let mark = if self.rest.starts_with(&thrice) { 3 } else { 1 };
        let Some(length) = close(self.rest, quote, mark) else {
            if self.is_secret_here() {
                let all = self.skip(self.rest.len());
                self.mask(all);
            } else {
                self.take(1);
            }
            return;
        };
        let within = self.rest.get(mark..mark + length).unwrap_or_default();
        // A quote in prose ends nowhere near.
        if mark == 1 && within.contains('\n') && !self.is_secret_here() {
            return self.take(1);
        }
        if self.pending != Some(true) && self.name(within, length + 2 * mark) {
            return;
        }
        self.take(mark);
        let mut flag = false;
        if self.is_secret_here() && is_reference(within) {
            self.out.push_str(within);
        } else if self.is_secret_here() {
            self.mask(within);
        } else {
            flag = is_flag(within);
            let shown = inner(within, self.depth);
            self.out.push_str(&shown);
        }
        self.skip(length);
        self.take(mark);
        // A flag in a list of arguments: its value is the next.
        self.pending = (flag && self.stack.is_empty()).then_some(true);
        if let Some(frame) = self.stack.last_mut() {
            frame.flag = flag && frame.list;
        }
    }

    /// Moves a name and what is between it and its value over. `length` is with its quotes.
    fn name(&mut self, name: &str, length: usize) -> bool {
        let after = self.rest.get(length..).unwrap_or_default();
        let space = after.len() - after.trim_start_matches([' ', '\t']).len();
        let Some(':' | '=') = after.get(space..).and_then(|rest| rest.chars().next()) else {
            return false;
        };
        let inherited = self.stack.last().is_some_and(|frame| frame.secret);
        self.pending = Some(is_secret(name) || (inherited && !is_about(name)));
        self.take(length + space + 1);
        true
    }

    fn bare(&mut self) {
        let length = word(self.rest);
        let text = self.rest.get(..length).unwrap_or_default();
        if self.pending != Some(true) && self.name(text, length) {
            return;
        }
        if self.pending == Some(true) {
            return self.bare_secret();
        }
        let rest = self.rest.get(length..).unwrap_or_default();
        let follows = rest.starts_with([' ', '\t']);
        let below = self.stack.is_empty() && is_flag(text) && rest.starts_with(['\r', '\n']);
        let begun = self.out.get(self.line..).unwrap_or_default().trim_start();
        let takes = is_flag(text) || (begun.starts_with("set ") && is_secret(text));
        let scheme = super::is_scheme(text);
        self.skip(length);
        if self.is_secret_here() && !is_reference(text) {
            self.mask(text);
        } else {
            self.out.push_str(&super::text(text));
        }
        self.pending = (below || (follows && (takes || scheme))).then_some(true);
    }

    /// All of the line, or what is of it before the next item.
    fn bare_secret(&mut self) {
        let ends: &[char] = if self.stack.is_empty() { &['\n'] } else { &['\n', ',', '}', ']'] };
        let mut length = self.rest.find(ends).unwrap_or(self.rest.len());
        // `${NAME}` and `{env:NAME}` end in one of those.
        if self.rest.starts_with("${")
            && !self.stack.is_empty()
            && let Some(end) = self.rest.find(['}', '\n'])
        {
            let rest = self.rest.get(end + 1..).unwrap_or_default();
            length = end + 1 + rest.find(ends).unwrap_or(rest.len());
        }
        let text = self.skip(length);
        let value = text.trim();
        if is_reference(value) || is_plain(value) {
            self.out.push_str(text);
            self.pending = None;
            return;
        }
        // The value, or the rest of it, may be below.
        self.pending = self.stack.is_empty().then_some(true);
        if value.chars().all(|c| "|>+-0123456789".contains(c)) {
            self.out.push_str(text);
        } else {
            self.mask(text);
        }
    }

    /// One mask for each line.
    fn mask(&mut self, text: &str) {
        if text.trim().is_empty() {
            return self.out.push_str(text);
        }
        let lines: Vec<&str> = text.split('\n').map(|_| MASK).collect();
        self.out.push_str(&lines.join("\n"));
        self.line = self.out.rfind('\n').map_or(self.line, |end| end + 1);
    }
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// A line of which all is the value of a secret. Names in it stay.
fn masked_line(line: &str) -> String {
    let text = line.trim();
    if text.is_empty() {
        return line.to_owned();
    }
    let (before, after) = line.split_once(text).unwrap_or_default();
    let (dash, item) = match text.strip_prefix("- ") {
        Some(item) => ("- ", item.trim_start()),
        None => ("", text),
    };
    let (name, value) = match item.split_once(": ") {
        Some((name, value)) => (format!("{name}: "), value.trim()),
        None => (String::new(), item),
    };
    let bare = value.trim_matches(['"', '\'']);
    let shown =
        if is_reference(bare) || is_plain(value) || value.ends_with(':') { value } else { MASK };
    format!("{before}{dash}{name}{shown}{after}")
}

/// How long what is within the quotes is.
fn close(text: &str, quote: char, mark: usize) -> Option<usize> {
    let within = text.get(mark..)?;
    let end = [quote; 3].iter().take(mark).collect::<String>();
    let mut at = 0;
    loop {
        let rest = within.get(at..)?;
        let next = rest.find([quote, '\\'])?;
        let found = rest.get(next..)?;
        if found.starts_with(&end) {
            return Some(at + next);
        }
        let escaped = found.starts_with('\\') && quote != '\'';
        let over =
            found.chars().take(if escaped { 2 } else { 1 }).map(char::len_utf8).sum::<usize>();
        at += next + over;
    }
}

/// How long the word at the beginning is. It is at least one character.
fn word(text: &str) -> usize {
    let end = text.char_indices().skip(1).find(|(at, c)| match c {
        '"' | '\'' | '`' | ',' | '{' | '}' | '[' | ']' | '=' => true,
        ':' => text.get(at + 1..).is_none_or(|rest| {
            rest.is_empty() || rest.starts_with(|c: char| c.is_whitespace() || "\"'{[-".contains(c))
        }),
        c => c.is_whitespace(),
    });
    end.map_or(text.len(), |(at, _)| at)
}

/// A text that is the value of a setting which is named like none.
fn inner(text: &str, depth: usize) -> String {
    // A text with quotes of its own in it, or a key over several lines.
    let opaque = text.contains("PRIVATE KEY") || (text.contains("\\\"") && is_secret(text));
    if opaque {
        let lines: Vec<&str> = text.split('\n').map(|_| MASK).collect();
        return lines.join("\n");
    }
    if depth < DEEPEST { scan(text, depth + 1) } else { super::text(text).into_owned() }
}

/// The words of a name, also of one in camel case.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut small = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || (small && c.is_uppercase()) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut()
            && c.is_alphanumeric()
        {
            word.extend(c.to_lowercase());
        }
        small = c.is_lowercase() || c.is_ascii_digit();
    }
    words.retain(|word| !word.is_empty());
    words
}

fn is_secret(name: &str) -> bool {
    let words = words(name);
    let secret = |word: &String| {
        SECRET.contains(&&**word) || word.ends_with("key") || word.ends_with("token")
    };
    (words.iter().any(secret) || super::is_sensitive(&super::plain(name)))
        && !words.last().is_some_and(|word| ABOUT.contains(&&**word))
}

fn is_about(name: &str) -> bool {
    words(name).last().is_some_and(|word| ABOUT.contains(&&**word))
}

/// An argument whose value is the next one.
fn is_flag(text: &str) -> bool {
    text.starts_with('-') && !text.contains('=') && is_secret(text)
}

/// A number or a word of the format itself: `input_cost_per_token` is not a secret.
fn is_plain(value: &str) -> bool {
    let value = value.split(" #").next().unwrap_or_default().trim().trim_end_matches(',');
    value.parse::<f64>().is_ok() || matches!(value, "true" | "false" | "null" | "~" | "{}" | "[]")
}

/// A value that only names where the secret is.
fn is_reference(value: &str) -> bool {
    let value = value.trim();
    let name = |text: &str| {
        text.contains(|c: char| c.is_ascii_alphabetic())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let between = |begin: &str, end: &str| {
        value.strip_prefix(begin).and_then(|rest| rest.strip_suffix(end)).is_some_and(name)
    };
    let variable = value.contains('_')
        && value.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    value.is_empty()
        || variable
        || between("${", "}")
        || between("{env:", "}")
        || between("${env:", "}")
        || between("${{ secrets.", " }}")
        || between("$env:", "")
        || value
            .strip_prefix('$')
            .is_some_and(|rest| name(rest) && !rest.chars().any(|c| c.is_ascii_lowercase()))
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
