//! The Agent API as the turn machine sees it: the first message of each stream, answers to
//! what the backend asks for, and the state that a conversation continues from.

mod changes;
mod generation;
mod half_read;
mod inbound;
mod kept_id;
mod outbound;
mod since;
mod spilled;
mod stream;

use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use ibeam_proto::agent::{
    AgentClientMessage, ClientHeartbeat, agent_client_message::Message as ToServer,
};

use self::{
    changes::HostChoice,
    half_read::HalfRead,
    since::{Anchor, Since},
    spilled::SpilledFiles,
    stream::{Purpose, Stored, Stream, upload_time},
};
use super::{
    exec::Back,
    recorded,
    request::{Plan, RunSpec},
};
use crate::{
    codec::connect::{self, Envelope},
    error::{ErrorCode, TurnError},
    model::{FinishReason, Item, Millis, Part, ToolCall, ToolResult, TurnRequest},
    peer::{
        Adapted, Drift, DriftReport, LinkError, LinkRelease, OpenRecord, Peer, PeerEvent,
        PeerFailure, PeerOutput, PlanRecord, Remedy, Shown, TurnClocks, TurnView, classify,
        conversation::{NO_RESULT, said},
    },
};

/// How a stream is opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentOpen {
    /// Resuming over HTTP/2 after an internal-error reset gives an empty turn.
    pub prefer_h1: bool,
    /// The tools that the model may use, as a header names them. Empty: none.
    pub allowed_tools: String,
    /// Not the host that was chosen at this count of changes: it does not serve this region.
    pub other_host: Option<u64>,
}

/// What the backend needs to recognise the result of a call.
#[derive(Debug)]
pub struct AgentCall {
    exec: u32,
    exec_id: String,
    /// The backend's id for the call.
    wire_id: String,
    back: Back,
}

type Output = PeerOutput<Bytes, AgentCall>;

/// The newest state of the conversation.
#[derive(Debug)]
struct Checkpoint {
    bytes: Bytes,
    /// What the client had seen by then. A resumed run starts from here, so anything
    /// beyond it would come a second time.
    seen: u64,
    /// Results were sent since, which it knows nothing of.
    before_results: bool,
}

#[derive(Debug)]
pub struct AgentPeer {
    spec: RunSpec,
    /// Send the request context with the first message instead of waiting to be asked for it.
    inline_context: bool,
    /// The first message of the first stream, until that is open. It is made with the peer: for a
    /// large request that takes long, and must not be done where streams are read.
    first: Option<Bytes>,
    purpose: Purpose,
    prefer_h1: bool,
    hosts: HostChoice,
    stream: Stream,
    output: VecDeque<Output>,
    drift: Drift,
    checkpoint: Option<Checkpoint>,
    since: Since,
    /// The state before the present leg, if the client may see less than the backend sends.
    anchor: Option<Box<Anchor>>,
    shown: Shown,
    half_read: HalfRead,
    spilled: SpilledFiles,
}

impl Peer for AgentPeer {
    type Plan = Plan;
    type Open = AgentOpen;
    type Out = Bytes;
    type In = Bytes;
    type Call = AgentCall;

    const CALL_PATIENCE: Duration = Duration::from_millis(1_500);

    fn new(request: &TurnRequest, plan: Plan) -> Self {
        let mut since = Since::default();
        since.begin(request);
        let inline_context = plan.inline_context;
        let hosts = HostChoice::new(plan.host_changes);
        let spec = RunSpec::new(request, plan);
        if spec.sends_history {
            since.keep_first(request);
        }
        Self {
            first: Some(spec.first_frame(inline_context, None)),
            inline_context,
            spec,
            purpose: Purpose::Start,
            prefer_h1: false,
            hosts,
            stream: Stream::new(Millis(0)),
            output: VecDeque::new(),
            drift: Drift::default(),
            checkpoint: None,
            since,
            anchor: None,
            shown: Shown::All,
            half_read: HalfRead::default(),
            spilled: SpilledFiles::default(),
        }
    }

    // === the link ===

    fn open(&mut self) -> AgentOpen {
        // Else a failure to open this stream would look like the end of the one before it.
        self.stream = Stream::new(Millis(0));
        AgentOpen {
            prefer_h1: self.prefer_h1,
            allowed_tools: self.spec.allowed_tools(),
            other_host: self.hosts.other(),
        }
    }

