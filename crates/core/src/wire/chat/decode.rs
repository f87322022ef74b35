//! The bytes of a chat request to a [`TurnRequest`], or to an error that names the
//! field at fault. Unknown fields are accepted.

use serde_json::Number;

use super::{choice, messages::Conversation, types::Request};
use crate::{
    error::{ErrorCode, TurnError},
    history::take_marker,
    model::{Dialect, Effort, Format, Hints, Params, Sampling, Tool, TurnRequest},
    wire::{
        json::{invalid, is_not, is_set, parse, unsupported},
        lenient::{Object, TextOr},
    },
};

/// Decodes the body of `POST /v1/chat/completions`.
///
/// # Errors
/// `InvalidJson`, `MissingMessages`, `InvalidValue` or `UnsupportedParameter`; all
/// but the first name the field.
pub fn decode(body: &[u8]) -> Result<TurnRequest, TurnError> {
    let Object(request) = parse::<Object<Request<'_>>>(body)?;
    refuse_unsupported(&request)?;
    let Some(model) = request.model.as_deref().map(str::trim).filter(|name| !name.is_empty())
    else {
        return Err(invalid("model".to_owned(), "`model` is missing or empty".to_owned()));
    };
    let model = model.to_owned();
    let mut sampling = sampling(&request)?;
    let Some(messages) = request.messages.filter(|messages| !messages.is_empty()) else {
        return Err(TurnError::new(ErrorCode::MissingMessages, "`messages` is missing or empty")
            .param("messages"));
    };
    let mut conversation = Conversation::default();
    for (index, Object(message)) in messages.into_iter().enumerate() {
        conversation.push(index, message)?;
    }
    let mut tools = tools(request.tools.unwrap_or_default(), &mut sampling.params.ignored)?;
    let tool_choice = choice::decode(request.tool_choice, &mut tools)?;
    // The marker is for us; the model never sees it.
    let session = take_marker(&mut conversation.system);
    Ok(TurnRequest {
        model,
        system: conversation.system,
        items: conversation.items,
        tools,
        tool_choice,
        parallel_tool_calls: request.parallel_tool_calls.unwrap_or(true),
        sampling,
        dialect: Dialect::Chat,
        hints: Hints {
            stream: request.stream.unwrap_or(false),
            include_usage: request
                .stream_options
                .and_then(|Object(options)| options.include_usage)
                .unwrap_or(false),
            session,
            user: request.user,
        },
    })
}

/// Entry point for fuzzing: any bytes are a request or an error, never a panic.
pub fn fuzz(data: &[u8]) {
    let _ = decode(data);
}

fn refuse_unsupported(request: &Request<'_>) -> Result<(), TurnError> {
    if let Some(n) = &request.n {
        match n.as_f64() {
            Some(n) if n > 1.0 => {
                return Err(unsupported(
                    "n".to_owned(),
                    "`n` above 1 is not supported: the backend gives one answer per request",
                ));
            }
            Some(n) if n < 1.0 => {
                return Err(invalid("n".to_owned(), "`n` must be 1".to_owned()));
            }
            _ => {}
        }
    }
    if request.logprobs == Some(true) || is_not(request.top_logprobs.as_ref(), 0.0) {
        let name = if request.logprobs == Some(true) { "logprobs" } else { "top_logprobs" };
        return Err(unsupported(
            name.to_owned(),
            "log probabilities are not supported: the backend does not report them",
        ));
    }
    if let Some(modality) =
        request.modalities.iter().flatten().position(|modality| modality != "text")
    {
        return Err(unsupported(
            format!("modalities[{modality}]"),
            "only the `text` modality is supported",
        ));
    }
    if request.audio.is_some() {
        return Err(unsupported("audio".to_owned(), "audio is not supported"));
    }
    if is_set(request.functions, &["[]"]) {
        return Err(unsupported(
            "functions".to_owned(),
            "`functions` is not supported; use `tools` with `type: \"function\"`",
        ));
    }
    if is_set(request.function_call, &["\"auto\"", "\"none\""]) {
        return Err(unsupported(
            "function_call".to_owned(),
            "`function_call` is not supported; use `tool_choice`",
        ));
    }
    Ok(())
}

