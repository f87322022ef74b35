//! One run on either transport: frames out, client messages in, and the waiting in between.
//! Every wait goes through here, so that heartbeats, silence and cancel are handled in one
//! place.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use ibeam_core::codec::connect::{Code, ConnectError};
use ibeam_proto::Wire as _;
use ibeam_proto::agent::{
    AgentServerMessage, HeartbeatUpdate, InteractionResponse, InteractionUpdate,
    agent_client_message::Message as FromClient, agent_server_message::Message as ToClient,
    interaction_update::Message as Update,
};
use tokio::time::Instant;

use super::{
    SimState,
    client_messages::is_store,
    exec::{self, ExecAnswer},
};
use crate::{
    behaviour::Behaviour,
    record::{Direction, RunTally, RunTape, add},
    scenario::{ChaosEffect, Quirks, Refuse, StreamCut},
    stream::{ConnectionControl, InboundEvent, RunInbound, RunOutbound},
};

/// The exec arm that asks for the request context.
pub(crate) const CONTEXT: u32 = 10;

/// Why a run stops.
#[derive(Debug)]
pub(crate) enum RunStop {
    /// The client asked for it.
    Cancelled,
    /// The client has left.
    Gone,
    /// The client sent nothing for too long.
    Silent,
    /// The client closed its side during the run.
    HalfClosed,
    /// The service refuses to continue.
    Fail(ConnectError),
    /// The script asks for an error end frame.
    Scripted(ConnectError),
    /// An injected fault ended the stream; nothing more is sent.
    Cut,
    /// The script closes the stream as it is.
    Closed,
}

pub(crate) type RunResult<T = ()> = Result<T, RunStop>;

/// A question to the client that is not answered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum QuestionKey {
    Exec(u32),
    Kv(u32),
    Query(u32),
}

#[derive(Clone, Debug)]
pub(crate) enum ClientAnswer {
    Exec(Box<ExecAnswer>),
    /// `None`: the client does not have the blob. For stores: `Some`, and empty.
    Kv(Option<Bytes>),
    Query(InteractionResponse),
}

/// An open question, and its answer as far as it has arrived.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenQuestion {
    /// The arm: of the exec, of the query, of the KV message.
    pub(crate) field: u32,
    pub(crate) exec_id: String,
    pub(crate) answer: ExecAnswer,
    /// Of a shell that has to be closed: what has come.
    pub(crate) shell: ShellEnd,
}

/// What has come of the end of a shell.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ShellEnd {
    /// The stream or the result is complete.
    pub(crate) complete: bool,
    /// The stream has ended, and its result is missing.
    pub(crate) result_missing: bool,
    pub(crate) closed: bool,
}

impl ShellEnd {
    pub(crate) fn is_over(self) -> bool {
        self.complete && !self.result_missing && self.closed
    }
}

#[derive(Debug)]
pub(crate) struct RunIo {
    pub(crate) sim: Arc<SimState>,
    pub(crate) control: Arc<ConnectionControl>,
    pub(crate) out: RunOutbound,
    pub(crate) quirks: Quirks,
    pub(crate) behaviour: Arc<Behaviour>,
    pub(crate) cut: Option<StreamCut>,
    pub(crate) next_exec: u32,
    pub(crate) next_kv: u32,
    pub(crate) next_query: u32,
    /// `turn_ended` was sent: the client may close its side.
    pub(crate) turn_over: bool,
    pub(crate) tape: RunTape,
    pub(crate) tally: RunTally,
    inbound: RunInbound,
    pub(crate) half_closed: bool,
    /// The times until the first token were sent.
    timed: bool,
    pub(crate) last_heard: Instant,
    last_sent: Instant,
    pub(crate) open: BTreeMap<QuestionKey, OpenQuestion>,
    /// All questions so far: an abort may cross with a result, and some clients send a plain
    /// result after a streamed shell.
    pub(crate) asked: BTreeSet<QuestionKey>,
    pub(crate) answers: HashMap<QuestionKey, ClientAnswer>,
}

