//! What goes over the wire: lenient on the way in (every field may be missing or
//! null, unknown ones are skipped), strict on the way out.

use std::borrow::Cow;

use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_json::{Number, value::RawValue};

use crate::{
    error::TurnError,
    model::Usage,
    redact,
    wire::lenient::{MaybeText, Object, TextOr, WordOr},
};

// === requests ===

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ChatRequestBody<'a> {
    pub(super) model: Option<String>,
    #[serde(borrow)]
    pub(super) messages: Option<Vec<Object<ChatMessage<'a>>>>,
    pub(super) stream: Option<bool>,
    pub(super) stream_options: Option<Object<StreamOptions>>,
    pub(super) tools: Option<Vec<Object<ChatTool>>>,
    pub(super) tool_choice: Option<WordOr<ChatToolChoice>>,
    pub(super) parallel_tool_calls: Option<bool>,
    pub(super) reasoning_effort: Option<String>,
    pub(super) max_tokens: Option<Number>,
    pub(super) max_completion_tokens: Option<Number>,
    pub(super) stop: Option<TextOr<String>>,
    pub(super) response_format: Option<Object<ResponseFormat>>,
    pub(super) user: Option<String>,
    // Refused when they ask for something.
    pub(super) n: Option<Number>,
    pub(super) logprobs: Option<bool>,
    pub(super) top_logprobs: Option<Number>,
    pub(super) modalities: Option<Vec<String>>,
    #[serde(borrow)]
    pub(super) audio: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) functions: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) function_call: Option<&'a RawValue>,
    // Understood, not honoured, listed to the client.
    pub(super) temperature: Option<Number>,
    pub(super) top_p: Option<Number>,
    pub(super) presence_penalty: Option<Number>,
    pub(super) frequency_penalty: Option<Number>,
    #[serde(borrow)]
    pub(super) top_k: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) seed: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) logit_bias: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) store: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) service_tier: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) verbosity: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) prediction: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) web_search_options: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) prompt_cache_key: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) safety_identifier: Option<&'a RawValue>,
    // Names of the sibling APIs, which mean nothing here. Listed to the client as well.
    pub(super) input: Option<IgnoredAny>,
    pub(super) instructions: Option<IgnoredAny>,
    pub(super) max_output_tokens: Option<IgnoredAny>,
    pub(super) stop_sequences: Option<IgnoredAny>,
    pub(super) system: Option<IgnoredAny>,
    pub(super) text: Option<IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::wire) struct StreamOptions {
    include_usage: Option<bool>,
}