fn sampling(request: &Request<'_>) -> Result<Sampling, TurnError> {
    let effort = match request.reasoning_effort.as_deref().filter(|word| !word.is_empty()) {
        None => None,
        Some(word) => match Effort::parse(&word.to_ascii_lowercase()) {
            Some(effort) => Some(effort),
            None => {
                let known = Effort::ALL.map(Effort::as_str).join(", ");
                return Err(invalid(
                    "reasoning_effort".to_owned(),
                    format!("unknown `reasoning_effort`; use one of {known}"),
                ));
            }
        },
    };
    let stop = match &request.stop {
        None => Vec::new(),
        Some(TextOr::Text(word)) => vec![word.clone()],
        Some(TextOr::List(words)) => words.clone(),
    };
    let limit = request.max_completion_tokens.as_ref().or(request.max_tokens.as_ref());
    Ok(Sampling {
        effort,
        max_tokens: limit.and_then(Number::as_u64),
        params: Params { ignored: ignored(request, !stop.is_empty()), ..Params::default() },
        stop,
        format: Format::Text,
    })
}

/// Parameters that the client set to something other than their default, and that
/// no backend honours.
fn ignored(request: &Request<'_>, stop: bool) -> Vec<&'static str> {
    let format = request.response_format.as_ref().and_then(|Object(f)| f.r#type.as_deref());
    let one = |number: &Option<Number>| is_not(number.as_ref(), 1.0);
    let zero = |number: &Option<Number>| is_not(number.as_ref(), 0.0);
    [
        ("temperature", one(&request.temperature)),
        ("top_p", one(&request.top_p)),
        ("top_k", is_set(request.top_k, &[])),
        ("seed", is_set(request.seed, &[])),
        ("presence_penalty", zero(&request.presence_penalty)),
        ("frequency_penalty", zero(&request.frequency_penalty)),
        ("logit_bias", is_set(request.logit_bias, &["{}"])),
        ("max_tokens", request.max_tokens.is_some()),
        ("max_completion_tokens", request.max_completion_tokens.is_some()),
        ("stop", stop),
        ("response_format", format.is_some_and(|kind| kind != "text")),
        ("user", request.user.as_deref().is_some_and(|user| !user.is_empty())),
        ("store", is_set(request.store, &["false"])),
        ("metadata", is_set(request.metadata, &["{}"])),
        ("service_tier", is_set(request.service_tier, &["\"auto\"", "\"default\""])),
        ("verbosity", is_set(request.verbosity, &["\"medium\""])),
        ("prediction", is_set(request.prediction, &[])),
        ("web_search_options", is_set(request.web_search_options, &[])),
    ]
    .into_iter()
    .filter_map(|(name, set)| set.then_some(name))
    .collect()
}

fn tools(
    given: Vec<Object<super::types::Tool>>,
    ignored: &mut Vec<&'static str>,
) -> Result<Vec<Tool>, TurnError> {
    let mut tools = Vec::with_capacity(given.len());
    for (index, Object(tool)) in given.into_iter().enumerate() {
        // Clients offer vendor tools (`custom`, `web_search`) by habit: leaving one
        // out and saying so is kinder than failing the whole request.
        if tool.r#type.as_deref().is_some_and(|kind| kind != "function") {
            if !ignored.contains(&"tools.type") {
                ignored.push("tools.type");
            }
            continue;
        }
        let path = format!("tools[{index}].function");
        let Some(Object(function)) = tool.function else {
            return Err(invalid(path, "a tool needs its `function`".to_owned()));
        };
        let Some(name) = function.name.filter(|name| !name.is_empty()) else {
            return Err(invalid(format!("{path}.name"), "a function needs a `name`".to_owned()));
        };
        if function.parameters.as_ref().is_some_and(|schema| !schema.get().starts_with('{')) {
            return Err(invalid(
                format!("{path}.parameters"),
                "the parameters of a function must be a JSON Schema object".to_owned(),
            ));
        }
        tools.push(Tool {
            name,
            description: function.description.unwrap_or_default(),
            schema: function.parameters,
        });
    }
    Ok(tools)
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
