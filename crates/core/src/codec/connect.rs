//! The Connect streaming envelope: one flags byte, a big-endian length, a payload.
//! Reads all flags seen in the wild, gRPC-Web trailers included; writes plain ones.

use std::{collections::BTreeMap, io::Read as _};

use base64::Engine as _;
use bytes::{BufMut as _, Bytes, BytesMut};
use ibeam_proto::Wire;
use ibeam_proto::aiserver::{ActionRequiredDetails, CustomErrorDetails, ErrorDetails, ErrorKind};
use prost::Message;
use serde::Deserialize;

const HEADER: usize = 5;
const FLAG_GZIP: u8 = 0x01;
const FLAG_END: u8 = 0x02;
const FLAG_TRAILER: u8 = 0x80;

/// The largest payload we accept on the wire.
pub const MAX_PAYLOAD: usize = 64 * 1024 * 1024;

/// The largest payload we inflate. A larger blob is read only when it comes uncompressed.
pub const MAX_INFLATED: usize = 34 * 1024 * 1024;

/// How many bytes one compressed byte may become beyond the first megabyte. Text and code become
/// three to twenty; gzip can make a thousand of one, and then a few kilobytes cost as much time and
/// memory as [`MAX_INFLATED`].
const MAX_RATIO: usize = 128;
const ANY_RATIO: usize = 1024 * 1024;

/// How much room is made for a frame before its bytes are there.
const MAX_RESERVED: usize = 1024 * 1024;

/// One whole unit of a stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Envelope {
    Message(Bytes),
    /// The stream is over: well, or with this error.
    End(Option<ConnectError>),
}

/// Bytes that are no Connect stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("envelope of {0} bytes is over the limit")]
    TooLarge(usize),
    #[error("unknown envelope flags {0:#04x}")]
    Flags(u8),
    #[error("compressed envelope cannot be decompressed")]
    Gzip,
    #[error("end-of-stream frame is not valid JSON")]
    EndJson,
}

/// An error as Connect carries it: in an end frame, a gRPC-Web trailer, or the
/// JSON body of a failed unary call.
#[derive(Clone, Debug, PartialEq)]
pub struct ConnectError {
    pub code: Code,
    pub message: String,
    /// Cursor's own error, when one is attached.
    pub detail: Option<Box<CursorError>>,
}

/// The decoded `aiserver.v1.ErrorDetails`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CursorError {
    pub kind: ErrorKind,
    pub title: String,
    pub detail: String,
    pub retryable: Option<bool>,
    /// What the model's provider answered, among other things.
    pub additional_info: BTreeMap<String, String>,
    /// What the user has to do before such a request is served; often empty.
    pub action_required: String,
}

macro_rules! codes {
    ($($variant:ident = $name:literal, $grpc:literal, $http:literal;)*) => {
        /// The Connect error codes, by name and by their gRPC number.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code { $($variant,)* }

        impl Code {
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The HTTP status of a failed unary call.
            #[must_use]
            pub fn http_status(self) -> u16 {
                match self { $(Self::$variant => $http,)* }
            }

            #[must_use]
            pub fn grpc_number(self) -> u8 {
                match self { $(Self::$variant => $grpc,)* }
            }

            /// Any other name counts as `unknown`.
            #[must_use]
            pub fn from_name(name: &str) -> Self {
                match name { $($name => Self::$variant,)* _ => Self::Unknown }
            }

            #[must_use]
            pub fn from_grpc_number(number: u8) -> Self {
                match number { $($grpc => Self::$variant,)* _ => Self::Unknown }
            }
        }
    };
}

codes! {
    Canceled = "canceled", 1, 499;
    Unknown = "unknown", 2, 500;
    InvalidArgument = "invalid_argument", 3, 400;
    DeadlineExceeded = "deadline_exceeded", 4, 504;
    NotFound = "not_found", 5, 404;
    AlreadyExists = "already_exists", 6, 409;
    PermissionDenied = "permission_denied", 7, 403;
    ResourceExhausted = "resource_exhausted", 8, 429;
    FailedPrecondition = "failed_precondition", 9, 400;
    Aborted = "aborted", 10, 409;
    OutOfRange = "out_of_range", 11, 400;
    Unimplemented = "unimplemented", 12, 501;
    Internal = "internal", 13, 500;
    Unavailable = "unavailable", 14, 503;
    DataLoss = "data_loss", 15, 500;
    Unauthenticated = "unauthenticated", 16, 401;
}

