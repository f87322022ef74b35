//! Errors as Connect carries them, with Cursor's own error inside.

use std::collections::BTreeMap;

use base64::Engine as _;
use ibeam_proto::Wire;
use ibeam_proto::aiserver::{ActionRequiredDetails, CustomErrorDetails, ErrorDetails, ErrorKind};
use prost::Message;
use serde::Deserialize;

/// A header of answers, and a key in the end of a stream: the kind of the error in the backend's own
/// words.
pub const ERROR_TYPE: &str = "x-cursor-inference-request-error-type";

/// No name of a kind is longer.
const LONGEST_TYPE: usize = 64;

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

// === impl ConnectError ===

impl ConnectError {
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), detail: None }
    }

    /// Reads `{code, message, details}`: the body of a failed call. Some answers have it under
    /// `error`, as the end of a stream does.
    #[must_use]
    pub fn from_json(body: &[u8]) -> Option<Self> {
        let bare = serde_json::from_slice::<ErrorJson>(body).ok().map(Into::into);
        bare.or_else(|| parse_end(body).ok().flatten())
    }

    /// With the kind of error that [`ERROR_TYPE`] names. What the error itself says goes first.
    #[must_use]
    pub fn of_type(mut self, name: &str) -> Self {
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if name.is_empty() || name.len() > LONGEST_TYPE || !name.chars().all(legal) {
            return self;
        }
        let name = name.to_ascii_uppercase();
        let detail = self.detail.get_or_insert_default();
        if detail.kind == ErrorKind::ErrorUnspecified {
            let bare = name.trim_start_matches("ERROR_");
            detail.kind = ErrorKind::from_str_name(&format!("ERROR_{bare}")).unwrap_or_default();
        }
        detail.additional_info.entry(ERROR_TYPE.to_owned()).or_insert(name);
        self
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
    #[serde(default)]
    metadata: serde_json::Value,
}

impl WireEnd {
    /// What the metadata say about the kind of error.
    fn error_type(&self) -> Option<&str> {
        let table = self.metadata.as_object()?;
        let value = table.iter().find(|(name, _)| name.eq_ignore_ascii_case(ERROR_TYPE))?.1;
        value.as_str().or_else(|| value.get(0)?.as_str())
    }
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

/// The payload of an end-of-stream frame.
pub(super) fn parse_end(payload: &[u8]) -> serde_json::Result<Option<ConnectError>> {
    let mut end: WireEnd = serde_json::from_slice(payload)?;
    let Some(error) = end.error.take().map(ConnectError::from) else { return Ok(None) };
    Ok(Some(match end.error_type() {
        Some(name) => error.of_type(name),
        None => error,
    }))
}

/// gRPC-Web trailers: `name: value` lines. A missing or zero status is success.
pub(super) fn parse_trailer(payload: &[u8]) -> Option<ConnectError> {
    let text = String::from_utf8_lossy(payload);
    let (mut status, mut message, mut detail) = (0_u8, String::new(), None);
    let mut error_type = None;
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
            ERROR_TYPE => error_type = Some(value),
            _ => {}
        }
    }
    let error = ConnectError { code: Code::from_grpc_number(status), message, detail };
    (status != 0).then(|| match error_type {
        Some(name) => error.of_type(name),
        None => error,
    })
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