impl StreamOptions {
    /// Whether the stream is to have the usage.
    pub(in crate::wire) fn include_usage(given: Option<&Object<Self>>) -> bool {
        given.is_some_and(|Object(options)| options.include_usage == Some(true))
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ResponseFormat {
    pub(super) r#type: Option<String>,
    pub(super) json_schema: Option<Object<ChatJsonSchema>>,
}

/// `strict` is not asked for: every answer is held against its schema.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ChatJsonSchema {
    pub(super) name: Option<String>,
    pub(super) schema: Option<Box<RawValue>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ChatMessage<'a> {
    pub(super) role: Option<String>,
    pub(super) content: Option<TextOr<Object<ChatPart>>>,
    pub(super) refusal: Option<MaybeText>,
    pub(super) reasoning_content: Option<MaybeText>,
    pub(super) reasoning: Option<MaybeText>,
    #[serde(borrow)]
    pub(super) tool_calls: Option<Vec<Object<ChatToolCall<'a>>>>,
    pub(super) tool_call_id: Option<String>,
    #[serde(borrow)]
    pub(super) function_call: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) audio: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ChatPart {
    pub(super) r#type: Option<String>,
    pub(super) text: Option<String>,
    pub(super) refusal: Option<String>,
    pub(super) thinking: Option<MaybeText>,
    pub(super) image_url: Option<WordOr<ChatImageUrl>>,
    pub(super) file: Option<Object<ChatFile>>,
    // Of `input_file`, which has them besides its type.
    pub(super) file_id: Option<MaybeText>,
    pub(super) file_data: Option<String>,
    pub(super) filename: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ChatFile {
    pub(super) file_id: Option<MaybeText>,
    pub(super) file_data: Option<String>,
    pub(super) filename: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ChatImageUrl {
    pub(super) url: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ChatToolCall<'a> {
    pub(super) id: Option<String>,
    pub(super) r#type: Option<String>,
    #[serde(borrow)]
    pub(super) function: Option<Object<CalledFunction<'a>>>,
    pub(super) custom: Option<Object<CalledCustom>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CalledCustom {
    pub(super) name: Option<String>,
    pub(super) input: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CalledFunction<'a> {
    pub(super) name: Option<String>,
    /// JSON text in a string, or the bare object that some clients send.
    #[serde(borrow)]
    pub(super) arguments: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ChatTool {
    pub(super) r#type: Option<String>,
    pub(super) function: Option<Object<Function>>,
    pub(super) custom: Option<Object<Custom>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Custom {
    pub(super) name: Option<String>,
    pub(super) description: Option<String>,
    pub(super) format: Option<Object<CustomFormat>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CustomFormat {
    pub(super) r#type: Option<String>,
    pub(super) grammar: Option<Object<Grammar>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Grammar {
    pub(super) syntax: Option<String>,
    pub(super) definition: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Function {
    pub(super) name: Option<String>,
    pub(super) description: Option<String>,
    pub(super) parameters: Option<Box<RawValue>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ChatToolChoice {
    pub(super) r#type: Option<String>,
    pub(super) function: Option<Object<NamedFunction>>,
    pub(super) custom: Option<Object<NamedFunction>>,
    pub(super) allowed_tools: Option<Object<AllowedTools>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct AllowedTools {
    pub(super) mode: Option<String>,
    pub(super) tools: Option<Vec<Object<AllowedTool>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct AllowedTool {
    pub(super) function: Option<Object<NamedFunction>>,
    pub(super) custom: Option<Object<NamedFunction>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct NamedFunction {
    pub(super) name: Option<String>,
}

// === chunks ===

/// What changes from chunk to chunk; the rest of a chunk is written once per stream.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct ChatDelta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_calls: Option<[ToolCallDelta<'a>; 1]>,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct ToolCallDelta<'a> {
    pub(super) index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<&'a str>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub(super) kind: Option<&'static str>,
    #[serde(flatten)]
    pub(super) body: CallDelta<'a>,
}

#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum CallDelta<'a> {
    Function(FunctionDelta<'a>),
    Custom(CustomDelta<'a>),
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct FunctionDelta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<&'a str>,
    pub(super) arguments: &'a str,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct CustomDelta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<&'a str>,
    pub(super) input: &'a str,
}

// === completions ===

/// The whole reply of a request that did not ask for a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChatCompletion {
    pub id: String,
    pub object: &'static str,
    pub created: u64,
    pub model: String,
    pub choices: [ChatChoice; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<ChatUsage>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChatChoice {
    pub index: usize,
    pub message: AssistantMessage,
    /// Always null; the specification wants the field.
    pub logprobs: Option<()>,
    pub finish_reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AssistantMessage {
    pub role: &'static str,
    /// Null if the answer consists only of tool calls.
    pub content: Option<String>,
    /// Always null; the specification wants the field.
    pub refusal: Option<()>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<MadeCall>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MadeCall {
    pub id: String,
    #[serde(flatten)]
    pub body: MadeBody,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum MadeBody {
    Function { function: MadeFunction },
    Custom { custom: MadeCustom },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MadeFunction {
    pub name: String,
    pub arguments: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MadeCustom {
    pub name: String,
    /// Raw text.
    pub input: String,
}

/// Token counts as OpenAI writes them: cached tokens are part of the prompt,
/// reasoning tokens part of the completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ChatUsage {
    pub prompt_tokens: u64,
    pub completion_tokens: u64,
    pub total_tokens: u64,
    pub prompt_tokens_details: PromptDetails,
    pub completion_tokens_details: CompletionDetails,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PromptDetails {
    pub cached_tokens: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CompletionDetails {
    pub reasoning_tokens: u64,
}

impl From<Usage> for ChatUsage {
    fn from(usage: Usage) -> Self {
        Self {
            prompt_tokens: usage.input,
            completion_tokens: usage.output,
            total_tokens: usage.total(),
            prompt_tokens_details: PromptDetails { cached_tokens: usage.cache_read },
            completion_tokens_details: CompletionDetails { reasoning_tokens: usage.reasoning },
        }
    }
}

// === errors ===

/// A failure as OpenAI's clients read it, as a response body or inside a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OpenAiErrorBody<'a> {
    pub error: OpenAiError<'a>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OpenAiError<'a> {
    pub message: Cow<'a, str>,
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub param: Option<&'a str>,
    pub code: &'static str,
    pub status: u16,
}

impl<'a> From<&'a TurnError> for OpenAiErrorBody<'a> {
    fn from(error: &'a TurnError) -> Self {
        let row = error.code.row();
        Self {
            error: OpenAiError {
                // It may quote what the client sent.
                message: redact::text(&error.message),
                kind: row.openai_type,
                param: error.param.as_deref(),
                code: row.code,
                status: row.status,
            },
        }
    }
}
