//! The lines of a recording.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    event::{EventRecord, FailureRecord, LinkErrorRecord, UsageRecord},
    frame::FrameRecord,
    mask::DISTINCT,
    request::{LARGEST_IMAGE, RequestRecord},
    start::StartRecord,
};
use crate::backend::BackendKind;

/// The version of the format. A reader takes this one and older ones.
pub const VERSION: u32 = 1;

/// The first line.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Header {
    /// The version of the format.
    pub ibeam_recording: u32,
    /// The version of ibeam.
    pub ibeam: String,
    /// The name of the backend.
    pub backend: String,
    /// When the turn began, as RFC 3339 has it.
    pub time: String,
    /// Texts are as they were; otherwise placeholders.
    pub texts: bool,
    /// The CLI's own tools were allowed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own_tools: bool,
}

impl Header {
    #[must_use]
    pub fn backend(&self) -> Option<BackendKind> {
        BackendKind::from_name(&self.backend)
    }
}

/// Why a first line is not the header of a recording that can be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderRefused {
    #[error("it is not a recording: the first line must be its header")]
    NoHeader,
    #[error(
        "the recording has format {found}, and this ibeam reads up to format {VERSION}; it was made \
         by ibeam {ibeam}, so use that version or a newer one"
    )]
    Newer { found: u64, ibeam: String },
    #[error("the recording is of the backend `{0}`, which this ibeam does not have")]
    Backend(String),
}

/// One line after the header.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct RecordingLine {
    /// Milliseconds since the turn began.
    pub t: u64,
    #[serde(flatten)]
    pub body: LineBody,
}

