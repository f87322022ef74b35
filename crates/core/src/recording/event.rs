//! What a turn gave, what went wrong with its link, and the tokens of both, in a recording.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::mask::Mask;
use crate::{
    codec::connect::{Code, ConnectError, CursorError},
    error::{ErrorCode, TurnError},
    model::{FinishReason, TurnEvent, Usage, UsageSource},
    peer::LinkError,
};

/// An event, by its kind and size.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum EventRecord {
    Started,
    Text {
        bytes: usize,
        /// Only with texts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    Reasoning {
        bytes: usize,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    CallBegin {
        id: String,
        name: String,
    },
    CallArguments {
        id: String,
        bytes: usize,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    CallEnd {
        id: String,
    },
    Usage(UsageRecord),
    Finished {
        reason: String,
    },
    Failed {
        code: String,
        message: String,
    },
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default)]
pub struct UsageRecord {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    pub reasoning: u64,
    /// Counted here.
    pub estimated: bool,
    /// From the running counters of the backend.
    pub partial: bool,
}

impl EventRecord {
    pub(super) fn of(event: &TurnEvent, mask: &Mask) -> Self {
        let text = |text: &String| mask.keeps_texts().then(|| mask.whole(text));
        match event {
            TurnEvent::Started => Self::Started,
            TurnEvent::Text(said) => Self::Text { bytes: said.len(), text: text(said) },
            TurnEvent::Reasoning(said) => Self::Reasoning { bytes: said.len(), text: text(said) },
            TurnEvent::ToolCallBegin { id, name } => {
                Self::CallBegin { id: mask.id(id.as_str()), name: mask.name(name) }
            }
            TurnEvent::ToolCallArgs { id, delta } => Self::CallArguments {
                id: mask.id(id.as_str()),
                bytes: delta.len(),
                text: text(delta),
            },
            TurnEvent::ToolCallEnd { id } => Self::CallEnd { id: mask.id(id.as_str()) },
            TurnEvent::Usage(usage) => Self::Usage(UsageRecord::of(usage)),
            TurnEvent::Finished(reason) => Self::Finished { reason: finish_name(*reason) },
            TurnEvent::Failed(error) => {
                Self::Failed { code: error.code.row().code.to_owned(), message: words(error, mask) }
            }
        }
    }

    /// Whether a replay gave the same. With placeholders the arguments of a call may be written
    /// longer or shorter, and words about an error may differ.
    pub(super) fn agrees(&self, other: &Self, texts: bool) -> bool {
        match (self, other) {
            _ if texts => self == other,
            (Self::Reasoning { .. }, Self::Reasoning { .. }) => true,
            (Self::CallArguments { id, .. }, Self::CallArguments { id: of, .. }) => id == of,
            (Self::Failed { code, .. }, Self::Failed { code: other, .. }) => code == other,
            // Shares by length.
            (Self::Usage(one), Self::Usage(other)) => {
                UsageRecord { reasoning: 0, ..*one } == UsageRecord { reasoning: 0, ..*other }
            }
            _ => self == other,
        }
    }
}

impl UsageRecord {
    pub(super) fn of(usage: &Usage) -> Self {
        Self {
            input: usage.input,
            output: usage.output,
            cache_read: usage.cache_read,
            cache_write: usage.cache_write,
            reasoning: usage.reasoning,
            estimated: usage.source == UsageSource::Estimate,
            partial: usage.source == UsageSource::BackendPartial,
        }
    }

    pub(super) fn usage(self) -> Usage {
        let source = match (self.estimated, self.partial) {
            (true, _) => UsageSource::Estimate,
            (false, true) => UsageSource::BackendPartial,
            (false, false) => UsageSource::Backend,
        };
        let Self { input, output, cache_read, cache_write, reasoning, .. } = self;
        Usage { input, output, cache_read, cache_write, reasoning, source }
    }
}

fn finish_name(reason: FinishReason) -> String {
    match reason {
        FinishReason::Stop => "stop".to_owned(),
        FinishReason::StopSequence(which) => format!("stop_sequence {which}"),
        FinishReason::Length => "length".to_owned(),
        FinishReason::ToolCalls => "tool_calls".to_owned(),
    }
}

// === errors ===

/// An error of ours.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct FailureRecord {
    /// The name of its row in the table of errors.
    pub code: String,
    pub message: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unreachable: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub permanent: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

/// An error of the backend, in the form of Connect.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ConnectRecord {
    pub code: String,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<DetailRecord>,
}

/// What Cursor says about an error.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct DetailRecord {
    /// The name in its enum.
    pub kind: String,
    pub title: String,
    pub detail: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_status: Option<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub action_required: String,
}

/// Why there is no link, or no longer one.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkErrorRecord {
    Connect(String),
    ConnectTimeout,
    Status {
        status: u16,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<ConnectRecord>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_ms: Option<u64>,
    },
    Refused(String),
    Fault(FailureRecord),
    Reset(String),
}

