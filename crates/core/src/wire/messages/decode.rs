//! The bytes of a messages request to a [`TurnRequest`], or to an error that names the
//! field at fault. Unknown fields are accepted.

use serde_json::{Number, value::RawValue};

use super::{
    content::MessagesConversation,
    thinking::{self, Thinking},
    tools,
    types::{self, OutputFormat},
};
use crate::{
    error::{ErrorCode, TurnError},
    history::take_marker,
    model::{AnswerFormat, Dialect, Hints, ParamHandling, RunModes, Sampling, Schema, TurnRequest},
    wire::{
        blank,
        json::{invalid, is_not, is_set, model_name, names_of, parse, token_limit, unsupported},
        lenient::Object,
        surrogates::replace_lone,
    },
};

/// A decoded request, and what only its reply needs.
#[derive(Clone, Debug)]
pub struct MessagesRequest {
    pub turn: TurnRequest,
    pub thinking: Thinking,
}

/// Decodes the body of `POST /v1/messages`.
///
/// # Errors
/// `InvalidJson`, `MissingMessages`, `InvalidValue`, `UnsupportedParameter` or
/// `ThreadUnsupported`; all but the first name the field.
pub fn decode(body: &[u8]) -> Result<MessagesRequest, TurnError> {
    let body = replace_lone(body);
    let request = checked(&body)?;
    let limit = limit(request.max_tokens.as_ref())?;
    build(request, Some(limit))
}

/// Decodes the body of `POST /v1/messages/count_tokens`, which asks for no answer.
///
/// # Errors
/// As [`decode`].
pub fn decode_count(body: &[u8]) -> Result<TurnRequest, TurnError> {
    build(checked(&replace_lone(body))?, None).map(|request| request.turn)
}

/// Entry point for fuzzing: any bytes are a request or an error, never a panic.
pub fn fuzz(data: &[u8]) {
    let _ = (decode(data), decode_count(data));
}

fn checked(body: &[u8]) -> Result<types::MessagesRequestBody<'_>, TurnError> {
    let Object(request) = parse::<Object<types::MessagesRequestBody<'_>>>(body)?;
    // SDKs leave the history out once a server takes this, and resend it only to one
    // that refuses: so it comes before everything else.
    if request.thread.is_some() {
        return Err(TurnError::new(
            ErrorCode::ThreadUnsupported,
            "threads are not supported; send the whole conversation in `messages`",
        )
        .param("thread"));
    }
    if is_set(request.mcp_servers, &["[]"]) {
        return Err(unsupported(
            "mcp_servers",
            "`mcp_servers` is not supported: the gateway does not connect to servers that a \
             request names; list their tools in `tools`",
        ));
    }
    Ok(request)
}

fn limit(given: Option<&Number>) -> Result<u64, TurnError> {
    let missing = || invalid("max_tokens", "`max_tokens` is missing; this API requires it");
    token_limit(given, "max_tokens")?.ok_or_else(missing)
}

fn build(
    request: types::MessagesRequestBody<'_>,
    limit: Option<u64>,
) -> Result<MessagesRequest, TurnError> {
    let model = model_name(request.model.as_deref())?;
    let (thinking, mut sampling) = sampling(&request, limit)?;
    let messages = request.messages.unwrap_or_default();
    let mut conversation = MessagesConversation::default();
    conversation.system(request.system)?;
    let mut last_user = 0;
    for (index, Object(message)) in messages.into_iter().enumerate() {
        if message.role.as_deref() == Some("user") {
            last_user = index;
        }
        conversation.push(index, message)?;
    }
    let MessagesConversation { mut system, items, tools: later, ignored } = conversation;
    if items.is_empty() {
        let text = "`messages` is missing or has no content";
        return Err(TurnError::new(ErrorCode::MissingMessages, text).param("messages"));
    }
    // Tokens are counted of anything.
    if limit.is_some() {
        blank::check(&items, || format!("messages[{last_user}].content"))?;
    }
    sampling.params.ignored.extend(ignored);
    let offer = tools::decode(request.tools.unwrap_or_default(), later, &mut sampling.params)?;
    let (tool_choice, parallel_tool_calls) =
        tools::choice(request.tool_choice, &offer, &mut sampling.params)?;
    // The marker is for us; the model never sees it.
    let session = take_marker(&mut system);
    let turn = TurnRequest {
        model,
        system,
        items,
        tools: offer.tools,
        tool_choice,
        parallel_tool_calls,
        sampling,
        dialect: Dialect::Messages,
        hints: Hints {
            stream: request.stream.unwrap_or(false),
            include_usage: true,
            hides_reasoning: thinking != Thinking::Shown,
            session,
            user: request.metadata.and_then(|Object(metadata)| metadata.user_id),
            workspace: None,
            modes: RunModes::default(),
        },
    };
    Ok(MessagesRequest { turn, thinking })
}

