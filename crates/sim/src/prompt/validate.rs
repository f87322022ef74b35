//! Requests that the service refuses, with its own error messages.

use ibeam_core::codec::connect::{Code, ConnectError};
use ibeam_proto::agent::{
    AgentRunRequest, McpToolDefinition, RequestContext, conversation_action::Action,
};
use serde_json::Value;

use crate::{
    behaviour::{Behaviour, SystemField},
    models::{self, SimModel},
    protobuf::value_from_proto,
    scenario::{Quirk, Quirks},
};

/// Checks a run request.
///
/// # Errors
/// What the service would answer in the end frame.
pub(crate) fn request(
    request: &AgentRunRequest,
    quirks: &Quirks,
    behaviour: &Behaviour,
) -> Result<&'static SimModel, ConnectError> {
    let invalid = |message: &str| Err(ConnectError::new(Code::InvalidArgument, message));
    match &request.conversation_state {
        None if behaviour.state_required => return invalid("Conversation state is required"),
        Some(state) if behaviour.state_tz_pair => {
            let zone = state.conversation_started_time_zone.is_some();
            if state.conversation_started_timestamp_ms.is_some() != zone {
                return invalid(
                    "conversation_started_timestamp_ms and conversation_started_time_zone must be \
                     set together",
                );
            }
        }
        None | Some(_) => {}
    }
    let refused = |field| field == SystemField::Refuse;
    if request.custom_system_prompt.is_some()
        && refused(behaviour.system_custom8)
        && !quirks.has(Quirk::CustomPromptOk)
    {
        return invalid("unknown option '--system-prompt'");
    }
    if request.system_prompt_spec.is_some() && refused(behaviour.system_spec29) {
        return invalid("System prompt specification is not allowed");
    }
    // Row 17.
    if request.exclude_workspace_context == Some(true) && !quirks.has(Quirk::WorkspaceExclusionOk) {
        return invalid("Workspace context exclusion is not allowed for this account");
    }
    let Some(action) = request.action.as_ref().and_then(|action| action.action.as_ref()) else {
        return invalid("Action is required");
    };
    let model = models::judge(model_id(request), is_variant(request), quirks)?;
    if let Some(mcp) = &request.mcp_tools {
        tools(&mcp.mcp_tools, quirks)?;
    }
    if let Some(inline) = inline_context(action) {
        context(inline, quirks)?;
    }
    Ok(model)
}

/// The model of a request, from the newer field or the older one.
pub(crate) fn model_id(request: &AgentRunRequest) -> &str {
    match (&request.requested_model, &request.model_details) {
        (Some(model), _) if !model.model_id.is_empty() => &model.model_id,
        (_, Some(model)) => &model.model_id,
        _ => "",
    }
}

/// Whether that id is a bracketed variant string.
pub(crate) fn is_variant(request: &AgentRunRequest) -> bool {
    let model = request.requested_model.as_ref();
    model.is_some_and(|model| model.is_variant_string_representation == Some(true))
}

/// The request context inside an action.
pub(crate) fn inline_context(action: &Action) -> Option<&RequestContext> {
    match action {
        Action::UserMessageAction(action) => action.request_context.as_ref(),
        Action::ResumeAction(action) => action.request_context.as_ref(),
        Action::StartPlanAction(action) => action.request_context.as_ref(),
        Action::ExecutePlanAction(action) => action.request_context.as_ref(),
        _ => None,
    }
}

/// Checks a request context, inline or asked for.
///
/// # Errors
/// A tool schema is malformed.
pub(crate) fn context(context: &RequestContext, quirks: &Quirks) -> Result<(), ConnectError> {
    tools(&context.tools, quirks)
}

fn tools(tools: &[McpToolDefinition], quirks: &Quirks) -> Result<(), ConnectError> {
    if quirks.has(Quirk::RawStructOk) {
        return Ok(());
    }
    let bad = |tool: &McpToolDefinition| {
        !tool.input_schema.is_empty()
            && !matches!(value_from_proto(&tool.input_schema), Some(Value::Object(_)))
    };
    match tools.iter().find(|tool| bad(tool)) {
        // Row 19: the message does not say which tool.
        Some(_) => {
            Err(ConnectError::new(Code::InvalidArgument, "parse binary: invalid end group tag"))
        }
        None => Ok(()),
    }
}

/// Row 15: whether providers accept the id of a tool call in the history.
#[must_use]
pub(crate) fn good_call_id(id: &str) -> bool {
    (1..=64).contains(&id.len())
        && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

#[cfg(test)]
#[path = "validate_tests.rs"]
mod tests;
