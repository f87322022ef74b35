//! A child as the turn machine sees it: the conversation is written as one prompt, the
//! child's protocol is left to a [`Speaker`], and calls come from the tools that are hosted for
//! it. A call is parked by letting the child wait for the answer to its MCP request.

mod child_state;
mod run;

use std::{collections::VecDeque, sync::Arc};

use bytes::Bytes;

use self::run::SpeakerRun;
use super::{
    ChildEvent, ChildOwner, ChildRequest, ChildStart, FromChild, HostedCall, HostedResult, Ready,
    Speaker, ToChild,
    prompt::{self, PromptScope},
};
use crate::{
    error::{ErrorCode, TurnError},
    history,
    model::{AgentMode, Millis, Part, Tool, ToolCall, ToolResult, TurnRequest},
    peer::{
        ChildPlanRecord, DriftReport, InMessage, LinkError, LinkMessage, LinkRelease, OpenRecord,
        OutMessage, Peer, PeerCall, PeerEvent, PeerFailure, PeerOutput, PlanRecord, Remedy, Shown,
        StoredState, TurnClocks, TurnView,
        blocks::BlockLimits,
        cap::cap,
        classify,
        conversation::{NO_RESULT, offered, said},
    },
};

/// What a turn needs besides the client's request.
#[derive(Debug)]
pub struct ChildPlan {
    /// Makes the speaker of each run.
    pub speaker: fn() -> Box<dyn Speaker>,
    /// The model as the child spells it.
    pub model: String,
    pub conversation_id: String,
    /// The child can look at images.
    pub images: bool,
    /// The limit for the text of one result.
    pub result_bytes: usize,
    /// Continue from here instead of sending the history again.
    pub kept: Option<StoredState>,
    pub owner: ChildOwner,
}

type ChildPeerOutput = PeerOutput<ToChild, u64>;

#[derive(Debug)]
pub struct ChildPeer {
    speaker: fn() -> Box<dyn Speaker>,
    model: String,
    conversation_id: String,
    workspace: Option<String>,
    mode: AgentMode,
    rules: BlockLimits,
    run: Option<Box<SpeakerRun>>,
    output: VecDeque<ChildPeerOutput>,
    /// The prompt of a run that begins now.
    scope: PromptScope,
    /// The child's name for the conversation.
    name: Option<String>,
    shown: Shown,
    /// The request has nothing of what came before.
    bare: bool,
    /// The next one may not contain it either: it names its conversation.
    named: bool,
    /// The tools that are hosted for the child.
    tools: Arc<[Tool]>,
    /// What the speakers of earlier runs did not understand.
    unknown: u64,
    owner: ChildOwner,
}

impl Peer for ChildPeer {
    type Plan = ChildPlan;
    type Open = Box<ChildStart>;
    type Out = ToChild;
    type In = FromChild;
    /// The number of a hosted call.
    type Call = u64;

    fn new(request: &TurnRequest, plan: ChildPlan) -> Self {
        let ChildPlan { speaker, model, conversation_id, images, result_bytes, kept, owner } = plan;
        let known = kept.and_then(|kept| Some((child_state::read(&kept.checkpoint)?, kept)));
        let scope = known.map(|(state, kept)| PromptScope {
            // A child that knows nothing is told all that the request has.
            before: match state.session.is_some() || kept.covers == 0 {
                true => state.told,
                false => String::new(),
            },
            resume: state.session,
            covers: kept.covers,
            calls: kept.calls,
            new_setup: kept.new_setup,
            ..PromptScope::default()
        });
        Self {
            speaker,
            model,
            conversation_id,
            workspace: request.hints.workspace.clone(),
            mode: request.hints.modes.mode.unwrap_or_default(),
            rules: BlockLimits { result_bytes, images },
            run: None,
            output: VecDeque::new(),
            scope: scope.unwrap_or_default(),
            name: None,
            shown: Shown::All,
            bare: history::split(&request.items) == 0,
            named: request.hints.session.is_some(),
            tools: offered(request).into_owned().into(),
            unknown: 0,
            owner,
        }
    }

    // === the link ===

    fn open(&mut self) -> Box<ChildStart> {
        self.name.clone_from(&self.scope.resume);
        Box::new(ChildStart {
            model: self.model.clone(),
            conversation: self.conversation_id.clone(),
            resume: self.scope.resume.clone(),
            workspace: self.workspace.clone(),
            mode: self.mode,
            tools: self.tools.clone(),
            owner: self.owner,
        })
    }

    fn on_opened(&mut self, _: &TurnClocks, now: Millis) {
        self.output.clear();
        self.run = Some(Box::new(SpeakerRun::new((self.speaker)(), now)));
    }

