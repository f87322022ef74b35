//! Turn events to the event stream of a response.
//!
//! A stream is: `response.created`, `response.in_progress`; for each item its
//! `output_item.added`, its parts and deltas, its `output_item.done`; one of
//! `response.completed`, `response.incomplete` and `response.failed`, which has the whole
//! response. Calls may grow side by side, each under its own `output_index`; of messages and
//! reasoning there is one at a time. A failed response does not close the items that were
//! growing: clients act on `output_item.done`, and half an item is nothing to act on.

use std::{borrow::Cow, fmt};

use bytes::BytesMut;
use serde_json::value::RawValue;

use super::{
    echo::Echo,
    failure,
    freeform::Freeform,
    ids::output_item,
    slot::{Call, Frames, Growing, Kind},
    tools::Form,
    types::{ErrorPart, IncompleteDetails, State, Status, UsageBody},
};
use crate::{
    error::{ErrorCode, TurnError},
    model::{FinishReason, TurnEvent, Usage, ids::CallId},
    wire::{Encode, cut_off, json::to_json},
};

/// Gives the time, in Unix seconds.
type Clock = Box<dyn Fn() -> u64 + Send>;

/// Encodes one turn. Give it every event, in order; it appends the bytes to the caller's
/// buffer.
pub struct Encoder {
    id: String,
    created: u64,
    echo: Echo,
    clock: Option<Clock>,
    frames: Frames,
    /// The output so far; the place of an item is its `output_index`.
    items: Vec<Slot>,
    /// The message or the reasoning that grows.
    speaking: Option<usize>,
    /// `None`: nobody counted.
    usage: Option<Usage>,
    stage: Stage,
}

#[derive(Debug)]
enum Slot {
    Growing(Growing),
    Done(Box<RawValue>),
}

/// How far the stream is.
#[derive(Debug)]
enum Stage {
    /// Nothing is written yet: the response itself comes first.
    Fresh,
    Open,
    Ended(Ending),
}

#[derive(Debug)]
struct Ending {
    /// The response as it came out.
    response: Box<[u8]>,
    failure: Option<TurnError>,
}

/// Which of the two kinds of text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Voice {
    Said,
    Thought,
}

/// The fields of a response that depend on how it ended.
struct Outcome<'a> {
    status: Status,
    completed_at: Option<u64>,
    error: Option<ErrorPart<'a>>,
    incomplete_details: Option<IncompleteDetails>,
    usage: Option<UsageBody>,
}

impl Encoder {
    /// `created` is in Unix seconds.
    #[must_use]
    pub fn new(id: String, created: u64, echo: Echo) -> Self {
        Self {
            id,
            created,
            echo,
            clock: None,
            frames: Frames::default(),
            items: Vec::new(),
            speaking: None,
            usage: None,
            stage: Stage::Fresh,
        }
    }

    /// `now` gives the time in Unix seconds; it is asked once, for `completed_at`. Without
    /// it that field stays null.
    #[must_use]
    pub fn with_clock(mut self, now: impl Fn() -> u64 + Send + 'static) -> Self {
        self.clock = Some(Box::new(now));
        self
    }

    /// The JSON of the final response, once the turn has ended.
    #[must_use]
    pub fn finished(&self) -> Option<&[u8]> {
        match &self.stage {
            Stage::Fresh | Stage::Open => None,
            Stage::Ended(ending) => Some(&ending.response),
        }
    }

    /// Why the turn failed, if it did.
    #[must_use]
    pub fn failure(&self) -> Option<&TurnError> {
        match &self.stage {
            Stage::Fresh | Stage::Open => None,
            Stage::Ended(ending) => ending.failure.as_ref(),
        }
    }

    /// The JSON of the response as it is now: the final one once there is one.
    #[must_use]
    pub fn current(&self) -> Vec<u8> {
        match &self.stage {
            Stage::Fresh | Stage::Open => self.render(Outcome::open()),
            Stage::Ended(ending) => ending.response.to_vec(),
        }
    }

    /// The items of the output that grow no more, as they went out.
    #[must_use]
    pub fn output(&self) -> Vec<Box<RawValue>> {
        let done = |slot: &Slot| match slot {
            Slot::Growing(_) => None,
            Slot::Done(item) => Some(item.clone()),
        };
        self.items.iter().filter_map(done).collect()
    }

    fn open(&mut self, out: &mut BytesMut) {
        if matches!(self.stage, Stage::Fresh) {
            self.stage = Stage::Open;
            let response = self.render(Outcome::open());
            self.frames.response("response.created", &response, out);
            self.frames.response("response.in_progress", &response, out);
        }
    }