// === impl Decoder ===

/// Cuts a byte stream into envelopes.
#[derive(Debug, Default)]
pub struct Decoder {
    /// The newest chunk, parsed without copying while nothing is pending.
    ready: Bytes,
    /// A frame whose end has not come yet.
    partial: BytesMut,
}

impl Decoder {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a chunk. Call [`Self::next`] until it gives `None` before the next one.
    pub fn push(&mut self, chunk: Bytes) {
        if self.partial.is_empty() && self.ready.is_empty() {
            self.ready = chunk;
        } else {
            self.spill();
            self.partial.extend_from_slice(&chunk);
        }
    }

    /// The next whole envelope, or `None` when more bytes are needed.
    ///
    /// # Errors
    /// The bytes are not what the protocol allows; the stream cannot continue.
    #[expect(clippy::should_implement_trait, reason = "`Iterator` has no place for the error")]
    pub fn next(&mut self) -> Result<Option<Envelope>, FrameError> {
        let Some((flags, payload)) = self.next_frame()? else { return Ok(None) };
        let payload = if flags & FLAG_GZIP == 0 { payload } else { inflate(&payload)? };
        Ok(Some(match flags & !FLAG_GZIP {
            0 => Envelope::Message(payload),
            FLAG_END => Envelope::End(parse_end(&payload)?),
            FLAG_TRAILER => Envelope::End(parse_trailer(&payload)),
            _ => return Err(FrameError::Flags(flags)),
        }))
    }

    /// Whether a frame has begun and not ended: a stream that closes now was cut.
    #[must_use]
    pub fn mid_frame(&self) -> bool {
        !self.ready.is_empty() || !self.partial.is_empty()
    }

    fn next_frame(&mut self) -> Result<Option<(u8, Bytes)>, FrameError> {
        let pending = if self.partial.is_empty() { &self.ready[..] } else { &self.partial[..] };
        let Some(&[flags, a, b, c, d]) = pending.first_chunk::<HEADER>() else {
            self.spill();
            return Ok(None);
        };
        let len = u32::from_be_bytes([a, b, c, d]) as usize;
        if len > MAX_PAYLOAD {
            return Err(FrameError::TooLarge(len));
        }
        if flags & !(FLAG_GZIP | FLAG_END | FLAG_TRAILER) != 0 {
            return Err(FrameError::Flags(flags));
        }
        if pending.len() < HEADER + len {
            self.spill();
            let missing = (HEADER + len).saturating_sub(self.partial.len());
            self.partial.reserve(missing.min(MAX_RESERVED));
            return Ok(None);
        }
        let mut frame = if self.partial.is_empty() {
            self.ready.split_to(HEADER + len)
        } else {
            self.partial.split_to(HEADER + len).freeze()
        };
        Ok(Some((flags, frame.split_off(HEADER))))
    }

    /// Moves what is left of `ready` behind the partial frame.
    fn spill(&mut self) {
        if !self.ready.is_empty() {
            self.partial.extend_from_slice(&self.ready);
            self.ready = Bytes::new();
        }
    }
}

/// Everything in these chunks, up to the first error.
fn read_all(chunks: &[&[u8]]) -> Vec<Result<Envelope, FrameError>> {
    let mut decoder = Decoder::new();
    let mut out = Vec::new();
    for chunk in chunks {
        decoder.push(Bytes::copy_from_slice(chunk));
        while let Some(read) = decoder.next().transpose() {
            let failed = read.is_err();
            out.push(read);
            if failed {
                return out;
            }
        }
    }
    out
}

/// Entry point for fuzzing: any bytes, cut in two at any place, must be read alike.
pub fn fuzz(data: &[u8]) {
    let (head, tail) = data.split_at(data.len() / 2);
    assert_eq!(read_all(&[data]), read_all(&[head, tail]));
}

// === encoding ===

/// Frames a message in one allocation.
#[must_use]
pub fn encode<M: Wire>(message: &M) -> Bytes {
    let len = message.wire_len();
    let mut out = BytesMut::with_capacity(HEADER + len);
    out.put_u8(0);
    out.put_u32(u32::try_from(len).unwrap_or(u32::MAX));
    message.write_wire(&mut out);
    out.freeze()
}

