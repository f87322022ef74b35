//! Tools that the gateway executes itself: those of the user's MCP servers. The client does
//! not see their calls. When a model calls nothing else, the answer goes on in the same leg
//! once the results are there; when it also calls tools of the client, both sorts of results
//! go back together.

use std::{pin::Pin, sync::Arc};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use ibeam_core::{
    error::{ErrorCode, TurnError},
    history,
    model::{
        FinishReason, Item, Message, Part, Role, ToolCall, ToolChoice, ToolResult, TurnEvent,
        TurnRequest, Usage,
    },
    turn::Phase,
};
use tracing::debug;

use super::Task;
use crate::{
    mcp::bridge::{Offer, Output},
    session::{
        hub::millis_since,
        visit::{Resume, Visit},
    },
};

/// Calls that one turn may execute.
const MOST: usize = 50;

type Call = Pin<Box<dyn Future<Output = ToolResult> + Send>>;

/// What a turn has to know to execute tools.
#[derive(Debug)]
pub(crate) struct Bridged {
    offer: Arc<Offer>,
    /// The leg that the rest is about.
    leg: u32,
    /// What the leg answers, and what was executed for it.
    request: Box<TurnRequest>,
    /// The request of the next leg, while it is not certain that there is one.
    next: Option<Box<TurnRequest>>,
    started: bool,
    /// Tokens of the parts of the leg that ended with executed calls.
    before: Option<Usage>,
    executed: usize,
    /// The model was told that it has had enough.
    warned: bool,

    // The present part of the leg.
    said: String,
    usage: Option<Usage>,
    calls: Vec<ToolCall>,
    /// The client has calls to answer, too.
    shared: bool,
    running: FuturesUnordered<Call>,
    results: Vec<ToolResult>,
    /// Brings the client's results, and waits for ours.
    waiting: Option<Box<Resume>>,
}

impl Bridged {
    pub(crate) fn new(offer: Offer, request: &TurnRequest) -> Self {
        Self {
            offer: Arc::new(offer),
            leg: 0,
            request: Box::new(request.clone()),
            next: None,
            started: false,
            before: None,
            executed: 0,
            warned: false,
            said: String::new(),
            usage: None,
            calls: Vec::new(),
            shared: false,
            running: FuturesUnordered::new(),
            results: Vec::new(),
            waiting: None,
        }
    }

    /// The next result. Never, while nothing runs.
    pub(super) async fn next(&mut self) -> ToolResult {
        match self.running.next().await {
            Some(result) => result,
            None => std::future::pending().await,
        }
    }

    fn enter_leg(&mut self, leg: u32) {
        if self.leg == leg {
            return;
        }
        self.leg = leg;
        (self.started, self.before) = (false, None);
        if let Some(request) = self.next.take() {
            self.request = request;
        }
        self.enter_part();
    }

    fn enter_part(&mut self) {
        self.said.clear();
        self.calls.clear();
        self.results.clear();
        (self.usage, self.shared) = (None, false);
    }

    fn call(&mut self, id: &str) -> Option<&mut ToolCall> {
        self.calls.iter_mut().find(|call| call.id == id)
    }

    /// Whether the leg waits for tools that we execute.
    fn is_working(&self) -> bool {
        !self.calls.is_empty() && !self.shared
    }

    /// Begins to execute the calls of the part.
    fn execute(&mut self) {
        for call in &self.calls {
            if self.executed >= MOST {
                self.warned = true;
                let text = format!(
                    "Not called: one turn may call {MOST} tools of MCP servers. Answer with what \
                     you have."
                );
                self.results.push(result(&call.id, Output::error(text)));
                continue;
            }
            self.executed += 1;
            let (offer, call) = (Arc::clone(&self.offer), call.clone());
            self.running.push(Box::pin(async move {
                result(&call.id, offer.call(&call.name, &call.arguments).await)
            }));
        }
    }

