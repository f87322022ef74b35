//! JSON as requests bring it and replies need it.

use std::borrow::Cow;

use bytes::{BufMut as _, BytesMut};
use serde::{Deserialize, Serialize};
use serde_json::{Number, error::Category, value::RawValue};

use super::scan;
use crate::{
    error::{ErrorCode, TurnError},
    model::Effort,
};

/// The longest piece of a parser's message that is passed on: it may quote a value.
const DETAIL_CAP: usize = 200;

// === requests ===

/// Reads a request body.
///
/// # Errors
/// `InvalidJson`, or `InvalidValue` with the path of the field at fault.
pub(in crate::wire) fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, TurnError> {
    scan::check(body)?;
    let error = match serde_json::from_slice(body) {
        Ok(request) => return Ok(request),
        Err(error) => error,
    };
    match error.classify() {
        Category::Data => Err(wrong_type(body, &error)),
        Category::Syntax | Category::Eof | Category::Io => {
            let what = if body.iter().all(u8::is_ascii_whitespace) {
                "the request body is empty; it must be a JSON object".to_owned()
            } else {
                format!("the request body is not valid JSON: {}", capped(&error.to_string()))
            };
            Err(TurnError::new(ErrorCode::InvalidJson, what))
        }
    }
}

/// Reads a part of a body that was put aside as raw JSON; `at` is its path.
///
/// # Errors
/// `InvalidValue` with the path of the field at fault.
pub(in crate::wire) fn parse_at<'a, T: Deserialize<'a>>(
    raw: &'a RawValue,
    at: &str,
) -> Result<T, TurnError> {
    serde_json::from_str(raw.get()).map_err(|error| {
        let inner = scan::path_of(raw.get().as_bytes(), &error);
        let path = match inner.as_str() {
            "" => at.to_owned(),
            inner if inner.starts_with('[') => format!("{at}{inner}"),
            inner => format!("{at}.{inner}"),
        };
        wrong_field(path, &error)
    })
}

fn wrong_type(body: &[u8], error: &serde_json::Error) -> TurnError {
    let is_object = body.trim_ascii_start().starts_with(b"{");
    let path = scan::path_of(body, error);
    if path.is_empty() || !is_object {
        let text = error.to_string();
        let what = if is_object { "cannot be used" } else { "must be a JSON object" };
        let text = format!("the request body {what}: {}", capped(&text));
        return TurnError::new(ErrorCode::InvalidJson, text);
    }
    wrong_field(path, error)
}

/// The field is named, so the parser's line and column would only be noise.
fn wrong_field(path: String, error: &serde_json::Error) -> TurnError {
    let text = error.to_string();
    let (detail, _) = split_place(&text);
    let message = format!("`{path}` has the wrong type: {}", capped(detail));
    invalid(path, message)
}

/// The parser's words, and the place that it puts behind them.
fn split_place(text: &str) -> (&str, &str) {
    text.rfind(" at line ").and_then(|at| text.split_at_checked(at)).unwrap_or((text, ""))
}

fn capped(text: &str) -> String {
    if text.len() <= DETAIL_CAP {
        return text.to_owned();
    }
    // The quoted value is cut, not the place behind it.
    let (words, place) = split_place(text);
    let end = words.floor_char_boundary(DETAIL_CAP);
    format!("{}…{place}", words.get(..end).unwrap_or_default())
}

/// Whether it is set to something else than its default.
pub(in crate::wire) fn is_not(number: Option<&Number>, default: f64) -> bool {
    number.and_then(Number::as_f64).is_some_and(|value| (value - default).abs() > f64::EPSILON)
}

/// Whether it is set to something else than its defaults.
pub(in crate::wire) fn is_set(value: Option<&RawValue>, defaults: &[&str]) -> bool {
    value.is_some_and(|value| {
        let text: String = value.get().chars().take(16).filter(|c| !c.is_whitespace()).collect();
        !defaults.contains(&text.as_str())
    })
}