/// What is wrong with an answer is described in words of the answer.
fn words(error: &TurnError, mask: &Mask) -> String {
    match error.code {
        ErrorCode::FormatUnmet => mask.whole(&error.message),
        _ => mask.error(&error.message),
    }
}

impl FailureRecord {
    pub(super) fn of(error: &TurnError, mask: &Mask) -> Self {
        Self {
            code: format!("{:?}", error.code),
            message: words(error, mask),
            unreachable: error.unreachable,
            permanent: error.permanent,
            retry_after_ms: error.retry_after.map(millis),
        }
    }

    pub(super) fn error(&self) -> TurnError {
        let code = ErrorCode::ALL.into_iter().find(|code| format!("{code:?}") == self.code);
        let mut error = TurnError::new(code.unwrap_or(ErrorCode::Internal), self.message.clone());
        error.unreachable = self.unreachable;
        error.permanent = self.permanent;
        error.retry_after = self.retry_after_ms.map(Duration::from_millis);
        error
    }
}

const PROVIDER_STATUS: &str = "providerStatusCode";

impl ConnectRecord {
    pub(super) fn of(error: &ConnectError, mask: &Mask) -> Self {
        let detail = error.detail.as_deref().map(|detail| DetailRecord {
            kind: detail.kind.as_str_name().to_owned(),
            title: mask.error(&detail.title),
            detail: mask.error(&detail.detail),
            retryable: detail.retryable,
            provider_status: detail
                .additional_info
                .get(PROVIDER_STATUS)
                .map(|status| mask.status(status)),
            action_required: mask.error(&detail.action_required),
        });
        let (code, message) = (error.code.as_str().to_owned(), mask.error(&error.message));
        Self { code, message, detail }
    }

    pub(super) fn error(&self) -> ConnectError {
        let detail = self.detail.as_ref().map(|detail| {
            let status = detail.provider_status.clone();
            Box::new(CursorError {
                kind: ibeam_proto::aiserver::ErrorKind::from_str_name(&detail.kind)
                    .unwrap_or_default(),
                title: detail.title.clone(),
                detail: detail.detail.clone(),
                retryable: detail.retryable,
                additional_info: status
                    .map(|status| (PROVIDER_STATUS.to_owned(), status))
                    .into_iter()
                    .collect(),
                action_required: detail.action_required.clone(),
            })
        });
        ConnectError { code: Code::from_name(&self.code), message: self.message.clone(), detail }
    }
}

impl LinkErrorRecord {
    pub(super) fn of(error: &LinkError, mask: &Mask) -> Self {
        match error {
            LinkError::Connect(why) => Self::Connect(mask.error(why)),
            LinkError::ConnectTimeout => Self::ConnectTimeout,
            LinkError::Status { status, error, retry_after } => Self::Status {
                status: *status,
                error: error.as_ref().map(|error| ConnectRecord::of(error, mask)),
                retry_after_ms: retry_after.map(millis),
            },
            LinkError::Refused(why) => Self::Refused(mask.error(why)),
            LinkError::Fault(error) => Self::Fault(FailureRecord::of(error, mask)),
            LinkError::Reset(why) => Self::Reset(mask.error(why)),
        }
    }

    pub(super) fn error(&self) -> LinkError {
        match self {
            Self::Connect(why) => LinkError::Connect(why.clone()),
            Self::ConnectTimeout => LinkError::ConnectTimeout,
            Self::Status { status, error, retry_after_ms } => LinkError::Status {
                status: *status,
                error: error.as_ref().map(ConnectRecord::error),
                retry_after: retry_after_ms.map(Duration::from_millis),
            },
            Self::Refused(why) => LinkError::Refused(why.clone()),
            Self::Fault(error) => LinkError::Fault(Box::new(error.error())),
            Self::Reset(why) => LinkError::Reset(why.clone()),
        }
    }
}

pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl EventRecord {
    /// In a few words, for people.
    #[must_use]
    pub fn title(&self) -> String {
        match self {
            Self::Started => "started".to_owned(),
            Self::Text { bytes, .. } => format!("text ({bytes} bytes)"),
            Self::Reasoning { bytes, .. } => format!("reasoning ({bytes} bytes)"),
            Self::CallBegin { id, name } => format!("call of {name} begins ({id})"),
            Self::CallArguments { bytes, .. } => format!("arguments ({bytes} bytes)"),
            Self::CallEnd { .. } => "call is complete".to_owned(),
            Self::Usage(usage) => format!("usage: {} in, {} out", usage.input, usage.output),
            Self::Finished { reason } => format!("finished: {reason}"),
            Self::Failed { code, message } => format!("failed: {code}: {message}"),
        }
    }
}