    fn speak(&mut self, voice: Voice, piece: &str, out: &mut BytesMut) {
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
            Voice::Said => ("msg", Kind::Message { text: String::new() }),
            Voice::Thought => {
                let encrypted = self.echo.encrypted;
                ("rs", Kind::Reasoning { text: String::new(), encrypted })
            }
        };
        self.speaking = Some(self.items.len());
        let mut item = self.add(prefix, kind, out);
        item.push(piece, &mut self.frames, out);
        self.items.push(Slot::Growing(item));
    }

    fn call(&mut self, id: &CallId, name: &str, out: &mut BytesMut) {
        self.open(out);
        self.fall_silent(out);
        let tool = self.echo.tools.offered(name);
        let call = Call {
            id: id.clone(),
            name: tool.map_or(name, |tool| &tool.name).to_owned(),
            namespace: tool.and_then(|tool| tool.namespace.clone()),
        };
        let (prefix, kind) = match tool.map(|tool| tool.form) {
            None | Some(Form::Function) => {
                ("fc", Kind::Function { call, arguments: String::new() })
            }
            Some(Form::Freeform) => {
                let reader = Freeform::default();
                ("ctc", Kind::Custom { call, input: String::new(), reader })
            }
            Some(Form::Search) => ("tsc", Kind::Search { call, arguments: String::new() }),
        };
        let item = self.add(prefix, kind, out);
        self.items.push(Slot::Growing(item));
    }

    fn add(&mut self, prefix: &str, kind: Kind, out: &mut BytesMut) -> Growing {
        let place = self.items.len();
        let id = output_item(prefix, &self.id, place);
        Growing::open(id, kind, place, &mut self.frames, out)
    }

    /// Closes the message or the reasoning that grows.
    fn fall_silent(&mut self, out: &mut BytesMut) {
        if let Some(at) = self.speaking.take() {
            self.close(at, Status::Completed, out);
        }
    }

    fn close(&mut self, at: usize, status: Status, out: &mut BytesMut) {
        if let Some(slot) = self.items.get_mut(at) {
            let item = std::mem::replace(slot, Slot::Done(RawValue::NULL.to_owned()));
            *slot = Slot::Done(match item {
                Slot::Growing(item) => item.close(status, &mut self.frames, out),
                Slot::Done(item) => item,
            });
        }
    }

    /// The place of a call that grows. From the back: the newest call is the likely one.
    fn place_of(&self, id: &CallId) -> Option<usize> {
        self.items.iter().rposition(|slot| match slot {
            Slot::Growing(item) => item.call() == Some(id),
            Slot::Done(_) => false,
        })
    }

    fn finish(&mut self, reason: FinishReason, out: &mut BytesMut) {
        self.open(out);
        let (kind, status) = match reason {
            FinishReason::Stop | FinishReason::StopSequence(_) | FinishReason::ToolCalls => {
                ("response.completed", Status::Completed)
            }
            FinishReason::Length => ("response.incomplete", Status::Incomplete),
        };
        for at in 0..self.items.len() {
            self.close(at, status, out);
        }
        let cut_short = status == Status::Incomplete;
        let outcome = Outcome {
            status,
            completed_at: self.clock.as_ref().filter(|_| !cut_short).map(|now| now()),
            incomplete_details: cut_short
                .then_some(IncompleteDetails { reason: "max_output_tokens" }),
            // Clients take no finished response without one.
            usage: Some(self.usage.unwrap_or_default().into()),
            ..Outcome::open()
        };
        let response = self.render(outcome);
        self.end(kind, response, None, out);
    }

    fn fail(&mut self, failure: TurnError, out: &mut BytesMut) {
        self.open(out);
        for slot in &mut self.items {
            if let Slot::Growing(item) = slot {
                *slot = Slot::Done(item.json(Status::Incomplete));
            }
        }
        let cancelled = failure.code == ErrorCode::Cancelled;
        let response = self.render(Outcome {
            status: if cancelled { Status::Cancelled } else { Status::Failed },
            error: (!cancelled).then(|| failure::describe(&failure)),
            usage: self.usage.map(UsageBody::from),
            ..Outcome::open()
        });
        self.end("response.failed", response, Some(failure), out);
    }

    fn end(
        &mut self,
        kind: &str,
        response: Vec<u8>,
        failure: Option<TurnError>,
        out: &mut BytesMut,
    ) {
        self.frames.response(kind, &response, out);
        self.stage = Stage::Ended(Ending { response: response.into_boxed_slice(), failure });
    }

    fn render(&self, outcome: Outcome<'_>) -> Vec<u8> {
        let output: Vec<Cow<'_, RawValue>> = self
            .items
            .iter()
            .map(|slot| match slot {
                Slot::Growing(item) => Cow::Owned(item.json(Status::InProgress)),
                Slot::Done(item) => Cow::Borrowed(&**item),
            })
            .collect();
        let mut json = to_json(&State {
            id: &self.id,
            object: "response",
            created_at: self.created,
            status: outcome.status,
            completed_at: outcome.completed_at,
            error: outcome.error,
            incomplete_details: outcome.incomplete_details,
            output: &output,
            usage: outcome.usage,
        });
        // The closing brace: what the request said goes in front of it.
        json.pop();
        json.push(b',');
        json.extend_from_slice(self.echo.members.as_bytes());
        json.push(b'}');
        json
    }
}

impl Encode for Encoder {
    fn on_event(&mut self, event: &TurnEvent, out: &mut BytesMut) {
        if self.is_ended() {
            return;
        }
        match event {
            TurnEvent::Started => self.open(out),
            TurnEvent::Text(text) => self.speak(Voice::Said, text, out),
            TurnEvent::Reasoning(text) => self.speak(Voice::Thought, text, out),
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
                    self.close(at, Status::Completed, out);
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
        matches!(self.stage, Stage::Ended(_))
    }
}

impl fmt::Debug for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoder")
            .field("id", &self.id)
            .field("items", &self.items)
            .field("stage", &self.stage)
            .finish_non_exhaustive()
    }
}

fn growing(items: &mut [Slot], at: usize) -> Option<&mut Growing> {
    match items.get_mut(at)? {
        Slot::Growing(item) => Some(item),
        Slot::Done(_) => None,
    }
}

impl Voice {
    fn is_of(self, kind: &Kind) -> bool {
        match kind {
            Kind::Message { .. } => self == Self::Said,
            Kind::Reasoning { .. } => self == Self::Thought,
            Kind::Function { .. } | Kind::Custom { .. } | Kind::Search { .. } => false,
        }
    }
}

impl Outcome<'_> {
    /// Of a response that has not ended.
    fn open() -> Self {
        Self {
            status: Status::InProgress,
            completed_at: None,
            error: None,
            incomplete_details: None,
            usage: None,
        }
    }
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
