//! Injected faults: refusals before a stream and cuts within it, and the seeded mode that chooses
//! them at random.

use ibeam_core::codec::connect::{Code, ConnectError, CursorError};
use ibeam_proto::aiserver::ErrorKind;
use serde::Deserialize;

/// An answer with an HTTP status instead of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refuse {
    pub status: u16,
    #[serde(default)]
    pub error: ErrorSpec,
    /// Seconds for the `Retry-After` header.
    pub retry_after: Option<u64>,
}

/// An error as Connect and Cursor write it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorSpec {
    /// The Connect code. By default it follows from the status, or is `internal`.
    pub code: Option<String>,
    #[serde(default)]
    pub message: String,
    /// The name of Cursor's error (`ERROR_RATE_LIMITED`, the prefix may be missing).
    pub kind: Option<String>,
    #[serde(default)]
    pub title: String,
    #[serde(default)]
    pub detail: String,
    pub retryable: Option<bool>,
}

/// Ends a stream early.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamCut {
    /// The number of frames before the fault.
    pub after_frames: u64,
    pub how: StreamFault,
}

/// How a stream is broken.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamFault {
    /// The stream closes between two frames.
    Eof,
    /// The stream closes in the middle of a frame.
    Truncate,
    /// `RST_STREAM` with this code (`internal_error`, `cancel`, … or a number). On
    /// HTTP/1.1 the connection breaks.
    Reset(ResetCode),
    /// GOAWAY; the stream itself continues to its end.
    Goaway,
    /// GOAWAY, and the connection closes on all its streams.
    GoawayNow,
    /// The connection closes without GOAWAY.
    Disconnect,
    /// Nothing more is sent, not even heartbeats, and nothing is closed.
    BlackHole,
    /// The whole connection stops reading and writing, and stays open.
    BlackHoleConnection,
    /// Only heartbeats from here on.
    HeartbeatsOnly,
    /// An error end frame.
    Error(ErrorSpec),
    /// A frame that is marked as gzip and is not compressed.
    GarbageGzip,
    /// Bytes that do not form a frame.
    Garbage,
}

/// An HTTP/2 error code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResetCode(pub u32);

/// Random faults: the same seed and run number always give the same fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chaos {
    pub seed: u64,
    /// The percentage of runs that get a fault.
    #[serde(default = "Chaos::default_percent")]
    pub percent: u64,
    /// The latest frame at which a stream may be cut.
    #[serde(default = "Chaos::default_frames")]
    pub frames: u64,
}

/// What [`Chaos`] chose for a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChaosEffect {
    Refuse(Refuse),
    Cut(StreamCut),
    /// Harmless: gzip frames, or frames split into pieces of this many bytes.
    Gzip,
    Split(usize),
}

// === impl Chaos ===

impl Chaos {
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { seed, percent: Self::default_percent(), frames: Self::default_frames() }
    }

    fn default_percent() -> u64 {
        50
    }

    fn default_frames() -> u64 {
        30
    }

    /// The fault of a run, if it gets one.
    #[must_use]
    pub fn effect(&self, run: u64) -> Option<ChaosEffect> {
        let mut rng = Rng(self.seed ^ run.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        if rng.below(100) >= self.percent {
            return None;
        }
        let cut = |rng: &mut Rng, how| {
            ChaosEffect::Cut(StreamCut { after_frames: rng.below(self.frames.max(1)), how })
        };
        Some(match rng.below(12) {
            0 => ChaosEffect::Refuse(Refuse::status(503)),
            1 => ChaosEffect::Refuse(Refuse::status(429)),
            2 => cut(&mut rng, StreamFault::Eof),
            3 => cut(&mut rng, StreamFault::Truncate),
            4 => cut(&mut rng, StreamFault::Reset(ResetCode::INTERNAL_ERROR)),
            5 => cut(&mut rng, StreamFault::Goaway),
            6 => cut(&mut rng, StreamFault::Disconnect),
            7 => cut(&mut rng, StreamFault::BlackHole),
            8 => cut(&mut rng, StreamFault::Error(ErrorSpec::kind("PROVIDER_ERROR"))),
            9 => cut(&mut rng, StreamFault::GarbageGzip),
            10 => ChaosEffect::Gzip,
            _ => ChaosEffect::Split(usize::try_from(1 + rng.below(7)).unwrap_or(1)),
        })
    }
}