fn sampling(
    request: &types::MessagesRequestBody<'_>,
    limit: Option<u64>,
) -> Result<(Thinking, Sampling), TurnError> {
    let (thinking, effort) =
        thinking::decode(request.thinking.as_ref(), request.output_config.as_ref())?;
    let config = request.output_config.as_ref().map(|Object(config)| config);
    let format = match (config.and_then(|config| config.format.as_ref()), &request.output_format) {
        (Some(Object(given)), _) => format("output_config.format", given)?,
        (None, Some(Object(given))) => format("output_format", given)?,
        (None, None) => AnswerFormat::Text,
    };
    let stop = request.stop_sequences.clone().unwrap_or_default();
    if let Some(place) = stop.iter().position(String::is_empty) {
        return Err(invalid(
            format!("stop_sequences[{place}]"),
            "a stop sequence must not be empty",
        ));
    }
    let native = names_of([
        ("thinking", request.thinking.is_some()),
        ("output_config.effort", config.is_some_and(|config| config.effort.is_some())),
    ]);
    let old = config.is_none_or(|config| config.format.is_none());
    let format_name = if old { "output_format" } else { "output_config.format" };
    let emulated = names_of([
        ("max_tokens", limit.is_some()),
        ("stop_sequences", !stop.is_empty()),
        (format_name, format != AnswerFormat::Text),
    ]);
    let params = ParamHandling { native, emulated, ignored: ignored(request) };
    Ok((thinking, Sampling { effort, max_tokens: limit, stop, format, params }))
}

fn format(path: &str, given: &OutputFormat) -> Result<AnswerFormat, TurnError> {
    match given.r#type.as_deref() {
        Some("json_schema") => {}
        Some("text") => return Ok(AnswerFormat::Text),
        _ => {
            return Err(invalid(
                format!("{path}.type"),
                format!("`{path}.type` must be json_schema"),
            ));
        }
    }
    match given.schema.as_deref().map(RawValue::get).filter(|schema| schema.starts_with('{')) {
        Some(schema) => {
            Ok(AnswerFormat::Schema(Schema { name: "output".to_owned(), text: schema.to_owned() }))
        }
        None => Err(invalid(
            format!("{path}.schema"),
            format!("`{path}.schema` must be a JSON Schema object"),
        )),
    }
}

/// Parameters that the client set to something other than their default, and that no
/// backend honours. `cache_control` is none of them: the backend caches by itself.
fn ignored(request: &types::MessagesRequestBody<'_>) -> Vec<&'static str> {
    let user = request.metadata.as_ref().and_then(|Object(metadata)| metadata.user_id.as_deref());
    names_of([
        ("temperature", is_not(request.temperature.as_ref(), 1.0)),
        ("top_p", is_not(request.top_p.as_ref(), 1.0)),
        ("top_k", is_set(request.top_k, &[])),
        ("metadata", user.is_some_and(|user| !user.is_empty())),
        ("context_management", is_set(request.context_management, &["{}"])),
        ("compaction", is_set(request.compaction, &["{}"])),
        ("container", is_set(request.container, &["{}"])),
        ("fallbacks", is_set(request.fallbacks, &["[]"])),
        ("service_tier", is_set(request.service_tier, &["\"auto\""])),
        ("inference_geo", is_set(request.inference_geo, &[])),
        ("speed", is_set(request.speed, &["\"standard\""])),
        ("input", request.input.is_some()),
        ("instructions", request.instructions.is_some()),
        ("max_completion_tokens", request.max_completion_tokens.is_some()),
        ("max_output_tokens", request.max_output_tokens.is_some()),
        ("reasoning_effort", request.reasoning_effort.is_some()),
        ("response_format", request.response_format.is_some()),
        ("stop", request.stop.is_some()),
    ])
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
