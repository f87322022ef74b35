//! One item of a response's output, from its first event to its last.

use bytes::{BufMut as _, BytesMut};
use serde_json::value::RawValue;

use super::{
    echo::on_one_line,
    text::EscapedText,
    token::TokenKind,
    types::{ItemStatus, OutputItem, Place, json},
};
use crate::{
    model::ids::CallId,
    wire::{freeform::Freeform, json::put_json},
};

/// The parts of a message and of a summary, up to their text.
const TEXT_PART: &str = r#"{"type":"output_text","annotations":[],"logprobs":[],"text":""#;
const SUMMARY_PART: &str = r#"{"type":"summary_text","text":""#;

/// What a delta has besides its text and what comes before that.
const BEHIND_DELTA: usize = 64;

/// Writes events and numbers them.
#[derive(Debug, Default)]
pub(super) struct EventWriter {
    next: u64,
}

/// An item that still grows.
#[derive(Debug)]
pub(super) struct GrowingItem {
    pub(super) id: String,
    pub(super) kind: GrowingKind,
    output_index: usize,
    /// The event of a delta, up to the delta.
    envelope: Box<[u8]>,
}

#[derive(Debug)]
pub(super) enum GrowingKind {
    Message {
        text: EscapedText,
    },
    Reasoning {
        text: EscapedText,
        /// The same as it is, for `encrypted_content`, if that is asked for.
        plain: Option<String>,
    },
    Function {
        call: ItemCall,
        arguments: EscapedText,
    },
    Custom {
        call: ItemCall,
        input: EscapedText,
        reader: Freeform,
    },
    /// Has no deltas: its arguments are an object, not the text of one.
    Search {
        call: ItemCall,
        arguments: String,
    },
}

/// What a call is to the client.
#[derive(Debug)]
pub(super) struct ItemCall {
    pub(super) id: CallId,
    pub(super) name: String,
    pub(super) namespace: Option<String>,
}

// === impl Frames ===

impl EventWriter {
    /// Writes one event: `members` beside its type and number, each with the comma before it.
    fn event(&mut self, kind: &str, members: &[&str], out: &mut BytesMut) {
        self.begin(kind, out);
        end(members, out);
    }

    /// As [`EventWriter::event`], for an event of a part of an item.
    fn placed(&mut self, kind: &str, place: Place<'_>, members: &[&str], out: &mut BytesMut) {
        self.begin(kind, out);
        put_place(place, out);
        end(members, out);
    }

    /// An event of a whole item; `json` is the item.
    fn item(&mut self, kind: &str, place: usize, json: &str, out: &mut BytesMut) {
        let place = place.to_string();
        self.event(kind, &[",\"output_index\":", &place, ",\"item\":", json], out);
    }

    /// The beginning of an event: its type and its number.
    pub(super) fn begin(&mut self, kind: &str, out: &mut BytesMut) {
        put_kind(kind, out);
        out.put_slice(b",\"sequence_number\":");
        self.number(out);
    }

    /// `delta` is escaped.
    fn delta(&mut self, envelope: &[u8], delta: &str, out: &mut BytesMut) {
        out.reserve(envelope.len().saturating_add(delta.len()).saturating_add(BEHIND_DELTA));
        out.put_slice(envelope);
        out.put_slice(delta.as_bytes());
        out.put_slice(b"\",\"sequence_number\":");
        self.number(out);
        end(&[], out);
    }

    fn number(&mut self, out: &mut BytesMut) {
        out.put_slice(digits(self.next, &mut [0; 20]));
        self.next = self.next.saturating_add(1);
    }
}

/// Writes the end of an event behind its last members.
pub(super) fn end(members: &[&str], out: &mut BytesMut) {
    for piece in members {
        out.put_slice(piece.as_bytes());
    }
    out.put_slice(b"}\n\n");
}

/// A number in decimal; the buffer takes the largest.
fn digits(number: u64, buffer: &mut [u8; 20]) -> &[u8] {
    let (mut rest, mut first) = (number, buffer.len());
    for (at, digit) in buffer.iter_mut().enumerate().rev() {
        *digit = b'0' + u8::try_from(rest % 10).unwrap_or_default();
        (rest, first) = (rest / 10, at);
        if rest == 0 {
            break;
        }
    }
    buffer.get(first..).unwrap_or_default()
}

/// Writes the beginning of an event, up to and with its type.
fn put_kind(kind: &str, out: &mut BytesMut) {
    for piece in ["event: ", kind, "\ndata: {\"type\":\"", kind, "\""] {
        out.put_slice(piece.as_bytes());
    }
}

/// Writes the members of a place behind those that are written already.
fn put_place(place: Place<'_>, out: &mut BytesMut) {
    let start = out.len();
    put_json(out, &place);
    // The braces of the object: the first becomes the comma before its members.
    if let Some(brace) = out.get_mut(start) {
        *brace = b',';
    }
    out.truncate(out.len().saturating_sub(1));
}

