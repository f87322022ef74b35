//! One look over a request body before it is read: how deep it nests, how many fields
//! an object has, how many objects, fields and array elements there are in total, and that no field
//! appears twice. Serde checks that only for the fields it knows, and schemas and arguments are
//! kept as they are written until they are parsed later.
//!
//! The scan continues where the JSON is wrong and does not report it: the parser finds
//! that too, and has the better words.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::{
    codec::json::{
        JsonSize, JsonToken, JsonTokens, MOST_ELEMENTS, MOST_FIELDS, MOST_OBJECTS, RawText,
    },
    error::{ErrorCode, TurnError},
    model::{Item, TurnRequest},
};

/// Levels of objects and arrays. The parser's own limit is 128, also for a schema that
/// is read once more by itself; here the error can name the place.
const DEEPEST: usize = 120;

/// Fields of one object. The names of all open objects are held at once, so this and
/// [`DEEPEST`] are what bounds their number.
const WIDEST: usize = 10_000;

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
        FaultKind::Elements => {
            format!("its arrays have more than {MOST_ELEMENTS} elements in total, at `{path}`")
        }
        FaultKind::Objects => {
            format!("it has more than {MOST_OBJECTS} objects in total, at `{path}`")
        }
        FaultKind::Fields => {
            format!("its objects have more than {MOST_FIELDS} fields in total, at `{path}`")
        }
        FaultKind::Twice => format!("`{path}` is given twice"),
    };
    let text = format!("the request body cannot be used: {what}");
    Err(TurnError::new(ErrorCode::InvalidJson, text).param(path))
}

/// JSON of one request that is parsed into trees later and that [`check`] does not see, because it
/// is in a string or is stored. All of it may be a tree at once, so it is limited in total.
#[derive(Debug, Default)]
pub(in crate::wire) struct DeferredJson(JsonSize);

impl DeferredJson {
    /// Checks all tool schemas and arguments of a request to which stored items were added.
    ///
    /// # Errors
    /// `InvalidJson`, at `path`.
    pub(in crate::wire) fn check(turn: &TurnRequest, path: &str) -> Result<(), TurnError> {
        let mut all = Self::default();
        let schemas = turn.tools.iter().filter_map(|tool| tool.schema.as_deref());
        let arguments = turn.items.iter().filter_map(|item| match item {
            Item::ToolCall(call) => Some(call.arguments.as_str()),
            Item::Message(_) | Item::ToolResult(_) | Item::Reasoning(_) => None,
        });
        schemas.map(RawValue::get).chain(arguments).try_for_each(|text| all.add(text, path))
    }

    /// # Errors
    /// `InvalidJson`: with this text, which is at `path`, all of it is too much.
    pub(in crate::wire) fn add(&mut self, text: &str, path: &str) -> Result<(), TurnError> {
        const MOST: JsonSize = JsonSize { opened: MOST_OBJECTS, commas: MOST_FIELDS };
        // What is neither an object nor an array stays a text: some tools take code.
        if !text.trim_start().starts_with(['{', '[']) || self.0.add(text, MOST) {
            return Ok(());
        }
        let text = format!(
            "the arguments and schemas of the tools have more than {MOST_OBJECTS} objects or \
             {MOST_FIELDS} fields in total, at `{path}`"
        );
        Err(TurnError::new(ErrorCode::InvalidJson, text).param(path.to_owned()))
    }
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
    Elements,
    Objects,
    Fields,
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
    let (mut elements, mut objects, mut fields) = (0, 0, 0);
    for (at, token) in JsonTokens::new(body) {
        let in_array = open.last().is_some_and(Option::is_none);
        // An array that has none counts as well: it is something in memory.
        if token == JsonToken::Array || (token == JsonToken::Comma && in_array) {
            elements += 1;
            if elements > MOST_ELEMENTS {
                return Some(Fault { kind: FaultKind::Elements, at });
            }
        }
        match token {
            JsonToken::Text(text) if name_next => {
                name_next = false;
                let first = open.last().copied().flatten().unwrap_or_default();
                if names.len() - first == WIDEST {
                    return Some(Fault { kind: FaultKind::Wide, at });
                }
                fields += 1;
                if fields > MOST_FIELDS {
                    return Some(Fault { kind: FaultKind::Fields, at });
                }
                names.push(FieldName { text: text.plain(), at });
            }
            JsonToken::Text(_) => {}
            JsonToken::Object | JsonToken::Array => {
                if open.len() == DEEPEST {
                    return Some(Fault { kind: FaultKind::Deep, at });
                }
                name_next = token == JsonToken::Object;
                objects += usize::from(name_next);
                if objects > MOST_OBJECTS {
                    return Some(Fault { kind: FaultKind::Objects, at });
                }
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

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
