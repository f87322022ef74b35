//! One item of a response's output, from its first event to its last.

use bytes::{BufMut as _, BytesMut};
use serde::Serialize;
use serde_json::value::RawValue;

use super::{
    freeform::Freeform,
    token::Kept,
    types::{
        ItemEvent, OutputItem, PartEvent, Place, Status, SummaryPart, TextPart, Whole, to_raw,
    },
};
use crate::{model::ids::CallId, wire::json::put_json};

/// Writes events and numbers them.
#[derive(Debug, Default)]
pub(super) struct Frames {
    next: u64,
}

/// An item that still grows.
#[derive(Debug)]
pub(super) struct Growing {
    pub(super) id: String,
    pub(super) kind: Kind,
    output_index: usize,
    /// The event of a delta, up to the delta.
    envelope: Box<[u8]>,
}

#[derive(Debug)]
pub(super) enum Kind {
    Message {
        text: String,
    },
    Reasoning {
        text: String,
        encrypted: bool,
    },
    Function {
        call: Call,
        arguments: String,
    },
    Custom {
        call: Call,
        input: String,
        reader: Freeform,
    },
    /// Has no deltas: its arguments are an object, not the text of one.
    Search {
        call: Call,
        arguments: String,
    },
}

/// What a call is to the client.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) id: CallId,
    pub(super) name: String,
    pub(super) namespace: Option<String>,
}

// === impl Frames ===

impl Frames {
    /// Writes one event: `fields` beside its type and number.
    pub(super) fn event(&mut self, kind: &str, fields: &impl Serialize, out: &mut BytesMut) {
        self.begin(kind, out);
        put_members(fields, out);
        out.put_slice(b"}\n\n");
    }

    /// As [`Frames::event`], for an event of one item.
    fn placed(
        &mut self,
        kind: &str,
        place: Place<'_>,
        fields: &impl Serialize,
        out: &mut BytesMut,
    ) {
        self.begin(kind, out);
        put_members(&place, out);
        put_members(fields, out);
        out.put_slice(b"}\n\n");
    }

    /// As [`Frames::event`], for an event that has the response; `response` is its JSON.
    pub(super) fn response(&mut self, kind: &str, response: &[u8], out: &mut BytesMut) {
        out.reserve(response.len().saturating_add(128));
        self.begin(kind, out);
        out.put_slice(b",\"response\":");
        out.put_slice(response);
        out.put_slice(b"}\n\n");
    }

    fn begin(&mut self, kind: &str, out: &mut BytesMut) {
        put_kind(kind, out);
        self.number(out);
    }

    fn delta(&mut self, envelope: &[u8], delta: &str, out: &mut BytesMut) {
        out.put_slice(envelope);
        put_json(out, &delta);
        self.number(out);
        out.put_slice(b"}\n\n");
    }

    fn number(&mut self, out: &mut BytesMut) {
        out.put_slice(b",\"sequence_number\":");
        put_json(out, &self.next);
        self.next = self.next.saturating_add(1);
    }
}

/// Writes the beginning of an event, up to and with its type.
fn put_kind(kind: &str, out: &mut BytesMut) {
    for piece in ["event: ", kind, "\ndata: {\"type\":\"", kind, "\""] {
        out.put_slice(piece.as_bytes());
    }
}

/// Writes the members of an object behind those that are written already.
fn put_members(fields: &impl Serialize, out: &mut BytesMut) {
    let start = out.len();
    put_json(out, fields);
    // The braces of the object: the first becomes the comma before its members.
    if let Some(brace) = out.get_mut(start) {
        *brace = b',';
    }
    out.truncate(out.len().saturating_sub(1));
}

// === impl Growing ===

impl Growing {
    /// Opens the item: everything that comes before its first delta.
    pub(super) fn open(
        id: String,
        kind: Kind,
        output_index: usize,
        frames: &mut Frames,
        out: &mut BytesMut,
    ) -> Self {
        let mut item = Self { id, kind, output_index, envelope: Box::default() };
        item.envelope = item.envelope();
        let added = item.json(Status::InProgress);
        let event = ItemEvent { output_index, item: &added };
        frames.event("response.output_item.added", &event, out);
        let place = item.place();
        match &item.kind {
            Kind::Message { .. } => {
                let part = PartEvent { part: TextPart::new("") };
                frames.placed("response.content_part.added", place, &part, out);
            }
            Kind::Reasoning { .. } => {
                let part = PartEvent { part: SummaryPart { text: "" } };
                frames.placed("response.reasoning_summary_part.added", place, &part, out);
            }
            Kind::Function { .. } | Kind::Custom { .. } | Kind::Search { .. } => {}
        }
        item
    }

    /// A further piece of the text or of the arguments.
    pub(super) fn push(&mut self, piece: &str, frames: &mut Frames, out: &mut BytesMut) {
        let (text, known) = match &mut self.kind {
            Kind::Message { text }
            | Kind::Reasoning { text, .. }
            | Kind::Function { arguments: text, .. } => {
                text.push_str(piece);
                return frames.delta(&self.envelope, piece, out);
            }
            Kind::Search { arguments, .. } => return arguments.push_str(piece),
            Kind::Custom { input, reader, .. } => {
                let known = input.len();
                reader.push(piece, input);
                (input, known)
            }
        };
        if let Some(delta) = text.get(known..).filter(|delta| !delta.is_empty()) {
            frames.delta(&self.envelope, delta, out);
        }
    }

