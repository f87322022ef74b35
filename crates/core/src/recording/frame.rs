//! Frames: the whole messages of a link. Bytes that are cut anywhere are put together first.

use std::borrow::Cow;

use bytes::Bytes;
use ibeam_proto::fields::{CLIENT_MESSAGE, SERVER_MESSAGE};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    event::ConnectRecord, json::JsonKind, mask::Mask, request::PartRecord, tree::WireTree,
};
use crate::{
    codec::{
        connect::{self, Decoder, Envelope, FrameError},
        ndjson::Lines,
    },
    peer::{
        LinkMessage,
        child::{Exit, FromChild, HostAddress, HostedCall, HostedResult, Ready, ToChild},
    },
};

/// A frame, in either direction.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "frame", rename_all = "snake_case")]
pub enum FrameRecord {
    /// A message of the Agent API.
    Message {
        /// By the names of its fields.
        kind: String,
        bytes: usize,
        /// Its fields; see [`WireTree`].
        fields: Value,
    },
    /// The end frame of a stream, with the error if it has one.
    End {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<ConnectRecord>,
    },
    /// Bytes that complete no frame.
    Part {
        bytes: usize,
    },
    /// Bytes that are no frame: the stream cannot be read from here on.
    Unreadable {
        why: String,
        /// The length or the flags that it claims to have.
        claims: u32,
    },

    // === from a child ===
    Ready {
        workspace: String,
        host: bool,
        greeted: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
    },
    /// A line of its output.
    Line {
        bytes: usize,
        line: LineJson,
    },
    Call {
        id: u64,
        name: String,
        arguments: String,
    },
    Dropped {
        id: u64,
    },
    Exited {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<i32>,
        stderr: String,
    },

    // === to a child ===
    /// Input that is JSON.
    Input {
        bytes: usize,
        line: LineJson,
    },
    CloseInput,
    Result {
        id: u64,
        parts: Vec<PartRecord>,
        is_error: bool,
    },
    Release,
}

/// A line that is JSON, or is not.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LineJson {
    Json(Value),
    Text(String),
}

/// Puts what comes over one link together.
#[derive(Debug, Default)]
pub(super) struct FrameReader {
    stream: Decoder,
    lines: Lines,
    failed: bool,
}

impl FrameReader {
    /// The frames that this message completes.
    pub(super) fn heard(&mut self, message: &LinkMessage, mask: &mut Mask) -> Vec<FrameRecord> {
        match message {
            LinkMessage::Bytes(bytes) => self.pieces(bytes, mask),
            LinkMessage::FromChild(message) => self.child(message, mask),
            LinkMessage::ToChild(_) => Vec::new(),
        }
    }

    fn pieces(&mut self, bytes: &Bytes, mask: &mut Mask) -> Vec<FrameRecord> {
        let mut frames = Vec::new();
        if self.failed {
            return frames;
        }
        self.stream.push(bytes.clone());
        loop {
            match self.stream.next() {
                Ok(Some(Envelope::Message(message))) => {
                    frames.push(FrameRecord::message(SERVER_MESSAGE, &message, mask));
                }
                Ok(Some(Envelope::End(error))) => {
                    let error = error.as_ref().map(|error| ConnectRecord::of(error, mask));
                    frames.push(FrameRecord::End { error });
                }
                Ok(None) => break,
                Err(error) => {
                    self.failed = true;
                    frames.push(FrameRecord::unreadable(&error));
                    break;
                }
            }
        }
        if frames.is_empty() {
            frames.push(FrameRecord::Part { bytes: bytes.len() });
        }
        frames
    }

    fn child(&mut self, message: &FromChild, mask: &mut Mask) -> Vec<FrameRecord> {
        let frame = match message {
            FromChild::Output(bytes) => {
                self.lines.push(bytes.clone());
                let mut frames = self.take_lines(mask);
                if frames.is_empty() {
                    frames.push(FrameRecord::Part { bytes: bytes.len() });
                }
                return frames;
            }
            FromChild::Ready(ready) => FrameRecord::Ready {
                workspace: mask.whole(&ready.workspace),
                host: ready.host.is_some(),
                greeted: ready.greeted,
                session: ready.session.as_deref().map(|name| mask.id(name)),
            },
            FromChild::Call(call) => FrameRecord::Call {
                id: call.id,
                name: mask.name(&call.name),
                arguments: mask.json_text(&call.arguments, JsonKind::Content),
            },
            FromChild::Dropped(id) => FrameRecord::Dropped { id: *id },
            FromChild::Exited(exit) => {
                self.lines.finish();
                let mut frames = self.take_lines(mask);
                frames.push(FrameRecord::Exited {
                    code: exit.code,
                    stderr: mask.error(&exit.stderr),
                });
                return frames;
            }
        };
        vec![frame]
    }

