//! The rest of a JSON text whose beginning is already out. Arguments of a tool call
//! are streamed in the form the backend gives them; the whole value that comes at the
//! end may be rendered in another way (key order, white space, escapes), and must be
//! joined to what the client has without a seam.

mod number;
mod read;

use std::fmt::Write as _;

use serde_json::{Map, Value};

use self::read::{Cut, CutText, InList, InObject, Prefix, PrefixReader};
use super::canonical::same_number;

/// What must follow `streamed` so that the text parses to `whole`.
///
/// `streamed` may end anywhere. `None`: it contradicts `whole`, or is not JSON. A value
/// that was streamed whole is never written a second time, although most readers take
/// the last of two equal keys: some refuse them.
#[must_use]
pub fn tail(streamed: &str, whole: &Value) -> Option<String> {
    match PrefixReader::new(streamed).document()? {
        Prefix::Whole(value) => same(&value, whole).then(String::new),
        Prefix::Cut(cut) => complete(cut, whole),
    }
}

/// Equality of values in which numbers compare by value.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => same_number(a, b),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

fn complete(cut: Cut<'_>, whole: &Value) -> Option<String> {
    match (cut, whole) {
        (Cut::Before, _) => Some(whole.to_string()),
        (Cut::Word(begun), Value::Null | Value::Bool(_)) => {
            whole.to_string().strip_prefix(begun).map(str::to_owned)
        }
        (Cut::Number(begun), Value::Number(number)) => number::tail(begun, number),
        (Cut::Text(begun), Value::String(text)) => text_tail(&begun, text),
        (Cut::List { read, at }, Value::Array(items)) => list_tail(&read, at, items),
        (Cut::Object { read, at }, Value::Object(members)) => object_tail(read, at, members),
        _ => None,
    }
}

fn list_tail(read: &[Value], at: InList<'_>, items: &[Value]) -> Option<String> {
    let (known, rest) = items.split_at_checked(read.len())?;
    if !known.iter().zip(read).all(|(a, b)| same(a, b)) {
        return None;
    }
    let mut out = String::new();
    let rest = match (at, rest.split_first()) {
        (InList::Open, None) => rest,
        (InList::Open, Some((first, rest))) => {
            let _ = write!(out, "{first}");
            rest
        }
        (InList::Next, _) => rest,
        (InList::Item(cut), Some((first, rest))) => {
            out.push_str(&complete(*cut, first)?);
            rest
        }
        (InList::Item(_), None) => return None,
    };
    for item in rest {
        let _ = write!(out, ",{item}");
    }
    out.push(']');
    Some(out)
}

fn object_tail(
    mut read: Map<String, Value>,
    at: InObject<'_>,
    members: &Map<String, Value>,
) -> Option<String> {
    // A key that comes again takes the place of what it had.
    let current = match &at {
        InObject::Colon(key) | InObject::Member(key, _) => {
            read.remove(key);
            Some(key.clone())
        }
        InObject::Open | InObject::Next | InObject::Comma | InObject::Key(_) => None,
    };
    if !read.iter().all(|(key, a)| members.get(key).is_some_and(|b| same(a, b))) {
        return None;
    }
    let mut missing: Vec<(&String, &Value)> = members
        .iter()
        .filter(|(key, _)| !read.contains_key(*key) && current.as_ref() != Some(*key))
        .collect();
    let mut out = String::new();
    match at {
        InObject::Next => {}
        InObject::Open if missing.is_empty() => {}
        InObject::Open | InObject::Comma => {
            if missing.is_empty() {
                return None;
            }
            let (key, member) = missing.remove(0);
            let _ = write!(out, "{}:{member}", Value::from(key.as_str()));
        }
        InObject::Key(begun) => {
            let (place, rest) = missing
                .iter()
                .enumerate()
                .find_map(|(place, (key, _))| Some((place, text_tail(&begun, key)?)))?;
            let (_, member) = missing.remove(place);
            let _ = write!(out, "{rest}:{member}");
        }
        InObject::Colon(key) => {
            let _ = write!(out, ":{}", members.get(&key)?);
        }
        InObject::Member(key, cut) => out.push_str(&complete(*cut, members.get(&key)?)?),
    }
    for (key, member) in missing {
        let _ = write!(out, ",{}:{member}", Value::from(key.as_str()));
    }
    out.push('}');
    Some(out)
}

/// The rest of a string, its closing quote included.
fn text_tail(begun: &CutText<'_>, whole: &str) -> Option<String> {
    let mut rest = whole.strip_prefix(begun.read.as_str())?;
    let mut out = String::new();
    if begun.high.is_some() || !begun.escape.is_empty() {
        let mut chars = rest.chars();
        out.push_str(&escape_tail(begun.high, begun.escape, chars.next()?)?);
        rest = chars.as_str();
    }
    let quoted = Value::from(rest).to_string();
    out.push_str(quoted.strip_prefix('"')?);
    Some(out)
}

/// The rest of the escape of `next`, of which `begun` and, for a surrogate pair,
/// perhaps the whole `high` half is written.
fn escape_tail(high: Option<u16>, begun: &str, next: char) -> Option<String> {
    let mut buffer = [0; 2];
    let mut units = next.encode_utf16(&mut buffer).iter().copied();
    if high.is_some_and(|high| units.next() != Some(high)) {
        return None;
    }
    if begun == "\\" && high.is_none() {
        let short = match next {
            '"' | '\\' | '/' => Some(next),
            '\u{8}' => Some('b'),
            '\u{c}' => Some('f'),
            '\n' => Some('n'),
            '\r' => Some('r'),
            '\t' => Some('t'),
            _ => None,
        };
        if let Some(short) = short {
            return Some(short.to_string());
        }
    }
    let mut full = String::new();
    for unit in units {
        let _ = write!(full, "\\u{unit:04x}");
    }
    let (head, tail) = full.split_at_checked(begun.len())?;
    head.eq_ignore_ascii_case(begun).then(|| tail.to_owned())
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
