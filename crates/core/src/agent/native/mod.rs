//! stub
use crate::model::{Tool, ToolResult};
use ibeam_proto::agent::{
    McpResult, McpSuccess, McpTextContent, McpToolResultContentItem,
    exec_client_message::Message as Reply, mcp_result, mcp_tool_result_content_item,
};
#[derive(Clone, Debug, Default)]
pub(super) struct Equipment;
impl Equipment {
    pub(super) fn of(_tools: &[Tool]) -> Self {
        Self
    }
}
#[derive(Clone, Debug)]
pub(super) struct Back;
fn mcp(text: String, is_error: bool) -> Vec<Reply> {
    vec![Reply::McpResult(McpResult {
        result: Some(mcp_result::Result::Success(McpSuccess {
            content: vec![McpToolResultContentItem {
                content: Some(mcp_tool_result_content_item::Content::Text(McpTextContent {
                    text,
                    output_location: None,
                })),
            }],
            is_error,
        })),
    })]
}
impl Back {
    pub(super) fn replies(&self, result: &ToolResult) -> Vec<Reply> {
        mcp(result.text(), result.is_error)
    }
    pub(super) fn unanswered(&self, why: &str) -> Vec<Reply> {
        mcp(why.to_owned(), true)
    }
    pub(super) fn is_mcp(&self) -> bool {
        true
    }
}
