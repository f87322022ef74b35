//! What a room says to MCP's requests.

use std::{sync::Arc, time::Duration};

use ibeam_core::child::SERVER_NAME;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
        ListToolsResult, PaginatedRequestParams, ProgressNotificationParam, ProgressToken,
        ServerCapabilities, ServerConfig,
    },
    service::RequestContext,
};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::{
    room::{CALLS, Call, Inside, Refused},
    tools,
};

/// How often a caller that wants to know hears that its call still waits.
pub(super) const PROGRESS: Duration = Duration::from_secs(5);

/// Marks an HTTP request whose answer has to be one piece of JSON: no progress, then.
#[derive(Clone, Copy, Debug)]
pub(super) struct OnePiece;

/// One MCP server: of a session, or of a single request.
#[derive(Clone)]
pub(super) struct Offer(pub(super) Arc<Inside>);

impl ServerHandler for Offer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new(SERVER_NAME, env!("CARGO_PKG_VERSION")))
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.0.note_seen();
        Ok(ListToolsResult::with_all_items(self.0.tools().to_vec()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let name = request.name.into_owned();
        if !self.0.offers(&name) {
            return Err(ErrorData::invalid_params(format!("unknown tool: {name}"), None));
        }
        let arguments = serde_json::to_string(&request.arguments.unwrap_or_default())
            .map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        let taken = tokio::select! {
            taken = self.0.begin(name, arguments) => taken,
            () = context.ct.cancelled() => return Err(taken_back()),
        };
        match taken {
            Ok(call) => wait(call, &context).await.map(Into::into),
            // The model can read this one, and try again.
            Err(Refused::Full) => {
                let text = format!("{CALLS} calls wait already; call this tool again later");
                Ok(CallToolResult::error(vec![ContentBlock::text(text)]).into())
            }
            Err(Refused::Closed) => Err(over()),
        }
    }
}

/// Waits for the answer, however long it takes.
async fn wait(
    mut call: Call,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResult, ErrorData> {
    let began = Instant::now();
    let token = progress_token(context);
    let mut ticks = interval_at(began + PROGRESS, PROGRESS);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            answer = call.answered() => return answer.map(tools::result).ok_or_else(over),
            () = context.ct.cancelled() => return Err(taken_back()),
            _ = ticks.tick(), if token.is_some() => {}
        }
        let Some(token) = token.clone() else { continue };
        let progress = ProgressNotificationParam::new(token, began.elapsed().as_secs_f64())
            .with_message("waiting for the result");
        tokio::select! {
            // A caller that does not read has to hear of its answer first of all.
            biased;
            answer = call.answered() => return answer.map(tools::result).ok_or_else(over),
            () = context.ct.cancelled() => return Err(taken_back()),
            // If it cannot be told, its connection is gone; it may come back on another.
            _told = context.peer.notify_progress(progress) => {}
        }
    }
}

fn progress_token(context: &RequestContext<RoleServer>) -> Option<ProgressToken> {
    let parts = context.extensions.get::<http::request::Parts>();
    let one_piece = parts.is_some_and(|parts| parts.extensions.get::<OnePiece>().is_some());
    context.meta.get_progress_token().filter(|_| !one_piece)
}

/// Nobody reads it: it only ends the handler.
fn taken_back() -> ErrorData {
    ErrorData::internal_error("the call was taken back", None)
}

fn over() -> ErrorData {
    ErrorData::internal_error("the conversation that offered this tool is over", None)
}
