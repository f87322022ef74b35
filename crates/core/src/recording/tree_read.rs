//! Reading protobuf messages into trees, by what the schema says of each field. Texts are masked on
//! the way.

use std::borrow::Cow;

use ibeam_proto::fields::{MESSAGES, MessageInfo};
use serde_json::Value;

use super::{
    json::JsonKind,
    mask::{Mask, NO_TEXT, TextStream},
    tree::{DEPTH, WireField, WireTree, WireValue},
};

/// What the bytes of a message are.
#[derive(Clone, Copy, Debug)]
enum WireLayout<'a> {
    Schema(&'static MessageInfo),
    /// An entry of a map, whose values are these.
    Entry(MapValue),
    /// `google.protobuf.Value` under this key, and what it is made of.
    JsonValue(JsonKind, &'a str),
    JsonStruct(JsonKind),
    JsonField(JsonKind),
    JsonList(JsonKind, &'a str),
    /// A message that the schema only names.
    Opaque,
}

#[derive(Clone, Copy, Debug)]
enum MapValue {
    Leaf,
    /// The arguments of a call.
    Argument,
    Message(&'static str),
}

/// The maps of the schema: `crates/proto` lists their entries like leaves.
const MAPS: &[(&str, &str, MapValue)] = &[
    ("agent.v1.McpArgs", "args", MapValue::Argument),
    ("agent.v1.ConversationStateStructure", "file_states", MapValue::Leaf),
    (
        "agent.v1.ConversationStateStructure",
        "file_states_v2",
        MapValue::Message("agent.v1.FileStateStructure"),
    ),
    ("agent.v1.ConversationStateStructure", "subagent_states", MapValue::Leaf),
    ("agent.v1.RequestContext", "file_contents", MapValue::Leaf),
    ("", "workspace_results", MapValue::Message("agent.v1.GrepUnionResult")),
    ("", "full_subtree_extension_counts", MapValue::Leaf),
    ("", "annotations", MapValue::Leaf),
    ("", "additional_info", MapValue::Leaf),
];

impl WireTree {
    /// Reads a message of the type at this place of the schema's table.
    pub(super) fn read(root: usize, bytes: &[u8], mask: &mut Mask) -> Self {
        let layout = MESSAGES.get(root).map_or(WireLayout::Opaque, WireLayout::Schema);
        read(layout, bytes, mask, DEPTH)
    }

    /// Reads a message by the name of its type.
    pub(super) fn read_named(name: &str, bytes: &[u8], mask: &mut Mask) -> Self {
        let info = MESSAGES.iter().find(|info| info.name == name);
        read(info.map_or(WireLayout::Opaque, WireLayout::Schema), bytes, mask, DEPTH)
    }
}

/// One field as it stands on the wire.
enum RawWireValue<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Run(&'a [u8]),
}

fn read(layout: WireLayout<'_>, mut bytes: &[u8], mask: &mut Mask, depth: usize) -> WireTree {
    let mut fields = Vec::new();
    let mut key = String::new();
    while !bytes.is_empty() {
        let before = bytes;
        let Some((number, value)) = raw_field(&mut bytes) else {
            let rest =
                if mask.keeps_texts() { before.to_vec() } else { vec![NO_TEXT; before.len()] };
            let value = WireValue::Malformed(rest.into());
            fields.push(WireField { number: 0, name: Cow::Borrowed(""), value });
            break;
        };
        let name = layout.name(number);
        let value = match value {
            RawWireValue::Varint(number) if name.is_empty() => {
                WireValue::Varint(mask_varint(number, mask))
            }
            RawWireValue::Varint(number) => WireValue::Varint(number),
            RawWireValue::Fixed64(bits) => WireValue::Fixed64(match layout {
                WireLayout::Schema(_) if !name.is_empty() => bits,
                WireLayout::JsonValue(..) => mask.number(f64::from_bits(bits)).to_bits(),
                _ if mask.keeps_texts() => bits,
                _ => 0,
            }),
            RawWireValue::Fixed32(bits) => {
                let keep = mask.keeps_texts() || !name.is_empty();
                WireValue::Fixed32(if keep { bits } else { 0 })
            }
            RawWireValue::Run(run) => {
                if number == 1 && matches!(layout, WireLayout::Entry(_) | WireLayout::JsonField(_))
                {
                    key = String::from_utf8_lossy(run).into_owned();
                }
                run_value(layout, (number, &name), run, &key, mask, depth)
            }
        };
        fields.push(WireField { number, name, value });
    }
    WireTree(fields)
}

fn run_value(
    layout: WireLayout<'_>,
    (number, name): (u32, &str),
    run: &[u8],
    key: &str,
    mask: &mut Mask,
    depth: usize,
) -> WireValue {
    let Some(depth) = depth.checked_sub(1) else { return WireValue::leaf(run, mask) };
    let inner = |layout: WireLayout<'_>, mask: &mut Mask| {
        WireValue::Message(read(layout, run, mask, depth))
    };
    let text = || std::str::from_utf8(run).ok();
    match (layout, number) {
        (WireLayout::Opaque, _) => WireValue::leaf(run, mask),
        // Maps and JSON: what the other fields are called depends on the key.
        (WireLayout::Entry(MapValue::Argument) | WireLayout::JsonField(_), 1) => {
            text().map_or_else(|| WireValue::leaf(run, mask), |key| WireValue::Text(mask.name(key)))
        }
        (WireLayout::Entry(MapValue::Argument), 2) => {
            // An argument that is no value is read as a text.
            let value = read(WireLayout::JsonValue(JsonKind::Content, key), run, mask, depth);
            let is_value = value.0.iter().all(|field| !field.name.is_empty()) && !run.is_empty();
            if is_value { WireValue::Message(value) } else { WireValue::leaf(run, mask) }
        }
        (WireLayout::Entry(MapValue::Message(of)), 2) => {
            WireValue::Message(WireTree::read_named(of, run, mask))
        }
        (WireLayout::Entry(_), _) => WireValue::leaf(run, mask),
        (WireLayout::JsonValue(kind, above), 3) => match text() {
            Some(text) => WireValue::Text(json_string(mask, text, kind, above)),
            None => WireValue::leaf(run, mask),
        },
        (WireLayout::JsonValue(kind, _), 5) => inner(WireLayout::JsonStruct(kind), mask),
        (WireLayout::JsonValue(kind, above), 6) => inner(WireLayout::JsonList(kind, above), mask),
        (WireLayout::JsonStruct(kind), 1) => inner(WireLayout::JsonField(kind), mask),
        (WireLayout::JsonField(kind), 2) => inner(WireLayout::JsonValue(kind, key), mask),
        (WireLayout::JsonList(kind, above), 1) => inner(WireLayout::JsonValue(kind, above), mask),
        (
            WireLayout::JsonValue(..)
            | WireLayout::JsonStruct(_)
            | WireLayout::JsonField(_)
            | WireLayout::JsonList(..),
            _,
        ) => WireValue::leaf(run, mask),
        (WireLayout::Schema(info), _) => schema_value(info, (number, name), run, mask, depth),
    }
}

/// A string within `google.protobuf.Value`.
fn json_string(mask: &mut Mask, text: &str, kind: JsonKind, key: &str) -> String {
    let wrapped = serde_json::Map::from_iter([(key.to_owned(), Value::String(text.to_owned()))]);
    // The same rules as for JSON itself; JSON within a string is looked into.
    if text.starts_with(['{', '[']) {
        return mask.json_text(text, kind);
    }
    let Value::Object(masked) = mask.json(Value::Object(wrapped), kind) else {
        return String::new();
    };
    match masked.into_iter().next() {
        Some((_, Value::String(text))) => text,
        _ => String::new(),
    }
}

fn schema_value(
    info: &'static MessageInfo,
    (number, name): (u32, &str),
    run: &[u8],
    mask: &mut Mask,
    depth: usize,
) -> WireValue {
    let message = |layout, mask: &mut Mask| WireValue::Message(read(layout, run, mask, depth));
    let field = info.fields.iter().find(|field| field.number == number);
    if let Some(inner) = field.and_then(|field| field.message).and_then(|at| MESSAGES.get(at)) {
        let is_empty = inner.name == "agent.v1.Empty";
        return message(
            if is_empty { WireLayout::Opaque } else { WireLayout::Schema(inner) },
            mask,
        );
    }
    let map = MAPS.iter().find(|(of, map, _)| *map == name && [info.name, ""].contains(of));
    if let Some((_, _, value)) = map {
        return message(WireLayout::Entry(*value), mask);
    }
    let Ok(text) = std::str::from_utf8(run) else {
        return match name {
            "input_schema" => message(WireLayout::JsonValue(JsonKind::Schema, ""), mask),
            "blob_data" | "value" => blob(run, mask),
            _ => WireValue::leaf(run, mask),
        };
    };
    WireValue::Text(match (info.name, name) {
        ("agent.v1.TextDeltaUpdate", "text") => mask.streamed(TextStream::Answer, text),
        ("agent.v1.ThinkingDeltaUpdate", "text") => mask.streamed(TextStream::Thoughts, text),
        (_, "input_schema") => return message(WireLayout::JsonValue(JsonKind::Schema, ""), mask),
        (_, "blob_data") | ("agent.v1.PreFetchedBlob", "value") => return blob(run, mask),
        (_, "input_schema_json" | "output_schema_json") => mask.json_text(text, JsonKind::Schema),
        (_, "annotations_json") => mask.json_text(text, JsonKind::Content),
        (
            _,
            "model_id" | "display_model_id" | "display_name" | "display_name_short" | "model"
            | "model_name",
        ) => mask.model(text),
        ("agent.v1.RequestedModel_ModelParameter" | "agent.v1.RequestedModelModelParameter", _) => {
            mask.model(text)
        }
        (
            "agent.v1.McpArgs"
            | "agent.v1.McpToolDefinition"
            | "agent.v1.McpToolDescriptor"
            | "agent.v1.McpToolNotFound",
            "name" | "tool_name" | "available_tools",
        ) => mask.name(text),
        (
            _,
            "provider_identifier"
            | "server_identifier"
            | "server_identifiers"
            | "server_name"
            | "mime_type"
            | "encoding_hint",
        ) => mask.word(text),
        (_, "tool_call_id" | "call_id" | "exec_id" | "conversation_id" | "model_call_id") => {
            mask.id(text)
        }
        _ => mask.whole(text),
    })
}

/// The content of a blob: an entry of a prompt, or a part of the backend's own state.
pub(super) fn blob(data: &[u8], mask: &mut Mask) -> WireValue {
    if let Ok(text) = std::str::from_utf8(data)
        && text.starts_with('{')
    {
        return WireValue::Text(mask.json_text(text, JsonKind::Entry));
    }
    let turn = WireTree::read_named("agent.v1.ConversationTurnStructure", data, mask);
    let mut ids = 0;
    turn.pair_ids(&turn, &mut |_, _| ids += 1);
    let all = turn.outline();
    let is_turn =
        ids > 0 && all.iter().all(|path| !path.contains(['#']) && !path.contains("malformed"));
    if is_turn { WireValue::Message(turn) } else { WireValue::leaf(data, mask) }
}

impl WireLayout<'_> {
    fn name(self, number: u32) -> Cow<'static, str> {
        let name = match (self, number) {
            (Self::Schema(info), _) => {
                let field = info.fields.iter().find(|field| field.number == number);
                field.map_or("", |field| field.name)
            }
            (Self::Entry(_) | Self::JsonField(_), 1) => "key",
            (Self::Entry(_) | Self::JsonField(_), 2) => "value",
            (Self::JsonValue(..), 1) => "null_value",
            (Self::JsonValue(..), 2) => "number_value",
            (Self::JsonValue(..), 3) => "string_value",
            (Self::JsonValue(..), 4) => "bool_value",
            (Self::JsonValue(..), 5) => "struct_value",
            (Self::JsonValue(..), 6) => "list_value",
            (Self::JsonStruct(_), 1) => "fields",
            (Self::JsonList(..), 1) => "values",
            _ => "",
        };
        Cow::Borrowed(name)
    }
}

