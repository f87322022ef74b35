//! Parts of client messages.

use bytes::Bytes;
use ibeam_proto::agent::{
    AgentRunRequest, ConversationAction, McpResult, McpSuccess, McpTextContent,
    McpToolResultContentItem, RequestedModelModelParameter, UserMessage, conversation_action,
    mcp_result, mcp_tool_result_content_item,
};

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