    fn on_message(&mut self, message: FromChild, now: Millis) {
        if let Some(run) = &mut self.run {
            run.last_heard = now;
            run.inbox.push_back(message);
        }
    }

    fn on_lost(&mut self, error: Option<&LinkError>) -> Option<PeerFailure> {
        Some(error.map_or_else(gone, from_link))
    }

    fn leave(&mut self, how: LinkRelease, out: &mut Vec<ToChild>) -> bool {
        let Some(mut run) = self.run.take() else { return true };
        // The child has the results that were sent before.
        out.extend(self.output.drain(..).filter_map(|output| match output {
            PeerOutput::Send(message) => Some(message),
            PeerOutput::Event(_) => None,
        }));
        if how == LinkRelease::Working {
            run.speaker.cancel();
        }
        if how != LinkRelease::Replaced {
            out.extend(std::iter::from_fn(|| run.speaker.poll_send()));
        }
        self.unknown += run.speaker.unknown();
        match how {
            LinkRelease::Finished | LinkRelease::Answered => {
                out.push(ToChild::Release { session: self.name.clone() });
                false
            }
            LinkRelease::Working | LinkRelease::Replaced => true,
        }
    }

    fn heard(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.spoke)
    }

    // === what it says ===

    fn poll(&mut self, turn: &TurnView<'_>, _: &TurnClocks, _: Millis) -> Option<ChildPeerOutput> {
        loop {
            if let Some(output) = self.output.pop_front() {
                return Some(output);
            }
            let run = self.run.as_mut()?;
            if let Some(message) = run.speaker.poll_send() {
                return Some(PeerOutput::Send(message));
            }
            if let Some(heard) = run.speaker.poll_heard() {
                run.spoke = true;
                self.on_heard(heard);
            } else if let Some(message) = run.inbox.pop_front() {
                self.on_child(message, turn.request);
            } else if std::mem::take(&mut run.exited) {
                // Its speaker had said before that it is over, or says nothing at all.
                self.event(PeerEvent::Failed(Box::new(gone())));
            } else {
                return None;
            }
        }
    }

    fn deadline(&self, turn: &TurnView<'_>, clocks: &TurnClocks) -> Option<Millis> {
        // A child that waits for results says nothing.
        let run = self.run.as_ref().filter(|run| run.reading && !turn.parked)?;
        // One that never said a word does not run; one that did may think for a while.
        let patience = if run.spoke { clocks.heartbeat_only } else { clocks.no_frame };
        Some(run.last_heard + patience)
    }

    fn on_timeout(&mut self, turn: &TurnView<'_>, clocks: &TurnClocks, now: Millis) {
        if self.deadline(turn, clocks).is_none_or(|due| now < due) {
            return;
        }
        let failure = if self.heard() {
            let text = "Cursor's CLI sent nothing for longer than `clocks.heartbeats_only` allows.";
            PeerFailure { error: TurnError::new(ErrorCode::Timeout, text), remedy: Remedy::None }
        } else {
            let text = format!("Cursor's CLI sent nothing for {} s.", clocks.no_frame.as_secs());
            let error = TurnError::new(ErrorCode::Timeout, text).unreachable();
            PeerFailure { error, remedy: Remedy::Retry }
        };
        self.event(PeerEvent::Failed(Box::new(failure)));
    }

    fn set_reading(&mut self, reading: bool, now: Millis) {
        if let Some(run) = &mut self.run
            && run.reading != reading
        {
            run.reading = reading;
            run.last_heard = now;
        }
    }

    fn last_progress(&self) -> Millis {
        self.run.as_ref().map_or(Millis(0), |run| run.last_heard)
    }

    // === another run ===

    /// A request that has nothing of the conversation would be answered as if nothing had
    /// been said.
    fn can_rebuild(&self) -> bool {
        !self.bare || self.scope.resume.is_none()
    }

    fn rebuild(&mut self, _: Option<String>, _: &TurnView<'_>) {
        let scope = std::mem::take(&mut self.scope);
        let before = if self.bare { scope.before } else { String::new() };
        self.scope = PromptScope { resume: None, covers: 0, before, ..scope };
    }

    fn ask_more(&mut self, text: &str, answered: Option<&str>, turn: &TurnView<'_>) {
        let resume = self.name.clone();
        let before = match resume {
            Some(_) => String::new(),
            None => std::mem::take(&mut self.scope.before),
        };
        self.scope = PromptScope {
            before,
            covers: turn.request.map_or(0, |request| request.items.len()),
            calls: match resume {
                // It knows them by now.
                Some(_) => Vec::new(),
                None => std::mem::take(&mut self.scope.calls),
            },
            // It was given this request's by now.
            new_setup: false,
            said: answered.and_then(|answered| said(answered, 0)),
            text: Some(text.to_owned()),
            resume,
        };
    }

    // === legs ===

    fn begin_leg(
        &mut self,
        request: &TurnRequest,
        new: usize,
        calls: Vec<ToolCall>,
        _: &TurnClocks,
        now: Millis,
    ) {
        self.shown = Shown::All;
        // The prompt of another child, should this one be lost.
        self.bare = new == 0;
        self.named = request.hints.session.is_some();
        let calls = if self.bare { calls } else { Vec::new() };
        let resume = self.name.clone().filter(|_| self.bare);
        self.scope = PromptScope { resume, calls, ..PromptScope::default() };
        if let Some(run) = &mut self.run {
            run.last_heard = now;
        }
    }

    fn send_result(
        &mut self,
        _: &str,
        call: &u64,
        result: Option<&ToolResult>,
        mut beside: Vec<Part>,
    ) -> Vec<String> {
        let (mut content, is_error) = match result {
            Some(result) => {
                let content = cap(&result.content, self.rules.result_bytes);
                (content.into_owned(), result.is_error)
            }
            None => (vec![Part::Text(NO_RESULT.to_owned())], true),
        };
        content.append(&mut beside);
        let texts = content.iter().filter_map(Part::text).map(str::to_owned).collect();
        let result = HostedResult { id: *call, content, is_error };
        self.output.push_back(PeerOutput::Send(ToChild::Result(result)));
        texts
    }

    // === what is kept ===

    fn set_shown(&mut self, shown: Shown) {
        self.shown = shown;
    }

    /// The name by which the child continues this conversation, if that leaves nothing out.
    fn checkpoint(&mut self, turn: &TurnView<'_>) -> Option<Bytes> {
        let whole = match &self.shown {
            Shown::All => true,
            Shown::Cut(text) => return self.state_as_shown(text.as_deref()?, turn.request?),
            // A client that sends only what is new has no other way to continue.
            Shown::Other(_) => self.bare || self.named,
        };
        self.name.as_deref().filter(|_| whole).and_then(|name| child_state::write(Some(name), ""))
    }

    fn conversation_id(&self) -> &str {
        &self.conversation_id
    }

    fn prompt_texts(&self, turn: &TurnView<'_>) -> Option<(Vec<String>, usize)> {
        let request = turn.request?;
        Some((request.texts().map(str::to_owned).collect(), request.images()))
    }

    fn drift(&self) -> DriftReport {
        let present = self.run.as_ref().map_or(0, |run| run.speaker.unknown());
        DriftReport { unknown_arms: self.unknown + present, ..DriftReport::default() }
    }

    // === recordings ===

    fn record_plan(plan: &ChildPlan) -> PlanRecord {
        PlanRecord::Child(ChildPlanRecord {
            model: plan.model.clone(),
            conversation_id: plan.conversation_id.clone(),
            images: plan.images,
            result_bytes: plan.result_bytes,
            kept: plan.kept.clone(),
            speaker: plan.speaker,
        })
    }

    fn recorded_plan(record: PlanRecord, _: &TurnRequest) -> Option<ChildPlan> {
        let PlanRecord::Child(record) = record else { return None };
        let ChildPlanRecord { model, conversation_id, images, result_bytes, kept, speaker } =
            record;
        // A replay shares nothing with others.
        let owner = ChildOwner::default();
        Some(ChildPlan { speaker, model, conversation_id, images, result_bytes, kept, owner })
    }

    fn record_open(open: &Box<ChildStart>) -> OpenRecord {
        OpenRecord {
            model: Some(open.model.clone()),
            resumes: open.resume.is_some(),
            tools: open.tools.len(),
            ..OpenRecord::default()
        }
    }
}

