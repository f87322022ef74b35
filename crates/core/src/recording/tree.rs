//! A protobuf message as a tree of its fields, which people can read: every field with its number
//! and its name, in the order of the wire.

use std::{borrow::Cow, collections::HashMap};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde_json::{Value, json};

use super::mask::{Mask, NO_TEXT};

/// Messages that nest deeper are written as bytes.
pub(super) const DEPTH: usize = 32;

/// A message.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WireTree(pub Vec<WireField>);

#[derive(Clone, Debug, PartialEq)]
pub struct WireField {
    pub number: u32,
    /// Empty: the schema does not have it.
    pub name: Cow<'static, str>,
    pub value: WireValue,
}

#[derive(Clone, Debug, PartialEq)]
pub enum WireValue {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Text(String),
    /// Bytes that are not a text.
    Bytes(Bytes),
    Message(WireTree),
    /// From here on the bytes are not a message. It has no tag.
    Malformed(Bytes),
}

impl WireTree {
    /// The message on the wire.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut out = Vec::new();
        self.write(&mut out);
        out.into()
    }

    fn write(&self, out: &mut Vec<u8>) {
        for field in &self.0 {
            let tag =
                |wire: u64, out: &mut Vec<u8>| varint(u64::from(field.number) << 3 | wire, out);
            let mut run = |bytes: &[u8]| {
                tag(2, out);
                varint(bytes.len() as u64, out);
                out.extend_from_slice(bytes);
            };
            match &field.value {
                WireValue::Varint(number) => {
                    tag(0, out);
                    varint(*number, out);
                }
                WireValue::Fixed64(number) => {
                    tag(1, out);
                    out.extend_from_slice(&number.to_le_bytes());
                }
                WireValue::Fixed32(number) => {
                    tag(5, out);
                    out.extend_from_slice(&number.to_le_bytes());
                }
                WireValue::Text(text) => run(text.as_bytes()),
                WireValue::Bytes(bytes) => run(bytes),
                WireValue::Message(inner) => run(&inner.encode()),
                WireValue::Malformed(bytes) => out.extend_from_slice(bytes),
            }
        }
    }

    /// What kind of message it is, by the names of the fields that it chooses:
    /// `exec_client_message.mcp_result.success`.
    #[must_use]
    pub fn kind(&self) -> String {
        let mut kind = String::new();
        let mut tree = self;
        for _ in 0..3 {
            let chosen = tree.0.iter().filter(|field| !SIDE.contains(&&*field.name));
            let is_message = |field: &&WireField| matches!(field.value, WireValue::Message(_));
            let mut inner = chosen.clone().filter(is_message);
            let Some(field) =
                inner.next().or_else(|| chosen.clone().next().filter(|_| kind.is_empty()))
            else {
                break;
            };
            if !kind.is_empty() {
                kind.push('.');
            }
            kind.push_str(&field.label());
            match &field.value {
                WireValue::Message(inner) => tree = inner,
                _ => break,
            }
        }
        if kind.is_empty() { "empty".to_owned() } else { kind }
    }

    /// The paths of all fields, and the values that show what was decided.
    pub(super) fn outline(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.outline_at("", &mut paths);
        paths.sort();
        paths.dedup();
        paths
    }

    fn outline_at(&self, above: &str, paths: &mut Vec<String>) {
        for field in &self.0 {
            let path = format!("{above}{}", field.label());
            match &field.value {
                WireValue::Message(inner) => {
                    inner.outline_at(&format!("{path}."), paths);
                    paths.push(path);
                }
                WireValue::Varint(number) if DECIDED.contains(&&*field.name) => {
                    paths.push(format!("{path}={number}"));
                }
                _ => paths.push(path),
            }
        }
    }

    /// Calls `each` with every pair of 32 bytes at the same place of two messages: ids of blobs.
    pub(super) fn pair_ids(&self, other: &Self, each: &mut impl FnMut(&Bytes, &Bytes)) {
        for (one, other) in self.0.iter().zip(&other.0) {
            match (&one.value, &other.value) {
                (WireValue::Message(one), WireValue::Message(other)) => one.pair_ids(other, each),
                (WireValue::Bytes(one), WireValue::Bytes(other))
                    if one.len() == BLOB_ID && other.len() == BLOB_ID =>
                {
                    each(one, other);
                }
                _ => {}
            }
        }
    }

    /// Replaces ids of blobs.
    pub(super) fn rename_ids(&mut self, names: &HashMap<Bytes, Bytes>) {
        for field in &mut self.0 {
            match &mut field.value {
                WireValue::Message(inner) => inner.rename_ids(names),
                WireValue::Bytes(id) => {
                    if let Some(name) = names.get(id) {
                        *id = name.clone();
                    }
                }
                _ => {}
            }
        }
    }

    /// The same with one id for all blobs.
    pub(super) fn without_ids(mut self) -> Self {
        for field in &mut self.0 {
            field.value = match std::mem::replace(&mut field.value, WireValue::Varint(0)) {
                WireValue::Message(inner) => WireValue::Message(inner.without_ids()),
                WireValue::Bytes(id) if id.len() == BLOB_ID => WireValue::Bytes(Bytes::new()),
                value => value,
            };
        }
        self
    }

    // === as JSON ===

    #[must_use]
    pub fn to_json(&self) -> Value {
        let field = |field: &WireField| json!([field.key(), field.value.to_json()]);
        Value::Array(self.0.iter().map(field).collect())
    }

    /// `None`: it is not in the form that [`Self::to_json`] writes.
    #[must_use]
    pub fn from_json(value: &Value) -> Option<Self> {
        Self::from_json_at(value, DEPTH + 1)
    }

    fn from_json_at(value: &Value, depth: usize) -> Option<Self> {
        let depth = depth.checked_sub(1)?;
        let fields = value.as_array()?.iter().map(|field| {
            let [key, value] = field.as_array()?.as_slice() else { return None };
            let key = key.as_str()?;
            let (number, name) = key.split_once(' ').unwrap_or((key, ""));
            let value = WireValue::from_json(value, depth)?;
            let number = number.parse().ok()?;
            Some(WireField { number, name: Cow::Owned(name.to_owned()), value })
        });
        fields.collect::<Option<_>>().map(Self)
    }
}

