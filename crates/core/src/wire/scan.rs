//! One look over a request body before it is read: how deep it nests, how many fields
//! an object has and how many elements all arrays, and that no field appears twice. Serde
//! checks that only for the fields it knows, and schemas and arguments are kept as they are written.
//!
//! The scan continues where the JSON is wrong and does not report it: the parser finds
//! that too, and has the better words.

use std::borrow::Cow;

use memchr::memchr2;

use crate::error::{ErrorCode, TurnError};

/// Levels of objects and arrays. The parser's own limit is 128, also for a schema that
/// is read once more by itself; here the error can name the place.
const DEEPEST: usize = 120;

/// Fields of one object. The names of all open objects are held at once, so this and
/// [`DEEPEST`] are what bounds their number.
const WIDEST: usize = 10_000;

/// Elements of all arrays together. An element may be three bytes of a body and hundreds in
/// memory; conversations of a week have some thousand of them. As many as this take 15 ms to decode.
const MOST_ELEMENTS: usize = 50_000;

/// Up to this number of names are compared pairwise; more are sorted.
const FEW: usize = 16;

/// The longest path that is put into a message.
const PATH_CAP: usize = 100;

/// # Errors
/// `InvalidJson`, with the path of what is too deep, too wide, too much or there twice.
pub(super) fn check(body: &[u8]) -> Result<(), TurnError> {
    let Some(fault) = find(body) else { return Ok(()) };
    // A name belongs to its own path, an opening bracket to what it opens.
    let end = if matches!(fault.kind, FaultKind::Deep) { fault.at } else { fault.at + 1 };
    let path = path(body, end);
    let what = match fault.kind {
        FaultKind::Deep => format!("`{path}` nests deeper than {DEEPEST} levels"),
        FaultKind::Wide => format!("the object around `{path}` has more than {WIDEST} fields"),
        FaultKind::Many => {
            format!("its arrays have more than {MOST_ELEMENTS} elements in total, at `{path}`")
        }
        FaultKind::Twice => format!("`{path}` is given twice"),
    };
    let text = format!("the request body cannot be used: {what}");
    Err(TurnError::new(ErrorCode::InvalidJson, text).param(path))
}

#[derive(Clone, Copy)]
struct Fault {
    kind: FaultKind,
    /// Where it is in the body.
    at: usize,
}

#[derive(Clone, Copy)]
enum FaultKind {
    Deep,
    Wide,
    Many,
    Twice,
}

/// The name of a field, without its escapes.
struct FieldName<'a> {
    text: Cow<'a, [u8]>,
    at: usize,
}

fn find(body: &[u8]) -> Option<Fault> {
    let mut names: Vec<FieldName<'_>> = Vec::new();
    // For each open object, how many names there were before it; for an array, nothing.
    let mut open: Vec<Option<usize>> = Vec::new();
    let mut name_next = false;
    let mut elements = 0;
    for (at, token) in JsonTokens::new(body) {
        let in_array = open.last().is_some_and(Option::is_none);
        // An array that has none counts as well: it is something in memory.
        if token == JsonToken::Array || (token == JsonToken::Comma && in_array) {
            elements += 1;
            if elements > MOST_ELEMENTS {
                return Some(Fault { kind: FaultKind::Many, at });
            }
        }
        match token {
            JsonToken::Text(text) if name_next => {
                name_next = false;
                let first = open.last().copied().flatten().unwrap_or_default();
                if names.len() - first == WIDEST {
                    return Some(Fault { kind: FaultKind::Wide, at });
                }
                names.push(FieldName { text: text.plain(), at });
            }
            JsonToken::Text(_) => {}
            JsonToken::Object | JsonToken::Array => {
                if open.len() == DEEPEST {
                    return Some(Fault { kind: FaultKind::Deep, at });
                }
                name_next = token == JsonToken::Object;
                open.push(name_next.then_some(names.len()));
            }
            JsonToken::Comma => name_next = open.last().is_some_and(Option::is_some),
            JsonToken::Close => {
                name_next = false;
                if let Some(first) = open.pop().flatten() {
                    if let Some(at) = twice(names.get_mut(first..).unwrap_or_default()) {
                        return Some(Fault { kind: FaultKind::Twice, at });
                    }
                    names.truncate(first);
                }
            }
        }
    }
    None
}