impl ChildPeer {
    fn event(&mut self, event: PeerEvent<u64>) {
        self.output.push_back(PeerOutput::Event(event));
    }

    fn on_child(&mut self, message: FromChild, request: Option<&TurnRequest>) {
        let Some(run) = &mut self.run else { return };
        match message {
            FromChild::Ready(ready) => self.begin_run(&ready, request),
            FromChild::Output(bytes) => run.speaker.on_output(bytes),
            FromChild::Call(call) => {
                run.spoke = true;
                self.on_hosted_call(call);
            }
            FromChild::Dropped(id) => self.event(PeerEvent::CallLost(id)),
            FromChild::Exited(exit) => {
                run.speaker.on_exit(&exit);
                run.exited = true;
            }
        }
    }

    /// What the child knew before this run, and behind that what it was told and what the client
    /// saw of its answer. Without a name the client sends everything again.
    fn state_as_shown(&self, text: &str, request: &TurnRequest) -> Option<Bytes> {
        if !self.named {
            return None;
        }
        let told = prompt::sent(request, &self.scope, text, self.rules);
        child_state::write(self.scope.resume.as_deref(), &told)
    }

    /// The child is there and gets its prompt.
    fn begin_run(&mut self, ready: &Ready, request: Option<&TurnRequest>) {
        let (Some(run), Some(request)) = (&mut self.run, request) else { return };
        let ask = ChildRequest {
            mode: self.mode,
            prompt: prompt::write(request, &self.scope, self.rules),
            model: self.model.clone(),
            resume: self.scope.resume.clone(),
        };
        run.speaker.begin(ready, &ask);
    }

