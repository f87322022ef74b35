//! Every dialect as the proofs see it: how it is spoken, and how it is read.

mod chat;
mod completions;
mod messages;
mod responses;

use bytes::BytesMut;
use ibeam_core::{
    error::TurnError,
    model::TurnEvent,
    wire::{Collect, Encode},
};
use serde_json::Value;

use crate::{
    events::Gist,
    sse::{self, Frame},
};

pub(crate) const CREATED: u64 = 1_234_567_890;
/// The stop sequences that the client set.
pub(crate) const STOPS: [&str; 2] = ["STOP", "END"];
/// A tool whose input is not JSON, where the dialect has such tools.
pub(crate) const FREEFORM: &str = "patch";

/// One dialect, or one way of speaking it.
pub(crate) struct Dialect {
    pub(crate) name: &'static str,
    pub(crate) encoder: fn() -> Box<dyn Encode>,
    pub(crate) collector: fn() -> Box<dyn Collect>,
    /// Reads a stream as a strict client would; an error names the rule that it breaks.
    pub(crate) reader: fn(&[Frame]) -> Result<Ending, String>,
    /// What a reply says, and the part of a turn that this dialect can express.
    pub(crate) gist: fn(&Value) -> Gist,
    pub(crate) can_tell: fn(Gist) -> Gist,
    /// Whether the failure in a stream is this one.
    pub(crate) tells: fn(&Value, &TurnError) -> bool,
}

/// What a stream came to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ending {
    /// The reply, as if it had not been streamed.
    Whole(Value),
    Failed(Value),
}

pub(crate) const ALL: [&Dialect; 6] = [
    &chat::CHAT,
    &responses::RESPONSES,
    &messages::MESSAGES,
    &messages::OMITTED,
    &messages::SILENT,
    &completions::COMPLETIONS,
];

impl Dialect {
    /// The stream of these events. `silences` says behind which of them nothing comes for
    /// a while. Whatever follows the ending must leave no trace.
    pub(crate) fn stream(&self, events: &[TurnEvent], silences: &[usize]) -> Vec<u8> {
        let mut encoder = (self.encoder)();
        let mut out = BytesMut::new();
        for (at, event) in events.iter().enumerate() {
            encoder.on_event(event, &mut out);
            if silences.contains(&at) && !encoder.is_ended() {
                encoder.on_silence(&mut out);
            }
        }
        encoder.on_cut(&mut out);
        assert!(encoder.is_ended(), "{}: it goes on", self.name);
        let length = out.len();
        for event in events {
            encoder.on_event(event, &mut out);
        }
        encoder.on_cut(&mut out);
        assert_eq!(out.len(), length, "{}: something follows the ending", self.name);
        out.to_vec()
    }

    pub(crate) fn read(&self, stream: &[u8]) -> Result<Ending, String> {
        (self.reader)(&sse::parse(stream)?)
    }

    /// The reply of a request that does not stream, as it goes over the wire.
    pub(crate) fn reply(&self, events: &[TurnEvent]) -> Result<String, TurnError> {
        let mut collector = (self.collector)();
        for event in events {
            collector.on_event(event.clone());
        }
        Ok(String::from_utf8(collector.finish()?).expect("a reply is text"))
    }

    pub(crate) fn whole(&self, events: &[TurnEvent]) -> Result<Value, TurnError> {
        Ok(serde_json::from_str(&self.reply(events)?).expect("a reply is JSON"))
    }
}

// === what the readers share ===

/// Fails with the rule when it is broken.
macro_rules! rule {
    ($held:expr, $($words:tt)+) => {
        if !$held {
            return Err(format!($($words)+));
        }
    };
}
use rule;

fn json(frame: &Frame) -> Result<Value, String> {
    serde_json::from_str(&frame.data).map_err(|error| format!("{error}: {}", frame.data))
}

/// The data of a frame whose name must be its type.
fn named(frame: &Frame) -> Result<(&str, Value), String> {
    let data = json(frame)?;
    let name = frame.event.as_deref().ok_or("an event without a name")?;
    rule!(data["type"] == name, "{name} is called {}", data["type"]);
    Ok((name, data))
}

fn text<'a>(value: &'a Value, field: &str) -> Result<&'a str, String> {
    value[field].as_str().ok_or_else(|| format!("no text in `{field}`: {value}"))
}

fn number(value: &Value, field: &str) -> Result<usize, String> {
    let number = value[field].as_u64().ok_or_else(|| format!("no number in `{field}`: {value}"))?;
    usize::try_from(number).map_err(|error| error.to_string())
}

/// Whether the object has these fields and no other.
fn has_only(value: &Value, fields: &[&str]) -> bool {
    value.as_object().is_some_and(|object| {
        object.len() == fields.len() && fields.iter().all(|field| object.contains_key(*field))
    })
}
