//! The bytes of a chat request to a [`TurnRequest`], or to an error that names the
//! field at fault. Unknown fields are accepted.

use serde_json::value::RawValue;

use super::{
    choice, controls,
    messages::ChatConversation,
    types::{self, ChatRequestBody, StreamOptions},
};
use crate::{
    error::{ErrorCode, TurnError},
    history::take_marker,
    model::{Dialect, Hints, RunModes, Tool, TurnRequest},
    wire::{
        blank, freeform,
        json::{check_tools, invalid, is_not, is_set, model_name, parse, required, unsupported},
        lenient::Object,
        surrogates::replace_lone,
    },
};

/// A decoded request, and what only its reply needs.
#[derive(Clone, Debug)]
pub struct ChatRequest {
    pub turn: TurnRequest,
    /// The names of its custom tools, which are called with raw text.
    pub custom: Vec<String>,
}

/// Decodes the body of `POST /v1/chat/completions` without what only its reply needs.
///
/// # Errors
/// As [`decode_request`].
pub fn decode(body: &[u8]) -> Result<TurnRequest, TurnError> {
    decode_request(body).map(|request| request.turn)
}

/// Decodes the body of `POST /v1/chat/completions`.
///
/// # Errors
/// `InvalidJson`, `MissingMessages`, `InvalidValue` or `UnsupportedParameter`; all
/// but the first name the field.
pub fn decode_request(body: &[u8]) -> Result<ChatRequest, TurnError> {
    let body = replace_lone(body);
    let Object(request) = parse::<Object<ChatRequestBody<'_>>>(&body)?;
    refuse_unsupported(&request)?;
    let model = model_name(request.model.as_deref())?;
    let mut sampling = controls::decode(&request)?;
    let Some(messages) = request.messages.filter(|messages| !messages.is_empty()) else {
        return Err(TurnError::new(ErrorCode::MissingMessages, "`messages` is missing or empty")
            .param("messages"));
    };
    let mut conversation = ChatConversation::default();
    let mut last_user = 0;
    for (index, Object(message)) in messages.into_iter().enumerate() {
        if message.role.as_deref() == Some("user") {
            last_user = index;
        }
        conversation.push(index, message)?;
    }
    blank::check(&conversation.items, || format!("messages[{last_user}].content"))?;
    let (mut tools, custom) =
        tools(request.tools.unwrap_or_default(), &mut sampling.params.ignored)?;
    let tool_choice = choice::decode(request.tool_choice, &mut tools)?;
    let parallel_tool_calls = request.parallel_tool_calls.unwrap_or(true);
    let params = &mut sampling.params;
    controls::note_tools(params, !tools.is_empty(), &tool_choice, parallel_tool_calls);
    // The marker is for us; the model never sees it.
    let session = take_marker(&mut conversation.system);
    let turn = TurnRequest {
        model,
        system: conversation.system,
        items: conversation.items,
        tools,
        tool_choice,
        parallel_tool_calls,
        sampling,
        dialect: Dialect::Chat,
        hints: Hints {
            stream: request.stream.unwrap_or(false),
            include_usage: StreamOptions::include_usage(request.stream_options.as_ref()),
            hides_reasoning: false,
            session,
            user: request.user,
            workspace: None,
            modes: RunModes::default(),
        },
    };
    Ok(ChatRequest { turn, custom })
}

/// Entry point for fuzzing: any bytes are a request or an error, never a panic.
pub fn fuzz(data: &[u8]) {
    let _ = decode(data);
}

fn refuse_unsupported(request: &ChatRequestBody<'_>) -> Result<(), TurnError> {
    if let Some(n) = &request.n {
        match n.as_f64() {
            Some(n) if n > 1.0 => {
                return Err(unsupported(
                    "n",
                    "`n` above 1 is not supported: the backend gives one answer per request",
                ));
            }
            Some(n) if n < 1.0 => {
                return Err(invalid("n", "`n` must be 1"));
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
        return Err(unsupported("audio", "audio is not supported"));
    }
    if is_set(request.functions, &["[]"]) {
        return Err(unsupported(
            "functions",
            "`functions` is not supported; use `tools` with `type: \"function\"`",
        ));
    }
    if is_set(request.function_call, &["\"auto\"", "\"none\""]) {
        return Err(unsupported(
            "function_call",
            "`function_call` is not supported; use `tool_choice`",
        ));
    }
    Ok(())
}

/// The tools, and the names of those among them that are custom.
fn tools(
    given: Vec<Object<types::ChatTool>>,
    ignored: &mut Vec<&'static str>,
) -> Result<(Vec<Tool>, Vec<String>), TurnError> {
    check_tools(given.len())?;
    let mut tools = Vec::with_capacity(given.len());
    let mut custom = Vec::new();
    for (index, Object(tool)) in given.into_iter().enumerate() {
        let path = format!("tools[{index}]");
        match tool.r#type.as_deref() {
            None | Some("function") => tools.push(function(tool.function, &path)?),
            Some("custom") => {
                let tool = custom_tool(tool.custom, &path)?;
                custom.push(tool.name.clone());
                tools.push(tool);
            }
            // Clients offer vendor tools (`web_search`) by habit: leaving one out and saying so
            // is kinder than failing the whole request.
            Some(_) => {
                if !ignored.contains(&"tools.type") {
                    ignored.push("tools.type");
                }
            }
        }
    }
    Ok((tools, custom))
}

fn function(given: Option<Object<types::Function>>, path: &str) -> Result<Tool, TurnError> {
    let path = format!("{path}.function");
    let Some(Object(function)) = given else {
        return Err(invalid(path, "a tool needs its `function`"));
    };
    let name = required(function.name, &path, "name", "a function needs a `name`")?;
    if function.parameters.as_ref().is_some_and(|schema| !schema.get().starts_with('{')) {
        return Err(invalid(
            format!("{path}.parameters"),
            "the parameters of a function must be a JSON Schema object",
        ));
    }
    let description = function.description.unwrap_or_default();
    Ok(Tool { name, description, schema: function.parameters })
}

/// A custom tool becomes a function of one string, which is all that the backend knows.
fn custom_tool(given: Option<Object<types::Custom>>, path: &str) -> Result<Tool, TurnError> {
    let path = format!("{path}.custom");
    let Some(Object(custom)) = given else {
        return Err(invalid(path, "a custom tool needs its `custom`"));
    };
    let name = required(custom.name, &path, "name", "a custom tool needs a `name`")?;
    let format = custom.format.map(|Object(format)| format).unwrap_or_default();
    let grammar = format.grammar.map(|Object(grammar)| grammar).unwrap_or_default();
    let format = freeform::FreeformFormat {
        kind: format.r#type.as_deref(),
        syntax: grammar.syntax.as_deref(),
        definition: grammar.definition.as_deref(),
    };
    let description = freeform::describe(custom.description.unwrap_or_default(), &format);
    let schema = RawValue::from_string(freeform::SCHEMA.to_owned()).ok();
    Ok(Tool { name, description, schema })
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