    fn on_opened(&mut self, clocks: &TurnClocks, now: Millis) {
        let checkpoint = match self.purpose {
            Purpose::Start => None,
            Purpose::Resume => self.checkpoint.as_ref().map(|checkpoint| &checkpoint.bytes[..]),
        };
        let first = match self.first.take() {
            Some(first) => first,
            None => {
                self.spec.begin_another_run();
                self.spec.first_frame(self.inline_context, checkpoint)
            }
        };
        self.stream = Stream {
            upload: upload_time(first.len()),
            next_heartbeat: Some(now + clocks.heartbeat),
            ..Stream::new(now)
        };
        self.output.clear();
        self.output.push_back(PeerOutput::Send(first));
    }

    fn on_message(&mut self, bytes: Bytes, _: Millis) {
        self.stream.decoder.push(bytes);
    }

    fn on_lost(&mut self, error: Option<&LinkError>) -> Option<PeerFailure> {
        self.stream.over = true;
        let Some(error) = error else {
            let cut = if self.stream.heard { PeerFailure::cut_short } else { PeerFailure::silent };
            return self.stream.ended_until.is_none().then(cut);
        };
        self.prefer_h1 |= error.is_internal_reset();
        self.stream.ended_until.is_none().then(|| classify::link_error(error))
    }

    fn leave(&mut self, how: LinkRelease, out: &mut Vec<Bytes>) -> bool {
        let over = self.stream.over;
        let rest = std::mem::take(&mut self.output);
        match how {
            LinkRelease::Answered | LinkRelease::Replaced => return true,
            LinkRelease::Finished | LinkRelease::Working if over => return false,
            LinkRelease::Finished | LinkRelease::Working => {}
        }
        // Requests of the backend from before the stop were answered.
        out.extend(rest.into_iter().filter_map(|output| match output {
            PeerOutput::Send(message) => Some(message),
            PeerOutput::Event(_) => None,
        }));
        out.push(outbound::cancel());
        true
    }

    fn heard(&self) -> bool {
        self.stream.heard
    }

    // === what it says ===

    fn poll(&mut self, turn: &TurnView<'_>, clocks: &TurnClocks, now: Millis) -> Option<Output> {
        loop {
            if let Some(output) = self.output.pop_front() {
                return Some(output);
            }
            if turn.congested {
                return None;
            }
            match self.stream.decoder.next() {
                Ok(Some(Envelope::Message(bytes))) => self.on_frame(&bytes, turn, clocks, now),
                Ok(Some(Envelope::End(error))) => self.on_end(error.as_ref(), now),
                Ok(None) => return None,
                Err(error) => {
                    let text = format!("Cursor sent a stream that ibeam cannot read: {error}");
                    self.give_up(TurnError::new(ErrorCode::UpstreamError, text), Remedy::None);
                }
            }
        }
    }

    fn deadline(&self, turn: &TurnView<'_>, clocks: &TurnClocks) -> Option<Millis> {
        let stream = &self.stream;
        let silence = stream.reading.then(|| {
            let frame = stream.last_frame + clocks.no_frame;
            if turn.parked {
                return frame;
            }
            (frame + stream.upload).min(stream.last_progress + clocks.heartbeat_only)
        });
        let quiet = self.looks_complete(turn).then(|| stream.last_progress + clocks.quiet_end);
        let ended = stream.ended_until.filter(|_| !turn.parked);
        [silence, quiet, ended, stream.next_heartbeat].into_iter().flatten().min()
    }

    fn on_timeout(&mut self, turn: &TurnView<'_>, clocks: &TurnClocks, now: Millis) {
        let due = |at: Option<Millis>| at.is_some_and(|at| now >= at);
        if due(self.stream.next_heartbeat) {
            self.stream.next_heartbeat = Some(now + clocks.heartbeat);
            self.output.extend(Self::heartbeat().map(PeerOutput::Send));
        }
        let stream = &self.stream;
        let upload = if turn.parked { Duration::ZERO } else { stream.upload };
        let quiet = self.looks_complete(turn) && now >= stream.last_progress + clocks.quiet_end;
        if !turn.parked && (due(stream.ended_until) || quiet) {
            self.output.push_back(PeerOutput::Event(PeerEvent::Ended(FinishReason::Stop)));
        } else if stream.reading && now >= stream.last_frame + clocks.no_frame + upload {
            let text = format!("Cursor sent nothing for {} s.", clocks.no_frame.as_secs());
            let error = TurnError::new(ErrorCode::Timeout, text);
            let error = if stream.heard { error } else { error.unreachable() };
            self.give_up(error, Remedy::Resume);
        } else if stream.reading
            && !turn.parked
            && now >= stream.last_progress + clocks.heartbeat_only
        {
            let text =
                "Cursor sent only heartbeats for longer than `clocks.heartbeats_only` allows.";
            self.give_up(TurnError::new(ErrorCode::Timeout, text), Remedy::None);
        }
    }

