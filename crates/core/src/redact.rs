//! The one place that keeps secrets out of logs: every line of them passes through
//! here, whether it holds JSON, headers, addresses or free text.

pub mod settings;

use std::borrow::Cow;

/// What stands where a secret stood.
pub const MASK: &str = "***";

/// Names whose value is secret, without separators and in lower case. A name counts
/// when it contains one of these.
const SENSITIVE: [&str; 15] = [
    "accesstoken",
    "refreshtoken",
    "authtoken",
    "idtoken",
    "sessiontoken",
    "bearertoken",
    "apikey",
    "authorization",
    "cookie",
    "password",
    "passwd",
    "secret",
    "verifier",
    "privatekey",
    "cursorchecksum",
];

/// Names whose value is secret if it is a string: in a store they mean a token, in a
/// sentence anything.
const SENSITIVE_STRINGS: [&str; 2] = ["access", "refresh"];

/// Beginnings of keys that are secret wherever they stand.
const KEY_PREFIXES: [&str; 4] = ["crsr_", "ibk_", "ibi_", "cursor_key_"];
/// The same, where a word begins with them: they end other words, too.
const SHORT_KEY_PREFIXES: [&str; 2] = ["sk-", "key_"];
/// Shorter ones are words, such as `key_id`.
const KEY_TAIL: usize = 16;

/// How JSON begins in base64, as both parts of a token do.
const JSON_IN_BASE64: &str = "eyJ";
/// From this length on, a word without a dot counts as part of a token.
const JSON_LENGTH: usize = 32;

/// What stands around a value where a program shows its own data.
const WRAPPERS: [&str; 6] = ["Some", "Ok", "String", "Str", "Secret", "b"];

/// Values that stand for a missing one.
const NOTHING: [&str; 6] = ["null", "None", "true", "false", "Sensitive", MASK];

/// Whether the value under this plain name must not be shown.
fn is_sensitive(plain: &str) -> bool {
    plain.ends_with("token")
        || plain == "bearer"
        || SENSITIVE.iter().any(|word| plain.contains(word))
}

/// A name without separators and in lower case.
fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

/// Free text without what looks like a secret: values after a sensitive name, bearer
/// tokens, JWTs, API keys, private keys, passwords in addresses. Text without any is
/// returned as it is.
#[must_use]
pub fn text(input: &str) -> Cow<'_, str> {
    let mut masked = Masked { input, out: String::new(), done: 0 };
    let mut at = 0;
    while let Some((start, end)) = next_word(input, at) {
        let word = input.get(start..end).unwrap_or_default();
        at = end;
        if let Some((from, to)) = private_key(input, word, end).or_else(|| user_info(input, end)) {
            masked.mask(from, to);
            at = to;
        } else if let Some(keep) = secret_word(word) {
            masked.mask(start + keep, end);
        } else if is_scheme(word)
            && let Some(from) = after_scheme(input, end)
        {
            at = unquoted_end(input, from);
            masked.mask(from, at);
        } else if let Some(value) = SecretSpan::after(input, word, end) {
            at = masked.value(value);
        }
    }
    masked.end()
}

/// The text as it grows.
struct Masked<'a> {
    input: &'a str,
    out: String,
    /// Everything before this is in `out`.
    done: usize,
}

impl<'a> Masked<'a> {
    fn mask(&mut self, from: usize, to: usize) {
        // Nothing there, or all of it masked already.
        let from = from.max(self.done);
        if to > from {
            self.out.push_str(self.input.get(self.done..from).unwrap_or_default());
            self.out.push_str(MASK);
            self.done = to;
        }
    }

    /// A value, or a whole list of them. Returns where it ends.
    fn value(&mut self, mut value: SecretSpan) -> usize {
        loop {
            self.mask(value.from, value.to);
            match value.next(self.input) {
                Some(next) => value = next,
                None => return value.to,
            }
        }
    }

    fn end(mut self) -> Cow<'a, str> {
        if self.done == 0 {
            return Cow::Borrowed(self.input);
        }
        self.out.push_str(self.input.get(self.done..).unwrap_or_default());
        Cow::Owned(self.out)
    }
}

/// Where a value stands.
#[derive(Clone, Copy)]
struct SecretSpan {
    from: usize,
    to: usize,
    quote: Option<Quote>,
    in_list: bool,
    /// It begins with `Bearer` or `Basic`, which is not a part of it.
    has_scheme: bool,
}

/// A quote, and how many backslashes go before one of its kind: JSON may be inside of a
/// JSON string.
#[derive(Clone, Copy)]
struct Quote {
    mark: char,
    escapes: usize,
}

