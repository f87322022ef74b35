//! What goes over the wire: lenient on the way in (every field may be missing or null,
//! unknown ones are skipped), strict on the way out.

use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_json::{Number, value::RawValue};

use crate::{
    model::Usage,
    wire::lenient::{MaybeText, Object, TextOr, WordOr},
};

// === requests ===

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct MessagesRequestBody<'a> {
    pub(super) model: Option<String>,
    #[serde(borrow)]
    pub(super) messages: Option<Vec<Object<InputMessage<'a>>>>,
    #[serde(borrow)]
    pub(super) system: Option<TextOr<Object<ContentBlock<'a>>>>,
    pub(super) max_tokens: Option<Number>,
    pub(super) stream: Option<bool>,
    pub(super) stop_sequences: Option<Vec<String>>,
    pub(super) tools: Option<Vec<Object<MessagesTool>>>,
    pub(super) tool_choice: Option<Object<MessagesToolChoice>>,
    pub(super) thinking: Option<Object<ThinkingConfig>>,
    pub(super) output_config: Option<Object<OutputConfig>>,
    /// The older place of `output_config.format`.
    pub(super) output_format: Option<Object<OutputFormat>>,
    pub(super) metadata: Option<Object<Metadata>>,
    // Refused when they ask for something.
    #[serde(borrow)]
    pub(super) thread: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) mcp_servers: Option<&'a RawValue>,
    // Understood, not honoured, listed to the client.
    pub(super) temperature: Option<Number>,
    pub(super) top_p: Option<Number>,
    #[serde(borrow)]
    pub(super) top_k: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) context_management: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) compaction: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) container: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) fallbacks: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) service_tier: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) inference_geo: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) speed: Option<&'a RawValue>,
    // Names of the sibling APIs, which mean nothing here. Listed to the client as well.
    pub(super) input: Option<IgnoredAny>,
    pub(super) instructions: Option<IgnoredAny>,
    pub(super) max_completion_tokens: Option<IgnoredAny>,
    pub(super) max_output_tokens: Option<IgnoredAny>,
    pub(super) reasoning_effort: Option<IgnoredAny>,
    pub(super) response_format: Option<IgnoredAny>,
    pub(super) stop: Option<IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct InputMessage<'a> {
    pub(super) role: Option<String>,
    #[serde(borrow)]
    pub(super) content: Option<TextOr<Object<ContentBlock<'a>>>>,
    #[serde(borrow)]
    pub(super) output_config: Option<&'a RawValue>,
}

/// Every kind of content block in one: which fields count depends on `type`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ContentBlock<'a> {
    pub(super) r#type: Option<String>,
    pub(super) text: Option<String>,
    pub(super) thinking: Option<MaybeText>,
    /// An object, but for search results, where it is their address.
    #[serde(borrow)]
    pub(super) source: Option<WordOr<BlockSource<'a>>>,
    pub(super) title: Option<String>,
    pub(super) context: Option<String>,
    /// An object where it asks for citations, a list where it has some.
    #[serde(borrow)]
    pub(super) citations: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) content: Option<TextOr<Object<ContentBlock<'a>>>>,
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
    #[serde(borrow)]
    pub(super) input: Option<&'a RawValue>,
    pub(super) tool_use_id: Option<String>,
    pub(super) is_error: Option<bool>,
    pub(super) tool_name: Option<String>,
    pub(super) tool: Option<Object<AddedTool>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct BlockSource<'a> {
    pub(super) r#type: Option<String>,
    pub(super) media_type: Option<String>,
    pub(super) data: Option<String>,
    #[serde(borrow)]
    pub(super) content: Option<TextOr<Object<ContentBlock<'a>>>>,
}