    /// The child called a tool that is hosted for it, and waits.
    fn on_hosted_call(&mut self, hosted: HostedCall) {
        self.event(PeerEvent::Started);
        let HostedCall { id, name, mut arguments } = hosted;
        if !self.tools.iter().any(|tool| tool.name == name) {
            self.event(PeerEvent::Refused);
            let content = vec![Part::Text(format!("There is no tool named `{name}`."))];
            let result = HostedResult { id, content, is_error: true };
            self.output.push_back(PeerOutput::Send(ToChild::Result(result)));
            return;
        }
        if arguments.trim().is_empty() {
            arguments = "{}".to_owned();
        }
        self.event(PeerEvent::Call(Box::new(PeerCall {
            key: id,
            name,
            arguments,
            is_client_tool: true,
            call: id,
        })));
    }

    fn on_heard(&mut self, heard: ChildEvent) {
        match heard {
            ChildEvent::Session(name) => self.name = Some(name),
            ChildEvent::Text(text) => {
                self.event(PeerEvent::Started);
                self.event(PeerEvent::Text(text));
            }
            ChildEvent::Thought(text) => {
                self.event(PeerEvent::Started);
                self.event(PeerEvent::Reasoning(text));
            }
            ChildEvent::Did(line) => {
                self.event(PeerEvent::Started);
                self.event(PeerEvent::Did(line));
            }
            ChildEvent::Announced => self.event(PeerEvent::CallExpected),
            ChildEvent::Usage(usage) => self.event(PeerEvent::RunTokens(usage.into())),
            ChildEvent::Alive => {}
            ChildEvent::Ended(reason) => self.event(PeerEvent::Ended(reason)),
            ChildEvent::Failed(failure) => self.event(PeerEvent::Failed(Box::new(failure))),
        }
    }
}

impl OutMessage for ToChild {
    fn bytes(&self) -> usize {
        match self {
            Self::Input(bytes) => bytes.len(),
            Self::Result(result) => result.content.iter().map(Part::bytes).sum(),
            Self::CloseInput | Self::Release { .. } => 0,
        }
    }

    fn to_link(&self) -> LinkMessage {
        LinkMessage::ToChild(self.clone())
    }
}

impl InMessage for FromChild {
    fn bytes(&self) -> usize {
        match self {
            Self::Output(bytes) => bytes.len(),
            Self::Call(call) => call.arguments.len(),
            Self::Ready(_) | Self::Dropped(_) | Self::Exited(_) => 0,
        }
    }

    fn to_link(&self) -> LinkMessage {
        LinkMessage::FromChild(self.clone())
    }

    fn from_link(message: LinkMessage) -> Option<Self> {
        match message {
            LinkMessage::FromChild(message) => Some(message),
            LinkMessage::Bytes(_) | LinkMessage::ToChild(_) => None,
        }
    }
}

fn gone() -> PeerFailure {
    from_link(&LinkError::Reset("its process exited".to_owned()))
}

/// The failure behind a lost link to a child.
fn from_link(error: &LinkError) -> PeerFailure {
    match error {
        LinkError::Reset(why) => {
            let text = format!("Cursor's CLI stopped before the answer was complete: {why}.");
            let error = TurnError::new(ErrorCode::UpstreamClosed, text);
            PeerFailure { error, remedy: Remedy::Retry }
        }
        error => {
            let PeerFailure { error, remedy } = classify::link_error(error);
            let passing = matches!(remedy, Remedy::Retry | Remedy::Resume);
            PeerFailure { error, remedy: if passing { Remedy::Retry } else { Remedy::None } }
        }
    }
}

#[cfg(test)]
mod tests;