impl SecretSpan {
    /// What is assigned to this word, if that must not be shown.
    fn after(input: &str, word: &str, end: usize) -> Option<Self> {
        let rest = input.get(end..)?;
        // The quote that ends the name.
        let after = skip(rest, &['\\', '"', '\'', ']', ' ', '\t']);
        let mut signs = [":", "=", "%3A", "%3D", "%3a", "%3d"].iter();
        let after = signs.find_map(|sign| after.strip_prefix(sign))?;
        // The name of a folder does not count.
        let name = plain(word.rsplit('/').next().unwrap_or(word));
        let as_string = SENSITIVE_STRINGS.contains(&name.as_str());
        if !as_string && !is_sensitive(&name) {
            return None;
        }
        let (after, in_list) = opened(skip(after, &[':', '=', '>']));
        // Before its end is looked for: in a long row of such words that adds up.
        if as_string && !after.trim_start_matches('\\').starts_with(['"', '\'']) {
            return None;
        }
        let value = Self::at(input, end + rest.len() - after.len(), in_list);
        // A cookie has several parts, and an unknown scheme may have any number.
        let whole_line =
            name.contains("cookie") || (name.ends_with("authorization") && !value.has_scheme);
        let to = if whole_line && value.quote.is_none() {
            line_end(input, value.from)
        } else {
            value.to
        };
        let shown = input.get(value.from..to).filter(|text| !NOTHING.contains(text));
        shown.filter(|text| !text.is_empty()).map(|_| Self { to, ..value })
    }

    fn at(input: &str, from: usize, in_list: bool) -> Self {
        let rest = input.get(from..).unwrap_or_default();
        let inner = rest.trim_start_matches('\\');
        let escapes = rest.len() - inner.len();
        let mark = inner.chars().next().filter(|c| matches!(c, '"' | '\''));
        let quote = mark.map(|mark| Quote { mark, escapes });
        let from = from + quote.map_or(0, |quote| quote.escapes + quote.mark.len_utf8());
        // The scheme is not a secret, and shows which kind of one was there.
        let scheme = next_word(input, from).filter(|(start, end)| {
            *start == from && is_scheme(input.get(*start..*end).unwrap_or_default())
        });
        let after = scheme.and_then(|(_, end)| after_scheme(input, end));
        let from = after.unwrap_or(from);
        let to = match quote {
            Some(quote) => quote.end(input, from),
            None => unquoted_end(input, from),
        };
        Self { from, to, quote, in_list, has_scheme: after.is_some() }
    }

    /// The one after it in a list.
    fn next(self, input: &str) -> Option<Self> {
        let rest = input.get(self.to..).filter(|_| self.in_list)?;
        let after = rest.trim_start_matches(['\\', '"', '\'', ')', ' ', '\t', '\n', '\r']);
        let (after, _) = opened(after.strip_prefix(',')?);
        let next = Self::at(input, self.to + rest.len() - after.len(), true);
        (next.to > next.from).then_some(next)
    }
}

impl Quote {
    /// Where the string that begins here ends, without the backslashes of its quote.
    fn end(self, input: &str, from: usize) -> usize {
        let rest = input.get(from..).unwrap_or_default();
        for (at, _) in rest.match_indices(self.mark) {
            let before = rest.get(..at).unwrap_or_default();
            let escapes = before.len() - before.trim_end_matches('\\').len();
            if escapes <= self.escapes {
                return from + at - escapes;
            }
        }
        input.len()
    }
}

/// Skips spaces and what a program writes around a value; and whether it is a list.
fn opened(mut text: &str) -> (&str, bool) {
    let mut in_list = false;
    loop {
        let rest = skip(text, &[' ', '\t', '\n', '\r']);
        let rest = WRAPPERS.iter().find_map(|name| opened_by(rest, name)).unwrap_or(rest);
        let inner = rest.strip_prefix('[').unwrap_or(rest);
        in_list |= inner.len() != rest.len();
        if inner.len() == text.len() {
            return (text, in_list);
        }
        text = inner;
    }
}

fn opened_by<'a>(text: &'a str, wrapper: &str) -> Option<&'a str> {
    let rest = text.strip_prefix(wrapper)?;
    rest.strip_prefix('(').or_else(|| rest.starts_with('"').then_some(rest))
}

/// The text after these characters, and after what a terminal takes for colours.
fn skip<'a>(mut text: &'a str, characters: &[char]) -> &'a str {
    loop {
        let rest = text.trim_start_matches(characters);
        let code = rest
            .strip_prefix("\x1b[")
            .map(|code| code.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';'));
        let rest = code.and_then(|code| code.strip_prefix('m')).unwrap_or(rest);
        if rest.len() == text.len() {
            return rest;
        }
        text = rest;
    }
}