/// Where a name stands that was there before.
fn twice(names: &mut [FieldName<'_>]) -> Option<usize> {
    if names.len() <= FEW {
        let mut rest: &[FieldName<'_>] = names;
        while let Some((last, before)) = rest.split_last() {
            if before.iter().any(|name| name.text == last.text) {
                return Some(last.at);
            }
            rest = before;
        }
        return None;
    }
    names.sort_unstable_by(|a, b| a.text.cmp(&b.text).then(a.at.cmp(&b.at)));
    names.array_windows().find_map(|[a, b]| (a.text == b.text).then_some(b.at))
}

/// The path of the value at which the parser gave up, as other errors write it:
/// `tools[0].name`. Empty when it is the body itself.
pub(super) fn path_of(body: &[u8], error: &serde_json::Error) -> String {
    let lines = body.split_inclusive(|byte| *byte == b'\n');
    let before: usize = lines.take(error.line().saturating_sub(1)).map(<[u8]>::len).sum();
    let read = before + error.column();
    let text = error.to_string();
    let bracket_read = |kind: &str, bracket: u8| {
        text.starts_with(&format!("invalid type: {kind}"))
            && body.get(read) != Some(&bracket)
            && read.checked_sub(1).and_then(|last| body.get(last)) == Some(&bracket)
    };
    // The parser stops behind the last byte of the value at fault, or in front of a value that
    // it does not read. Of a list or an object in the wrong place it may have read the bracket.
    let opened = bracket_read("sequence", b'[') || bracket_read("map", b'{');
    path(body, if opened { read - 1 } else { read })
}

/// The path of what stands before `end`.
fn path(body: &[u8], end: usize) -> String {
    enum Step<'a> {
        Field(Option<RawText<'a>>),
        Element(usize),
    }
    let mut steps: Vec<Step<'_>> = Vec::new();
    let mut name_next = false;
    for (at, token) in JsonTokens::new(body) {
        if at >= end {
            break;
        }
        match (token, steps.last_mut()) {
            (JsonToken::Text(text), Some(Step::Field(name))) if name_next => {
                *name = Some(text);
                name_next = false;
            }
            (JsonToken::Comma, Some(Step::Field(_))) => name_next = true,
            (JsonToken::Comma, Some(Step::Element(index))) => *index += 1,
            (JsonToken::Object, _) => {
                steps.push(Step::Field(None));
                name_next = true;
            }
            (JsonToken::Array, _) => {
                steps.push(Step::Element(0));
                name_next = false;
            }
            (JsonToken::Close, _) => {
                steps.pop();
                name_next = false;
            }
            (JsonToken::Text(_) | JsonToken::Comma, _) => {}
        }
    }
    let mut path = String::new();
    for step in steps {
        match step {
            Step::Field(None) => {}
            Step::Field(Some(name)) => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(&String::from_utf8_lossy(&name.plain()));
            }
            Step::Element(index) => path.push_str(&format!("[{index}]")),
        }
        if path.len() > PATH_CAP {
            path.truncate(path.floor_char_boundary(PATH_CAP));
            path.push('…');
            break;
        }
    }
    path
}

// === tokens ===

/// What structure is made of. Numbers, words and colons say nothing about it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum JsonToken<'a> {
    Object,
    Array,
    Close,
    Comma,
    Text(RawText<'a>),
}

/// A string as it is written, without its quotes.
#[derive(Clone, Copy, PartialEq, Eq)]
struct RawText<'a> {
    raw: &'a [u8],
    escaped: bool,
}

impl<'a> RawText<'a> {
    fn plain(self) -> Cow<'a, [u8]> {
        if !self.escaped {
            return Cow::Borrowed(self.raw);
        }
        // Escapes that mean nothing are the parser's to refuse.
        let quoted = [b"\"", self.raw, b"\""].concat();
        serde_json::from_slice::<String>(&quoted)
            .map_or(Cow::Borrowed(self.raw), |text| Cow::Owned(text.into_bytes()))
    }
}

/// The tokens of a body, each with its place. They end where a string does not.
struct JsonTokens<'a> {
    body: &'a [u8],
    at: usize,
}

impl<'a> JsonTokens<'a> {
    fn new(body: &'a [u8]) -> Self {
        Self { body, at: 0 }
    }

    /// The string that begins at `self.at`, behind its quote.
    fn text(&mut self) -> Option<RawText<'a>> {
        let all = self.body.get(self.at..)?;
        let mut end = 0;
        let mut escaped = false;
        loop {
            let rest = all.get(end..)?;
            let next = memchr2(b'"', b'\\', rest)?;
            end += next;
            if rest.get(next) == Some(&b'"') {
                self.at += end + 1;
                return Some(RawText { raw: all.get(..end)?, escaped });
            }
            escaped = true;
            end += 2;
        }
    }
}

impl<'a> Iterator for JsonTokens<'a> {
    type Item = (usize, JsonToken<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let at = self.at;
            let byte = *self.body.get(at)?;
            self.at += 1;
            let token = match byte {
                b'"' => JsonToken::Text(self.text()?),
                b'{' => JsonToken::Object,
                b'[' => JsonToken::Array,
                b'}' | b']' => JsonToken::Close,
                b',' => JsonToken::Comma,
                _ => continue,
            };
            return Some((at, token));
        }
    }
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
