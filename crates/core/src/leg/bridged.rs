//! Tools that the gateway executes itself: those of the user's MCP servers. The client does
//! not see their calls. When a model calls only these, the answer continues in the same leg
//! once the results are there; when it also calls tools of the client, both kinds of results
//! go back together.

use std::collections::HashSet;

use crate::{
    history,
    model::{
        Item, Message, Part, Role, ToolCall, ToolChoice, ToolResult, TurnEvent, TurnRequest, Usage,
    },
};

/// Calls that one turn may execute.
pub(super) const MOST_CALLS: usize = 50;

/// The bridged tools of a turn, and how far their calls are.
#[derive(Debug)]
pub struct BridgedTools {
    names: HashSet<String>,
    /// What the leg answers, and what was executed for it.
    request: Box<TurnRequest>,
    /// The request of the next leg, while it is not certain that there is one.
    next: Option<Box<TurnRequest>>,
    started: bool,
    /// Tokens of the parts of the leg that ended with executed calls.
    pub(super) before: Option<Usage>,
    executed: usize,
    /// The model has the message that no more calls are executed.
    pub(super) warned: bool,

    // The present part of the leg.
    said: String,
    pub(super) usage: Option<Usage>,
    calls: Vec<ToolCall>,
    /// The client also has calls to answer.
    shared: bool,
    /// Calls that are being executed.
    running: usize,
    results: Vec<ToolResult>,
}

/// What an event is turned into.
pub(super) enum Sifted {
    Pass(TurnEvent),
    /// It is not for the client.
    Drop,
    /// The model called only bridged tools: the leg continues with their results.
    Work,
    /// It is for the client, and bridged calls are executed beside it.
    PassAndExecute(TurnEvent),
}

impl BridgedTools {
    /// The tools of these names, for the first leg, which answers `request`.
    #[must_use]
    pub fn new(names: HashSet<String>, request: &TurnRequest) -> Self {
        Self {
            names,
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
            running: 0,
            results: Vec::new(),
        }
    }

    pub(super) fn begin_leg(&mut self) {
        (self.started, self.before) = (false, None);
        if let Some(request) = self.next.take() {
            self.request = request;
        }
        self.begin_part();
    }

    pub(super) fn begin_part(&mut self) {
        self.said.clear();
        self.calls.clear();
        self.results.clear();
        (self.usage, self.shared) = (None, false);
    }

    /// Whether the leg waits for bridged tools.
    pub(super) fn is_working(&self) -> bool {
        !self.calls.is_empty() && !self.shared
    }

    pub(super) fn is_running(&self) -> bool {
        self.running > 0
    }

    /// Takes what is not for the client out of the events.
    pub(super) fn sift(&mut self, event: TurnEvent) -> Sifted {
        use crate::model::FinishReason::ToolCalls;
        match &event {
            TurnEvent::Started => {
                // The later parts of an answer do not begin it.
                if std::mem::replace(&mut self.started, true) {
                    return Sifted::Drop;
                }
            }
            TurnEvent::Text(text) => self.said.push_str(text),
            TurnEvent::Reasoning(_) => {}
            TurnEvent::ToolCallBegin { id, name } if self.names.contains(name) => {
                let (id, name) = (id.as_str().to_owned(), name.clone());
                self.calls.push(ToolCall { id, name, arguments: String::new() });
                return Sifted::Drop;
            }
            TurnEvent::ToolCallBegin { .. } => self.shared = true,
            TurnEvent::ToolCallArgs { id, delta } => {
                if let Some(call) = self.call(id.as_str()) {
                    call.arguments.push_str(delta);
                    return Sifted::Drop;
                }
            }
            TurnEvent::ToolCallEnd { id } => {
                if self.call(id.as_str()).is_some() {
                    return Sifted::Drop;
                }
            }
            // Only the end of the part shows whether these tokens are for the client.
            TurnEvent::Usage(usage) => {
                self.usage = Some(*usage);
                return Sifted::Drop;
            }
            TurnEvent::Finished(ToolCalls) if self.is_working() => return Sifted::Work,
            TurnEvent::Finished(ToolCalls) => return Sifted::PassAndExecute(event),
            TurnEvent::Finished(_) | TurnEvent::Failed(_) => self.calls.clear(),
        }
        Sifted::Pass(event)
    }

    fn call(&mut self, id: &str) -> Option<&mut ToolCall> {
        self.calls.iter_mut().find(|call| call.id == id)
    }

    /// The calls of the part that are to be executed. Those beyond the limit have their
    /// results at once.
    pub(super) fn execute(&mut self) -> Vec<ToolCall> {
        let room = MOST_CALLS.saturating_sub(self.executed).min(self.calls.len());
        let (now, refused) = self.calls.split_at(room);
        self.executed += now.len();
        self.running += now.len();
        for call in refused {
            self.warned = true;
            let text = format!(
                "Not called: one turn may call {MOST_CALLS} tools of MCP servers. Answer with \
                 what you have."
            );
            let content = vec![Part::Text(text)];
            self.results.push(ToolResult { call_id: call.id.clone(), content, is_error: true });
        }
        now.to_vec()
    }

    pub(super) fn on_result(&mut self, result: ToolResult) {
        self.running = self.running.saturating_sub(1);
        self.results.push(result);
    }

    /// The request as a client would send it that had executed the tools itself.
    pub(super) fn with_results(&mut self) -> TurnRequest {
        let results = self.results.drain(..).map(Item::ToolResult);
        // A client that sends only new messages gets only new messages added.
        let mut request = if history::split(&self.request.items) == 0 {
            TurnRequest { items: results.collect(), ..without_items(&self.request) }
        } else {
            let said = (!self.said.trim().is_empty()).then(|| {
                let parts = vec![Part::Text(self.said.clone())];
                Item::Message(Message { role: Role::Assistant, parts })
            });
            let calls = self.calls.drain(..).map(Item::ToolCall);
            self.request.items.extend(said.into_iter().chain(calls).chain(results));
            TurnRequest::clone(&self.request)
        };
        // What had to be called was called.
        if request.tool_choice == ToolChoice::Required {
            request.tool_choice = ToolChoice::Auto;
        }
        request
    }

    /// Puts the bridged results beside those of the client.
    pub(super) fn add_results(&mut self, mut request: TurnRequest) -> TurnRequest {
        self.next = Some(Box::new(request.clone()));
        let new = history::split(&request.items);
        let calls = self.calls.iter().filter(|_| new > 0).cloned().map(Item::ToolCall);
        let results = self.results.iter().cloned().map(Item::ToolResult);
        let ours: Vec<Item> = calls.chain(results).collect();
        request.items.splice(new..new, ours);
        request
    }

    /// The request as it came, when it is not for this turn.
    pub(super) fn take_back(&mut self) -> Option<Box<TurnRequest>> {
        self.next.take()
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