/// Where an unquoted value ends.
fn unquoted_end(input: &str, from: usize) -> usize {
    let rest = input.get(from..).unwrap_or_default();
    let stop = |c: char| {
        c.is_whitespace() || matches!(c, '\x1b' | ',' | ';' | '&' | '}' | ')' | ']' | '"' | '\'')
    };
    let value = rest.get(..rest.find(stop).unwrap_or(rest.len())).unwrap_or(rest);
    // JSON inside a JSON string: the backslash belongs to the closing quote.
    from + value.strip_suffix('\\').unwrap_or(value).len()
}

fn line_end(input: &str, from: usize) -> usize {
    let rest = input.get(from..).unwrap_or_default();
    let line = rest.get(..rest.find(['\n', '\r', '"']).unwrap_or(rest.len())).unwrap_or(rest);
    from + line.trim_end_matches('\\').len()
}

/// Where credentials begin after the name of their scheme.
fn after_scheme(input: &str, end: usize) -> Option<usize> {
    let rest = input.get(end..)?;
    let after = rest.trim_start_matches([' ', '\t']);
    let from = end + rest.len() - after.len();
    (from > end && unquoted_end(input, from) > from).then_some(from)
}

fn is_scheme(word: &str) -> bool {
    word.eq_ignore_ascii_case("bearer") || word.eq_ignore_ascii_case("basic")
}

/// How much of a word that is a secret by itself may be shown.
fn secret_word(word: &str) -> Option<usize> {
    let tail = |keep: &usize| word.get(*keep..).filter(|tail| tail.len() >= KEY_TAIL);
    let anywhere = KEY_PREFIXES.iter().filter_map(|prefix| Some(word.find(prefix)? + prefix.len()));
    let anywhere = anywhere.filter(|keep| tail(keep).is_some());
    let first = SHORT_KEY_PREFIXES.iter().filter_map(|prefix| {
        let at = word.match_indices(prefix).map(|(at, _)| at).find(|at| begins(word, *at))?;
        Some(at + prefix.len())
    });
    let first = first.filter(|keep| tail(keep).is_some_and(|tail| !is_phrase(tail)));
    token(word).into_iter().chain(anywhere).chain(first).min()
}

/// Whether a word within this one begins here.
fn begins(word: &str, at: usize) -> bool {
    !word.get(..at).unwrap_or_default().ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
}

/// Words with something between them, and not a number in any.
fn is_phrase(text: &str) -> bool {
    text.contains(['_', '-']) && !text.contains(|c: char| c.is_ascii_digit())
}

/// Where a JWT, or one part of it, begins. Something may stand before it without a gap.
fn token(word: &str) -> Option<usize> {
    word.match_indices(JSON_IN_BASE64).map(|(at, _)| at).find(|at| {
        let mut parts = word.get(*at..).unwrap_or_default().split('.');
        let mut length = || parts.next().map_or(0, str::len);
        let first = length();
        first >= JSON_LENGTH || (first >= 8 && length() >= 8)
    })
}

/// The inside of a private key that begins with this word.
fn private_key(input: &str, word: &str, end: usize) -> Option<(usize, usize)> {
    if !word.ends_with("-----BEGIN") {
        return None;
    }
    let rest = input.get(end..)?;
    let head = rest
        .find("-----")
        .filter(|at| rest.get(..*at).is_some_and(|kind| kind.ends_with("PRIVATE KEY")))?;
    let from = head + "-----".len();
    let inside = rest.get(from..)?;
    let to = from + inside.find("-----END").unwrap_or(inside.len());
    Some((end + from, end + to))
}

/// Name and password of an address whose scheme ends here.
fn user_info(input: &str, end: usize) -> Option<(usize, usize)> {
    let authority = input.get(end..)?.strip_prefix("://")?;
    let stop = |c: char| c.is_whitespace() || matches!(c, '/' | '?' | '#' | '"' | '\'' | '<' | '>');
    let authority = authority.get(..authority.find(stop).unwrap_or(authority.len()))?;
    let from = end + "://".len();
    Some((from, from + authority.rfind('@')?))
}

/// The next run of the characters that names and tokens are made of.
fn next_word(input: &str, at: usize) -> Option<(usize, usize)> {
    let rest = input.get(at..)?;
    let start = at + rest.find(is_word)?;
    let word = input.get(start..)?;
    let end = start + word.find(|c| !is_word(c)).unwrap_or(word.len());
    Some((start, end))
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '+' | '/' | '~')
}

#[cfg(test)]
#[path = "redact_tests.rs"]
mod tests;
