//! The drift alarm: lists protobuf fields that our schema does not know. prost
//! drops them silently, and a new field is how the backend usually announces a
//! change.

use ibeam_proto::fields::{MESSAGES, MessageInfo};

/// How deep messages may nest before the walk stops looking.
const MAX_DEPTH: usize = 24;

/// How many different unknown fields of one message are listed.
pub const MAX_KINDS: usize = 64;

/// How many fields of one message are looked at. A few kilobytes of gzip hold millions.
const MAX_WALKED: usize = 64 * 1024;

/// A field the schema does not have.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UnknownField {
    /// The message that holds it.
    pub message: &'static str,
    pub field: u32,
    pub wire: u8,
}

/// The unknown fields inside an encoded message of type `root` (an index into [`MESSAGES`]), each
/// with how often it appears: [`MAX_KINDS`] at most, of the first fields of the message. Malformed
/// bytes end the walk; the decoder proper reports those.
#[must_use]
pub fn unknown_fields(root: usize, bytes: &[u8]) -> Vec<(UnknownField, u64)> {
    let mut walk = Walk { found: Vec::new(), left: MAX_WALKED };
    if let Some(info) = MESSAGES.get(root) {
        walk.message(info, bytes, MAX_DEPTH);
    }
    walk.found
}

/// Entry point for fuzzing.
pub fn fuzz(data: &[u8]) {
    let _ = unknown_fields(ibeam_proto::fields::SERVER_MESSAGE, data);
}

struct Walk {
    found: Vec<(UnknownField, u64)>,
    /// How many more fields are looked at.
    left: usize,
}

impl Walk {
    fn message(&mut self, info: &'static MessageInfo, bytes: &[u8], depth: usize) {
        // Stands for layouts that are not published.
        if info.name == "agent.v1.Empty" {
            return;
        }
        for Field { number, wire, payload, .. } in fields(bytes) {
            let Some(left) = self.left.checked_sub(1) else { return };
            self.left = left;
            match info.fields.binary_search_by_key(&number, |field| field.number) {
                Err(_) => self.note(UnknownField { message: info.name, field: number, wire }),
                Ok(at) => {
                    let inner = info.fields.get(at).and_then(|field| field.message);
                    let inner = inner.and_then(|inner| MESSAGES.get(inner));
                    if let (Some(inner), Some(payload)) = (inner, payload)
                        && depth > 0
                    {
                        self.message(inner, payload, depth - 1);
                    }
                }
            }
        }
    }

    fn note(&mut self, unknown: UnknownField) {
        if let Some((_, count)) = self.found.iter_mut().find(|(known, _)| *known == unknown) {
            *count += 1;
        } else if self.found.len() < MAX_KINDS {
            self.found.push((unknown, 1));
        }
    }
}

/// One field of an encoded message, without a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    pub number: u32,
    /// The wire type.
    pub wire: u8,
    /// What a length-delimited field holds.
    pub payload: Option<&'a [u8]>,
    pub varint: Option<u64>,
}

/// The top-level fields of a message, until its end or the first malformed byte.
pub fn fields(mut bytes: &[u8]) -> impl Iterator<Item = Field<'_>> {
    std::iter::from_fn(move || next_field(&mut bytes))
}

/// The message without all fields of this number. Malformed bytes stay as they are.
#[must_use]
pub fn without(mut bytes: &[u8], number: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    loop {
        let from = bytes;
        let Some(field) = next_field(&mut bytes) else {
            out.extend_from_slice(from);
            return out;
        };
        if field.number != number {
            out.extend_from_slice(from.get(..from.len() - bytes.len()).unwrap_or_default());
        }
    }
}

fn next_field<'a>(bytes: &mut &'a [u8]) -> Option<Field<'a>> {
    let tag = prost::encoding::decode_varint(bytes).ok()?;
    let (number, wire) = (u32::try_from(tag >> 3).ok()?, (tag & 7) as u8);
    let mut field = Field { number, wire, payload: None, varint: None };
    match wire {
        0 => field.varint = Some(prost::encoding::decode_varint(bytes).ok()?),
        1 => _ = take(bytes, 8)?,
        2 => {
            let len = prost::encoding::decode_varint(bytes).ok()?;
            field.payload = Some(take(bytes, usize::try_from(len).ok()?)?);
        }
        // A group: what is inside it is read as if it stood outside.
        3 | 4 => {}
        5 => _ = take(bytes, 4)?,
        _ => return None,
    }
    Some(field)
}

fn take<'a>(bytes: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (head, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ibeam_proto::fields::SERVER_MESSAGE;

    #[test]
    fn known_messages_are_not_reported() {
        // text_delta "Hello" and turn_ended with usage.
        for bytes in [
            &b"\x0a\x09\x0a\x07\x0a\x05Hello"[..],
            &[0x0a, 0x06, 0x72, 0x04, 0x08, 0x64, 0x10, 0x14][..],
        ] {
            assert_eq!(unknown_fields(SERVER_MESSAGE, bytes), []);
        }
    }

    #[test]
    fn only_the_fields_of_one_number_are_left_out() {
        // 1: "a", 2: varint 5, 1: "b", and a field that is cut off.
        let bytes = [0x0a, 0x01, b'a', 0x10, 0x05, 0x0a, 0x01, b'b', 0x1a, 0x09];
        assert_eq!(without(&bytes, 1), [0x10, 0x05, 0x1a, 0x09]);
        assert_eq!(without(&bytes, 2), [0x0a, 0x01, b'a', 0x0a, 0x01, b'b', 0x1a, 0x09]);
        assert_eq!(without(&bytes, 7), bytes);
    }

    #[test]
    fn a_new_field_is_named_with_its_message() {
        // interaction_update { 1: text_delta { 1: "x", 9: varint 1 } }, top-level field 99.
        let bytes = [0x0a, 0x07, 0x0a, 0x05, 0x0a, 0x01, b'x', 0x48, 0x01, 0x98, 0x06, 0x00];
        let found = unknown_fields(SERVER_MESSAGE, &bytes);
        let brief: Vec<_> = found.iter().map(|(u, n)| (u.message, u.field, *n)).collect();
        assert_eq!(
            brief,
            [("agent.v1.TextDeltaUpdate", 9, 1), ("agent.v1.AgentServerMessage", 99, 1)]
        );
    }

    /// Field 99 as a varint.
    const UNKNOWN: [u8; 3] = [0x98, 0x06, 0x00];

    #[test]
    fn millions_of_unknown_fields_are_one_entry() {
        let found = unknown_fields(SERVER_MESSAGE, &UNKNOWN.repeat(1 << 20));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].1, MAX_WALKED as u64);
        assert!(found.capacity() <= 2 * MAX_KINDS, "{}", found.capacity());
    }

    #[test]
    fn kinds_of_unknown_fields_are_limited() {
        let mut bytes = Vec::new();
        for number in 1000..5000_u64 {
            prost::encoding::encode_varint(number << 3, &mut bytes);
            bytes.push(0);
        }
        let found = unknown_fields(SERVER_MESSAGE, &bytes);
        assert_eq!(found.len(), MAX_KINDS);
        assert!(found.capacity() <= 2 * MAX_KINDS, "{}", found.capacity());
    }

    #[test]
    fn truncated_bytes_end_the_walk() {
        assert_eq!(unknown_fields(SERVER_MESSAGE, &[0x0a, 0xff]), []);
    }
}