// === impl Growing ===

impl GrowingItem {
    /// Opens the item: everything that comes before its first delta.
    pub(super) fn open(
        id: String,
        kind: GrowingKind,
        output_index: usize,
        frames: &mut EventWriter,
        out: &mut BytesMut,
    ) -> Self {
        let mut item = Self { id, kind, output_index, envelope: Box::default() };
        item.envelope = item.envelope();
        let added = item.json(ItemStatus::InProgress);
        frames.item("response.output_item.added", output_index, &added, out);
        let place = item.place();
        match &item.kind {
            GrowingKind::Message { .. } => {
                let part = [",\"part\":", TEXT_PART, "\"}"];
                frames.placed("response.content_part.added", place, &part, out);
            }
            GrowingKind::Reasoning { .. } => {
                let part = [",\"part\":", SUMMARY_PART, "\"}"];
                frames.placed("response.reasoning_summary_part.added", place, &part, out);
            }
            GrowingKind::Function { .. }
            | GrowingKind::Custom { .. }
            | GrowingKind::Search { .. } => {}
        }
        item
    }

    /// A further piece of the text or of the arguments.
    pub(super) fn push(&mut self, piece: &str, frames: &mut EventWriter, out: &mut BytesMut) {
        match &mut self.kind {
            GrowingKind::Message { text } | GrowingKind::Function { arguments: text, .. } => {
                frames.delta(&self.envelope, text.push(piece), out);
            }
            GrowingKind::Reasoning { text, plain } => {
                if let Some(plain) = plain {
                    plain.push_str(piece);
                }
                frames.delta(&self.envelope, text.push(piece), out);
            }
            GrowingKind::Search { arguments, .. } => arguments.push_str(piece),
            GrowingKind::Custom { input, reader, .. } => {
                let mut certain = String::new();
                reader.push(piece, &mut certain);
                if !certain.is_empty() {
                    frames.delta(&self.envelope, input.push(&certain), out);
                }
            }
        }
    }

    /// Closes the item: everything after its last delta. Returns its JSON.
    pub(super) fn close(
        mut self,
        status: ItemStatus,
        frames: &mut EventWriter,
        out: &mut BytesMut,
    ) -> String {
        self.complete(frames, out);
        // All of it comes three times here, and once more with the whole response.
        out.reserve(self.grown().len().saturating_mul(4).saturating_add(2048));
        let place = self.place();
        match &self.kind {
            GrowingKind::Message { text } => {
                let text = text.as_str();
                let said = [",\"text\":\"", text, "\",\"logprobs\":[]"];
                frames.placed("response.output_text.done", place, &said, out);
                let part = [",\"part\":", TEXT_PART, text, "\"}"];
                frames.placed("response.content_part.done", place, &part, out);
            }
            GrowingKind::Reasoning { text, .. } => {
                let text = text.as_str();
                let said = [",\"text\":\"", text, "\""];
                frames.placed("response.reasoning_summary_text.done", place, &said, out);
                let part = [",\"part\":", SUMMARY_PART, text, "\"}"];
                frames.placed("response.reasoning_summary_part.done", place, &part, out);
            }
            GrowingKind::Function { call, arguments } => {
                let name = json(&call.name);
                let said = [",\"name\":", &name, ",\"arguments\":\"", arguments.as_str(), "\""];
                frames.placed("response.function_call_arguments.done", place, &said, out);
            }
            GrowingKind::Custom { input, .. } => {
                let said = [",\"input\":\"", input.as_str(), "\""];
                frames.placed("response.custom_tool_call_input.done", place, &said, out);
            }
            GrowingKind::Search { .. } => {}
        }
        let json = self.json(status);
        frames.item("response.output_item.done", self.output_index, &json, out);
        json
    }

    /// The last delta of a call, if what came so far does not say it all.
    fn complete(&mut self, frames: &mut EventWriter, out: &mut BytesMut) {
        match &mut self.kind {
            GrowingKind::Message { .. }
            | GrowingKind::Reasoning { .. }
            | GrowingKind::Search { .. } => {}
            // A call of a tool that takes nothing: clients parse the arguments, and the
            // empty string is not JSON.
            GrowingKind::Function { arguments, .. } => {
                if arguments.is_empty() {
                    frames.delta(&self.envelope, arguments.push("{}"), out);
                }
            }
            GrowingKind::Custom { input, reader, .. } => {
                let mut rest = String::new();
                std::mem::take(reader).finish(&mut rest);
                if !rest.is_empty() {
                    frames.delta(&self.envelope, input.push(&rest), out);
                }
            }
        }
    }