    /// The request as a client would send it that had executed the tools itself.
    fn with_results(&mut self) -> TurnRequest {
        let results = self.results.drain(..).map(Item::ToolResult);
        // Who tells nothing of the past gets nothing told of it.
        if history::split(&self.request.items) == 0 {
            let items = results.collect();
            return TurnRequest { items, ..without_items(&self.request) };
        }
        let said = (!self.said.trim().is_empty()).then(|| {
            let parts = vec![Part::Text(self.said.clone())];
            Item::Message(Message { role: Role::Assistant, parts })
        });
        let calls = self.calls.drain(..).map(Item::ToolCall);
        self.request.items.extend(said.into_iter().chain(calls).chain(results));
        TurnRequest::clone(&self.request)
    }
}

fn without_items(request: &TurnRequest) -> TurnRequest {
    TurnRequest {
        model: request.model.clone(),
        system: request.system.clone(),
        items: Vec::new(),
        tools: request.tools.clone(),
        tool_choice: request.tool_choice.clone(),
        parallel_tool_calls: request.parallel_tool_calls,
        sampling: request.sampling.clone(),
        dialect: request.dialect,
        hints: request.hints.clone(),
    }
}

fn result(id: &str, output: Output) -> ToolResult {
    let Output { content, is_error } = output;
    ToolResult { call_id: id.to_owned(), content, is_error }
}

// === what the client does not see ===

impl Task {
    /// Takes what is not for the client out of the events.
    pub(super) async fn sift(&mut self, event: TurnEvent) -> Option<TurnEvent> {
        let leg = self.legs;
        let Some(bridged) = &mut self.bridged else { return Some(event) };
        bridged.enter_leg(leg);
        match &event {
            TurnEvent::Started => {
                // Of an answer that goes on, this is not the beginning.
                return (!std::mem::replace(&mut bridged.started, true)).then_some(event);
            }
            TurnEvent::Text(text) => bridged.said.push_str(text),
            TurnEvent::Reasoning(_) => {}
            TurnEvent::ToolCallBegin { id, name } if bridged.offer.has(name) => {
                let (id, name) = (id.as_str().to_owned(), name.clone());
                bridged.calls.push(ToolCall { id, name, arguments: String::new() });
                return None;
            }
            TurnEvent::ToolCallBegin { .. } => bridged.shared = true,
            TurnEvent::ToolCallArgs { id, delta } => {
                if let Some(call) = bridged.call(id.as_str()) {
                    call.arguments.push_str(delta);
                    return None;
                }
            }
            TurnEvent::ToolCallEnd { id } => {
                if bridged.call(id.as_str()).is_some() {
                    return None;
                }
            }
            // Whose tokens these are is known at the end of the part.
            TurnEvent::Usage(usage) => {
                bridged.usage = Some(*usage);
                return None;
            }
            TurnEvent::Finished(FinishReason::ToolCalls) if bridged.is_working() => {
                self.work().await;
                return None;
            }
            TurnEvent::Finished(FinishReason::ToolCalls) => bridged.execute(),
            TurnEvent::Finished(_) | TurnEvent::Failed(_) => bridged.calls.clear(),
        }
        if event.is_terminal()
            && let Some(usage) = self.bridged.as_mut().and_then(|bridged| bridged.usage.take())
        {
            self.forward(TurnEvent::Usage(usage)).await;
        }
        Some(event)
    }

    /// The model called nothing but tools of ours: the leg goes on with them.
    async fn work(&mut self) {
        let told = self.bridged.as_mut().and_then(|bridged| bridged.usage.take());
        let usage = match told {
            Some(usage) => usage,
            None => self.estimate().await,
        };
        self.turn.note_usage(&usage);
        let Some(bridged) = &mut self.bridged else { return };
        bridged.before = Some(bridged.before.map_or(usage, |before| before.plus(usage)));
        if bridged.warned {
            let text = format!(
                "The model wanted to call more than {MOST} tools of MCP servers in one turn."
            );
            return self.give_up(TurnError::new(ErrorCode::ToolLoop, text));
        }
        bridged.execute();
        if bridged.running.is_empty() {
            self.go_on();
        }
    }

