//! The controls of a chat request: how hard to think, how long to be, where to stop, what
//! shape to have. And what becomes of each parameter that the client set.

use serde_json::Number;

use super::types::{ChatJsonSchema, ChatRequestBody, ResponseFormat};
use crate::{
    error::TurnError,
    model::{AnswerFormat, ParamHandling, Sampling, Schema, ToolChoice},
    wire::{
        json::{effort, invalid, is_not, is_set, names_of, token_limit, unsupported},
        lenient::{Object, TextOr},
    },
};

pub(super) fn decode(request: &ChatRequestBody<'_>) -> Result<Sampling, TurnError> {
    let stop: Vec<String> = match &request.stop {
        None => Vec::new(),
        Some(TextOr::Text(word)) => vec![word.clone()],
        Some(TextOr::List(words)) => words.clone(),
    };
    // Both are checked; the smaller one counts.
    let older = token_limit(request.max_tokens.as_ref(), "max_tokens")?;
    let newer = token_limit(request.max_completion_tokens.as_ref(), "max_completion_tokens")?;
    let mut sampling = Sampling {
        effort: effort(request.reasoning_effort.as_deref(), "reasoning_effort")?,
        max_tokens: older.into_iter().chain(newer).min(),
        stop: stop.into_iter().filter(|word| !word.is_empty()).collect(),
        format: format(request.response_format.as_ref())?,
        params: ParamHandling { ignored: ignored(request), ..ParamHandling::default() },
    };
    if sampling.effort.is_some() {
        sampling.params.native.push("reasoning_effort");
    }
    sampling.params.emulated = names_of([
        ("max_tokens", request.max_tokens.is_some()),
        ("max_completion_tokens", request.max_completion_tokens.is_some()),
        ("stop", !sampling.stop.is_empty()),
        ("response_format", sampling.format != AnswerFormat::Text),
    ]);
    Ok(sampling)
}

/// Lists the client's parameters about tools.
pub(super) fn note_tools(
    params: &mut ParamHandling,
    tools: bool,
    choice: &ToolChoice,
    parallel: bool,
) {
    params.native.extend(names_of([
        ("tools", tools),
        ("tool_choice", *choice != ToolChoice::Auto),
        ("parallel_tool_calls", !parallel),
    ]));
}

fn format(given: Option<&Object<ResponseFormat>>) -> Result<AnswerFormat, TurnError> {
    let Some(Object(given)) = given else { return Ok(AnswerFormat::Text) };
    match given.r#type.as_deref() {
        None | Some("text") => Ok(AnswerFormat::Text),
        Some("json_object") => Ok(AnswerFormat::Json),
        Some("json_schema") => match &given.json_schema {
            Some(Object(ChatJsonSchema { name, schema: Some(schema) })) => {
                let name = name.clone().filter(|name| !name.is_empty());
                Ok(AnswerFormat::Schema(Schema {
                    name: name.unwrap_or_else(|| "answer".to_owned()),
                    text: schema.get().to_owned(),
                }))
            }
            Some(Object(ChatJsonSchema { schema: None, .. })) | None => Err(invalid(
                "response_format.json_schema.schema",
                "a `response_format` of the type `json_schema` needs its `json_schema.schema`",
            )),
        },
        Some(_) => Err(unsupported(
            "response_format.type",
            "the type of a `response_format` must be text, json_object or json_schema",
        )),
    }
}

/// Parameters that the client set to something other than their default, and that
/// no backend honours.
fn ignored(request: &ChatRequestBody<'_>) -> Vec<&'static str> {
    let one = |number: &Option<Number>| is_not(number.as_ref(), 1.0);
    let zero = |number: &Option<Number>| is_not(number.as_ref(), 0.0);
    names_of([
        ("temperature", one(&request.temperature)),
        ("top_p", one(&request.top_p)),
        ("top_k", is_set(request.top_k, &[])),
        ("seed", is_set(request.seed, &[])),
        ("presence_penalty", zero(&request.presence_penalty)),
        ("frequency_penalty", zero(&request.frequency_penalty)),
        ("logit_bias", is_set(request.logit_bias, &["{}"])),
        ("user", request.user.as_deref().is_some_and(|user| !user.is_empty())),
        ("store", is_set(request.store, &["false"])),
        ("metadata", is_set(request.metadata, &["{}"])),
        ("service_tier", is_set(request.service_tier, &["\"auto\"", "\"default\""])),
        ("verbosity", is_set(request.verbosity, &["\"medium\""])),
        ("prediction", is_set(request.prediction, &[])),
        ("web_search_options", is_set(request.web_search_options, &[])),
        ("prompt_cache_key", is_set(request.prompt_cache_key, &["\"\""])),
        ("safety_identifier", is_set(request.safety_identifier, &["\"\""])),
        // Whatever else it says is refused.
        ("function_call", request.function_call.is_some()),
        ("input", request.input.is_some()),
        ("instructions", request.instructions.is_some()),
        ("max_output_tokens", request.max_output_tokens.is_some()),
        ("stop_sequences", request.stop_sequences.is_some()),
        ("system", request.system.is_some()),
        ("text", request.text.is_some()),
    ])
}
