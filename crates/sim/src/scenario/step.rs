//! The steps of a script. In a file, a step is its name, or a table with its name as
//! the only key: `"checkpoint"`, `{ text = "Hello" }`, `{ text = { text = "Hello",
//! chunk = 2 } }`.

use bytes::{Bytes, BytesMut};
use serde::{Deserialize, Deserializer, de};
use serde_json::{Map, Value};

use super::faults::{ErrorSpec, StreamFault};
use crate::protobuf::{self, SchemaError};

/// One thing the server does. Steps that ask the client something wait for the answer.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScenarioStep {
    /// Streams text. `{result}`, `{prompt}`, `{system}`, `{history}`, `{images}`,
    /// `{model}`, `{conversation}` and `{uptime_us}` are filled in.
    #[serde(deserialize_with = "text_or_table")]
    Text(Say),
    #[serde(deserialize_with = "text_or_table")]
    Thinking(Say),
    TokenDelta(i32),
    /// Stores a blob at the client.
    #[serde(deserialize_with = "text_or_table")]
    KvSet(Blob),
    /// Fetches a blob from the client: by id (hex), or by its contents.
    #[serde(deserialize_with = "text_or_table")]
    KvGet(BlobRef),
    Checkpoint,
    /// Asks for the request context, also when it came inline.
    AskContext,
    /// One exec arm.
    Exec(ExecStep),
    /// Several in parallel; the script continues when all are answered.
    Execs(Vec<ExecStep>),
    /// Steps whose execs are awaited only after all of the steps: later calls, text after a call,
    /// blobs while a call is open.
    Batch(Vec<ScenarioStep>),
    /// Starts an exec and aborts it after a while.
    Abort(AbortStep),
    /// An arm outside the schema.
    UnknownExec(UnknownArm),
    /// An approval.
    Query(MessageArm),
    UnknownQuery(UnknownArm),
    /// Any arm of `InteractionUpdate`.
    Update(MessageArm),
    /// Any `AgentServerMessage`.
    Message(Map<String, Value>),
    /// What `turn_ended` reports.
    Usage(UsageStep),
    StepStarted,
    StepCompleted,
    /// Bytes put on the stream as they are.
    RawHex(String),
    /// A frame with any flags.
    Frame(RawFrame),
    /// Waits; heartbeats continue.
    WaitMs(u64),
    /// The same in seconds.
    Silence(u64),
    /// The built-in assistant's turn.
    Assistant,
    /// `turn_ended`; the script may continue.
    TurnEnded,
    /// The end frame, and the stream closes.
    End,
    /// An error end frame.
    Error(ErrorSpec),
    /// A fault at this point.
    Fault(StreamFault),
}

/// Text to stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Say {
    pub text: String,
    /// Characters in a delta; 0 is the whole text.
    pub chunk: usize,
    /// A wait after each delta. By default the simulator's.
    pub pace_ms: Option<u64>,
    /// How often the text is streamed.
    pub repeat: Option<u64>,
}

/// A blob to store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Blob {
    pub data: String,
    pub hex: String,
    /// A wrong id, to test how the client handles it.
    pub id: Option<String>,
}

/// A blob to fetch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BlobRef {
    /// 64 hex digits.
    pub id: Option<String>,
    pub data: String,
    /// Continue if the client does not have it.
    pub optional: bool,
}

