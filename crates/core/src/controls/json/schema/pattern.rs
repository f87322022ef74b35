//! Patterns in the dialect of JSON Schema, ECMA-262 with the flag `u`, for an engine with
//! another one.
//!
//! Edges of words (`\b`) are those of Unicode. What ECMA-262 has no meaning for (`\A`, `(?i)`, possessive quantifiers) is passed on, since
//! schemas made from other languages have it.

use std::fmt::Write as _;

use fancy_regex::{Regex, RegexBuilder};

/// How hard one pattern may try on one text, and how large it may become.
const PATTERN_STEPS: usize = 10_000;
const PATTERN_SIZE: usize = 1 << 20;

/// How many patterns a schema may have, and how long they may be together.
const PATTERNS: usize = 100;
const PATTERN_BYTES: usize = 16 << 10;

/// What a pattern counts for 64 bytes of text.
const EASY: u64 = 10;
const HARD: u64 = 4_000;

/// How many places of an easy pattern count once more, and how many a property of Unicode has.
const PLACES: u64 = 16;
const PROPERTY: u64 = 100;

const SPACE: &str = r"\t\n\x0B\f\r \u{A0}\u{FEFF}\u{2028}\u{2029}\p{Zs}";

#[derive(Debug)]
pub(super) struct Pattern {
    regex: Regex,
    source: Box<str>,
    weight: u64,
}

/// The patterns of one schema.
#[derive(Debug, Default)]
pub(super) struct Patterns {
    count: usize,
    bytes: usize,
}

impl Patterns {
    pub(super) fn compile(&mut self, source: &str) -> Result<Pattern, String> {
        self.count += 1;
        self.bytes += source.len();
        if self.count > PATTERNS || self.bytes > PATTERN_BYTES {
            return Err(format!(
                "it has more than {PATTERNS} patterns, or more than {} KiB of them",
                PATTERN_BYTES >> 10
            ));
        }
        let built = RegexBuilder::new(&translated(source))
            .backtrack_limit(PATTERN_STEPS)
            .delegate_size_limit(PATTERN_SIZE)
            .delegate_dfa_size_limit(PATTERN_SIZE)
            .build();
        let regex = built
            .map_err(|error| format!("the pattern {source:?} is invalid or too large: {error}"))?;
        Ok(Pattern { regex, source: source.into(), weight: weight(source) })
    }
}

impl Pattern {
    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// How hard the pattern is to 64 bytes of text.
    pub(super) fn weight(&self) -> u64 {
        self.weight
    }

    /// Whether it matches somewhere in a text. `None`: it takes too long to find out.
    pub(super) fn matches(&self, text: &str) -> Option<bool> {
        self.regex.is_match(text).ok()
    }
}

/// A pattern that looks around or back is tried in many ways. Of any other, the engine follows
/// all ways at once, in the worst case as many as the pattern has places.
fn weight(pattern: &str) -> u64 {
    let bytes = pattern.as_bytes();
    let looks = bytes.windows(3).any(|at| matches!(at, [b'(', b'?', then] if *then != b':'));
    let back = bytes.windows(2).any(|at| matches!(at, [b'\\', b'1'..=b'9' | b'k']));
    if looks || back { HARD } else { EASY.saturating_mul(1 + places(pattern) / PLACES) }
}

/// About how many places a pattern has, with what is repeated written out.
fn places(pattern: &str) -> u64 {
    let mut groups = vec![0_u64];
    let mut last = 0_u64;
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        let tail = rest.get(c.len_utf8()..).unwrap_or_default();
        rest = tail;
        last = match c {
            '(' => {
                groups.push(0);
                continue;
            }
            ')' if groups.len() > 1 => groups.pop().unwrap_or_default(),
            '{' if is_quantifier(tail) => {
                let (count, tail) = tail.split_once('}').unwrap_or_default();
                rest = tail;
                let most = count.rsplit(',').find(|count| !count.is_empty()).unwrap_or_default();
                let most = most.parse().unwrap_or(u64::MAX);
                last.saturating_mul(most.max(1) - 1)
            }
            '\\' => {
                let escaped = tail.chars().next().map_or(0, char::len_utf8);
                rest = tail.get(escaped..).unwrap_or_default();
                if tail.starts_with(['p', 'P']) { PROPERTY } else { 1 }
            }
            _ => 1,
        };
        if let Some(sum) = groups.last_mut() {
            *sum = sum.saturating_add(last);
        }
    }
    groups.iter().fold(0, |all, group| all.saturating_add(*group))
}

/// Where in a class of characters the next character is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClassPosition {
    Outside,
    /// Nothing before it can be the start of a range.
    Fresh,
    AfterCharacter,
    /// Behind the hyphen of a range.
    InRange,
}

impl ClassPosition {
    /// After a character in a class.
    fn next(self) -> Self {
        match self {
            Self::Outside => Self::Outside,
            Self::InRange => Self::Fresh,
            Self::Fresh | Self::AfterCharacter => Self::AfterCharacter,
        }
    }
}

