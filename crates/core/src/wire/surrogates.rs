//! Escapes of half a surrogate pair (`\ud83d` without its other half). Clients write them when
//! they cut a text in the middle of an emoji, and then send them with every later request, so
//! that refusing them would end the session. They are read as U+FFFD.
//!
//! The replacement `\ufffd` is as long as what it replaces: places in error messages stay right.

use std::borrow::Cow;

use memchr::memmem;

const ESCAPE: &[u8] = b"\\u";
const REPLACEMENT: &[u8] = b"\\ufffd";

/// The same JSON, with `\ufffd` for each half of a surrogate pair that stands alone. Nothing is
/// copied when there is none, and nothing but escapes is looked at.
pub(in crate::wire) fn replace_lone(json: &[u8]) -> Cow<'_, [u8]> {
    let mut replaced = Cow::Borrowed(json);
    let mut pair_end = 0;
    for at in memmem::find_iter(json, ESCAPE) {
        if at < pair_end {
            continue;
        }
        let Some(half) = half_at(json, at).filter(|_| !is_literal(json, at)) else { continue };
        let end = at + REPLACEMENT.len();
        if half == Half::High && half_at(json, end) == Some(Half::Low) {
            pair_end = end + REPLACEMENT.len();
        } else if let Some(escape) = replaced.to_mut().get_mut(at..end) {
            escape.copy_from_slice(REPLACEMENT);
        }
    }
    replaced
}

/// As [`replace_lone`], for JSON inside a string, such as the arguments of a call.
pub(in crate::wire) fn replace_lone_in(json: String) -> String {
    match replace_lone(json.as_bytes()) {
        Cow::Borrowed(_) => json,
        // An escape is ASCII, and so is what takes its place.
        Cow::Owned(replaced) => String::from_utf8(replaced).unwrap_or(json),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Half {
    High,
    Low,
}

/// The half of a pair whose escape begins at `at`.
fn half_at(json: &[u8], at: usize) -> Option<Half> {
    let escape = json.get(at..at + REPLACEMENT.len())?;
    let digits = std::str::from_utf8(escape.strip_prefix(ESCAPE)?).ok()?;
    // `from_str_radix` also accepts a sign, so the digits are checked.
    let digits = digits.strip_prefix(['d', 'D'])?;
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    match u16::from_str_radix(digits, 16).ok().filter(|_| is_hex)? {
        0x800..0xc00 => Some(Half::High),
        0xc00.. => Some(Half::Low),
        ..0x800 => None,
    }
}

/// Whether the backslash at `at` is escaped itself, so that it begins no escape.
fn is_literal(json: &[u8], at: usize) -> bool {
    let before = json.get(..at).unwrap_or_default();
    before.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

#[cfg(test)]
#[path = "surrogates_tests.rs"]
mod tests;
