//! Turn events to the event stream of a response.
//!
//! A stream is: `response.created`, `response.in_progress`; for each item its
//! `output_item.added`, its parts and deltas, its `output_item.done`; one of
//! `response.completed`, `response.incomplete` and `response.failed`, which has the whole
//! response. Calls may grow side by side, each under its own `output_index`; of messages and
//! reasoning there is one at a time. A failed response does not close the items that were
//! growing: clients act on `output_item.done`, and half an item is nothing to act on.

use std::{borrow::Cow, fmt};

use bytes::{BufMut as _, BytesMut};

use super::{
    echo::Echo,
    failure,
    growing::{self, EventWriter, GrowingItem, GrowingKind, ItemCall},
    ids::output_item,
    text::EscapedText,
    tools::CallForm,
    types::{IncompleteDetails, ItemStatus, ResponseState, ResponsesUsage, json},
};
use crate::{
    error::{ErrorCode, TurnError},
    model::{FinishReason, TurnEvent, Usage, ids::CallId},
    wire::{Encode, cut_off, freeform::Freeform},
};

/// Returns the time in Unix seconds.
type UnixClock = Box<dyn Fn() -> u64 + Send>;

/// Encodes one turn. It takes every event in order, and appends the bytes to the caller's buffer.
pub struct ResponsesEncoder {
    id: String,
    created: u64,
    echo: Echo,
    clock: Option<UnixClock>,
    frames: EventWriter,
    /// The output so far; the place of an item is its `output_index`.
    items: Vec<OutputSlot>,
    /// The message or the reasoning that grows.
    speaking: Option<usize>,
    /// `None`: not counted.
    usage: Option<Usage>,
    stage: ResponseStage,
}

#[derive(Debug)]
enum OutputSlot {
    Growing(GrowingItem),
    /// Its JSON.
    Done(String),
}

/// How far the stream is.
#[derive(Debug)]
enum ResponseStage {
    /// Nothing is written yet: the response itself comes first.
    Fresh,
    Open,
    Ended(ResponseEnding),
}

#[derive(Debug)]
struct ResponseEnding {
    status: ItemStatus,
    completed_at: Option<u64>,
    failure: Option<TurnError>,
}

/// A response that has ended, as it is kept.
#[derive(Debug)]
pub struct EndedResponse {
    /// Its `status`.
    pub status: &'static str,
    /// The JSON of all of it.
    pub body: String,
    /// The JSON of its output.
    pub output: String,
}

/// Which of the two kinds of text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TextChannel {
    Said,
    Thought,
}

impl ResponsesEncoder {
    /// `created` is in Unix seconds.
    #[must_use]
    pub fn new(id: String, created: u64, echo: Echo) -> Self {
        Self {
            id,
            created,
            echo,
            clock: None,
            frames: EventWriter::default(),
            items: Vec::new(),
            speaking: None,
            usage: None,
            stage: ResponseStage::Fresh,
        }
    }

    /// `now` gives the time in Unix seconds; it is asked once, for `completed_at`. Without
    /// it that field stays null.
    #[must_use]
    pub fn with_clock(mut self, now: impl Fn() -> u64 + Send + 'static) -> Self {
        self.clock = Some(Box::new(now));
        self
    }

    /// The response once it has ended. Each call puts it together.
    #[must_use]
    pub fn ended(&self) -> Option<EndedResponse> {
        match &self.stage {
            ResponseStage::Fresh | ResponseStage::Open => None,
            ResponseStage::Ended(ending) => Some(EndedResponse {
                status: ending.status.word(),
                body: self.current(),
                output: self.output(),
            }),
        }
    }

    /// Why the turn failed, if it did.
    #[must_use]
    pub fn failure(&self) -> Option<&TurnError> {
        match &self.stage {
            ResponseStage::Fresh | ResponseStage::Open => None,
            ResponseStage::Ended(ending) => ending.failure.as_ref(),
        }
    }

    /// The JSON of the response as it is now: the final one once there is one.
    #[must_use]
    pub fn current(&self) -> String {
        let mut json = String::with_capacity(self.size());
        self.render(|piece| json.push_str(piece));
        json
    }

    /// The JSON of the items that grow no more, as they went out.
    fn output(&self) -> String {
        let mut json = String::with_capacity(self.done() + self.items.len() + 2);
        json.push('[');
        for slot in &self.items {
            if let OutputSlot::Done(item) = slot {
                if json.len() > 1 {
                    json.push(',');
                }
                json.push_str(item);
            }
        }
        json.push(']');
        json
    }

    fn open(&mut self, out: &mut BytesMut) {
        if matches!(self.stage, ResponseStage::Fresh) {
            self.stage = ResponseStage::Open;
            self.whole("response.created", out);
            self.whole("response.in_progress", out);
        }
    }