/// A tool that becomes available in the middle: its name, or all of it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct AddedTool {
    pub(super) definition: Option<Object<MessagesTool>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Citations {
    pub(super) enabled: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct MessagesTool {
    pub(super) r#type: Option<String>,
    pub(super) name: Option<String>,
    pub(super) description: Option<String>,
    pub(super) input_schema: Option<Box<RawValue>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct MessagesToolChoice {
    pub(super) r#type: Option<String>,
    pub(super) name: Option<String>,
    pub(super) disable_parallel_tool_use: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ThinkingConfig {
    pub(super) r#type: Option<String>,
    pub(super) budget_tokens: Option<Number>,
    pub(super) display: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct OutputConfig {
    pub(super) effort: Option<String>,
    pub(super) format: Option<Object<OutputFormat>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct OutputFormat {
    pub(super) r#type: Option<String>,
    pub(super) schema: Option<Box<RawValue>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Metadata {
    pub(super) user_id: Option<String>,
}

// === replies ===

/// The whole reply of a request that did not ask for a stream, and the envelope that a
/// stream begins with.
#[derive(Clone, Debug, Serialize)]
pub(super) struct MessageReply<'a> {
    pub(super) id: &'a str,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) role: &'static str,
    pub(super) model: &'a str,
    pub(super) content: &'a [ReplyBlock],
    pub(super) stop_reason: Option<&'static str>,
    pub(super) stop_sequence: Option<&'a str>,
    pub(super) usage: MessagesUsage,
}

/// One finished block.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ReplyBlock {
    Text { text: String },
    Thinking { thinking: String, signature: String },
    ToolUse { id: String, name: String, input: Box<RawValue> },
}

/// Token counts as Anthropic writes them: what the cache gave or took stands beside
/// `input_tokens`, not in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct MessagesUsage {
    pub(super) input_tokens: u64,
    pub(super) cache_creation_input_tokens: u64,
    pub(super) cache_read_input_tokens: u64,
    pub(super) output_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) output_tokens_details: Option<MessagesOutputDetails>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct MessagesOutputDetails {
    thinking_tokens: u64,
}

impl From<Usage> for MessagesUsage {
    fn from(usage: Usage) -> Self {
        // Counters of a backend need not add up; the three never sum to more than it said.
        let cache_read = usage.cache_read.min(usage.input);
        let cache_write = usage.cache_write.min(usage.input - cache_read);
        let thinking_tokens = usage.reasoning.min(usage.output);
        Self {
            input_tokens: usage.input - cache_read - cache_write,
            cache_creation_input_tokens: cache_write,
            cache_read_input_tokens: cache_read,
            output_tokens: usage.output,
            output_tokens_details: (thinking_tokens > 0)
                .then_some(MessagesOutputDetails { thinking_tokens }),
        }
    }
}

// === events ===

/// One event of a stream; its name stands in `type` and on the `event:` line. Deltas are
/// none of these: there are so many that the encoder writes them by hand.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum MessageEvent<'a> {
    MessageStart { message: &'a MessageReply<'a> },
    ContentBlockStart { index: usize, content_block: BlockHead<'a> },
    ContentBlockStop { index: usize },
    MessageDelta { delta: MessageEnding<'a>, usage: MessagesUsage },
    MessageStop,
    Ping,
}

/// A block before anything is in it.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum BlockHead<'a> {
    Text { text: &'static str },
    Thinking { thinking: &'static str, signature: &'static str },
    ToolUse { id: &'a str, name: &'a str, input: Empty },
}

/// `{}`.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Empty {}

/// A further piece of the block that is open.
#[derive(Clone, Copy, Debug)]
pub(super) enum BlockDelta<'a> {
    Text(&'a str),
    Thinking(&'a str),
    Signature(&'a str),
    /// Of a call's arguments, as JSON text.
    Input(&'a str),
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct MessageEnding<'a> {
    pub(super) stop_reason: &'static str,
    pub(super) stop_sequence: Option<&'a str>,
}

impl MessageEvent<'_> {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::MessageStart { .. } => "message_start",
            Self::ContentBlockStart { .. } => "content_block_start",
            Self::ContentBlockStop { .. } => "content_block_stop",
            Self::MessageDelta { .. } => "message_delta",
            Self::MessageStop => "message_stop",
            Self::Ping => "ping",
        }
    }
}
