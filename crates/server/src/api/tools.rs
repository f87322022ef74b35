//! `GET /v1/tools`: the tools of the user's MCP servers.

use axum::{Json, extract::State};
use serde::Serialize;

use super::{Ctx, Service};
use crate::mcp::bridge::ListedTool;

/// Tools, and how many servers are connected.
#[derive(Clone, Debug, Default)]
pub struct ToolList {
    pub servers: usize,
    pub data: Vec<ListedTool>,
}

#[derive(Serialize)]
pub(super) struct List {
    object: &'static str,
    data: Vec<ListedTool>,
    mcp: Counts,
}

#[derive(Serialize)]
struct Counts {
    servers: usize,
    tools: usize,
}

pub(super) async fn list<S: Service>(State(shared): Ctx<S>) -> Json<List> {
    let ToolList { servers, data } = shared.service.tools();
    Json(List { object: "list", mcp: Counts { servers, tools: data.len() }, data })
}