impl RunIo {
    pub(crate) fn new(
        sim: &Arc<SimState>,
        control: Arc<ConnectionControl>,
        inbound: RunInbound,
        out: RunOutbound,
        tally: RunTally,
        number: u64,
    ) -> Self {
        let now = Instant::now();
        Self {
            quirks: sim.quirks(),
            behaviour: Arc::clone(&sim.behaviour),
            tape: RunTape::new(sim.config.recorder.clone(), number),
            sim: Arc::clone(sim),
            control,
            out,
            cut: None,
            next_exec: 1,
            next_kv: 1,
            next_query: 1,
            turn_over: false,
            tally,
            inbound,
            half_closed: false,
            timed: false,
            last_heard: now,
            last_sent: now,
            open: BTreeMap::new(),
            asked: BTreeSet::new(),
            answers: HashMap::new(),
        }
    }

    /// Applies a random fault. Returns it if it is a refusal, which the caller has to send.
    pub(crate) fn apply(&mut self, effect: ChaosEffect) -> Option<Refuse> {
        match effect {
            ChaosEffect::Refuse(refuse) => {
                self.tally.ended("refused");
                return Some(refuse);
            }
            ChaosEffect::Cut(cut) => self.cut = Some(cut),
            ChaosEffect::Gzip => self.out.style.gzip = true,
            ChaosEffect::Split(size) => self.out.style.split = Some(size),
        }
        None
    }

    // === sending ===

    /// Sends an update.
    pub(crate) async fn update(&mut self, update: Update) -> RunResult {
        let about_tool = matches!(
            update,
            Update::PartialToolCall(_) | Update::ToolCallStarted(_) | Update::ToolCallCompleted(_)
        );
        let started = (about_tool && self.behaviour.fields_extra).then(|| self.sim.now_ms());
        let update = InteractionUpdate { message: Some(update), message_started_at_ms: started };
        self.emit(ToClient::InteractionUpdate(update)).await
    }

    pub(crate) async fn emit(&mut self, message: ToClient) -> RunResult {
        let first_text = matches!(
            &message,
            ToClient::InteractionUpdate(update) if matches!(update.message, Some(Update::TextDelta(_)))
        );
        let timed = first_text && self.behaviour.fields_extra && !self.timed;
        self.timed |= timed;
        let ttft_breakdown = timed.then(five_doubles);
        let message = AgentServerMessage { message: Some(message), ttft_breakdown };
        if self.cut.is_some() {
            return self.emit_bytes(&message.to_wire()).await;
        }
        self.tape.note(Direction::FromServer, 0, || message.to_wire());
        self.out.push(&message);
        self.flush_if_due().await
    }

    /// Sends an encoded `AgentServerMessage`.
    pub(crate) async fn emit_bytes(&mut self, payload: &[u8]) -> RunResult {
        self.tape.note(Direction::FromServer, 0, || Bytes::copy_from_slice(payload));
        let frame = self.out.frame_of(payload);
        self.emit_frame(&frame).await
    }

    /// Sends bytes that count as one frame.
    pub(crate) async fn emit_frame(&mut self, frame: &[u8]) -> RunResult {
        if let Some(cut) = self.cut.take_if(|cut| cut.after_frames <= self.out.frames) {
            self.inject_fault(cut.how, frame).await?;
        }
        self.out.push_frame(frame);
        self.flush_if_due().await
    }

    async fn flush_if_due(&mut self) -> RunResult {
        if self.out.due() { self.flush().await } else { Ok(()) }
    }

    /// Passes everything so far to the transport.
    pub(crate) async fn flush(&mut self) -> RunResult {
        while let Some(chunk) = self.out.take() {
            self.send_chunk(chunk).await?;
        }
        self.last_sent = Instant::now();
        Ok(())
    }