    /// An event that tells tokens tells those of all parts of the leg.
    pub(super) fn summed(&self, event: TurnEvent) -> TurnEvent {
        let before = self.bridged.as_ref().and_then(|bridged| bridged.before);
        match (event, before) {
            (TurnEvent::Usage(usage), Some(before)) => TurnEvent::Usage(before.plus(usage)),
            (event, _) => event,
        }
    }

    /// Why a turn is over while its leg is not.
    pub(super) fn unended(&self) -> TurnError {
        if !self.bridged.as_ref().is_some_and(|bridged| bridged.is_working()) {
            let text = "The turn stopped without a final event. This is a bug in ibeam.";
            return TurnError::new(ErrorCode::Internal, text);
        }
        let (code, text) = if self.hub.stop.is_cancelled() {
            let text = "ibeam is shutting down. Send the request again once it is back.";
            (ErrorCode::Unavailable, text)
        } else if self.abandoned.is_some() {
            (ErrorCode::Cancelled, "The client disconnected.")
        } else {
            let text = "Cursor closed the run while a tool of an MCP server was running.";
            (ErrorCode::UpstreamClosed, text)
        };
        TurnError::new(code, text)
    }
}

// === results ===

impl Task {
    pub(super) fn on_bridged(&mut self, result: ToolResult) {
        let over = self.turn.phase() == Phase::Done;
        let Some(bridged) = &mut self.bridged else { return };
        if over {
            // Nobody is left to tell.
            bridged.running.clear();
            return;
        }
        bridged.results.push(result);
        if !bridged.running.is_empty() {
            return;
        }
        if bridged.is_working() {
            self.go_on();
        } else if let Some(resume) = bridged.waiting.take() {
            self.on_visit(Visit::Resume(resume));
        }
    }

    /// Gives the results to the backend. What comes next belongs to the same leg.
    fn go_on(&mut self) {
        if let Some(controls) = self.leg.as_mut().and_then(|leg| leg.controls.as_mut()) {
            controls.set_aside();
        }
        let Some(bridged) = &mut self.bridged else { return };
        let mut request = bridged.with_results();
        // What had to be called was called.
        if request.tool_choice == ToolChoice::Required {
            request.tool_choice = ToolChoice::Auto;
        }
        if self.turn.resume(request, millis_since(self.started)).is_ok() {
            bridged.enter_part();
        } else if self.turn.phase() != Phase::Done {
            let text = "The tool results could not be passed on. This is a bug in ibeam.";
            self.give_up(TurnError::new(ErrorCode::Internal, text));
        }
    }

    /// Keeps a request that brings results until ours are there. Gives it back when
    /// nothing is waited for.
    pub(super) fn hold_back(&mut self, resume: Resume) -> Option<Resume> {
        let working = |bridged: &&mut Box<Bridged>| !bridged.running.is_empty();
        let parked = self.parked.is_some();
        let Some(bridged) = self.bridged.as_mut().filter(working).filter(|_| parked) else {
            return Some(resume);
        };
        debug!(running = bridged.running.len(), "the client was faster than our tools");
        bridged.waiting.replace(Box::new(resume)).map(|earlier| *earlier)
    }

    /// Puts our results beside those of the client.
    pub(super) fn bring(&mut self, mut request: TurnRequest) -> TurnRequest {
        let Some(bridged) = &mut self.bridged else { return request };
        bridged.next = Some(Box::new(request.clone()));
        let new = history::split(&request.items);
        let calls = bridged.calls.iter().filter(|_| new > 0).cloned().map(Item::ToolCall);
        let results = bridged.results.iter().cloned().map(Item::ToolResult);
        let ours: Vec<Item> = calls.chain(results).collect();
        request.items.splice(new..new, ours);
        request
    }

    /// The request as it came, when it is not for this turn.
    pub(super) fn take_back(&mut self, brought: Box<TurnRequest>) -> Box<TurnRequest> {
        self.bridged.as_mut().and_then(|bridged| bridged.next.take()).unwrap_or(brought)
    }
}