    fn set_reading(&mut self, reading: bool, now: Millis) {
        let stream = &mut self.stream;
        if stream.reading != reading {
            stream.reading = reading;
            stream.last_frame = now;
            stream.last_progress = now;
        }
    }

    fn last_progress(&self) -> Millis {
        self.stream.last_progress
    }

    // === another run ===

    fn resumes(&self) -> bool {
        self.purpose == Purpose::Resume
    }

    fn can_resume(&self, turn: &TurnView<'_>) -> bool {
        let covers = |checkpoint: &Checkpoint| checkpoint.covers(turn);
        self.checkpoint.as_ref().is_some_and(covers)
    }

    fn resume_run(&mut self) {
        self.first = None;
        self.purpose = Purpose::Resume;
    }

    fn repeat_run(&mut self) {
        self.first = None;
        self.purpose = Purpose::Start;
        self.since.clear();
        self.checkpoint = None;
    }

    fn lacks_results(&self) -> bool {
        true
    }

    fn adapt(&mut self, remedy: Remedy, error: &TurnError) -> Adapted {
        self.change_request(remedy, error)
    }

    fn rebuild(&mut self, conversation_id: Option<String>, turn: &TurnView<'_>) {
        if let Some(id) = conversation_id {
            self.spec.rename(id);
            self.prefer_h1 = false;
        }
        self.rebuild_run(turn);
    }

    fn ask_more(&mut self, text: &str, answered: Option<&str>, turn: &TurnView<'_>) {
        let Some(request) = turn.request else { return };
        self.first = None;
        self.prefer_h1 = false;
        self.purpose = Purpose::Start;
        let Some(answered) = answered else {
            let newest = self.checkpoint(turn);
            self.spec.insist(request, newest, text);
            return;
        };
        self.keep_first_anchor();
        match self.checkpoint(turn) {
            Some(newest) => self.spec.insist(request, Some(newest), text),
            None => {
                let mut whole = request.clone();
                whole.items.extend(said(answered, 0));
                self.spec.insist(&whole, None, text);
            }
        }
        self.since.clear();
        self.checkpoint = None;
    }

    // === legs ===

    fn can_park(&self) -> bool {
        self.stream.ended_until.is_none()
    }

    fn end_leg(&mut self, text: &str) {
        self.since.end_leg(text);
        self.stream.started = false;
    }

    fn begin_leg(
        &mut self,
        request: &TurnRequest,
        new: usize,
        calls: Vec<ToolCall>,
        clocks: &TurnClocks,
        now: Millis,
    ) {
        self.shown = Shown::All;
        self.since.begin_further(request);
        let results = request.items.get(new..).unwrap_or_default();
        self.since.add(calls.into_iter().map(Item::ToolCall).chain(results.iter().cloned()));
        self.anchor = None;
        if request.sampling.is_controlled() {
            self.drop_anchor();
        }
        if let Some(checkpoint) = &mut self.checkpoint {
            checkpoint.before_results = true;
        }
        let stream = &mut self.stream;
        stream.generation.next();
        stream.last_frame = now;
        stream.last_progress = now;
        stream.next_heartbeat.get_or_insert(now + clocks.heartbeat);
        stream.upload = Duration::ZERO;
    }

    fn on_handed_out(&mut self, call: &AgentCall) {
        for reply in call.back.opening() {
            self.send_reply(call.exec, &call.exec_id, reply);
        }
    }