    /// The item as it is now.
    pub(super) fn json(&self, status: ItemStatus) -> String {
        let id = self.id.as_str();
        let fresh = status == ItemStatus::InProgress;
        match &self.kind {
            GrowingKind::Message { text } => {
                let item = OutputItem::Message { id, status, role: "assistant" };
                // The part has an event of its own.
                if text.is_empty() && fresh {
                    return with(&item, &[",\"content\":[]"]);
                }
                with(&item, &[",\"content\":[", TEXT_PART, text.as_str(), "\"}]"])
            }
            GrowingKind::Reasoning { text, plain } => {
                let item = OutputItem::Reasoning { id };
                let token =
                    plain.as_ref().filter(|_| !fresh).map(|text| TokenKind::Reasoning.seal(text));
                let sealed = token.map(|token| format!(",\"encrypted_content\":\"{token}\""));
                let sealed = sealed.as_deref().unwrap_or_default();
                if text.is_empty() {
                    return with(&item, &[",\"summary\":[]", sealed]);
                }
                with(&item, &[",\"summary\":[", SUMMARY_PART, text.as_str(), "\"}]", sealed])
            }
            GrowingKind::Function { call, arguments } => {
                let ItemCall { id: call_id, name, namespace } = call;
                let (call_id, namespace) = (call_id.as_str(), namespace.as_deref());
                let item = OutputItem::FunctionCall { id, status, call_id, name, namespace };
                with(&item, &[",\"arguments\":\"", arguments.as_str(), "\""])
            }
            GrowingKind::Custom { call, input, .. } => {
                let ItemCall { id: call_id, name, namespace } = call;
                let (call_id, namespace) = (call_id.as_str(), namespace.as_deref());
                let item = OutputItem::CustomToolCall { id, status, call_id, name, namespace };
                with(&item, &[",\"input\":\"", input.as_str(), "\""])
            }
            GrowingKind::Search { call, arguments } => {
                let call_id = call.id.as_str();
                let item = OutputItem::ToolSearchCall { id, status, call_id, execution: "client" };
                // Whatever is not an object, the client could not read.
                let given = serde_json::from_str::<&RawValue>(arguments).ok().map(RawValue::get);
                let given = given.filter(|given| given.starts_with('{')).unwrap_or("{}");
                with(&item, &[",\"arguments\":", &on_one_line(given)])
            }
        }
    }

    /// The call that this is.
    pub(super) fn call(&self) -> Option<&CallId> {
        match &self.kind {
            GrowingKind::Message { .. } | GrowingKind::Reasoning { .. } => None,
            GrowingKind::Function { call, .. }
            | GrowingKind::Custom { call, .. }
            | GrowingKind::Search { call, .. } => Some(&call.id),
        }
    }

    fn grown(&self) -> &str {
        match &self.kind {
            GrowingKind::Message { text }
            | GrowingKind::Reasoning { text, .. }
            | GrowingKind::Function { arguments: text, .. }
            | GrowingKind::Custom { input: text, .. } => text.as_str(),
            GrowingKind::Search { arguments, .. } => arguments,
        }
    }

    fn place(&self) -> Place<'_> {
        Place {
            item_id: &self.id,
            output_index: self.output_index,
            content_index: matches!(self.kind, GrowingKind::Message { .. }).then_some(0),
            summary_index: matches!(self.kind, GrowingKind::Reasoning { .. }).then_some(0),
        }
    }

    fn envelope(&self) -> Box<[u8]> {
        let kind = match self.kind {
            GrowingKind::Message { .. } => "response.output_text.delta",
            GrowingKind::Reasoning { .. } => "response.reasoning_summary_text.delta",
            GrowingKind::Function { .. } => "response.function_call_arguments.delta",
            GrowingKind::Custom { .. } => "response.custom_tool_call_input.delta",
            GrowingKind::Search { .. } => return Box::default(),
        };
        let mut out = BytesMut::with_capacity(256);
        put_kind(kind, &mut out);
        put_place(self.place(), &mut out);
        if matches!(self.kind, GrowingKind::Message { .. }) {
            out.put_slice(b",\"logprobs\":[]");
        }
        out.put_slice(b",\"delta\":\"");
        out.to_vec().into_boxed_slice()
    }
}

/// The JSON of an item with further members, each with the comma before it.
fn with(item: &OutputItem<'_>, members: &[&str]) -> String {
    let head = json(item);
    let head = head.strip_suffix('}').unwrap_or(&head);
    let length = members.iter().map(|piece| piece.len()).sum::<usize>();
    let mut all = String::with_capacity(head.len() + length + 1);
    all.push_str(head);
    all.extend(members.iter().copied());
    all.push('}');
    all
}

#[cfg(test)]
mod tests {
    use super::digits;

    #[test]
    fn item_index_is_written_in_decimal() {
        for number in [0, 7, 10, 99, 1_000, 65_536, 1_234_567_890, u64::MAX - 9, u64::MAX] {
            assert_eq!(digits(number, &mut [0; 20]), number.to_string().as_bytes());
        }
    }
}
