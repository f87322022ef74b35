//! The controls that a request sets on its answer, and how each is applied.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::decode::ResponsesRequestBody;
use crate::{
    error::TurnError,
    model::{AnswerFormat, Effort, ParamHandling, Sampling, Schema, Tool, ToolChoice},
    wire::{
        json::{self, invalid, is_not, is_set, names_of, parse_at, token_limit},
        lenient::{MaybeText, Object},
    },
};

/// The one thing that `include` can ask us for.
pub(super) const ENCRYPTED_REASONING: &str = "reasoning.encrypted_content";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ReasoningField {
    effort: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct TextField<'a> {
    #[serde(borrow)]
    pub(super) format: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) verbosity: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct FormatField<'a> {
    r#type: Option<String>,
    name: Option<MaybeText>,
    #[serde(borrow)]
    schema: Option<&'a RawValue>,
}

pub(super) fn decode(body: &ResponsesRequestBody<'_>) -> Result<Sampling, TurnError> {
    let effort = effort(body.reasoning)?;
    let text = text_field(body.text)?;
    let format = format(text.format)?;
    let max_tokens = token_limit(body.max_output_tokens.as_ref(), "max_output_tokens")?;
    let mut params = ParamHandling::default();
    if effort.is_some() {
        params.native.push("reasoning.effort");
    }
    if max_tokens.is_some() {
        params.emulated.push("max_output_tokens");
    }
    if format != AnswerFormat::Text {
        params.emulated.push("text.format");
    }
    params.ignored = ignored(body, &text);
    Ok(Sampling { effort, max_tokens, stop: Vec::new(), format, params })
}

/// Lists what the client set about its tools: all of it is native.
pub(super) fn list_tools(
    body: &ResponsesRequestBody<'_>,
    tools: &[Tool],
    choice: &ToolChoice,
    params: &mut ParamHandling,
) {
    params.native.extend(names_of([
        ("tools", !tools.is_empty()),
        ("tool_choice", *choice != ToolChoice::Auto),
        ("parallel_tool_calls", body.parallel_tool_calls == Some(false)),
    ]));
}

pub(super) fn text_field(raw: Option<&RawValue>) -> Result<TextField<'_>, TurnError> {
    match raw {
        Some(raw) => parse_at::<Object<TextField<'_>>>(raw, "text").map(|Object(text)| text),
        None => Ok(TextField::default()),
    }
}

fn effort(raw: Option<&RawValue>) -> Result<Option<Effort>, TurnError> {
    let Some(raw) = raw else { return Ok(None) };
    let Object(reasoning) = parse_at::<Object<ReasoningField>>(raw, "reasoning")?;
    json::effort(reasoning.effort.as_deref(), "reasoning.effort")
}

fn format(raw: Option<&RawValue>) -> Result<AnswerFormat, TurnError> {
    let Some(raw) = raw else { return Ok(AnswerFormat::Text) };
    let Object(format) = parse_at::<Object<FormatField<'_>>>(raw, "text.format")?;
    match format.r#type.as_deref() {
        None | Some("text") => Ok(AnswerFormat::Text),
        Some("json_object") => Ok(AnswerFormat::Json),
        Some("json_schema") => match format.schema {
            Some(schema) if schema.get().starts_with('{') => Ok(AnswerFormat::Schema(Schema {
                name: format.name.and_then(|MaybeText(name)| name).unwrap_or_default(),
                text: schema.get().to_owned(),
            })),
            _ => Err(invalid(
                "text.format.schema",
                "a format of type `json_schema` needs its `schema`, an object",
            )),
        },
        Some(_) => Err(invalid(
            "text.format.type",
            "unknown `text.format`; use text, json_object or json_schema",
        )),
    }
}

/// Parameters that the client set to something other than their default, and that no backend
/// honours.
fn ignored(body: &ResponsesRequestBody<'_>, text: &TextField<'_>) -> Vec<&'static str> {
    let is_named = |name: &Option<String>| name.as_deref().is_some_and(|name| !name.is_empty());
    let mut included = body.include.iter().flatten();
    names_of([
        ("temperature", is_not(body.temperature.as_ref(), 1.0)),
        ("top_p", is_not(body.top_p.as_ref(), 1.0)),
        ("presence_penalty", is_not(body.presence_penalty.as_ref(), 0.0)),
        ("frequency_penalty", is_not(body.frequency_penalty.as_ref(), 0.0)),
        ("text.verbosity", is_set(text.verbosity, &["\"medium\""])),
        ("truncation", body.truncation.as_deref() == Some("auto")),
        ("service_tier", is_set(body.service_tier, &["\"auto\"", "\"default\""])),
        ("context_management", is_set(body.context_management, &["[]"])),
        ("include", included.any(|name| name != ENCRYPTED_REASONING)),
        ("user", is_named(&body.user)),
        ("safety_identifier", is_named(&body.safety_identifier)),
        ("max_tool_calls", body.max_tool_calls.is_some()),
        ("max_completion_tokens", body.max_completion_tokens.is_some()),
        ("max_tokens", body.max_tokens.is_some()),
        ("messages", body.messages.is_some()),
        ("reasoning_effort", body.reasoning_effort.is_some()),
        ("response_format", body.response_format.is_some()),
        ("stop", body.stop.is_some()),
        ("stop_sequences", body.stop_sequences.is_some()),
        ("system", body.system.is_some()),
    ])
}