    /// Closes the item: everything that comes behind its last delta. Gives its JSON.
    pub(super) fn close(
        mut self,
        status: Status,
        frames: &mut Frames,
        out: &mut BytesMut,
    ) -> Box<RawValue> {
        self.complete(frames, out);
        let place = self.place();
        let whole = Whole::default();
        match &self.kind {
            Kind::Message { text } => {
                let said = Whole { text: Some(text), logprobs: Some([]), ..whole };
                frames.placed("response.output_text.done", place, &said, out);
                let part = PartEvent { part: TextPart::new(text) };
                frames.placed("response.content_part.done", place, &part, out);
            }
            Kind::Reasoning { text, .. } => {
                let said = Whole { text: Some(text), ..whole };
                frames.placed("response.reasoning_summary_text.done", place, &said, out);
                let part = PartEvent { part: SummaryPart { text } };
                frames.placed("response.reasoning_summary_part.done", place, &part, out);
            }
            Kind::Function { call, arguments } => {
                let said = Whole { name: Some(&call.name), arguments: Some(arguments), ..whole };
                frames.placed("response.function_call_arguments.done", place, &said, out);
            }
            Kind::Custom { input, .. } => {
                let said = Whole { input: Some(input), ..whole };
                frames.placed("response.custom_tool_call_input.done", place, &said, out);
            }
            Kind::Search { .. } => {}
        }
        let json = self.json(status);
        let event = ItemEvent { output_index: self.output_index, item: &json };
        frames.event("response.output_item.done", &event, out);
        json
    }

    /// The last delta of a call, if what came so far does not say it all.
    fn complete(&mut self, frames: &mut Frames, out: &mut BytesMut) {
        match &mut self.kind {
            Kind::Message { .. } | Kind::Reasoning { .. } | Kind::Search { .. } => {}
            // A call of a tool that takes nothing: clients parse the arguments, and the
            // empty string is no JSON.
            Kind::Function { arguments, .. } => {
                if arguments.is_empty() {
                    arguments.push_str("{}");
                    frames.delta(&self.envelope, "{}", out);
                }
            }
            Kind::Custom { input, reader, .. } => {
                let known = input.len();
                std::mem::take(reader).finish(input);
                if let Some(delta) = input.get(known..).filter(|delta| !delta.is_empty()) {
                    frames.delta(&self.envelope, delta, out);
                }
            }
        }
    }

    /// The item as it is now.
    pub(super) fn json(&self, status: Status) -> Box<RawValue> {
        let id = self.id.as_str();
        let fresh = status == Status::InProgress;
        match &self.kind {
            Kind::Message { text } => {
                let content = [TextPart::new(text)];
                // The part has an event of its own.
                let content = if text.is_empty() && fresh { &[] } else { content.as_slice() };
                to_raw(&OutputItem::Message { id, status, role: "assistant", content })
            }
            Kind::Reasoning { text, encrypted } => {
                let token = (*encrypted && !fresh).then(|| Kept::Reasoning.seal(text));
                let summary = [SummaryPart { text }];
                let summary = if text.is_empty() { &[] } else { summary.as_slice() };
                let encrypted_content = token.as_deref();
                to_raw(&OutputItem::Reasoning { id, summary, encrypted_content })
            }
            Kind::Function { call, arguments } => to_raw(&OutputItem::FunctionCall {
                id,
                status,
                call_id: call.id.as_str(),
                name: &call.name,
                namespace: call.namespace.as_deref(),
                arguments,
            }),
            Kind::Custom { call, input, .. } => to_raw(&OutputItem::CustomToolCall {
                id,
                status,
                call_id: call.id.as_str(),
                name: &call.name,
                namespace: call.namespace.as_deref(),
                input,
            }),
            Kind::Search { call, arguments } => {
                let given = serde_json::from_str::<&RawValue>(arguments).ok();
                let none = RawValue::from_string("{}".to_owned()).ok();
                let arguments = given.filter(|given| given.get().starts_with('{'));
                to_raw(&OutputItem::ToolSearchCall {
                    id,
                    status,
                    call_id: call.id.as_str(),
                    execution: "client",
                    arguments: arguments.or(none.as_deref()).unwrap_or(RawValue::NULL),
                })
            }
        }
    }

    /// The call that this is.
    pub(super) fn call(&self) -> Option<&CallId> {
        match &self.kind {
            Kind::Message { .. } | Kind::Reasoning { .. } => None,
            Kind::Function { call, .. } | Kind::Custom { call, .. } | Kind::Search { call, .. } => {
                Some(&call.id)
            }
        }
    }

    fn place(&self) -> Place<'_> {
        Place {
            item_id: &self.id,
            output_index: self.output_index,
            content_index: matches!(self.kind, Kind::Message { .. }).then_some(0),
            summary_index: matches!(self.kind, Kind::Reasoning { .. }).then_some(0),
        }
    }

    fn envelope(&self) -> Box<[u8]> {
        let kind = match self.kind {
            Kind::Message { .. } => "response.output_text.delta",
            Kind::Reasoning { .. } => "response.reasoning_summary_text.delta",
            Kind::Function { .. } => "response.function_call_arguments.delta",
            Kind::Custom { .. } => "response.custom_tool_call_input.delta",
            Kind::Search { .. } => return Box::default(),
        };
        let mut out = BytesMut::with_capacity(256);
        put_kind(kind, &mut out);
        put_members(&self.place(), &mut out);
        if matches!(self.kind, Kind::Message { .. }) {
            out.put_slice(b",\"logprobs\":[]");
        }
        out.put_slice(b",\"delta\":");
        out.to_vec().into_boxed_slice()
    }
}