    fn take_lines(&mut self, mask: &mut Mask) -> Vec<FrameRecord> {
        std::iter::from_fn(|| self.lines.next())
            .map(|line| {
                let (bytes, line) = (line.len(), LineJson::of(&line, JsonKind::Line, mask));
                FrameRecord::Line { bytes, line }
            })
            .collect()
    }
}

/// What a turn sends. Each is a whole message.
pub(super) fn sent(message: &LinkMessage, mask: &mut Mask) -> Vec<FrameRecord> {
    match message {
        LinkMessage::Bytes(framed) => {
            let mut reader = Decoder::new();
            reader.push(framed.clone());
            let messages = std::iter::from_fn(|| match reader.next() {
                Ok(Some(Envelope::Message(message))) => Some(message),
                Ok(Some(Envelope::End(_)) | None) | Err(_) => None,
            });
            let messages: Vec<Bytes> = messages.collect();
            messages.iter().map(|bytes| FrameRecord::message(CLIENT_MESSAGE, bytes, mask)).collect()
        }
        LinkMessage::ToChild(message) => vec![match message {
            ToChild::Input(bytes) => FrameRecord::Input {
                bytes: bytes.len(),
                line: LineJson::of(bytes, JsonKind::Entry, mask),
            },
            ToChild::CloseInput => FrameRecord::CloseInput,
            ToChild::Result(result) => FrameRecord::Result {
                id: result.id,
                parts: PartRecord::of_result(&result.content, mask),
                is_error: result.is_error,
            },
            ToChild::Release { session: _ } => FrameRecord::Release,
        }],
        LinkMessage::FromChild(_) => Vec::new(),
    }
}

impl FrameRecord {
    fn unreadable(error: &FrameError) -> Self {
        let (why, claims) = match error {
            FrameError::TooLarge(length) => (TOO_LARGE, u32::try_from(*length).unwrap_or(u32::MAX)),
            FrameError::Flags(flags) => (FLAGS, u32::from(*flags)),
            FrameError::Gzip => (COMPRESSED, 0),
            FrameError::EndJson => (END_JSON, 0),
        };
        Self::Unreadable { why: why.to_owned(), claims }
    }

    fn message(root: usize, bytes: &Bytes, mask: &mut Mask) -> Self {
        let tree = WireTree::read(root, bytes, mask);
        Self::Message { kind: tree.kind(), bytes: bytes.len(), fields: tree.to_json() }
    }

    /// In a few words, for people.
    #[must_use]
    pub fn title(&self) -> Cow<'_, str> {
        Cow::Owned(match self {
            Self::Message { kind, bytes, .. } => format!("{kind} ({bytes} bytes)"),
            Self::End { error: None } => "end of stream".to_owned(),
            Self::End { error: Some(error) } => {
                format!("end of stream, error {}: {}", error.code, error.message)
            }
            Self::Part { bytes } => format!("{bytes} bytes of an incomplete frame"),
            Self::Unreadable { why, .. } => format!("bytes that are not a frame: {why}"),
            Self::Ready { greeted, .. } => {
                format!("child is ready{}", if *greeted { ", greeted before" } else { "" })
            }
            Self::Line { bytes, line } => format!("line {}({bytes} bytes)", line.title()),
            Self::Input { bytes, line } => format!("input {}({bytes} bytes)", line.title()),
            Self::Call { id, name, .. } => format!("hosted call {id} of {name}"),
            Self::Dropped { id } => format!("hosted call {id} given up by the child"),
            Self::Exited { code: Some(code), .. } => format!("child exited with code {code}"),
            Self::Exited { code: None, .. } => "child was ended by a signal".to_owned(),
            Self::CloseInput => "end of the input".to_owned(),
            Self::Result { id, is_error, .. } => {
                format!("result of hosted call {id}{}", if *is_error { ", an error" } else { "" })
            }
            Self::Release => "release of the child".to_owned(),
        })
    }

    /// The message that a machine hears; `None` for one of which nothing has to be heard.
    pub(super) fn message_heard(
        &self,
        tree: impl FnOnce(WireTree) -> WireTree,
    ) -> Option<LinkMessage> {
        Some(match self {
            Self::Message { fields, .. } => {
                let message = tree(WireTree::from_json(fields)?).encode();
                LinkMessage::Bytes(connect::frame(0, &message))
            }
            Self::End { error } => {
                let body = match error {
                    None => serde_json::json!({}),
                    Some(error) => serde_json::json!({ "error": error.error().to_json() }),
                };
                LinkMessage::Bytes(connect::frame(END, body.to_string().as_bytes()))
            }
            Self::Unreadable { why, claims } => LinkMessage::Bytes(unreadable_bytes(why, *claims)),
            Self::Ready { workspace, host, greeted, session } => {
                LinkMessage::FromChild(FromChild::Ready(Ready {
                    workspace: workspace.clone(),
                    host: host.then(|| HostAddress {
                        url: "http://127.0.0.1/".to_owned(),
                        bearer: SecretString::from("replayed".to_owned()),
                    }),
                    greeted: *greeted,
                    session: session.clone(),
                }))
            }
            Self::Line { line, .. } => LinkMessage::FromChild(FromChild::Output(line.bytes())),
            Self::Call { id, name, arguments } => {
                let (name, arguments) = (name.clone(), arguments.clone());
                LinkMessage::FromChild(FromChild::Call(HostedCall { id: *id, name, arguments }))
            }
            Self::Dropped { id } => LinkMessage::FromChild(FromChild::Dropped(*id)),
            Self::Exited { code, stderr } => {
                let exit = Exit { code: *code, stderr: stderr.clone() };
                LinkMessage::FromChild(FromChild::Exited(exit))
            }
            Self::Result { id, parts, is_error } => {
                let content = PartRecord::parts(parts);
                let result = HostedResult { id: *id, content, is_error: *is_error };
                LinkMessage::ToChild(ToChild::Result(result))
            }
            Self::Part { .. } | Self::Input { .. } | Self::CloseInput | Self::Release => {
                return None;
            }
        })
    }

    /// The fields of a message.
    pub(super) fn tree(&self) -> Option<WireTree> {
        match self {
            Self::Message { fields, .. } => WireTree::from_json(fields),
            _ => None,
        }
    }

    /// Whether a replay sent the same. With placeholders only the structure is compared.
    pub(super) fn agrees(&self, other: &Self, texts: bool) -> bool {
        match (self, other) {
            // The sizes are those of the wire, where nothing is masked.
            (Self::Message { fields, .. }, Self::Message { fields: one, .. }) if texts => {
                // A blob in which a key was masked has another id.
                let without_ids = |frame: &Self| frame.tree().map(WireTree::without_ids);
                fields == one || without_ids(self) == without_ids(other)
            }
            (Self::Input { line, .. }, Self::Input { line: other, .. }) if texts => line == other,
            _ if texts => self == other,
            (Self::Message { kind, .. }, Self::Message { kind: other_kind, .. }) => {
                let outline = |frame: &Self| frame.tree().map(|tree| tree.outline());
                kind == other_kind && outline(self) == outline(other)
            }
            (Self::Input { line, .. }, Self::Input { line: other, .. }) => {
                line.method() == other.method()
            }
            (
                Self::Result { id, is_error, .. },
                Self::Result { id: other_id, is_error: other_error, .. },
            ) => (id, is_error) == (other_id, other_error),
            _ => self == other,
        }
    }
}