/// How many tools one request may bring, in all its lists.
const MOST_TOOLS: usize = 1024;

/// # Errors
/// There are more tools than a request can have; `count` includes the next one.
pub(in crate::wire) fn check_tools(count: usize) -> Result<(), TurnError> {
    if count > MOST_TOOLS {
        let text = format!("a request can have at most {MOST_TOOLS} tools");
        return Err(invalid("tools", text));
    }
    Ok(())
}

/// The name of the model that a request asks for.
///
/// # Errors
/// `InvalidValue`: there is none.
pub(in crate::wire) fn model_name(given: Option<&str>) -> Result<String, TurnError> {
    match given.map(str::trim) {
        Some(name) if !name.is_empty() => Ok(name.to_owned()),
        _ => Err(invalid("model", "`model` is missing or empty")),
    }
}

/// The text in `path.field`; `text` says that it is needed.
///
/// # Errors
/// `InvalidValue`: it is missing or empty.
pub(in crate::wire) fn required<T: AsRef<str>>(
    given: Option<T>,
    path: &str,
    field: &str,
    text: &'static str,
) -> Result<T, TurnError> {
    let missing = || invalid(format!("{path}.{field}"), text);
    given.filter(|given| !given.as_ref().is_empty()).ok_or_else(missing)
}

/// The effort in the field `param`.
///
/// # Errors
/// `InvalidValue`: the word is unknown.
pub(in crate::wire) fn effort(
    word: Option<&str>,
    param: &'static str,
) -> Result<Option<Effort>, TurnError> {
    let Some(word) = word.filter(|word| !word.is_empty()) else { return Ok(None) };
    Effort::parse(&word.to_ascii_lowercase()).map(Some).ok_or_else(|| {
        let known = Effort::ALL.map(Effort::as_str).join(", ");
        invalid(param, format!("unknown `{param}`; use one of {known}"))
    })
}

/// The limit of tokens in the field `param`.
///
/// # Errors
/// `InvalidValue`: it is not a whole number of at least 1.
pub(in crate::wire) fn token_limit(
    given: Option<&Number>,
    param: &'static str,
) -> Result<Option<u64>, TurnError> {
    let Some(given) = given else { return Ok(None) };
    let limit = given.as_u64().filter(|limit| *limit > 0);
    let text = || format!("`{param}` must be a whole number of at least 1");
    limit.map(Some).ok_or_else(|| invalid(param, text()))
}

/// The names of the parameters that are set.
pub(in crate::wire) fn names_of<const N: usize>(
    parameters: [(&'static str, bool); N],
) -> Vec<&'static str> {
    parameters.into_iter().filter_map(|(name, set)| set.then_some(name)).collect()
}

/// The beginning of a word of the client, for an error.
pub(in crate::wire) fn brief(word: &str) -> &str {
    word.char_indices().nth(64).and_then(|(end, _)| word.get(..end)).unwrap_or(word)
}

type ErrorText = Cow<'static, str>;

pub(in crate::wire) fn invalid(
    param: impl Into<ErrorText>,
    message: impl Into<ErrorText>,
) -> TurnError {
    TurnError::new(ErrorCode::InvalidValue, message).param(param)
}

pub(in crate::wire) fn unsupported(
    param: impl Into<ErrorText>,
    message: impl Into<ErrorText>,
) -> TurnError {
    TurnError::new(ErrorCode::UnsupportedParameter, message).param(param)
}

// === replies ===

/// Serialises straight into the buffer. Neither the buffer nor these types can
/// fail; if one ever does, the half-written value is taken back.
pub(in crate::wire) fn put_json(out: &mut BytesMut, value: &impl Serialize) {
    let start = out.len();
    if serde_json::to_writer((&mut *out).writer(), value).is_err() {
        out.truncate(start);
        out.put_slice(b"null");
    }
}

/// A whole reply. Our types cannot fail; if one ever does, it is null.
pub(in crate::wire) fn to_json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_else(|_| b"null".to_vec())
}