/// SplitMix64: small, and good enough to spread faults.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }
}

// === impl Refuse ===

impl Refuse {
    /// A refusal with the usual code of that status, and with `Retry-After` where that is usual.
    #[must_use]
    pub fn status(status: u16) -> Self {
        let retry_after = matches!(status, 429 | 503).then_some(1);
        Self { status, error: ErrorSpec::default(), retry_after }
    }

    #[must_use]
    pub fn connect_error(&self) -> ConnectError {
        let code = match self.status {
            400 => Code::InvalidArgument,
            401 => Code::Unauthenticated,
            403 => Code::PermissionDenied,
            404 => Code::NotFound,
            429 => Code::ResourceExhausted,
            503 => Code::Unavailable,
            504 => Code::DeadlineExceeded,
            500 => Code::Internal,
            _ => Code::Unknown,
        };
        self.error.connect_error(code)
    }
}

// === impl ErrorSpec ===

impl ErrorSpec {
    #[must_use]
    pub fn kind(kind: &str) -> Self {
        Self { kind: Some(kind.to_owned()), ..Self::default() }
    }

    #[must_use]
    pub fn connect_error(&self, default: Code) -> ConnectError {
        let code = self.code.as_deref().map_or(default, Code::from_name);
        let kind = self.kind.as_deref().and_then(error_kind);
        let detail = kind.map(|kind| {
            Box::new(CursorError {
                kind,
                title: self.title.clone(),
                detail: self.detail.clone(),
                retryable: self.retryable,
                ..CursorError::default()
            })
        });
        let message = if self.message.is_empty() { "Error" } else { &self.message };
        ConnectError { code, message: message.to_owned(), detail }
    }

    /// Fails on unknown names, for the check when a scenario is read.
    pub(crate) fn check(&self) -> Result<(), String> {
        if let Some(kind) = &self.kind
            && error_kind(kind).is_none()
        {
            return Err(format!("unknown error kind `{kind}`"));
        }
        match &self.code {
            Some(code) if Code::from_name(code).as_str() != code => {
                Err(format!("unknown Connect code `{code}`"))
            }
            _ => Ok(()),
        }
    }
}

fn error_kind(name: &str) -> Option<ErrorKind> {
    ErrorKind::from_str_name(name)
        .or_else(|| ErrorKind::from_str_name(&format!("ERROR_{}", name.to_ascii_uppercase())))
}

// === impl ResetCode ===

impl ResetCode {
    pub const INTERNAL_ERROR: Self = Self(2);
    pub const CANCEL: Self = Self(8);

    const NAMES: &[(&str, u32)] = &[
        ("no_error", 0),
        ("protocol_error", 1),
        ("internal_error", 2),
        ("flow_control_error", 3),
        ("stream_closed", 5),
        ("frame_size_error", 6),
        ("refused_stream", 7),
        ("cancel", 8),
        ("enhance_your_calm", 11),
        ("http_1_1_required", 13),
    ];
}

impl<'de> Deserialize<'de> for ResetCode {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ResetCodeVisitor;
        impl serde::de::Visitor<'_> for ResetCodeVisitor {
            type Value = ResetCode;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an HTTP/2 error code, as name or number")
            }

            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<ResetCode, E> {
                ResetCode::NAMES
                    .iter()
                    .find(|(known, _)| *known == name)
                    .map(|(_, code)| ResetCode(*code))
                    .ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(name), &self))
            }

            fn visit_i64<E: serde::de::Error>(self, code: i64) -> Result<ResetCode, E> {
                u32::try_from(code)
                    .map(ResetCode)
                    .map_err(|_| E::invalid_value(serde::de::Unexpected::Signed(code), &self))
            }

            fn visit_u64<E: serde::de::Error>(self, code: u64) -> Result<ResetCode, E> {
                u32::try_from(code)
                    .map(ResetCode)
                    .map_err(|_| E::invalid_value(serde::de::Unexpected::Unsigned(code), &self))
            }
        }
        deserializer.deserialize_any(ResetCodeVisitor)
    }
}

#[cfg(test)]
#[path = "faults_tests.rs"]
mod tests;