    /// Writes an event that has the response.
    fn whole(&mut self, kind: &str, out: &mut BytesMut) {
        out.reserve(self.size());
        self.frames.begin(kind, out);
        out.put_slice(b",\"response\":");
        self.render(|piece| out.put_slice(piece.as_bytes()));
        growing::end(&[], out);
    }

    fn speak(&mut self, voice: TextChannel, piece: &str, out: &mut BytesMut) {
        if piece.is_empty() {
            return;
        }
        if let Some(item) = self.speaking.and_then(|at| growing(&mut self.items, at))
            && voice.is_of(&item.kind)
        {
            return item.push(piece, &mut self.frames, out);
        }
        self.open(out);
        self.fall_silent(out);
        let (prefix, kind) = match voice {
            TextChannel::Said => ("msg", GrowingKind::Message { text: EscapedText::default() }),
            TextChannel::Thought => {
                let plain = self.echo.encrypted.then(String::new);
                ("rs", GrowingKind::Reasoning { text: EscapedText::default(), plain })
            }
        };
        self.speaking = Some(self.items.len());
        let mut item = self.add(prefix, kind, out);
        item.push(piece, &mut self.frames, out);
        self.items.push(OutputSlot::Growing(item));
    }

    fn call(&mut self, id: &CallId, name: &str, out: &mut BytesMut) {
        self.open(out);
        self.fall_silent(out);
        let tool = self.echo.tools.offered(name);
        let call = ItemCall {
            id: id.clone(),
            name: tool.map_or(name, |tool| &tool.name).to_owned(),
            namespace: tool.and_then(|tool| tool.namespace.clone()),
        };
        let (prefix, kind) = match tool.map(|tool| tool.form) {
            None | Some(CallForm::Function) => {
                ("fc", GrowingKind::Function { call, arguments: EscapedText::default() })
            }
            Some(CallForm::Freeform) => {
                let reader = Freeform::default();
                ("ctc", GrowingKind::Custom { call, input: EscapedText::default(), reader })
            }
            Some(CallForm::Search) => {
                ("tsc", GrowingKind::Search { call, arguments: String::new() })
            }
        };
        let item = self.add(prefix, kind, out);
        self.items.push(OutputSlot::Growing(item));
    }

    fn add(&mut self, prefix: &str, kind: GrowingKind, out: &mut BytesMut) -> GrowingItem {
        let place = self.items.len();
        let id = output_item(prefix, &self.id, place);
        GrowingItem::open(id, kind, place, &mut self.frames, out)
    }

    /// Closes the message or the reasoning that grows.
    fn fall_silent(&mut self, out: &mut BytesMut) {
        if let Some(at) = self.speaking.take() {
            self.close(at, ItemStatus::Completed, out);
        }
    }

    fn close(&mut self, at: usize, status: ItemStatus, out: &mut BytesMut) {
        if let Some(slot) = self.items.get_mut(at) {
            let item = std::mem::replace(slot, OutputSlot::Done(String::new()));
            *slot = OutputSlot::Done(match item {
                OutputSlot::Growing(item) => item.close(status, &mut self.frames, out),
                OutputSlot::Done(item) => item,
            });
        }
    }

    /// The place of a call that grows. From the back: the newest call is the likely one.
    fn place_of(&self, id: &CallId) -> Option<usize> {
        self.items.iter().rposition(|slot| match slot {
            OutputSlot::Growing(item) => item.call() == Some(id),
            OutputSlot::Done(_) => false,
        })
    }

    fn finish(&mut self, reason: FinishReason, out: &mut BytesMut) {
        self.open(out);
        let (kind, status) = match reason {
            FinishReason::Stop | FinishReason::StopSequence(_) | FinishReason::ToolCalls => {
                ("response.completed", ItemStatus::Completed)
            }
            FinishReason::Length => ("response.incomplete", ItemStatus::Incomplete),
        };
        for at in 0..self.items.len() {
            self.close(at, status, out);
        }
        let complete = status == ItemStatus::Completed;
        let completed_at = self.clock.as_ref().filter(|_| complete).map(|now| now());
        self.stage = ResponseStage::Ended(ResponseEnding { status, completed_at, failure: None });
        self.whole(kind, out);
    }

    fn fail(&mut self, failure: TurnError, out: &mut BytesMut) {
        self.open(out);
        for slot in &mut self.items {
            if let OutputSlot::Growing(item) = slot {
                *slot = OutputSlot::Done(item.json(ItemStatus::Incomplete));
            }
        }
        let cancelled = failure.code == ErrorCode::Cancelled;
        let status = if cancelled { ItemStatus::Cancelled } else { ItemStatus::Failed };
        let failure = Some(failure);
        self.stage = ResponseStage::Ended(ResponseEnding { status, completed_at: None, failure });
        self.whole("response.failed", out);
    }

