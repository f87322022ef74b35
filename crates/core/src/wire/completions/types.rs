//! What goes over the wire.

use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_json::{Number, value::RawValue};

use crate::wire::{
    chat::{ChatUsage, StreamOptions},
    lenient::{MaybeText, Object, TextOr},
};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CompletionRequestBody<'a> {
    pub(super) model: Option<String>,
    /// What is not a string in a list is a token, or a list of them.
    pub(super) prompt: Option<TextOr<MaybeText>>,
    pub(super) stream: Option<bool>,
    pub(super) stream_options: Option<Object<StreamOptions>>,
    pub(super) max_tokens: Option<Number>,
    pub(super) stop: Option<TextOr<String>>,
    pub(super) user: Option<String>,
    // Refused when they ask for something.
    pub(super) n: Option<Number>,
    pub(super) best_of: Option<Number>,
    pub(super) echo: Option<bool>,
    pub(super) suffix: Option<String>,
    #[serde(borrow)]
    pub(super) logprobs: Option<&'a RawValue>,
    // Understood, not honoured, listed to the client.
    pub(super) temperature: Option<Number>,
    pub(super) top_p: Option<Number>,
    pub(super) presence_penalty: Option<Number>,
    pub(super) frequency_penalty: Option<Number>,
    #[serde(borrow)]
    pub(super) seed: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) logit_bias: Option<&'a RawValue>,
    // Names of the sibling APIs, which mean nothing here. Listed to the client as well.
    pub(super) input: Option<IgnoredAny>,
    pub(super) instructions: Option<IgnoredAny>,
    pub(super) max_completion_tokens: Option<IgnoredAny>,
    pub(super) max_output_tokens: Option<IgnoredAny>,
    pub(super) messages: Option<IgnoredAny>,
    pub(super) response_format: Option<IgnoredAny>,
    pub(super) stop_sequences: Option<IgnoredAny>,
    pub(super) system: Option<IgnoredAny>,
}

/// The whole reply; a chunk of a stream has the same shape.
#[derive(Debug, Serialize)]
pub(super) struct TextCompletion<'a> {
    pub(super) id: &'a str,
    pub(super) object: &'static str,
    pub(super) created: u64,
    pub(super) model: &'a str,
    pub(super) choices: [CompletionChoice<'a>; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) usage: Option<ChatUsage>,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct CompletionChoice<'a> {
    pub(super) text: &'a str,
    pub(super) index: usize,
    /// Always null; the specification wants the field.
    pub(super) logprobs: Option<()>,
    /// Null until the last chunk.
    pub(super) finish_reason: Option<&'static str>,
}
