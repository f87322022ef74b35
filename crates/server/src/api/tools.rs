//! `GET /v1/tools`: the tools of the user's MCP servers.

use axum::{Json, extract::State};
use serde::Serialize;

use super::{Ctx, GatewayService};
use crate::mcp::bridge::ListedTool;

/// Tools, and how many servers are connected.
#[derive(Clone, Debug, Default)]
pub struct ToolList {
    pub servers: usize,
    pub data: Vec<ListedTool>,
}

#[derive(Serialize)]
pub(super) struct ToolListReply {
    object: &'static str,
    data: Vec<ListedTool>,
    mcp: ToolCounts,
}

#[derive(Serialize)]
struct ToolCounts {
    servers: usize,
    tools: usize,
}

pub(super) async fn list<S: GatewayService>(State(shared): Ctx<S>) -> Json<ToolListReply> {
    let ToolList { servers, data } = shared.service.tools();
    Json(ToolListReply { object: "list", mcp: ToolCounts { servers, tools: data.len() }, data })
}