/// A number of which nothing is known keeps its length, and whether it is 0 or 1.
fn mask_varint(number: u64, mask: &Mask) -> u64 {
    if mask.keeps_texts() || number < 2 {
        return number;
    }
    let bits = u64::BITS - number.leading_zeros();
    1_u64.checked_shl((bits - 1) / 7 * 7).unwrap_or(0).max(2)
}

/// Takes the next field; `None` if there is none that can be read.
fn raw_field<'a>(bytes: &mut &'a [u8]) -> Option<(u32, RawWireValue<'a>)> {
    let mut rest = *bytes;
    let tag = prost::encoding::decode_varint(&mut rest).ok()?;
    let number = u32::try_from(tag >> 3).ok().filter(|number| *number > 0)?;
    let value = match tag & 7 {
        0 => RawWireValue::Varint(prost::encoding::decode_varint(&mut rest).ok()?),
        1 => RawWireValue::Fixed64(u64::from_le_bytes(*take(&mut rest, 8)?.first_chunk()?)),
        2 => {
            let len = prost::encoding::decode_varint(&mut rest).ok()?;
            RawWireValue::Run(take(&mut rest, usize::try_from(len).ok()?)?)
        }
        5 => RawWireValue::Fixed32(u32::from_le_bytes(*take(&mut rest, 4)?.first_chunk()?)),
        _ => return None,
    };
    *bytes = rest;
    Some((number, value))
}

fn take<'a>(bytes: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (head, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(head)
}