    pub(crate) async fn send_chunk(&mut self, chunk: Bytes) -> RunResult {
        use tokio::sync::mpsc::error::TrySendError;
        self.tally.sent(chunk.len());
        let chunk = match self.out.tx.try_send(Ok(chunk)) {
            Ok(()) => return Ok(()),
            Err(TrySendError::Closed(_)) => return Err(RunStop::Gone),
            Err(TrySendError::Full(chunk)) => chunk,
        };
        // The client reads slowly. Read its messages meanwhile: it may cancel. This chunk is sent
        // all the same, or a frame would be incomplete.
        let tx = self.out.tx.clone();
        let mut outcome = Ok(());
        loop {
            tokio::select! {
                permit = tx.reserve() => {
                    permit.map_err(|_| RunStop::Gone)?.send(chunk);
                    return outcome;
                }
                event = self.inbound.next(), if !self.half_closed && outcome.is_ok() => {
                    outcome = self.on_inbound(event);
                    if matches!(outcome, Err(RunStop::Gone)) {
                        return outcome;
                    }
                }
            }
        }
    }

    /// Sends the end frame; dropping this then closes the stream.
    pub(crate) async fn end(&mut self, error: Option<&ConnectError>) -> RunResult {
        let frame = self.out.end_frame(error);
        self.tape.note(Direction::FromServer, 2, || frame.slice(5..));
        self.emit_frame(&frame).await?;
        self.flush().await
    }

    // === waiting ===

    /// Waits for a time, while client messages are read and heartbeats are sent.
    pub(crate) async fn sleep(&mut self, time: Duration) -> RunResult {
        if time.is_zero() {
            return Ok(());
        }
        self.flush().await?;
        let end = Instant::now() + time;
        self.wait(Some(end), |_| false).await
    }

    /// Sends only heartbeats from here on, until the client leaves.
    pub(crate) async fn heartbeats_only(&mut self) -> RunResult {
        self.flush().await?;
        self.wait(None, |_| false).await
    }

    /// Waits until all these calls are answered, as long as the service holds a call.
    pub(crate) async fn answered_in_time(&mut self, keys: &[QuestionKey]) -> RunResult {
        let Some(most) = self.behaviour.hold_max else { return self.answered(keys).await };
        self.flush().await?;
        let open = |io: &Self| keys.iter().any(|key| io.open.contains_key(key));
        self.wait(Some(Instant::now() + most), |io| !open(io)).await?;
        // The service has lost the stream; it says nothing about that.
        if open(self) { Err(RunStop::Cut) } else { Ok(()) }
    }

    /// The same without a limit.
    pub(crate) async fn answered(&mut self, keys: &[QuestionKey]) -> RunResult {
        self.flush().await?;
        self.wait(None, |io| keys.iter().all(|key| !io.open.contains_key(key))).await
    }

    async fn wait(&mut self, end: Option<Instant>, done: impl Fn(&Self) -> bool) -> RunResult {
        self.out.relax();
        let (heartbeat, silence) = (self.sim.config.heartbeat, self.sim.config.client_silence);
        while !done(self) {
            let (beat, drop) = (self.last_sent + heartbeat, self.last_heard + silence);
            let wake = end.map_or(beat.min(drop), |end| end.min(beat).min(drop));
            tokio::select! {
                event = self.inbound.next(), if !self.half_closed => self.on_inbound(event)?,
                () = self.out.tx.closed() => return Err(RunStop::Gone),
                () = tokio::time::sleep_until(wake) => {
                    let now = Instant::now();
                    if now >= drop {
                        return Err(RunStop::Silent);
                    }
                    if end.is_some_and(|end| now >= end) {
                        return Ok(());
                    }
                    if now >= beat {
                        self.beat().await?;
                        self.out.relax();
                    }
                }
            }
        }
        Ok(())
    }

    async fn beat(&mut self) -> RunResult {
        let beat = Update::Heartbeat(HeartbeatUpdate {});
        let message = InteractionUpdate { message: Some(beat), ..InteractionUpdate::default() };
        let message = AgentServerMessage {
            message: Some(ToClient::InteractionUpdate(message)),
            ..AgentServerMessage::default()
        };
        self.tape.note(Direction::FromServer, 0, || message.to_wire());
        self.out.push(&message);
        self.flush().await
    }

