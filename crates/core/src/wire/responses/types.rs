//! What goes out: items, events and their parts. Requests are read where they are used.

use std::borrow::Cow;

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::model::Usage;

/// An element of `output`, up to what grows in it.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum OutputItem<'a> {
    Message {
        id: &'a str,
        status: ItemStatus,
        role: &'static str,
    },
    Reasoning {
        id: &'a str,
    },
    FunctionCall {
        id: &'a str,
        status: ItemStatus,
        call_id: &'a str,
        name: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        namespace: Option<&'a str>,
    },
    CustomToolCall {
        id: &'a str,
        status: ItemStatus,
        call_id: &'a str,
        name: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        namespace: Option<&'a str>,
    },
    ToolSearchCall {
        id: &'a str,
        status: ItemStatus,
        call_id: &'a str,
        execution: &'static str,
    },
    Compaction {
        id: &'a str,
        encrypted_content: &'a str,
    },
}

/// How far an item or a response is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemStatus {
    InProgress,
    Completed,
    Incomplete,
    Failed,
    Cancelled,
}

/// Where in the response a delta belongs. Only messages have contents and only reasoning
/// has summaries.
#[derive(Clone, Copy, Serialize)]
pub(super) struct Place<'a> {
    pub(super) item_id: &'a str,
    pub(super) output_index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) content_index: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) summary_index: Option<usize>,
}

// === the response ===

/// The fields of a response that change while it is made, up to its output.
#[derive(Serialize)]
pub(super) struct ResponseState<'a> {
    pub(super) id: &'a str,
    pub(super) object: &'static str,
    pub(super) created_at: u64,
    pub(super) status: ItemStatus,
    pub(super) completed_at: Option<u64>,
    pub(super) error: Option<ErrorPart<'a>>,
    pub(super) incomplete_details: Option<IncompleteDetails>,
}

#[derive(Clone, Serialize)]
pub(super) struct ErrorPart<'a> {
    pub(super) code: &'static str,
    pub(super) message: Cow<'a, str>,
}

#[derive(Clone, Copy, Serialize)]
pub(super) struct IncompleteDetails {
    pub(super) reason: &'static str,
}

/// Token counts as OpenAI writes them: cached tokens are part of the input, reasoning
/// tokens part of the output.
#[derive(Clone, Copy, Serialize)]
pub(super) struct ResponsesUsage {
    pub(super) input_tokens: u64,
    pub(super) input_tokens_details: ResponsesInputDetails,
    pub(super) output_tokens: u64,
    pub(super) output_tokens_details: ResponsesOutputDetails,
    pub(super) total_tokens: u64,
}

#[derive(Clone, Copy, Serialize)]
pub(super) struct ResponsesInputDetails {
    pub(super) cached_tokens: u64,
    pub(super) cache_write_tokens: u64,
}

#[derive(Clone, Copy, Serialize)]
pub(super) struct ResponsesOutputDetails {
    pub(super) reasoning_tokens: u64,
}

impl ItemStatus {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Incomplete => "incomplete",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl Serialize for ItemStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

impl From<Usage> for ResponsesUsage {
    fn from(usage: Usage) -> Self {
        Self {
            input_tokens: usage.input,
            input_tokens_details: ResponsesInputDetails {
                cached_tokens: usage.cache_read,
                cache_write_tokens: usage.cache_write,
            },
            output_tokens: usage.output,
            output_tokens_details: ResponsesOutputDetails { reasoning_tokens: usage.reasoning },
            total_tokens: usage.total(),
        }
    }
}

/// JSON of one of the types above. None of them can fail; if one ever does, it is null.
pub(super) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned())
}

/// As [`json`].
pub(super) fn to_raw(value: &impl Serialize) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
