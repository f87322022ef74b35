//! `GET /openapi.json` and `GET /docs`: what there is, for programs and for people.
//!
//! The document is kept by hand, in one part for each API beside this file. What else says
//! which endpoints there are (`/`, every 404, the page) is read from it.

mod page;

use std::{
    collections::VecDeque,
    convert::Infallible,
    pin::Pin,
    sync::LazyLock,
    task::{Context, Poll},
};

use axum::{
    body::Body,
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Uri, header, uri::Authority};
use http_body::{Frame, SizeHint};
use serde_json::Value;

/// The first part has what all share. Each of the others has `paths` and `schemas`.
const PARTS: [&str; 6] = [
    include_str!("base.json"),
    include_str!("chat.json"),
    include_str!("responses.json"),
    include_str!("messages.json"),
    include_str!("websocket.json"),
    include_str!("gateway.json"),
];

/// What a path may be asked for, in the order in which people read it.
const METHODS: [&str; 3] = ["post", "get", "delete"];

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
    let mut document = Value::Null;
    for part in PARTS {
        // A test reads every part, so none of them is left out here.
        join(&mut document, serde_json::from_str(part).unwrap_or_default());
    }
    if let Some(version) = document.pointer_mut("/info/version") {
        *version = env!("CARGO_PKG_VERSION").into();
    }
    document
});

static JSON: LazyLock<Bytes> = LazyLock::new(|| DOCUMENT.to_string().into());
static PAGE: LazyLock<String> = LazyLock::new(|| page::render(&DOCUMENT));
static ENDPOINTS: LazyLock<Vec<String>> =
    LazyLock::new(|| operations(&DOCUMENT).map(|operation| operation.to_string()).collect());
static WITHOUT_WEBSOCKETS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let plain = operations(&DOCUMENT).filter(|operation| !page::has_upgrade(operation.details));
    plain.map(|operation| operation.to_string()).collect()
});

/// One method of one path.
#[derive(Clone, Copy)]
struct Operation<'a> {
    method: &'static str,
    path: &'a str,
    details: &'a Value,
}

impl std::fmt::Display for Operation<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.method.to_ascii_uppercase(), self.path)
    }
}

/// Every endpoint as `POST /v1/chat/completions`, tag by tag.
pub(super) fn endpoints(websocket: bool) -> &'static [String] {
    if websocket { &ENDPOINTS } else { &WITHOUT_WEBSOCKETS }
}

/// Whether there is something under this path.
pub(super) fn has_path(path: &str) -> bool {
    operations(&DOCUMENT).any(|operation| fits(operation.path, path))
}

pub(super) async fn document() -> Response {
    let json = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, json)], JSON.clone()).into_response()
}

pub(super) async fn docs(uri: Uri, headers: HeaderMap) -> Response {
    let page = page::seen_from(&PAGE, host(&uri, &headers));
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    // The page loads nothing and runs nothing.
    let policy = HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'");
    let headers = [(header::CONTENT_TYPE, html), (header::CONTENT_SECURITY_POLICY, policy)];
    (headers, Body::new(SharedBody(page.into()))).into_response()
}

/// A body in pieces that it shares with others.
struct SharedBody(VecDeque<Bytes>);

impl http_body::Body for SharedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.iter().map(|piece| piece.len() as u64).sum())
    }
}

/// The name by which the client calls us. HTTP/2 has it in the target.
fn host<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    let header = || headers.get(header::HOST).and_then(|host| host.to_str().ok());
    uri.authority().map(Authority::as_str).or_else(header)
}

/// The operations of a document in the order of its tags.
fn operations(document: &Value) -> impl Iterator<Item = Operation<'_>> {
    tags(document).flat_map(move |tag| tagged(document, tag.name))
}

fn tagged<'a>(document: &'a Value, tag: &'a str) -> impl Iterator<Item = Operation<'a>> {
    let paths = document.get("paths").and_then(Value::as_object).into_iter().flatten();
    paths
        .flat_map(|(path, item)| {
            METHODS.into_iter().filter_map(move |method| {
                Some(Operation { method, path, details: item.get(method)? })
            })
        })
        .filter(move |operation| operation.details.pointer("/tags/0").is_some_and(|is| is == tag))
}

/// A group of operations.
struct OperationGroup<'a> {
    name: &'a str,
    description: &'a str,
}

fn tags(document: &Value) -> impl Iterator<Item = OperationGroup<'_>> {
    let tags = document.get("tags").and_then(Value::as_array).into_iter().flatten();
    tags.map(|tag| OperationGroup {
        name: text(tag, "name"),
        description: text(tag, "description"),
    })
}

/// Whether a path is one of a template, such as `/v1/models/{id}`. A value in it may have
/// slashes when it is the last.
fn fits(template: &str, path: &str) -> bool {
    let Some((before, rest)) = template.split_once('{') else { return template == path };
    let after = rest.split_once('}').map_or("", |(_, after)| after);
    path.strip_prefix(before)
        .and_then(|value| value.strip_suffix(after))
        .is_some_and(|value| !value.is_empty() && (after.is_empty() || !value.contains('/')))
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Adds a part to a document: what both have as an object is joined, the rest replaced.
fn join(whole: &mut Value, part: Value) {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            for (key, value) in part {
                join(whole.entry(key).or_insert(Value::Null), value);
            }
        }
        (whole, part) => *whole = part,
    }
}

#[cfg(test)]
#[path = "openapi_tests.rs"]
mod tests;
