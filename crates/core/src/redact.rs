//! The one place that keeps secrets out of logs: every line of them passes through
//! here, whether it holds JSON, headers or free text.

use std::borrow::Cow;

/// What stands where a secret stood.
pub const MASK: &str = "***";

/// Names whose value is secret, without separators and in lower case. A name counts
/// when it contains one of these.
const SENSITIVE: [&str; 14] = [
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
    "secret",
    "codeverifier",
    "privatekey",
    "cursorchecksum",
];

/// Beginnings of keys that are secret wherever they stand.
const KEY_PREFIXES: [&str; 5] = ["crsr_", "ibk_", "sk-", "cursor_key_", "key_"];
/// Shorter ones are words, such as `key_id`.
const KEY_TAIL: usize = 16;

/// Whether the value under this name must not be shown.
fn is_sensitive(name: &str) -> bool {
    let plain: String =
        name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    plain == "token" || SENSITIVE.iter().any(|word| plain.contains(word))
}

/// Free text without what looks like a secret: values after a sensitive name, bearer
/// tokens, JWTs, API keys. Text without any is returned as it is.
#[must_use]
pub fn text(input: &str) -> Cow<'_, str> {
    let mut out = String::new();
    // Everything before this is in `out`.
    let mut done = 0;
    let mut expects_secret = false;
    let mut quote = None;
    let mut rest = Scanner { input, at: 0 };
    while let Some((start, end)) = rest.next_word() {
        let word = input.get(start..end).unwrap_or_default();
        let scheme = word.eq_ignore_ascii_case("bearer") || word.eq_ignore_ascii_case("basic");
        if expects_secret && !scheme {
            let end = rest.extend_value(end, quote);
            mask(&mut out, input, &mut done, start, end);
            rest.at = end;
            expects_secret = false;
            continue;
        }
        if let Some(keep) = secret_word(word) {
            mask(&mut out, input, &mut done, start + keep, end);
            expects_secret = false;
            continue;
        }
        let gap = rest.gap(end);
        let assigned = gap.contains([':', '=']) && gap.len() <= 8;
        // A scheme's credentials follow after a space; so they do after a masked name.
        let credentials = scheme && (gap == " " || expects_secret);
        expects_secret = credentials || (assigned && is_sensitive(word));
        quote = gap.chars().last().filter(|c| matches!(c, '"' | '\''));
    }
    if done == 0 {
        return Cow::Borrowed(input);
    }
    out.push_str(input.get(done..).unwrap_or_default());
    Cow::Owned(out)
}

fn mask(out: &mut String, input: &str, done: &mut usize, start: usize, end: usize) {
    out.push_str(input.get(*done..start).unwrap_or_default());
    out.push_str(MASK);
    *done = end;
}

/// How much of a word that is a secret by itself may be shown.
fn secret_word(word: &str) -> Option<usize> {
    if is_jwt(word) {
        return Some(0);
    }
    let prefix = KEY_PREFIXES.iter().find(|prefix| word.starts_with(**prefix))?;
    (word.len() >= prefix.len() + KEY_TAIL).then_some(prefix.len())
}

fn is_jwt(word: &str) -> bool {
    let mut parts = word.split('.');
    let long = |part: Option<&str>| part.is_some_and(|part| part.len() >= 8);
    word.starts_with("eyJ") && long(parts.next()) && long(parts.next())
}

/// Walks over runs of the characters that names and tokens are made of.
struct Scanner<'a> {
    input: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    fn next_word(&mut self) -> Option<(usize, usize)> {
        let rest = self.input.get(self.at..)?;
        let start = self.at + rest.find(is_word)?;
        let word = self.input.get(start..)?;
        let end = start + word.find(|c| !is_word(c)).unwrap_or(word.len());
        self.at = end;
        Some((start, end))
    }

    /// What is between a word and the next.
    fn gap(&self, end: usize) -> &'a str {
        let rest = self.input.get(end..).unwrap_or_default();
        rest.get(..rest.find(is_word).unwrap_or(rest.len())).unwrap_or_default()
    }

    /// A value goes on to its closing quote, or to where an unquoted one ends.
    fn extend_value(&self, end: usize, quote: Option<char>) -> usize {
        let rest = self.input.get(end..).unwrap_or_default();
        let stop = |c: char| match quote {
            Some(quote) => c == quote,
            None => {
                c.is_whitespace() || matches!(c, ',' | ';' | '&' | '}' | ')' | ']' | '"' | '\'')
            }
        };
        let value = rest.get(..rest.find(stop).unwrap_or(rest.len())).unwrap_or(rest);
        // JSON inside a JSON string: the backslash belongs to the closing quote.
        end + value.strip_suffix('\\').unwrap_or(value).len()
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '+' | '/' | '~')
}

#[cfg(test)]
#[path = "redact_tests.rs"]
mod tests;
