//! Turns names and JSON from scenario files into protobuf bytes, by the field table
//! of the schema. This way a scenario can use every arm without code for it here.

use bytes::{BufMut as _, Bytes, BytesMut};
use ibeam_proto::fields::{MESSAGES, MessageInfo};
use serde_json::{Map, Number, Value};

/// A name or a value that does not fit the schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    #[error("unknown message type `{0}`")]
    Message(String),
    #[error("`{message}` has no field `{field}`; it has {known}")]
    Field { message: &'static str, field: String, known: String },
    #[error("field `{0}`: null cannot be encoded")]
    Null(String),
    #[error("`hex:` text in field `{0}` is not hexadecimal")]
    Hex(String),
}

/// The entry of a message type, by full name (`agent.v1.ShellArgs`).
pub(crate) fn message(name: &str) -> Result<&'static MessageInfo, SchemaError> {
    MESSAGES
        .iter()
        .find(|info| info.name == name)
        .ok_or_else(|| SchemaError::Message(name.to_owned()))
}

/// The number and inner type of a field. Arms are found with and without the usual
/// endings: `shell_stream` means `shell_stream_args`.
pub(crate) fn field(
    info: &'static MessageInfo,
    name: &str,
) -> Result<(u32, Option<&'static MessageInfo>), SchemaError> {
    const ENDINGS: &[&str] =
        &["", "_args", "_exec_args", "_spawn_args", "_request", "_query", "_request_query"];
    ENDINGS
        .iter()
        .find_map(|ending| {
            info.fields.iter().find(|f| f.name.strip_suffix(ending).is_some_and(|n| n == name))
        })
        .map(|f| (f.number, f.message.and_then(|at| MESSAGES.get(at))))
        .ok_or_else(|| SchemaError::Field {
            message: info.name,
            field: name.to_owned(),
            known: info.fields.iter().map(|f| f.name).collect::<Vec<_>>().join(", "),
        })
}

/// Encodes a JSON table as the message `info`.
///
/// The table has field names, not types, so the JSON value decides: whole numbers and
/// booleans are varints, numbers with a fraction are doubles, text is text (`hex:…`
/// gives bytes), a table is a message, or, where the schema has a map, entries with
/// `google.protobuf.Value`s. Keys that are numbers are taken as field numbers.
pub(crate) fn encode(
    info: &'static MessageInfo,
    table: &Map<String, Value>,
) -> Result<Bytes, SchemaError> {
    let mut out = BytesMut::new();
    for (name, value) in table {
        let (number, inner) = match name.parse::<u32>() {
            Ok(number) => (number, None),
            Err(_) => field(info, name)?,
        };
        put_field(&mut out, number, inner, name, value)?;
    }
    Ok(out.freeze())
}

fn put_field(
    out: &mut BytesMut,
    number: u32,
    inner: Option<&'static MessageInfo>,
    name: &str,
    value: &Value,
) -> Result<(), SchemaError> {
    match value {
        Value::Null => return Err(SchemaError::Null(name.to_owned())),
        Value::Bool(flag) => put_varint_field(out, number, u64::from(*flag)),
        Value::Number(n) => put_number(out, number, n),
        Value::String(text) => match text.strip_prefix("hex:") {
            Some(hex) => {
                let bytes = unhex(hex).ok_or_else(|| SchemaError::Hex(name.to_owned()))?;
                put_bytes_field(out, number, &bytes);
            }
            None => put_bytes_field(out, number, text.as_bytes()),
        },
        Value::Array(items) => {
            for item in items {
                put_field(out, number, inner, name, item)?;
            }
        }
        Value::Object(table) => match inner {
            Some(info) => put_bytes_field(out, number, &encode(info, table)?),
            None => {
                for (key, item) in table {
                    let mut entry = BytesMut::new();
                    put_bytes_field(&mut entry, 1, key.as_bytes());
                    put_bytes_field(&mut entry, 2, &value_to_proto(item));
                    put_bytes_field(out, number, &entry);
                }
            }
        },
    }
    Ok(())
}

fn put_number(out: &mut BytesMut, number: u32, value: &Number) {
    if let Some(whole) = value.as_i64() {
        put_varint_field(out, number, whole.cast_unsigned());
    } else if let Some(whole) = value.as_u64() {
        put_varint_field(out, number, whole);
    } else {
        put_double_field(out, number, value.as_f64().unwrap_or_default());
    }
}

// === wire primitives ===