    // === asking ===

    /// Sends an exec request and does not wait for the answer.
    pub(crate) async fn ask_exec(
        &mut self,
        id: u32,
        exec_id: &str,
        arm: &crate::scenario::EncodedArm,
    ) -> RunResult<QuestionKey> {
        let key = QuestionKey::Exec(id);
        let asked = OpenQuestion {
            field: arm.field,
            exec_id: exec_id.to_owned(),
            ..OpenQuestion::default()
        };
        self.open.insert(key, asked);
        self.asked.insert(key);
        add(&self.sim.counters().execs_sent);
        if arm.field != CONTEXT {
            self.tally.exec();
        }
        let request = exec::request(id, exec_id, arm, self.behaviour.fields_extra);
        self.emit_bytes(&request).await?;
        Ok(key)
    }

    /// Sends any other question; only its own arm answers it.
    pub(crate) async fn ask(&mut self, key: QuestionKey, field: u32, message: &[u8]) -> RunResult {
        if !(self.half_closed && is_store(key, field)) {
            self.open.insert(key, OpenQuestion { field, ..OpenQuestion::default() });
        }
        self.asked.insert(key);
        self.emit_bytes(message).await
    }

    /// Drops a question: its answer is no longer expected.
    pub(crate) fn forget(&mut self, key: QuestionKey) {
        self.open.remove(&key);
    }

    pub(crate) fn take_answer(&mut self, key: QuestionKey) -> Option<ClientAnswer> {
        self.answers.remove(&key)
    }

    /// Waits for one exec and returns its answer.
    pub(crate) async fn exec_answer(&mut self, key: QuestionKey) -> RunResult<ExecAnswer> {
        self.answered(&[key]).await?;
        Ok(match self.take_answer(key) {
            Some(ClientAnswer::Exec(answer)) => *answer,
            _ => ExecAnswer::default(),
        })
    }

    /// Handles messages that have already arrived, without waiting.
    pub(crate) async fn listen(&mut self) -> RunResult {
        while !self.half_closed {
            let event = tokio::select! {
                biased;
                event = self.inbound.next() => event,
                () = std::future::ready(()) => return Ok(()),
            };
            self.on_inbound(event)?;
        }
        Ok(())
    }

    /// The first message of the client apart from heartbeats, before the run begins.
    pub(crate) async fn first(&mut self) -> RunResult<FromClient> {
        let limit = self.sim.config.client_silence;
        loop {
            let event = tokio::select! {
                event = self.inbound.next() => event,
                () = self.out.tx.closed() => return Err(RunStop::Gone),
                () = tokio::time::sleep(limit) => return Err(RunStop::Silent),
            };
            self.last_heard = Instant::now();
            match event {
                InboundEvent::Message(bytes) => match self.decode(&bytes)? {
                    Some(FromClient::ClientHeartbeat(_) | FromClient::PrewarmRequest(_)) | None => {
                    }
                    Some(message) => return Ok(message),
                },
                InboundEvent::HalfClosed => {
                    return Err(fail(Code::InvalidArgument, "No run request"));
                }
                InboundEvent::Gone => return Err(RunStop::Gone),
                InboundEvent::Malformed(what) => return Err(fail(Code::InvalidArgument, &what)),
            }
        }
    }

    pub(crate) fn violation(&self, what: &str) {
        self.sim.counters().violation(what.to_owned());
    }
}

/// The parts of the time until the first token, all zero.
fn five_doubles() -> Bytes {
    let field = |number: u8| [number << 3 | 1, 0, 0, 0, 0, 0, 0, 0, 0];
    (1..=5).flat_map(field).collect::<Vec<_>>().into()
}

pub(crate) fn fail(code: Code, message: &str) -> RunStop {
    RunStop::Fail(ConnectError::new(code, message))
}
