//! The bytes of a request to a [`ResponsesRequest`], or to an error that names the wrong field.
//! Unknown fields are accepted.

use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Number, value::RawValue};

use super::{
    choice,
    echo::Echo,
    input::{ResponsesConversation, WireItem},
    request::ResponsesRequest,
    sampling, stored_item,
    tools::ToolOffer,
};
use crate::{
    error::{ErrorCode, TurnError},
    history::take_marker,
    model::{Dialect, Hints, RunModes, TurnRequest},
    wire::{
        blank,
        json::{invalid, is_not, is_set, model_name, parse, unsupported},
        lenient::{Object, TextOr},
        surrogates::replace_lone,
    },
};

/// The body as it is written. What the response repeats is kept as raw JSON.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ResponsesRequestBody<'a> {
    pub(super) model: Option<String>,
    #[serde(borrow)]
    pub(super) input: Option<TextOr<&'a RawValue>>,
    #[serde(borrow)]
    pub(super) instructions: Option<TextOr<&'a RawValue>>,
    #[serde(borrow)]
    pub(super) tools: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    pub(super) tool_choice: Option<&'a RawValue>,
    pub(super) parallel_tool_calls: Option<bool>,
    #[serde(borrow)]
    pub(super) reasoning: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) text: Option<&'a RawValue>,
    pub(super) include: Option<Vec<String>>,
    pub(super) max_output_tokens: Option<Number>,
    pub(super) max_tool_calls: Option<Number>,
    #[serde(borrow)]
    pub(super) metadata: Option<&'a RawValue>,
    pub(super) stream: Option<bool>,
    pub(super) store: Option<bool>,
    pub(super) background: Option<bool>,
    pub(super) generate: Option<bool>,
    pub(super) previous_response_id: Option<String>,
    pub(super) prompt_cache_key: Option<String>,
    pub(super) safety_identifier: Option<String>,
    pub(super) user: Option<String>,
    pub(super) truncation: Option<String>,
    pub(super) temperature: Option<Number>,
    pub(super) top_p: Option<Number>,
    pub(super) presence_penalty: Option<Number>,
    pub(super) frequency_penalty: Option<Number>,
    pub(super) top_logprobs: Option<Number>,
    #[serde(borrow)]
    pub(super) service_tier: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) context_management: Option<&'a RawValue>,
    // Names of the sibling APIs, which mean nothing here. Listed to the client as well.
    pub(super) max_completion_tokens: Option<IgnoredAny>,
    pub(super) max_tokens: Option<IgnoredAny>,
    pub(super) messages: Option<IgnoredAny>,
    pub(super) reasoning_effort: Option<IgnoredAny>,
    pub(super) response_format: Option<IgnoredAny>,
    pub(super) stop: Option<IgnoredAny>,
    pub(super) stop_sequences: Option<IgnoredAny>,
    pub(super) system: Option<IgnoredAny>,
    // Refused when they ask for something.
    #[serde(borrow)]
    conversation: Option<&'a RawValue>,
    #[serde(borrow)]
    prompt: Option<&'a RawValue>,
}

/// Decodes the body of `POST /v1/responses`.
///
/// # Errors
/// `InvalidJson`, `MissingMessages`, `InvalidValue` or `UnsupportedParameter`; all but the
/// first name the field.
pub fn decode(body: &[u8]) -> Result<ResponsesRequest, TurnError> {
    let body = replace_lone(body);
    let Object(mut body) = parse::<Object<ResponsesRequestBody<'_>>>(&body)?;
    refuse_unsupported(&body)?;
    let model = model_name(body.model.as_deref())?;
    let input = body.input.take();
    let items = read_items(input.as_ref())?;
    let mut offer = ToolOffer::default();
    let tools_echo = offer.extend(body.tools.as_deref().unwrap_or_default(), "tools")?;
    for (index, (_, item)) in items.iter().enumerate().rev() {
        let path = format!("input[{index}]");
        offer.extend(&item.tools(&path)?, &format!("{path}.tools"))?;
    }
    let tool_choice = choice::decode(body.tool_choice, &offer.catalogue, &mut offer.tools)?;
    let mut instructions = instructions(&body, &offer)?;
    let (mut conversation, input) = match &input {
        Some(TextOr::Text(text)) => {
            let mut said = ResponsesConversation::default();
            said.say(text.clone());
            (said, vec![stored_item::of_text(text)])
        }
        Some(TextOr::List(_)) | None => conversation(&items, &offer)?,
    };
    let previous = body.previous_response_id.take().filter(|id| !id.is_empty());
    let generate = body.generate.unwrap_or(true);
    let says_nothing = instructions.is_empty() && conversation.is_empty();
    if (input.is_empty() || says_nothing) && previous.is_none() && generate {
        let text =
            if input.is_empty() { "`input` is missing or empty" } else { "`input` has no content" };
        return Err(TurnError::new(ErrorCode::MissingMessages, text).param("input"));
    }
    if generate && conversation.references.is_empty() {
        let last = items.iter().rposition(|(_, item)| item.role() == Some("user"));
        let param = || last.map_or("input".to_owned(), |at| format!("input[{at}].content"));
        blank::check(&conversation.items, param)?;
    }
    let mut sampling = sampling::decode(&body)?;
    let params = &mut sampling.params;
    sampling::list_tools(&body, &offer.tools, &tool_choice, params);
    params.ignored.append(&mut offer.ignored);
    params.ignored.append(&mut conversation.ignored);
    // The marker is for us; the model never sees it.
    let named = take_marker(&mut instructions);
    let session = take_marker(&mut conversation.system);
    let session = named.or(session);
    let stream = body.stream.unwrap_or(false);
    let echo = Echo::new(&model, &body, previous.as_deref(), offer.catalogue, &tools_echo);
    let count = instructions.len();
    instructions.append(&mut conversation.system);
    Ok(ResponsesRequest {
        turn: TurnRequest {
            model,
            system: instructions,
            items: conversation.items,
            tools: offer.tools,
            tool_choice,
            parallel_tool_calls: body.parallel_tool_calls.unwrap_or(true),
            sampling,
            dialect: Dialect::Responses,
            hints: Hints {
                stream,
                include_usage: true,
                hides_reasoning: false,
                session,
                user: body.user,
                workspace: None,
                modes: RunModes::default(),
            },
        },
        echo,
        previous,
        store: body.store.unwrap_or(true),
        background: body.background.unwrap_or(false),
        generate,
        input,
        references: conversation.references,
        instructions: count,
    })
}