pub(crate) fn put_varint(out: &mut BytesMut, mut value: u64) {
    while value >= 0x80 {
        out.put_u8((value as u8 & 0x7f) | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}

pub(crate) fn put_varint_field(out: &mut BytesMut, number: u32, value: u64) {
    put_varint(out, u64::from(number) << 3);
    put_varint(out, value);
}

pub(crate) fn put_bytes_field(out: &mut BytesMut, number: u32, bytes: &[u8]) {
    put_varint(out, u64::from(number) << 3 | 2);
    put_varint(out, bytes.len() as u64);
    out.put_slice(bytes);
}

fn put_double_field(out: &mut BytesMut, number: u32, value: f64) {
    put_varint(out, u64::from(number) << 3 | 1);
    out.put_f64_le(value);
}

// === google.protobuf.Value ===

/// Encodes JSON as `google.protobuf.Value`.
#[must_use]
pub(crate) fn value_to_proto(value: &Value) -> Bytes {
    let mut out = BytesMut::new();
    match value {
        Value::Null => put_varint_field(&mut out, 1, 0),
        Value::Bool(flag) => put_varint_field(&mut out, 4, u64::from(*flag)),
        Value::Number(n) => put_double_field(&mut out, 2, n.as_f64().unwrap_or_default()),
        Value::String(text) => put_bytes_field(&mut out, 3, text.as_bytes()),
        Value::Object(table) => {
            let mut fields = BytesMut::new();
            for (key, item) in table {
                let mut entry = BytesMut::new();
                put_bytes_field(&mut entry, 1, key.as_bytes());
                put_bytes_field(&mut entry, 2, &value_to_proto(item));
                put_bytes_field(&mut fields, 1, &entry);
            }
            put_bytes_field(&mut out, 5, &fields);
        }
        Value::Array(items) => {
            let mut values = BytesMut::new();
            for item in items {
                put_bytes_field(&mut values, 1, &value_to_proto(item));
            }
            put_bytes_field(&mut out, 6, &values);
        }
    }
    out.freeze()
}

/// Reads a `google.protobuf.Value`. A bare `Struct` is not one, and gives `None`.
#[must_use]
pub(crate) fn value_from_proto(mut bytes: &[u8]) -> Option<Value> {
    const MAX_DEPTH: usize = 64;
    read_value(&mut bytes, MAX_DEPTH)
}

fn read_value(bytes: &mut &[u8], depth: usize) -> Option<Value> {
    let depth = depth.checked_sub(1)?;
    let mut value = Value::Null;
    while !bytes.is_empty() {
        value = match read_varint(bytes)? {
            0x08 => {
                read_varint(bytes)?;
                Value::Null
            }
            0x11 => {
                let (raw, rest) = bytes.split_first_chunk::<8>()?;
                *bytes = rest;
                let number = f64::from_le_bytes(*raw);
                whole(number).or_else(|| Number::from_f64(number)).map(Value::Number)?
            }
            0x1a => Value::String(String::from_utf8(take(bytes)?.to_vec()).ok()?),
            0x20 => Value::Bool(read_varint(bytes)? != 0),
            0x2a => read_struct(take(bytes)?, depth)?,
            0x32 => {
                let mut list = take(bytes)?;
                let mut items = Vec::new();
                while !list.is_empty() {
                    if read_varint(&mut list)? != 0x0a {
                        return None;
                    }
                    items.push(read_value(&mut take(&mut list)?, depth)?);
                }
                Value::Array(items)
            }
            _ => return None,
        };
    }
    Some(value)
}

fn read_struct(mut fields: &[u8], depth: usize) -> Option<Value> {
    let mut table = Map::new();
    while !fields.is_empty() {
        if read_varint(&mut fields)? != 0x0a {
            return None;
        }
        let mut entry = take(&mut fields)?;
        let (mut key, mut value) = (String::new(), Value::Null);
        while !entry.is_empty() {
            match read_varint(&mut entry)? {
                0x0a => key = String::from_utf8(take(&mut entry)?.to_vec()).ok()?,
                0x12 => value = read_value(&mut take(&mut entry)?, depth)?,
                _ => return None,
            }
        }
        table.insert(key, value);
    }
    Some(Value::Object(table))
}

/// Doubles that are whole numbers become integers, which read better.
#[expect(clippy::cast_possible_truncation, reason = "the range is checked first")]
fn whole(number: f64) -> Option<Number> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    (number.fract() == 0.0 && number.abs() < EXACT).then(|| Number::from(number as i64))
}

fn read_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn take<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = usize::try_from(read_varint(bytes)?).ok()?;
    let (head, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(head)
}

// === hex ===

/// Reads hexadecimal text; spaces are allowed.
#[must_use]
pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text
        .bytes()
        .filter(|b| !b.is_ascii_whitespace())
        .map(|b| char::from(b).to_digit(16).and_then(|d| u8::try_from(d).ok()))
        .collect::<Option<_>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

#[must_use]
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        for nibble in [byte >> 4, byte & 15] {
            out.push(DIGITS.get(usize::from(nibble)).copied().map_or('0', char::from));
        }
    }
    out
}

#[cfg(test)]
#[path = "protobuf_tests.rs"]
mod tests;