/// The pattern for the engine. What is wrong with it is left for the engine to find.
fn translated(source: &str) -> String {
    let mut out = String::with_capacity(source.len() + 16);
    let mut rest = source;
    let mut class = ClassPosition::Outside;
    while let Some(c) = rest.chars().next() {
        let tail = rest.get(c.len_utf8()..).unwrap_or_default();
        rest = match (c, class) {
            ('\\', _) => escape(tail, &mut class, &mut out),
            ('[', ClassPosition::Outside) => class_start(tail, &mut class, &mut out),
            ('.', ClassPosition::Outside) => {
                out.push_str(r"[^\n\r\u{2028}\u{2029}]");
                tail
            }
            ('{', ClassPosition::Outside) if !is_quantifier(tail) => {
                out.push_str(r"\{");
                tail
            }
            (_, ClassPosition::Outside) => {
                out.push(c);
                tail
            }
            (']', _) => {
                class = ClassPosition::Outside;
                out.push(']');
                tail
            }
            ('-', ClassPosition::AfterCharacter) if !tail.starts_with(']') => {
                class = ClassPosition::InRange;
                out.push('-');
                tail
            }
            // To the engine these would start a class in the class, or an operator.
            ('[' | '-' | '&' | '~', _) => {
                class = class.next();
                out.extend(['\\', c]);
                tail
            }
            (_, _) => {
                class = class.next();
                out.push(c);
                tail
            }
        };
    }
    out
}

/// The start of a class, whose bracket has been read.
fn class_start<'a>(tail: &'a str, class: &mut ClassPosition, out: &mut String) -> &'a str {
    // Everything and nothing.
    if let Some(tail) = tail.strip_prefix("^]") {
        out.push_str(r"[\s\S]");
        return tail;
    }
    if let Some(tail) = tail.strip_prefix(']') {
        out.push_str(r"[^\s\S]");
        return tail;
    }
    *class = ClassPosition::Fresh;
    out.push('[');
    match tail.strip_prefix('^') {
        Some(tail) => {
            out.push('^');
            tail
        }
        None => tail,
    }
}

/// Whether what follows a brace makes a number of repetitions of it.
fn is_quantifier(tail: &str) -> bool {
    let Some((inside, _)) = tail.split_once('}') else { return false };
    let (least, most) = inside.split_once(',').unwrap_or((inside, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    !least.is_empty() && digits(least) && digits(most)
}

/// An escape, whose backslash has been read. Returns what follows it.
fn escape<'a>(tail: &'a str, class: &mut ClassPosition, out: &mut String) -> &'a str {
    let in_class = *class != ClassPosition::Outside;
    let Some(c) = tail.chars().next() else {
        out.push('\\');
        return tail;
    };
    let rest = tail.get(c.len_utf8()..).unwrap_or_default();
    *class = match c {
        // Whole classes, which cannot start a range.
        'd' | 'D' | 'w' | 'W' | 's' | 'S' | 'p' | 'P' if in_class => ClassPosition::Fresh,
        _ => class.next(),
    };
    let set = |out: &mut String, inside: &str| {
        let (open, close) = if in_class { ("", "") } else { ("[", "]") };
        out.extend([open, inside, close]);
    };
    match c {
        'd' => set(out, "0-9"),
        'w' => set(out, "A-Za-z0-9_"),
        's' => set(out, SPACE),
        'D' => out.push_str("[^0-9]"),
        'W' => out.push_str("[^A-Za-z0-9_]"),
        'S' => out.extend(["[^", SPACE, "]"]),
        'b' if in_class => out.push_str(r"\x08"),
        '0' => out.push_str(r"\x00"),
        'c' => {
            if let Some(letter) = rest.chars().next().filter(char::is_ascii_alphabetic) {
                character(u32::from(letter) % 32, out);
                return rest.get(1..).unwrap_or_default();
            }
            out.push_str(r"\\c");
        }
        'p' | 'P' | 'x' | 'u' if rest.starts_with('{') => {
            let (name, rest) = rest.split_at(rest.find('}').map_or(rest.len(), |end| end + 1));
            out.extend(['\\', c]);
            out.push_str(name);
            return rest;
        }
        'u' => return unicode(rest, out),
        // Letters and digits mean what they mean to the engine; the rest means itself.
        _ if c.is_alphanumeric() => out.extend(['\\', c]),
        _ => character(u32::from(c), out),
    }
    rest
}

/// `\u` with four digits, twice for a pair of surrogates.
fn unicode<'a>(rest: &'a str, out: &mut String) -> &'a str {
    let four = |text: &'a str| {
        let digits = text.get(..4).filter(|four| four.bytes().all(|b| b.is_ascii_hexdigit()))?;
        Some((u32::from_str_radix(digits, 16).ok()?, text.get(4..).unwrap_or_default()))
    };
    match four(rest) {
        Some((high @ 0xD800..=0xDBFF, behind)) => {
            let low = behind.strip_prefix(r"\u").and_then(four);
            if let Some((low @ 0xDC00..=0xDFFF, behind)) = low {
                character(0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00), out);
                return behind;
            }
            // Half a character: no text has one.
            out.push_str(r"[^\s\S]");
            behind
        }
        Some((code, behind)) => {
            character(code, out);
            behind
        }
        None => {
            out.push_str(r"\u");
            rest
        }
    }
}

fn character(code: u32, out: &mut String) {
    let _ = write!(out, r"\x{{{code:X}}}");
}

#[cfg(test)]
#[path = "pattern_tests.rs"]
mod tests;