    fn send_result(
        &mut self,
        call_id: &str,
        call: &AgentCall,
        result: Option<&ToolResult>,
        beside: Vec<Part>,
    ) -> Vec<String> {
        let (replies, text) = match (result, beside.is_empty()) {
            (None, true) => (call.back.unanswered(NO_RESULT), None),
            (Some(result), true) => (call.back.replies(result), Some(result.text())),
            (result, false) => {
                let mut result = result.cloned().unwrap_or_else(|| ToolResult {
                    call_id: call_id.to_owned(),
                    content: vec![Part::Text(NO_RESULT.to_owned())],
                    is_error: true,
                });
                result.content.extend(beside);
                (call.back.replies(&result), Some(result.text()))
            }
        };
        self.half_read.note(&call.wire_id, &replies);
        for reply in replies {
            let bytes = self.send_reply(call.exec, &call.exec_id, reply);
            self.stream.upload += upload_time(bytes);
        }
        self.close_exec(call.exec);
        text.into_iter().collect()
    }

    // === what is kept ===

    fn set_shown(&mut self, shown: Shown) {
        self.shown = shown;
    }

    fn checkpoint(&mut self, turn: &TurnView<'_>) -> Option<Bytes> {
        match &self.shown {
            Shown::All => {}
            Shown::Cut(text) | Shown::Other(text) => {
                let text = text.clone();
                return self.state_as_shown(text);
            }
        }
        if self.since.is_bare() {
            return Some(self.state_so_far(turn.text));
        }
        match self.checkpoint.as_ref().filter(|checkpoint| checkpoint.covers(turn)) {
            Some(checkpoint) => Some(checkpoint.bytes.clone()),
            None => self.since.is_tracked().then(|| self.state_so_far(turn.text)),
        }
    }

    fn take_new_blobs(&mut self) -> Vec<(Bytes, Bytes)> {
        self.spec.blobs.take_fresh()
    }

    fn conversation_id(&self) -> &str {
        &self.spec.conversation_id
    }

    fn prompt_texts(&self, _: &TurnView<'_>) -> Option<(Vec<String>, usize)> {
        Some(self.spec.prompt_texts())
    }

    fn memory(&self) -> usize {
        let checkpoint = self.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.bytes.len());
        let ids = self.stream.ids_memory() + self.half_read.memory();
        self.spec.memory() + self.since.memory() + checkpoint + ids + self.spilled.memory()
    }

    fn drift(&self) -> DriftReport {
        self.drift.report()
    }

    fn heartbeat() -> Option<Bytes> {
        let beat = ToServer::ClientHeartbeat(ClientHeartbeat {});
        Some(connect::encode(&AgentClientMessage { message: Some(beat) }))
    }

    fn relieve(&mut self) {
        self.stream.next_heartbeat = None;
    }

    // === recordings ===

    fn record_plan(plan: &Plan) -> PlanRecord {
        PlanRecord::Agent(Box::new(recorded::record(plan)))
    }

    fn recorded_plan(record: PlanRecord, request: &TurnRequest) -> Option<Plan> {
        match record {
            PlanRecord::Agent(record) => Some(recorded::plan(*record, request)),
            PlanRecord::Child(_) => None,
        }
    }

    fn record_open(open: &AgentOpen) -> OpenRecord {
        OpenRecord {
            prefer_h1: open.prefer_h1,
            allowed_tools: Some(open.allowed_tools.clone()),
            ..OpenRecord::default()
        }
    }
}

impl Checkpoint {
    /// Whether it has all that the client saw and sent.
    fn covers(&self, turn: &TurnView<'_>) -> bool {
        self.seen == turn.visible && !self.before_results
    }
}

impl AgentPeer {
    fn event(&mut self, event: PeerEvent<AgentCall>) {
        self.output.push_back(PeerOutput::Event(event));
    }

    /// The run has failed. Only a lost transport is a reason to avoid HTTP/2.
    fn give_up(&mut self, error: TurnError, remedy: Remedy) {
        self.prefer_h1 = false;
        self.event(PeerEvent::Failed(Box::new(PeerFailure { error, remedy })));
    }

    /// An answer came, it was stored, and since then only heartbeats, with nothing
    /// under way that could bring more.
    fn looks_complete(&self, turn: &TurnView<'_>) -> bool {
        let stream = &self.stream;
        let settled = match stream.stored {
            Stored::Nothing => false,
            Stored::Something => stream.open_steps == 0,
            Stored::Answer => true,
        };
        let idle = stream.begun.is_empty() && !turn.has_calls && !turn.parked;
        turn.has_answer && settled && stream.heartbeats >= 2 && idle
    }
}

#[cfg(test)]
mod tests;
