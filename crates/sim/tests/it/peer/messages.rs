//! Parts of client messages.

use bytes::Bytes;
use ibeam_proto::agent::{
    AgentClientMessage, AgentRunRequest, AgentServerMessage, ConversationAction,
    ExecClientControlMessage, ExecClientMessage, ExecClientStreamClose, McpApproved, McpRejected,
    McpResult, McpStateExecResult, McpStateServer, McpStateSuccess, McpSuccess, McpTextContent,
    McpToolDefinition, McpToolResultContentItem, RequestedModelModelParameter, ShellResult,
    UserMessage, agent_client_message::Message as ToServer, agent_server_message::Message,
    conversation_action, exec_client_control_message, exec_client_message,
    exec_server_message::Message as Exec, mcp_result, mcp_state_exec_result,
    mcp_tool_result_content_item,
};
use prost::Message as _;

/// A request that resumes.
pub(crate) fn resume(mut request: AgentRunRequest) -> AgentRunRequest {
    let action = ibeam_proto::agent::ResumeAction::default();
    request.action = Some(ConversationAction {
        action: Some(conversation_action::Action::ResumeAction(action)),
    });
    request
}

/// An encoded client message with an answer under any arm; fields up to 15 and from 16.
pub(crate) fn approval(id: u32, arm: u32, payload: &[u8]) -> Bytes {
    let mut inner = vec![8, u8::try_from(id).unwrap()];
    prost::encoding::encode_varint(u64::from(arm) << 3 | 2, &mut inner);
    inner.push(u8::try_from(payload.len()).unwrap());
    inner.extend_from_slice(payload);
    let mut out = vec![0x32, u8::try_from(inner.len()).unwrap()];
    out.extend(inner);
    out.into()
}

/// The user message inside a request.
pub(crate) fn user_message(request: &mut AgentRunRequest) -> &mut UserMessage {
    let action = request.action.as_mut().and_then(|action| action.action.as_mut());
    let Some(conversation_action::Action::UserMessageAction(action)) = action else {
        panic!("no user message")
    };
    action.user_message.as_mut().unwrap()
}

pub(crate) fn parameter(id: &str, value: &str) -> RequestedModelModelParameter {
    RequestedModelModelParameter { id: id.to_owned(), value: value.to_owned() }
}

pub(crate) fn mcp_text(text: &str) -> McpResult {
    let text = McpTextContent { text: text.to_owned(), output_location: None };
    let content = Some(mcp_tool_result_content_item::Content::Text(text));
    McpResult {
        result: Some(mcp_result::Result::Success(McpSuccess {
            content: vec![McpToolResultContentItem { content }],
            is_error: false,
        })),
    }
}

/// The state of a client's only MCP server.
pub(super) fn mcp_state(tools: &[McpToolDefinition]) -> McpStateExecResult {
    let server = McpStateServer {
        server_name: "peer".to_owned(),
        server_identifier: "peer".to_owned(),
        tools: tools.to_vec(),
        status: Some("connected".to_owned()),
        ..McpStateServer::default()
    };
    let success = McpStateSuccess { servers: vec![server] };
    McpStateExecResult { result: Some(mcp_state_exec_result::Result::Success(success)) }
}

pub(super) fn approval_result(approves: bool) -> McpResult {
    let rejected = McpRejected { reason: "no".to_owned(), ..McpRejected::default() };
    let result = match approves {
        true => mcp_result::Result::Approved(McpApproved {}),
        false => mcp_result::Result::Rejected(rejected),
    };
    McpResult { result: Some(result) }
}

/// What closes a shell after its stream.
pub(super) fn shell_end(asked: &Bytes, closes: bool) -> Vec<Bytes> {
    let message = AgentServerMessage::decode(asked.clone()).unwrap().message;
    let Some(Message::ExecServerMessage(exec)) = message else { return Vec::new() };
    if !closes || !matches!(exec.message, Some(Exec::ShellStreamArgs(_))) {
        return Vec::new();
    }
    let result = exec_client_message::Message::ShellResult(ShellResult::default());
    let result = ToServer::ExecClientMessage(ExecClientMessage {
        id: exec.id,
        exec_id: exec.exec_id,
        message: Some(result),
        ..ExecClientMessage::default()
    });
    let close = ExecClientStreamClose { id: exec.id };
    let close = ToServer::ExecClientControlMessage(ExecClientControlMessage {
        message: Some(exec_client_control_message::Message::StreamClose(close)),
    });
    [result, close]
        .map(|message| AgentClientMessage { message: Some(message) }.encode_to_vec().into())
        .into()
}