/// Frames bytes under the given flags.
#[must_use]
pub fn frame(flags: u8, payload: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(HEADER + payload.len());
    out.put_u8(flags);
    out.put_u32(u32::try_from(payload.len()).unwrap_or(u32::MAX));
    out.put_slice(payload);
    out.freeze()
}

/// The end-of-stream frame: `{}`, or the error.
#[must_use]
pub fn end_frame(error: Option<&ConnectError>) -> Bytes {
    match error {
        None => frame(FLAG_END, b"{}"),
        Some(error) => {
            let body = serde_json::json!({ "error": error.to_json() });
            frame(FLAG_END, body.to_string().as_bytes())
        }
    }
}

// === impl ConnectError ===

impl ConnectError {
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), detail: None }
    }

    /// Reads `{code, message, details}`: the body of a failed unary call.
    #[must_use]
    pub fn from_json(body: &[u8]) -> Option<Self> {
        serde_json::from_slice::<ErrorJson>(body).ok().map(Into::into)
    }

    /// The form of [`Self::from_json`], with the details both encoded and readable,
    /// as the backend writes them.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        let details = self.detail.as_deref().map(CursorError::to_json);
        match details {
            None => serde_json::json!({ "code": self.code.as_str(), "message": self.message }),
            Some(detail) => serde_json::json!({
                "code": self.code.as_str(),
                "message": self.message,
                "details": [detail],
            }),
        }
    }
}

#[derive(Deserialize)]
struct WireEnd {
    error: Option<ErrorJson>,
}

#[derive(Deserialize)]
struct ErrorJson {
    code: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    details: Vec<WireDetail>,
}

#[derive(Deserialize)]
struct WireDetail {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    value: String,
    debug: Option<WireDebug>,
}

#[derive(Deserialize)]
struct WireDebug {
    #[serde(default)]
    error: String,
    #[serde(default)]
    details: WireDebugDetails,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireDebugDetails {
    title: String,
    detail: String,
    is_retryable: Option<bool>,
    additional_info: BTreeMap<String, String>,
}

impl From<ErrorJson> for ConnectError {
    fn from(wire: ErrorJson) -> Self {
        let detail = wire.details.iter().find_map(WireDetail::decode).map(Box::new);
        Self { code: Code::from_name(&wire.code), message: wire.message, detail }
    }
}

impl WireDetail {
    /// The protobuf form counts; the readable one is the fall-back.
    fn decode(&self) -> Option<CursorError> {
        if !self.kind.ends_with("aiserver.v1.ErrorDetails") {
            return None;
        }
        let bytes = base64::engine::general_purpose::STANDARD_NO_PAD
            .decode(self.value.trim_end_matches('='))
            .ok()
            .filter(|bytes| !bytes.is_empty());
        if let Some(proto) = bytes.and_then(|b| ErrorDetails::from_wire(b.into()).ok()) {
            return Some(CursorError::from_proto(&proto));
        }
        let debug = self.debug.as_ref()?;
        Some(CursorError {
            kind: ErrorKind::from_str_name(&debug.error).unwrap_or_default(),
            title: debug.details.title.clone(),
            detail: debug.details.detail.clone(),
            retryable: debug.details.is_retryable,
            additional_info: debug.details.additional_info.clone(),
            action_required: String::new(),
        })
    }
}

impl CursorError {
    #[must_use]
    pub fn to_proto(&self) -> ErrorDetails {
        let action_required = Some(self.action_required.clone()).filter(|text| !text.is_empty());
        ErrorDetails {
            error: self.kind.into(),
            details: Some(CustomErrorDetails {
                title: self.title.clone(),
                detail: self.detail.clone(),
                is_retryable: self.retryable,
                additional_info: self.additional_info.clone(),
                action_required: action_required
                    .map(|action_required| ActionRequiredDetails { action_required }),
                ..CustomErrorDetails::default()
            }),
            is_expected: Some(true),
        }
    }