/// Entry point for fuzzing: any bytes are a request or an error, never a panic.
pub fn fuzz(data: &[u8]) {
    let _ = decode(data);
}

fn refuse_unsupported(body: &ResponsesRequestBody<'_>) -> Result<(), TurnError> {
    const LOGPROBS: &str = "log probabilities are not supported: the backend does not report them";
    if is_set(body.conversation, &[]) {
        return Err(unsupported(
            "conversation",
            "conversation objects are not supported; use `previous_response_id`, or send the items \
             in `input`",
        ));
    }
    if is_set(body.prompt, &[]) {
        return Err(unsupported(
            "prompt",
            "prompt templates are not supported; send their text in `instructions` and `input`",
        ));
    }
    if is_not(body.top_logprobs.as_ref(), 0.0) {
        return Err(unsupported("top_logprobs", LOGPROBS));
    }
    let mut included = body.include.iter().flatten();
    if let Some(at) = included.position(|name| name == "message.output_text.logprobs") {
        return Err(unsupported(format!("include[{at}]"), LOGPROBS));
    }
    if body.metadata.is_some_and(|raw| !raw.get().starts_with('{')) {
        let text = "`metadata` must be an object";
        return Err(invalid("metadata", text));
    }
    match body.truncation.as_deref() {
        None | Some("auto" | "disabled") => Ok(()),
        Some(_) => {
            let text = "`truncation` must be auto or disabled";
            Err(invalid("truncation", text))
        }
    }
}

/// Instructions are a text, or messages of the system.
fn instructions(
    body: &ResponsesRequestBody<'_>,
    offer: &ToolOffer,
) -> Result<Vec<String>, TurnError> {
    match &body.instructions {
        None => Ok(Vec::new()),
        Some(TextOr::Text(text)) if text.is_empty() => Ok(Vec::new()),
        Some(TextOr::Text(text)) => Ok(vec![text.clone()]),
        Some(TextOr::List(items)) => {
            let mut said = ResponsesConversation::default();
            for (index, raw) in items.iter().enumerate() {
                let path = format!("instructions[{index}]");
                said.push(&WireItem::read(raw, &path)?, index, &path, &offer.catalogue)?;
            }
            if said.items.is_empty() && said.references.is_empty() {
                Ok(said.system)
            } else {
                Err(unsupported(
                    "instructions",
                    "only system and developer messages can be instructions here; \
                     send the others in `input`",
                ))
            }
        }
    }
}

fn read_items<'a>(
    input: Option<&TextOr<&'a RawValue>>,
) -> Result<Vec<(&'a RawValue, WireItem<'a>)>, TurnError> {
    match input {
        Some(TextOr::List(items)) => items
            .iter()
            .enumerate()
            .map(|(index, raw)| Ok((*raw, WireItem::read(raw, &format!("input[{index}]"))?)))
            .collect(),
        Some(TextOr::Text(_)) | None => Ok(Vec::new()),
    }
}

fn conversation(
    items: &[(&RawValue, WireItem<'_>)],
    offer: &ToolOffer,
) -> Result<(ResponsesConversation, Vec<Box<RawValue>>), TurnError> {
    let mut said = ResponsesConversation::default();
    let mut own = Vec::with_capacity(items.len());
    for (index, (raw, item)) in items.iter().enumerate() {
        said.push(item, index, &format!("input[{index}]"), &offer.catalogue)?;
        own.push(stored_item::of_item(raw, item, index));
    }
    Ok((said, own))
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