/// What happened. `in` and `out` are on the link, `given` is what else the machine was given, and
/// `event` what it gave its client.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum LineBody {
    Start(Box<StartRecord>),
    /// From the backend.
    In(FrameRecord),
    Opened,
    LinkError {
        error: LinkErrorRecord,
    },
    Eof,
    Timeout,
    Reading {
        reading: bool,
    },
    Aborted(FailureRecord),
    /// The request of the next leg.
    Resumed(Box<RequestRecord>),
    Retries {
        left: u32,
    },
    Relieved,
    /// The controls ended the answer.
    Cut {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        shown: Option<String>,
    },
    AskedAgain {
        text: String,
    },
    Shown {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    UsageNoted(UsageRecord),

    /// To the backend.
    Out(FrameRecord),
    Open {
        fresh_token: bool,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        prefer_h1: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        allowed_tools: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        resumes: bool,
        #[serde(default, skip_serializing_if = "is_zero")]
        tools: usize,
    },
    Close {
        cancel: bool,
    },
    Event(EventRecord),
    /// What the client got, where the leg changed it on the way.
    Client(EventRecord),

    /// So many lines could not be kept: the writer was not fast enough.
    Lost {
        lines: u64,
    },
    /// The recording reached its limit here.
    Full,
    /// The turn is over.
    End,
    /// A later version has lines that this one does not know.
    #[serde(other)]
    Unknown,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

// === long placeholders ===

/// Placeholders that are longer are written by their first letters and their length.
const SHORT: usize = 40;

/// All placeholders of a recording together, and the images that are made again, are not longer.
pub(super) const LONGEST: usize = 128 << 20;

/// What stands between the two.
const MARK: char = '…';

/// Writes long placeholders shorter.
pub(super) fn shorten(value: &mut Value) {
    match value {
        Value::String(text) => {
            let head = text.get(..DISTINCT).filter(|_| text.len() > SHORT);
            let rest = text.as_bytes().get(DISTINCT..).unwrap_or_default();
            if let Some(head) = head
                && head.bytes().all(|byte| byte.is_ascii_lowercase())
                && rest.iter().all(|byte| *byte == b'x')
            {
                *text = format!("{head}{MARK}{}", text.len());
            }
        }
        Value::Array(items) => items.iter_mut().for_each(shorten),
        Value::Object(fields) => fields.values_mut().for_each(shorten),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The reverse of [`shorten`]. It takes the length of placeholders, and of images of which only
/// the size is known, off the room that is left. `None`: they would be too long.
pub(super) fn lengthen(value: &mut Value, texts: bool, room: &mut usize) -> Option<()> {
    match value {
        Value::String(text) if !texts => {
            let Some((head, length)) = text.split_once(MARK) else { return Some(()) };
            let is_head = head.len() == DISTINCT && head.bytes().all(|b| b.is_ascii_lowercase());
            let Some(length) = length.parse::<usize>().ok().filter(|_| is_head) else {
                return Some(());
            };
            *room = room.checked_sub(length)?;
            let mut long = head.to_owned();
            long.extend(std::iter::repeat_n('x', length.saturating_sub(DISTINCT)));
            *text = long;
            Some(())
        }
        Value::Array(items) => items.iter_mut().try_for_each(|item| lengthen(item, texts, room)),
        Value::Object(fields) => {
            if let (Some(_), Some(bytes), None) =
                (fields.get("mime"), fields.get("bytes"), fields.get("data"))
            {
                let bytes = bytes.as_u64().and_then(|bytes| usize::try_from(bytes).ok());
                *room = room.checked_sub(bytes.unwrap_or(0).min(LARGEST_IMAGE))?;
            }
            fields.values_mut().try_for_each(|item| lengthen(item, texts, room))
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => Some(()),
    }
}

/// A line as it is written, without its end.
pub(super) fn to_text(line: &impl Serialize, texts: bool) -> String {
    // Plain data: it has no form that JSON lacks.
    let mut value = serde_json::to_value(line).unwrap_or_default();
    if !texts {
        shorten(&mut value);
    }
    let Value::Object(mut fields) = value else { return value.to_string() };
    // What readers look for first.
    let mut text = String::from("{");
    for key in FIRST {
        if let Some(value) = fields.remove(key) {
            text.push_str(&format!("\"{key}\":{value},"));
        }
    }
    let rest = Value::Object(fields).to_string();
    match rest.strip_prefix('{').filter(|rest| *rest != "}") {
        Some(rest) => text + rest,
        None => text.trim_end_matches(',').to_owned() + "}",
    }
}

const FIRST: [&str; 8] =
    ["ibeam_recording", "t", "what", "frame", "event", "kind", "bytes", "outline"];

impl fmt::Display for LineBody {
    /// In a few words, for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(start) => {
                let outline = &start.outline;
                write!(
                    f,
                    "the request: model {}, {} messages, {} calls, {} results, {} tools, {} bytes",
                    start.request.model,
                    outline.messages,
                    outline.calls,
                    outline.results,
                    outline.tools,
                    outline.bytes
                )
            }
            Self::In(frame) | Self::Out(frame) => f.write_str(&frame.title()),
            Self::Opened => f.write_str("the link is open"),
            Self::LinkError { error } => write!(f, "the link failed: {}", link_error(error)),
            Self::Eof => f.write_str("the link ended"),
            Self::Timeout => f.write_str("a time is up"),
            Self::Reading { reading: true } => f.write_str("the link is read again"),
            Self::Reading { reading: false } => f.write_str("the link is not read"),
            Self::Aborted(error) => write!(f, "the turn is ended: {}", error.message),
            Self::Resumed(request) => {
                let new = request.items.len();
                write!(f, "the next request, with {new} new items")
            }
            Self::Retries { left } => write!(f, "{left} retries are left"),
            Self::Relieved => f.write_str("the connection sends the heartbeats"),
            Self::Cut { .. } => f.write_str("the request's own limits end the answer"),
            Self::AskedAgain { .. } => f.write_str("the model is to be asked again"),
            Self::Shown { .. } => f.write_str("the client saw something else than was said"),
            Self::UsageNoted(usage) => write!(f, "{} tokens are reported", usage.usage().total()),
            Self::Open { fresh_token, prefer_h1, .. } => {
                f.write_str("open a link")?;
                f.write_str(if *fresh_token { ", with another token" } else { "" })?;
                f.write_str(if *prefer_h1 { ", over HTTP/1.1" } else { "" })
            }
            Self::Close { cancel: true } => f.write_str("close the link, so that work stops"),
            Self::Close { cancel: false } => f.write_str("close the link"),
            Self::Event(event) | Self::Client(event) => f.write_str(&event.title()),
            Self::Lost { lines } => write!(f, "{lines} lines were not recorded"),
            Self::Full => f.write_str("the recording is full"),
            Self::End => f.write_str("the turn is over"),
            Self::Unknown => f.write_str("a line of a later version"),
        }
    }
}

fn link_error(error: &LinkErrorRecord) -> String {
    match error {
        LinkErrorRecord::Connect(why) => format!("no connection: {why}"),
        LinkErrorRecord::ConnectTimeout => "no connection in time".to_owned(),
        LinkErrorRecord::Status { status, error: Some(error), .. } => {
            format!("status {status}, {}: {}", error.code, error.message)
        }
        LinkErrorRecord::Status { status, error: None, .. } => format!("status {status}"),
        LinkErrorRecord::Refused(why) => format!("refused: {why}"),
        LinkErrorRecord::Fault(error) => error.message.clone(),
        LinkErrorRecord::Reset(why) => format!("reset: {why}"),
    }
}

#[cfg(test)]
#[path = "line_tests.rs"]
mod tests;