    fn to_json(&self) -> serde_json::Value {
        let proto = self.to_proto().to_wire();
        let value = base64::engine::general_purpose::STANDARD_NO_PAD.encode(proto);
        serde_json::json!({
            "type": "aiserver.v1.ErrorDetails",
            "value": value,
            "debug": {
                "error": self.kind.as_str_name(),
                "details": {
                    "title": self.title,
                    "detail": self.detail,
                    "isRetryable": self.retryable,
                    "additionalInfo": self.additional_info,
                },
                "isExpected": true,
            },
        })
    }

    fn from_proto(proto: &ErrorDetails) -> Self {
        let text = proto.details.clone().unwrap_or_default();
        Self {
            kind: proto.error(),
            title: text.title,
            detail: text.detail,
            retryable: text.is_retryable,
            additional_info: text.additional_info,
            action_required: text.action_required.unwrap_or_default().action_required,
        }
    }
}

fn parse_end(payload: &[u8]) -> Result<Option<ConnectError>, FrameError> {
    let end: WireEnd = serde_json::from_slice(payload).map_err(|_| FrameError::EndJson)?;
    Ok(end.error.map(Into::into))
}

/// gRPC-Web trailers: `name: value` lines. A missing or zero status is success.
fn parse_trailer(payload: &[u8]) -> Option<ConnectError> {
    let text = String::from_utf8_lossy(payload);
    let (mut status, mut message, mut detail) = (0_u8, String::new(), None);
    for line in text.lines() {
        let Some((name, value)) = line.split_once(':') else { continue };
        let value = value.trim();
        match name.trim().to_ascii_lowercase().as_str() {
            // A status that is not a number is still a failure.
            "grpc-status" => status = value.parse().unwrap_or(Code::Unknown.grpc_number()),
            "grpc-message" => message = percent_decode(value),
            "grpc-status-details-bin" => {
                detail = decode_status_details(value).map(Box::new);
            }
            _ => {}
        }
    }
    (status != 0).then(|| ConnectError { code: Code::from_grpc_number(status), message, detail })
}

/// `google.rpc.GrpcStatus`: field 3 holds `Any { type_url = 1, value = 2 }` entries.
fn decode_status_details(value: &str) -> Option<CursorError> {
    #[derive(Clone, PartialEq, Message)]
    struct GrpcStatus {
        #[prost(message, repeated, tag = "3")]
        details: Vec<Any>,
    }
    #[derive(Clone, PartialEq, Message)]
    struct Any {
        #[prost(string, tag = "1")]
        type_url: String,
        #[prost(bytes = "vec", tag = "2")]
        value: Vec<u8>,
    }
    let bytes = base64::engine::general_purpose::STANDARD_NO_PAD
        .decode(value.trim_end_matches('='))
        .ok()?;
    let status = GrpcStatus::decode(&bytes[..]).ok()?;
    let any =
        status.details.iter().find(|any| any.type_url.ends_with("aiserver.v1.ErrorDetails"))?;
    ErrorDetails::from_wire(any.value.clone().into())
        .ok()
        .map(|proto| CursorError::from_proto(&proto))
}

pub(crate) fn percent_decode(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let hex = tail.first_chunk::<2>().filter(|_| byte == b'%');
        let decoded = hex
            .and_then(|pair| std::str::from_utf8(pair).ok())
            .and_then(|pair| u8::from_str_radix(pair, 16).ok());
        if let Some(value) = decoded {
            out.push(value);
            rest = tail.get(2..).unwrap_or_default();
        } else {
            out.push(byte);
            rest = tail;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn inflate(payload: &[u8]) -> Result<Bytes, FrameError> {
    let most = payload.len().saturating_mul(MAX_RATIO).clamp(ANY_RATIO, MAX_INFLATED);
    // Its last four bytes say how long it is. Memory that grows step by step would be several times
    // that, and what a lie costs beyond the bytes that come is never touched.
    let length = payload.last_chunk().map_or(0, |length| u32::from_le_bytes(*length));
    let mut out = Vec::with_capacity(usize::try_from(length).unwrap_or(most).min(most));
    let read = flate2::read::GzDecoder::new(payload)
        .take(u64::try_from(most).unwrap_or(u64::MAX) + 1)
        .read_to_end(&mut out)
        .map_err(|_| FrameError::Gzip)?;
    if read > most { Err(FrameError::TooLarge(read)) } else { Ok(out.into()) }
}

#[cfg(test)]
#[path = "connect_tests.rs"]
mod tests;