/// The length of a blob's id.
const BLOB_ID: usize = 32;

/// Fields that do not say what kind of message it is.
const SIDE: [&str; 4] = ["conversation_state", "span_context", "model_details", "mcp_tools"];

/// Numbers that are a decision or a name, and not a size.
const DECIDED: [&str; 2] = ["id", "is_error"];

impl WireField {
    fn key(&self) -> String {
        if self.name.is_empty() {
            return self.number.to_string();
        }
        format!("{} {}", self.number, self.name)
    }

    fn label(&self) -> Cow<'_, str> {
        match self.value {
            WireValue::Malformed(_) => Cow::Borrowed("malformed"),
            _ if self.name.is_empty() => Cow::Owned(format!("#{}", self.number)),
            _ => Cow::Borrowed(&self.name),
        }
    }
}

impl WireValue {
    fn to_json(&self) -> Value {
        match self {
            Self::Varint(number) => json!(number),
            Self::Fixed64(number) => json!({ "fixed64": number }),
            Self::Fixed32(number) => json!({ "fixed32": number }),
            Self::Text(text) => json!(text),
            Self::Message(tree) => tree.to_json(),
            Self::Malformed(bytes) => json!({ "malformed": STANDARD.encode(bytes) }),
            Self::Bytes(bytes) => match bytes.split_first() {
                Some((&NO_TEXT, rest)) if rest.iter().all(u8::is_ascii_lowercase) => {
                    json!({ "id": String::from_utf8_lossy(rest) })
                }
                _ => json!({ "bytes": STANDARD.encode(bytes) }),
            },
        }
    }

    fn from_json(value: &Value, depth: usize) -> Option<Self> {
        match value {
            Value::Number(number) => number.as_u64().map(Self::Varint),
            Value::String(text) => Some(Self::Text(text.clone())),
            Value::Array(_) => WireTree::from_json_at(value, depth).map(Self::Message),
            Value::Object(object) => {
                let (key, value) = object.iter().next()?;
                let bytes = || STANDARD.decode(value.as_str()?).ok().map(Bytes::from);
                match key.as_str() {
                    "fixed64" => value.as_u64().map(Self::Fixed64),
                    "fixed32" => u32::try_from(value.as_u64()?).ok().map(Self::Fixed32),
                    "id" => {
                        let id = [&[NO_TEXT], value.as_str()?.as_bytes()].concat();
                        Some(Self::Bytes(id.into()))
                    }
                    "bytes" => bytes().map(Self::Bytes),
                    "malformed" => bytes().map(Self::Malformed),
                    _ => None,
                }
            }
            Value::Null | Value::Bool(_) => None,
        }
    }

    /// Bytes whose meaning is not known.
    pub(super) fn leaf(bytes: &[u8], mask: &Mask) -> Self {
        Self::of_bytes(mask.bytes(bytes))
    }

    fn of_bytes(bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Self::Text(text),
            Err(error) => Self::Bytes(error.into_bytes().into()),
        }
    }
}

fn varint(number: u64, out: &mut Vec<u8>) {
    prost::encoding::encode_varint(number, out);
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
