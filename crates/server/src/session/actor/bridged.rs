//! The execution of bridged tools, those of the user's MCP servers. [`Leg`](ibeam_core::leg::Leg)
//! decides about their calls and results.

use std::{pin::Pin, sync::Arc};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use ibeam_core::{
    error::{ErrorCode, TurnError},
    model::{ToolCall, ToolResult},
    turn::TurnState,
};
use tracing::debug;

use super::Task;
use crate::{
    driver::LinkPeer,
    mcp::bridge::{OfferedTools, ToolOutput},
    session::{
        hub::millis_since,
        visit::{Resume, Visit},
    },
};

type Execution = Pin<Box<dyn Future<Output = ToolResult> + Send>>;

/// What a turn needs to execute tools.
#[derive(Debug)]
pub(crate) struct Bridged {
    offer: Arc<OfferedTools>,
    running: FuturesUnordered<Execution>,
    /// The request that brings the client's results, while it waits for ours.
    waiting: Option<Box<Resume>>,
}

impl Bridged {
    pub(crate) fn new(offer: OfferedTools) -> Self {
        Self { offer: Arc::new(offer), running: FuturesUnordered::new(), waiting: None }
    }

    /// The next result. Never, while nothing runs.
    pub(super) async fn next(&mut self) -> ToolResult {
        match self.running.next().await {
            Some(result) => result,
            None => std::future::pending().await,
        }
    }
}

impl<W: LinkPeer> Task<W> {
    pub(super) fn execute(&mut self, calls: Vec<ToolCall>) {
        let Some(bridged) = &mut self.bridged else { return };
        for ToolCall { id, name, arguments } in calls {
            let offer = Arc::clone(&bridged.offer);
            bridged.running.push(Box::pin(async move {
                let ToolOutput { content, is_error } = offer.call(&name, &arguments).await;
                ToolResult { call_id: id, content, is_error }
            }));
        }
        self.continue_leg();
    }

    pub(super) fn on_bridged(&mut self, result: ToolResult) {
        let Some(bridged) = &mut self.bridged else { return };
        if self.leg.turn().state() == TurnState::Done {
            // The turn that wanted the results is gone.
            bridged.running.clear();
            return;
        }
        self.leg.on_tool_result(result);
        if self.leg.is_executing() {
            return;
        }
        match bridged.waiting.take() {
            Some(resume) => self.on_visit(Visit::Resume(resume)),
            None => self.continue_leg(),
        }
    }

    /// Sends the results to the backend, once the leg waits for no others.
    fn continue_leg(&mut self) {
        if self.leg.is_working() && !self.leg.is_executing() {
            let (bytes, now) = (self.leg.turn().memory(), millis_since(self.started));
            self.hub.large_work.in_place(bytes, || self.leg.continue_with_results(now));
        }
    }

    /// Keeps a request that brings results until ours are there. Returns it when none are awaited.
    pub(super) fn hold_back(&mut self, resume: Resume) -> Option<Resume> {
        let waits = self.leg.is_executing() && self.parked.is_some();
        let Some(bridged) = self.bridged.as_mut().filter(|_| waits) else { return Some(resume) };
        debug!(running = bridged.running.len(), "the client was faster than our tools");
        bridged.waiting.replace(Box::new(resume)).map(|earlier| *earlier)
    }

    /// Why the turn ended before its leg did.
    pub(super) fn unended(&self) -> TurnError {
        if !self.leg.is_working() {
            let text = "The turn stopped without a final event. This is a bug in ibeam.";
            return TurnError::new(ErrorCode::Internal, text);
        }
        let (code, text) = if self.hub.stop.is_cancelled() {
            let text = "ibeam is shutting down. Send the request again once it is back.";
            (ErrorCode::Unavailable, text)
        } else if self.audience.abandoned.is_some() {
            (ErrorCode::Cancelled, "The client disconnected.")
        } else {
            let text = "Cursor closed the run while a tool of an MCP server was running.";
            (ErrorCode::UpstreamClosed, text)
        };
        TurnError::new(code, text)
    }
}