impl LineJson {
    fn of(line: &[u8], kind: JsonKind, mask: &mut Mask) -> Self {
        let text = String::from_utf8_lossy(line);
        match serde_json::from_str::<Value>(&text) {
            Ok(value @ Value::Object(_)) if mask.keeps_texts() => {
                // What looks like a secret is masked all the same.
                let masked = mask.whole(&text);
                Self::Json(serde_json::from_str(&masked).unwrap_or(value))
            }
            Ok(value @ Value::Object(_)) => Self::Json(mask.json(value, kind)),
            Ok(_) | Err(_) if kind == JsonKind::Line => Self::Text(mask.error(&text)),
            Ok(_) | Err(_) => Self::Text(mask.whole(&text)),
        }
    }

    fn bytes(&self) -> Bytes {
        let mut line = match self {
            Self::Json(value) => value.to_string(),
            Self::Text(text) => text.clone(),
        };
        line.push('\n');
        line.into()
    }

    /// The words by which a message is known.
    fn method(&self) -> Option<&str> {
        let Self::Json(value) = self else { return None };
        ["method", "type"].iter().find_map(|key| value.get(*key)?.as_str())
    }

    fn title(&self) -> String {
        let Self::Json(value) = self else { return String::new() };
        let word = |key: &str| value.get(key).and_then(Value::as_str);
        let update = value.get("params").and_then(|params| params.get("update"));
        let update = update.and_then(|update| update.get("sessionUpdate")).and_then(Value::as_str);
        let words = [word("method"), word("type"), word("subtype"), update];
        let words: Vec<&str> = words.into_iter().flatten().collect();
        if words.is_empty() { "answer ".to_owned() } else { format!("{} ", words.join(" ")) }
    }
}

/// The flag of an end frame.
const END: u8 = 2;

const TOO_LARGE: &str = "too large";
const FLAGS: &str = "unknown flags";
const COMPRESSED: &str = "cannot be decompressed";
const END_JSON: &str = "end frame is not JSON";

/// Bytes that cannot be read for the same reason.
fn unreadable_bytes(why: &str, claims: u32) -> Bytes {
    match why {
        TOO_LARGE => [&[0], &claims.to_be_bytes()[..]].concat().into(),
        COMPRESSED => connect::frame(1, b"x"),
        END_JSON => connect::frame(END, b"x"),
        _ => vec![u8::try_from(claims).unwrap_or(0x40), 0, 0, 0, 0].into(),
    }
}
