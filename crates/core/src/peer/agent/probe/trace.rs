//! What was observed of one run. It has texts of the conversation, so it never leaves the program:
//! only its [`RunFigures`] do.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{
    codec::connect::ConnectError,
    error::{ErrorCode, TurnError},
    peer::{LinkError, PeerFailure, classify},
};

/// All that a judge looks at.
#[derive(Clone, Debug, Default)]
pub struct ProbeTrace {
    pub(super) text: String,
    pub(super) end: ProbeEnd,
    pub(super) notices: Vec<CallNotice>,
    /// The longest text of a partial call, and all of them together.
    pub(super) longest_partial: String,
    pub(super) joined_partials: String,
    /// Built-in tools that were called.
    pub(super) natives: u32,
    pub(super) asked_status: bool,
    /// Tokens of rules in the prompt, where the service breaks its size down.
    pub(super) rule_tokens: Option<u32>,
    /// The entries of the newest state, and whether reasoning in them is signed.
    pub(super) entries: Vec<Bytes>,
    pub(super) signed: bool,
    /// How long the first call was left without its result, in milliseconds.
    pub(super) held: Option<u64>,
    pub(super) frames: u32,
    pub(super) first_output: Option<u64>,
    pub(super) whole: u64,
}

/// A notice about a call of a client's tool, or the call itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallNotice {
    /// Whether it has text.
    Partial(bool),
    Started,
    Exec,
    /// It is over without an exec.
    Refused,
    Listed(u32),
}

/// How a run ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ProbeEnd {
    /// The model answered.
    Answered,
    /// It ended without text or call.
    Empty,
    Failed(Box<ProbeFailure>),
    /// The stream was closed before the end.
    #[default]
    Lost,
    /// No output came in time.
    Silent,
    /// Output came, and no end in time.
    Slow,
    /// It did more than a probe may cost.
    Stopped,
}

/// An error of the service.
#[derive(Clone, Debug, PartialEq)]
pub struct ProbeFailure {
    /// For the user at the terminal; it is in no file.
    pub error: TurnError,
    /// The service's own code, kind and status, without any text.
    pub wire: String,
}

impl ProbeFailure {
    pub(super) fn of_connect(error: &ConnectError) -> Self {
        let PeerFailure { error: shown, .. } = classify::connect_error(error);
        Self { error: shown, wire: wire_code(error) }
    }

    /// Of a transport or a plain request.
    #[must_use]
    pub fn of_link(error: &LinkError) -> Self {
        let wire = match error {
            LinkError::Status { error: Some(error), .. } => wire_code(error),
            LinkError::Status { status, .. } => format!("http-{status}"),
            LinkError::Connect(_) | LinkError::ConnectTimeout => "unreachable".to_owned(),
            LinkError::Refused(_) => "stream-refused".to_owned(),
            LinkError::Reset(_) => "stream-reset".to_owned(),
            LinkError::Fault(_) => "fault".to_owned(),
        };
        Self { error: classify::link_error(error).error, wire }
    }

    /// Whether further runs would fail as well, or cost what the user does not have.
    #[must_use]
    pub fn stops_probing(&self) -> bool {
        matches!(
            self.error.code,
            ErrorCode::NotAuthenticated
                | ErrorCode::InsufficientQuota
                | ErrorCode::RateLimited
                | ErrorCode::Unavailable
                | ErrorCode::Timeout
        )
    }
}

/// `resource_exhausted/57/400`: the code, Cursor's own kind, and the provider's status.
fn wire_code(error: &ConnectError) -> String {
    let mut out = error.code.as_str().to_owned();
    if let Some(detail) = &error.detail {
        out.push_str(&format!("/{}", i32::from(detail.kind)));
        let status = detail.additional_info.get("providerStatusCode");
        if let Some(status) = status.and_then(|status| status.parse::<u16>().ok()) {
            out.push_str(&format!("/{status}"));
        }
    }
    out
}

impl ProbeEnd {
    /// As figures have it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Empty => "empty",
            Self::Failed(_) => "failed",
            Self::Lost => "lost",
            Self::Silent => "silent",
            Self::Slow => "slow",
            Self::Stopped => "stopped",
        }
    }
}

/// What may be published of a run: counts, times and codes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunFigures {
    pub end: String,
    /// The service's own code, without any text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    pub frames: u32,
    pub calls: u32,
    /// In milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_output: Option<u64>,
    pub whole: u64,
}

impl ProbeTrace {
    /// A run that did not begin.
    #[must_use]
    pub fn unopened(error: &LinkError) -> Self {
        let end = ProbeEnd::Failed(Box::new(ProbeFailure::of_link(error)));
        Self { end, ..Self::default() }
    }

    #[must_use]
    pub fn end(&self) -> &ProbeEnd {
        &self.end
    }

    #[must_use]
    pub fn failure(&self) -> Option<&ProbeFailure> {
        match &self.end {
            ProbeEnd::Failed(failure) => Some(failure),
            _ => None,
        }
    }

    #[must_use]
    pub fn figures(&self) -> RunFigures {
        RunFigures {
            end: self.end.name().to_owned(),
            error: self.failure().map(|failure| failure.wire.clone()),
            frames: self.frames,
            calls: u32::try_from(self.calls()).unwrap_or(u32::MAX),
            first_output: self.first_output,
            whole: self.whole,
        }
    }

    pub(super) fn answered(&self) -> bool {
        self.end == ProbeEnd::Answered
    }

    pub(super) fn calls(&self) -> usize {
        self.notices.iter().filter(|notice| **notice == CallNotice::Exec).count()
    }

    /// The service does not take what it was sent: the same again would fail again.
    pub(super) fn is_refusal(&self) -> bool {
        self.failure().is_some_and(|failure| failure.error.code == ErrorCode::InvalidValue)
    }

    /// Whether the answer has this word.
    pub(super) fn says(&self, word: &str) -> bool {
        self.text.to_lowercase().contains(&word.to_lowercase())
    }

    /// Whether the answer is this word, apart from punctuation.
    pub(super) fn is_only(&self, word: &str) -> bool {
        let bare = self.text.trim_matches(|c: char| !c.is_alphanumeric());
        bare.eq_ignore_ascii_case(word)
    }
}