    /// Bytes of the items that grow no more.
    fn done(&self) -> usize {
        let sizes = self.items.iter().map(|slot| match slot {
            OutputSlot::Growing(_) => 0,
            OutputSlot::Done(item) => item.len(),
        });
        sizes.sum()
    }

    /// About as long as the response is, or a little shorter.
    fn size(&self) -> usize {
        self.done() + self.echo.members.len() + 1024
    }

    /// Returns the JSON of the present response, piece by piece.
    fn render(&self, mut put: impl FnMut(&str)) {
        let ending = match &self.stage {
            ResponseStage::Fresh | ResponseStage::Open => None,
            ResponseStage::Ended(ending) => Some(ending),
        };
        let status = ending.map_or(ItemStatus::InProgress, |ending| ending.status);
        let failure = ending.and_then(|ending| ending.failure.as_ref());
        let usage = match status {
            ItemStatus::InProgress => None,
            // Clients take no finished response without one.
            ItemStatus::Completed | ItemStatus::Incomplete => Some(self.usage.unwrap_or_default()),
            ItemStatus::Failed | ItemStatus::Cancelled => self.usage,
        };
        let head = json(&ResponseState {
            id: &self.id,
            object: "response",
            created_at: self.created,
            status,
            completed_at: ending.and_then(|ending| ending.completed_at),
            error: failure.filter(|_| status == ItemStatus::Failed).map(failure::describe),
            incomplete_details: (status == ItemStatus::Incomplete)
                .then_some(IncompleteDetails { reason: "max_output_tokens" }),
        });
        put(head.strip_suffix('}').unwrap_or(&head));
        put(",\"output\":[");
        for (place, slot) in self.items.iter().enumerate() {
            if place > 0 {
                put(",");
            }
            put(&match slot {
                OutputSlot::Growing(item) => Cow::Owned(item.json(ItemStatus::InProgress)),
                OutputSlot::Done(item) => Cow::Borrowed(item.as_str()),
            });
        }
        put("],\"usage\":");
        put(&json(&usage.map(ResponsesUsage::from)));
        // What the request said.
        put(",");
        put(&self.echo.members);
        put("}");
    }
}

impl Encode for ResponsesEncoder {
    fn on_event(&mut self, event: &TurnEvent, out: &mut BytesMut) {
        if self.is_ended() {
            return;
        }
        match event {
            TurnEvent::Started => self.open(out),
            TurnEvent::Text(text) => self.speak(TextChannel::Said, text, out),
            TurnEvent::Reasoning(text) => self.speak(TextChannel::Thought, text, out),
            TurnEvent::ToolCallBegin { id, name } => self.call(id, name, out),
            TurnEvent::ToolCallArgs { id, delta } => {
                if let Some(item) = self.place_of(id).and_then(|at| growing(&mut self.items, at))
                    && !delta.is_empty()
                {
                    item.push(delta, &mut self.frames, out);
                }
            }
            TurnEvent::ToolCallEnd { id } => {
                if let Some(at) = self.place_of(id) {
                    self.close(at, ItemStatus::Completed, out);
                }
            }
            // Goes out with the whole response.
            TurnEvent::Usage(usage) => self.usage = Some(*usage),
            TurnEvent::Finished(reason) => self.finish(*reason, out),
            TurnEvent::Failed(failure) => self.fail(failure.clone(), out),
        }
    }

    fn on_cut(&mut self, out: &mut BytesMut) {
        if !self.is_ended() {
            self.fail(cut_off(), out);
        }
    }

    fn is_ended(&self) -> bool {
        matches!(self.stage, ResponseStage::Ended(_))
    }
}

impl fmt::Debug for ResponsesEncoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoder")
            .field("id", &self.id)
            .field("items", &self.items)
            .field("stage", &self.stage)
            .finish_non_exhaustive()
    }
}

fn growing(items: &mut [OutputSlot], at: usize) -> Option<&mut GrowingItem> {
    match items.get_mut(at)? {
        OutputSlot::Growing(item) => Some(item),
        OutputSlot::Done(_) => None,
    }
}

impl TextChannel {
    fn is_of(self, kind: &GrowingKind) -> bool {
        match kind {
            GrowingKind::Message { .. } => self == Self::Said,
            GrowingKind::Reasoning { .. } => self == Self::Thought,
            GrowingKind::Function { .. }
            | GrowingKind::Custom { .. }
            | GrowingKind::Search { .. } => false,
        }
    }
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
