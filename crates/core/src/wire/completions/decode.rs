//! The bytes of a request to a [`TurnRequest`], or to an error that names the field at
//! fault. Unknown fields are accepted.

use serde_json::Number;

use super::types::CompletionRequestBody;
use crate::{
    error::TurnError,
    model::{
        AnswerFormat, Dialect, Hints, Item, Message, ParamHandling, Part, Role, RunModes, Sampling,
        ToolChoice, TurnRequest,
    },
    wire::{
        chat::StreamOptions,
        json::{invalid, is_not, is_set, model_name, names_of, parse, token_limit, unsupported},
        lenient::{MaybeText, Object, TextOr},
        surrogates::replace_lone,
    },
};

/// Decodes the body of `POST /v1/completions`.
///
/// # Errors
/// `InvalidJson`, `InvalidValue` or `UnsupportedParameter`; all but the first name the field.
pub fn decode(body: &[u8]) -> Result<TurnRequest, TurnError> {
    let body = replace_lone(body);
    let Object(request) = parse::<Object<CompletionRequestBody<'_>>>(&body)?;
    refuse_unsupported(&request)?;
    let model = model_name(request.model.as_deref())?;
    let sampling = sampling(&request)?;
    let parts = vec![Part::Text(prompt(request.prompt)?)];
    Ok(TurnRequest {
        model,
        system: Vec::new(),
        items: vec![Item::Message(Message { role: Role::User, parts })],
        tools: Vec::new(),
        tool_choice: ToolChoice::Auto,
        parallel_tool_calls: true,
        sampling,
        dialect: Dialect::Completions,
        hints: Hints {
            stream: request.stream.unwrap_or(false),
            include_usage: StreamOptions::include_usage(request.stream_options.as_ref()),
            hides_reasoning: true,
            session: None,
            user: request.user,
            workspace: None,
            modes: RunModes::default(),
        },
    })
}

/// Entry point for fuzzing: any bytes are a request or an error, never a panic.
pub fn fuzz(data: &[u8]) {
    let _ = decode(data);
}

fn refuse_unsupported(request: &CompletionRequestBody<'_>) -> Result<(), TurnError> {
    for (name, number) in [("n", &request.n), ("best_of", &request.best_of)] {
        match number.as_ref().and_then(Number::as_f64) {
            Some(number) if number > 1.0 => {
                return Err(unsupported(
                    name.to_owned(),
                    format!(
                        "`{name}` above 1 is not supported: \
                         the backend gives one answer per request"
                    ),
                ));
            }
            Some(number) if number < 1.0 => {
                return Err(invalid(name.to_owned(), format!("`{name}` must be 1")));
            }
            _ => {}
        }
    }
    if request.echo == Some(true) {
        let text = "`echo` is not supported; put the prompt before the answer yourself";
        return Err(unsupported("echo", text));
    }
    if request.suffix.as_ref().is_some_and(|suffix| !suffix.is_empty()) {
        return Err(unsupported(
            "suffix",
            "`suffix` is not supported: a chat model cannot fill in the middle; describe the gap \
             in the prompt",
        ));
    }
    if is_set(request.logprobs, &["false"]) {
        return Err(unsupported(
            "logprobs",
            "log probabilities are not supported: the backend does not report them",
        ));
    }
    Ok(())
}

/// The one text that is asked about.
fn prompt(given: Option<TextOr<MaybeText>>) -> Result<String, TurnError> {
    let text = match given {
        None => None,
        Some(TextOr::Text(text)) => Some(text),
        Some(TextOr::List(mut list)) => {
            if list.iter().any(|MaybeText(text)| text.is_none()) {
                return Err(unsupported(
                    "prompt",
                    "a `prompt` of token numbers is not supported; send the text",
                ));
            }
            if list.len() > 1 {
                return Err(unsupported(
                    "prompt",
                    "several prompts in one request are not supported; send one request for each",
                ));
            }
            list.pop().and_then(|MaybeText(text)| text)
        }
    };
    text.filter(|text| !text.trim().is_empty())
        .ok_or_else(|| invalid("prompt", "`prompt` is missing, empty or nothing but white space"))
}

fn sampling(request: &CompletionRequestBody<'_>) -> Result<Sampling, TurnError> {
    let max_tokens = token_limit(request.max_tokens.as_ref(), "max_tokens")?;
    let stop: Vec<String> = match &request.stop {
        None => Vec::new(),
        Some(TextOr::Text(word)) => vec![word.clone()],
        Some(TextOr::List(words)) => words.clone(),
    };
    let emulated = [("max_tokens", max_tokens.is_some()), ("stop", !stop.is_empty())];
    let params = ParamHandling {
        emulated: names_of(emulated),
        ignored: ignored(request),
        ..ParamHandling::default()
    };
    Ok(Sampling { effort: None, max_tokens, stop, format: AnswerFormat::Text, params })
}

fn ignored(request: &CompletionRequestBody<'_>) -> Vec<&'static str> {
    let one = |number: &Option<Number>| is_not(number.as_ref(), 1.0);
    let zero = |number: &Option<Number>| is_not(number.as_ref(), 0.0);
    names_of([
        ("temperature", one(&request.temperature)),
        ("top_p", one(&request.top_p)),
        ("seed", is_set(request.seed, &[])),
        ("presence_penalty", zero(&request.presence_penalty)),
        ("frequency_penalty", zero(&request.frequency_penalty)),
        ("logit_bias", is_set(request.logit_bias, &["{}"])),
        ("user", request.user.as_deref().is_some_and(|user| !user.is_empty())),
        ("input", request.input.is_some()),
        ("instructions", request.instructions.is_some()),
        ("max_completion_tokens", request.max_completion_tokens.is_some()),
        ("max_output_tokens", request.max_output_tokens.is_some()),
        ("messages", request.messages.is_some()),
        ("response_format", request.response_format.is_some()),
        ("stop_sequences", request.stop_sequences.is_some()),
        ("system", request.system.is_some()),
    ])
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