/// An exec request, its arguments by field name.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExecStep {
    pub arm: String,
    pub args: Map<String, Value>,
    pub id: Option<u32>,
    pub exec_id: Option<String>,
    /// Tool-call updates around the exec. By default for `mcp` only.
    pub announce: Option<bool>,
    /// Do not wait for the answer.
    pub forget: bool,
    /// Of `mcp`: the service refuses the call by itself, with this text and without an exec.
    pub refused: Option<String>,
    /// Of `mcp`: characters by which the arguments grow in `partial_tool_call`. By default they
    /// come in one piece; with 0, not at all.
    pub partial: Option<usize>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AbortStep {
    pub exec: ExecStep,
    #[serde(default)]
    pub after_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnknownArm {
    pub field: u32,
    #[serde(default)]
    pub hex: String,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MessageArm {
    pub arm: String,
    #[serde(default)]
    pub args: Map<String, Value>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UsageStep {
    pub input: Option<u64>,
    pub output: Option<u64>,
    pub cache_read: Option<u64>,
    pub cache_write: Option<u64>,
    pub reasoning: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawFrame {
    pub flags: u8,
    #[serde(default)]
    pub hex: String,
    #[serde(default)]
    pub text: String,
}

/// An invalid step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    #[error(transparent)]
    Schema(#[from] SchemaError),
    #[error("`{0}` is not hexadecimal")]
    Hex(String),
    #[error("{0}")]
    Other(String),
}

/// An arm with its encoded content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EncodedArm {
    pub(crate) field: u32,
    pub(crate) payload: Bytes,
}

impl ScenarioStep {
    pub(crate) fn check(&self) -> Result<(), StepError> {
        match self {
            Self::Exec(exec) => exec.arm().map(drop),
            Self::Execs(execs) => execs.iter().try_for_each(|exec| exec.arm().map(drop)),
            Self::Batch(steps) => steps.iter().try_for_each(Self::check),
            Self::Abort(abort) => abort.exec.arm().map(drop),
            Self::UnknownExec(arm) | Self::UnknownQuery(arm) => unhex(&arm.hex).map(drop),
            Self::Query(query) => query.arm("agent.v1.InteractionQuery").map(drop),
            Self::Update(query) => query.arm("agent.v1.InteractionUpdate").map(drop),
            Self::Message(table) => message_bytes(table).map(drop),
            Self::KvSet(blob) => {
                blob.bytes().and(blob.id.as_deref().map_or(Ok(()), |id| unhex(id).map(drop)))
            }
            Self::KvGet(blob) => blob.id.as_deref().map_or(Ok(()), |id| unhex(id).map(drop)),
            Self::RawHex(hex) => unhex(hex).map(drop),
            Self::Frame(frame) => unhex(&frame.hex).map(drop),
            Self::Error(error) | Self::Fault(StreamFault::Error(error)) => {
                error.check().map_err(StepError::Other)
            }
            _ => Ok(()),
        }
    }
}

impl ExecStep {
    pub(crate) fn arm(&self) -> Result<EncodedArm, StepError> {
        encode_arm("agent.v1.ExecServerMessage", &self.arm, &self.args)
    }
}

impl MessageArm {
    pub(crate) fn arm(&self, message: &str) -> Result<EncodedArm, StepError> {
        encode_arm(message, &self.arm, &self.args)
    }
}

impl Blob {
    pub(crate) fn bytes(&self) -> Result<Bytes, StepError> {
        if self.hex.is_empty() {
            Ok(Bytes::copy_from_slice(self.data.as_bytes()))
        } else {
            unhex(&self.hex).map(Bytes::from)
        }
    }
}

fn encode_arm(
    message: &str,
    name: &str,
    args: &Map<String, Value>,
) -> Result<EncodedArm, StepError> {
    let (field, inner) = protobuf::field(protobuf::message(message)?, name)?;
    let payload = match inner {
        Some(info) => protobuf::encode(info, args)?,
        None => return Err(StepError::Other(format!("`{name}` is not a message"))),
    };
    Ok(EncodedArm { field, payload })
}

pub(crate) fn message_bytes(table: &Map<String, Value>) -> Result<Bytes, StepError> {
    Ok(protobuf::encode(protobuf::message("agent.v1.AgentServerMessage")?, table)?)
}

pub(crate) fn unhex(text: &str) -> Result<Vec<u8>, StepError> {
    protobuf::unhex(text).ok_or_else(|| StepError::Hex(text.to_owned()))
}

impl UnknownArm {
    pub(crate) fn arm(&self) -> Result<EncodedArm, StepError> {
        let payload = unhex(&self.hex)?;
        let mut out = BytesMut::with_capacity(payload.len());
        out.extend_from_slice(&payload);
        Ok(EncodedArm { field: self.field, payload: out.freeze() })
    }
}

impl From<&str> for Say {
    fn from(text: &str) -> Self {
        Self { text: text.to_owned(), ..Self::default() }
    }
}

impl From<&str> for Blob {
    fn from(data: &str) -> Self {
        Self { data: data.to_owned(), ..Self::default() }
    }
}

impl From<&str> for BlobRef {
    fn from(id: &str) -> Self {
        Self { id: Some(id.to_owned()), ..Self::default() }
    }
}

/// Accepts a string in place of a table that has only its main field.
fn text_or_table<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + for<'a> From<&'a str>,
{
    struct TextOrTable<T>(std::marker::PhantomData<T>);

    impl<'de, T: Deserialize<'de> + for<'a> From<&'a str>> de::Visitor<'de> for TextOrTable<T> {
        type Value = T;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("text or a table")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
            Ok(T::from(text))
        }

        fn visit_map<M: de::MapAccess<'de>>(self, map: M) -> Result<T, M::Error> {
            T::deserialize(de::value::MapAccessDeserializer::new(map))
        }
    }

    deserializer.deserialize_any(TextOrTable(std::marker::PhantomData))
}
