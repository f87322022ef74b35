//! The drift alarm: lists protobuf fields that our schema does not know. prost
//! drops them silently, and a new field is how the backend usually announces a
//! change.

use ibeam_proto::fields::{MESSAGES, MessageInfo};

/// How deep messages may nest before the walk stops looking.
const MAX_DEPTH: usize = 24;

/// A field the schema does not have.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Unknown {
    /// The message that holds it.
    pub message: &'static str,
    pub field: u32,
    pub wire: u8,
}

/// Every unknown field inside an encoded message of type `root` (an index into
/// [`MESSAGES`]). Malformed bytes end the walk; the decoder proper reports those.
#[must_use]
pub fn unknown_fields(root: usize, bytes: &[u8]) -> Vec<Unknown> {
    let mut found = Vec::new();
    if let Some(info) = MESSAGES.get(root) {
        walk(info, bytes, MAX_DEPTH, &mut found);
    }
    found
}

/// Entry point for fuzzing.
pub fn fuzz(data: &[u8]) {
    let _ = unknown_fields(ibeam_proto::fields::SERVER_MESSAGE, data);
}

fn walk(info: &'static MessageInfo, bytes: &[u8], depth: usize, found: &mut Vec<Unknown>) {
    // Stands for layouts that nobody has published.
    if info.name == "agent.v1.Empty" {
        return;
    }
    for Field { number, wire, payload, .. } in fields(bytes) {
        match info.fields.binary_search_by_key(&number, |field| field.number) {
            Err(_) => found.push(Unknown { message: info.name, field: number, wire }),
            Ok(at) => {
                let inner = info.fields.get(at).and_then(|field| field.message);
                let inner = inner.and_then(|inner| MESSAGES.get(inner));
                if let (Some(inner), Some(payload)) = (inner, payload)
                    && depth > 0
                {
                    walk(inner, payload, depth - 1, found);
                }
            }
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
    std::iter::from_fn(move || {
        let tag = prost::encoding::decode_varint(&mut bytes).ok()?;
        let (number, wire) = (u32::try_from(tag >> 3).ok()?, (tag & 7) as u8);
        let mut field = Field { number, wire, payload: None, varint: None };
        match wire {
            0 => field.varint = Some(prost::encoding::decode_varint(&mut bytes).ok()?),
            1 => _ = take(&mut bytes, 8)?,
            2 => {
                let len = prost::encoding::decode_varint(&mut bytes).ok()?;
                field.payload = Some(take(&mut bytes, usize::try_from(len).ok()?)?);
            }
            5 => _ = take(&mut bytes, 4)?,
            _ => return None,
        }
        Some(field)
    })
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
    fn known_messages_raise_no_alarm() {
        // text_delta "Hello" and turn_ended with usage.
        for bytes in [
            &b"\x0a\x09\x0a\x07\x0a\x05Hello"[..],
            &[0x0a, 0x06, 0x72, 0x04, 0x08, 0x64, 0x10, 0x14][..],
        ] {
            assert_eq!(unknown_fields(SERVER_MESSAGE, bytes), []);
        }
    }

    #[test]
    fn a_new_field_is_named_with_its_message() {
        // interaction_update { 1: text_delta { 1: "x", 9: varint 1 } }, top-level field 99.
        let bytes = [0x0a, 0x07, 0x0a, 0x05, 0x0a, 0x01, b'x', 0x48, 0x01, 0x98, 0x06, 0x00];
        let found = unknown_fields(SERVER_MESSAGE, &bytes);
        let brief: Vec<_> = found.iter().map(|u| (u.message, u.field)).collect();
        assert_eq!(brief, [("agent.v1.TextDeltaUpdate", 9), ("agent.v1.AgentServerMessage", 99)]);
    }

    #[test]
    fn truncated_bytes_end_the_walk() {
        assert_eq!(unknown_fields(SERVER_MESSAGE, &[0x0a, 0xff]), []);
    }
}
