//! How much a message may become when it is decoded. An element of a repeated field takes two bytes
//! on the wire and some hundred in memory, and gzip makes a thousand bytes of one: so the fields are
//! counted before a large message is decoded.
//!
//! A packed field would be counted as one, however many numbers it holds. Our schema has none, and a
//! test keeps it so.

use crate::fields::MESSAGES;

/// Known fields of one message, with those of all messages inside it. A conversation of thousands
/// of turns has fewer. An element is up to some hundred bytes in memory, so this is about 10 MB.
pub const MAX_FIELDS: usize = 32 * 1024;

/// Fields that the schema does not have. They are skipped, which takes time but no memory.
const MAX_UNKNOWN_FIELDS: usize = 2 * MAX_FIELDS;

/// prost gives up at this depth.
const MAX_DEPTH: usize = 100;

/// Maps whose values are messages: the message and the field that holds the map, and the type of
/// its values. The table of fields has no entries for maps.
const MAPS: [(&str, u32, &str); 2] = [
    ("agent.v1.GrepSuccess", 4, "agent.v1.GrepUnionResult"),
    ("agent.v1.ConversationStateStructure", 15, "agent.v1.FileStateStructure"),
];

/// Whether a message of this type has no more fields than may be decoded.
pub(crate) fn fits(name: &str, bytes: &[u8]) -> bool {
    // A field takes two bytes at least.
    if bytes.len() <= 2 * MAX_FIELDS {
        return true;
    }
    let mut left = Left { known: MAX_FIELDS, unknown: MAX_UNKNOWN_FIELDS };
    index(name).is_some_and(|root| count_message(root, bytes, MAX_DEPTH, &mut left).is_some())
}

/// How many fields a message may still have.
struct Left {
    known: usize,
    unknown: usize,
}

fn index(name: &str) -> Option<usize> {
    MESSAGES.iter().position(|message| message.name == name)
}

/// Takes the fields of a message off what is left; `None` when that is not enough.
fn count_message(message: usize, bytes: &[u8], depth: usize, left: &mut Left) -> Option<()> {
    let info = MESSAGES.get(message)?;
    let depth = depth.checked_sub(1)?;
    for (number, payload) in fields(bytes) {
        let Ok(at) = info.fields.binary_search_by_key(&number, |field| field.number) else {
            left.unknown = left.unknown.checked_sub(1)?;
            continue;
        };
        left.known = left.known.checked_sub(1)?;
        let Some(payload) = payload else { continue };
        if let Some(inner) = info.fields.get(at).and_then(|field| field.message) {
            count_message(inner, payload, depth, left)?;
        } else if let Some((.., value)) =
            MAPS.iter().find(|(holder, field, _)| *holder == info.name && *field == number)
        {
            let entry = fields(payload).filter(|(number, _)| *number == 2);
            for value_bytes in entry.filter_map(|(_, payload)| payload) {
                count_message(index(value)?, value_bytes, depth, left)?;
            }
        }
    }
    Some(())
}

/// The fields of a message and what those that have a length hold, until its end or the first
/// malformed byte. What is inside a group, which prost skips, is read as if it stood outside.
fn fields(mut bytes: &[u8]) -> impl Iterator<Item = (u32, Option<&[u8]>)> {
    std::iter::from_fn(move || {
        let tag = varint(&mut bytes)?;
        let number = u32::try_from(tag >> 3).ok()?;
        let payload = match tag & 7 {
            0 => varint(&mut bytes).map(|_| None)?,
            1 => take(&mut bytes, 8).map(|_| None)?,
            2 => {
                let len = usize::try_from(varint(&mut bytes)?).ok()?;
                Some(take(&mut bytes, len)?)
            }
            3 | 4 => None,
            5 => take(&mut bytes, 4).map(|_| None)?,
            _ => return None,
        };
        Some((number, payload))
    })
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    prost::encoding::decode_varint(bytes).ok()
}

fn take<'a>(bytes: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (head, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(head)
}

#[cfg(test)]
mod tests {
    use crate::{
        Wire as _, WireError,
        agent::{AgentServerMessage, ConversationStateStructure, GetUsableModelsResponse, McpArgs},
        aiserver::AvailableModelsResponse,
        fields::MESSAGES,
    };

    use super::*;

    /// A field that has a length.
    fn field(number: u32, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        prost::encoding::encode_varint(u64::from(number << 3 | 2), &mut out);
        prost::encoding::encode_varint(payload.len() as u64, &mut out);
        out.extend_from_slice(payload);
        out
    }

    fn number_of(message: &str, field: &str) -> u32 {
        let info = MESSAGES.iter().find(|info| info.name == message).unwrap();
        info.fields.iter().find(|info| info.name == field).unwrap().number
    }

    #[test]
    fn many_empty_elements_are_not_decoded() {
        let models = number_of("agent.v1.GetUsableModelsResponse", "models");
        let bytes = |count: usize| bytes::Bytes::from(field(models, b"").repeat(count));
        let most = GetUsableModelsResponse::from_wire(bytes(MAX_FIELDS)).unwrap();
        assert_eq!(most.models.len(), MAX_FIELDS);
        let error = GetUsableModelsResponse::from_wire(bytes(MAX_FIELDS + 1)).unwrap_err();
        assert!(matches!(error, WireError::TooManyFields), "{error}");
        let models = number_of("aiserver.v1.AvailableModelsResponse", "models");
        let bytes = field(models, b"").repeat(MAX_FIELDS + 1);
        assert!(AvailableModelsResponse::from_wire(bytes.into()).is_err());
    }

    #[test]
    fn elements_are_counted_at_every_depth_behind_groups_and_in_maps() {
        // A file's state is `content` and `initial_content`, again and again.
        let states = number_of("agent.v1.ConversationStateStructure", "file_states_v2");
        let value = field(1, b"").repeat(MAX_FIELDS);
        let entry = [field(1, b"key"), field(2, &value)].concat();
        let state = field(states, &entry);
        assert!(ConversationStateStructure::from_wire(state.clone().into()).is_err());
        let checkpoint = number_of("agent.v1.AgentServerMessage", "conversation_checkpoint_update");
        let nested = field(checkpoint, &state);
        assert!(AgentServerMessage::from_wire(nested.clone().into()).is_err());
        // An empty group of a field that the schema does not have.
        let group = [0xfb, 0x3f, 0xfc, 0x3f];
        let behind = [&group[..], &nested].concat();
        assert!(AgentServerMessage::from_wire(behind.into()).is_err());
    }

    #[test]
    fn long_texts_and_many_unknown_fields_are_decoded() {
        let long = field(number_of("agent.v1.McpArgs", "name"), &vec![b'a'; 4 << 20]);
        assert_eq!(McpArgs::from_wire(long.into()).unwrap().name.len(), 4 << 20);
        let unknown = |count| field(9999, b"").repeat(count);
        assert!(AgentServerMessage::from_wire(unknown(MAX_UNKNOWN_FIELDS).into()).is_ok());
        assert!(AgentServerMessage::from_wire(unknown(MAX_UNKNOWN_FIELDS + 1).into()).is_err());
    }

    const GENERATED: &str =
        concat!(include_str!("generated/agent.v1.rs"), include_str!("generated/aiserver.v1.rs"));

    /// The repeated fields, as their attributes describe them, and those of them that may come
    /// packed: all but messages, texts and bytes.
    fn repeated(generated: &str) -> (usize, Vec<&str>) {
        let attributes = generated.split("#[prost(").skip(1);
        let attributes = attributes.filter_map(|rest| rest.split(")]").next());
        let kinds = |attribute: &str| -> Vec<String> {
            attribute.split([',', '=']).map(|word| word.trim().to_owned()).collect()
        };
        let repeated: Vec<&str> = attributes
            .filter(|attribute| kinds(attribute).iter().any(|word| word == "repeated"))
            .collect();
        let whole = ["message", "string", "bytes"];
        let packed = |attribute: &&str| !whole.contains(&kinds(attribute)[0].as_str());
        (repeated.len(), repeated.iter().copied().filter(packed).collect())
    }

    #[test]
    fn no_repeated_field_can_come_packed() {
        let sample = r#"#[prost(message, repeated, tag = "1")] a: Vec<A>,
            #[prost(bytes = "bytes", repeated, tag = "2")] b: Vec<Bytes>,
            #[prost(int32, repeated, tag = "3")] c: Vec<i32>,
            #[prost(
                enumeration = "Kind", repeated, packed = "false", tag = "4"
            )] d: Vec<i32>, #[prost(double, tag = "5")] repeated: f64"#;
        let (found, packed) = repeated(sample);
        assert_eq!((found, packed.len()), (4, 2), "{packed:?}");

        let (found, packed) = repeated(GENERATED);
        assert!(found > 50, "{found}");
        assert!(packed.is_empty(), "`count_message` counts a packed field as one: {packed:?}");
    }

    #[test]
    fn every_map_of_messages_is_listed() {
        let generated = GENERATED;
        let maps = generated.matches("_map = \"").count();
        let plain = ["string, string", "string, bytes", "string, int32"];
        let plain: usize =
            plain.iter().map(|kind| generated.matches(&format!("_map = \"{kind}\"")).count()).sum();
        assert_eq!(maps - plain, MAPS.len());
        for (holder, field, value) in MAPS {
            let info = MESSAGES.iter().find(|info| info.name == holder).unwrap();
            assert!(info.fields.iter().any(|info| info.number == field && info.message.is_none()));
            assert!(index(value).is_some(), "{value}");
        }
    }
}
