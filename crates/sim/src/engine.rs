//! One run on either transport: frames out, client messages in, patience between.
//! Everything that waits goes through here, so that heartbeats, silence and cancel are
//! looked after in one place.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use ibeam_core::codec::{
    connect::{Code, ConnectError},
    pbwalk,
};
use ibeam_proto::{
    agent::{
        AgentClientMessage, AgentServerMessage, ExecClientControlMessage, ExecClientMessage,
        HeartbeatUpdate, InteractionResponse, InteractionUpdate, KvClientMessage,
        agent_client_message::Message as FromClient, agent_server_message::Message as ToClient,
        conversation_action, exec_client_control_message::Message as Control_,
        interaction_update::Message as Update, kv_client_message::Message as KvReply,
    },
    fields::CLIENT_MESSAGE,
};
use prost::Message as _;
use tokio::time::Instant;

use crate::{
    Sim,
    exec::{self, ExecAnswer, Outcome},
    faults::Cut,
    inbound::{Heard, Inbound},
    outbound::Outbound,
    quirks::Quirks,
    server::Control,
    stats::add,
    transcript::{Direction, RunTape},
};

/// Why a run goes no further.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The client asked for it.
    Cancelled,
    /// The client is not there any more.
    Gone,
    /// The client has not been heard for too long.
    Silent,
    /// The service refuses to go on.
    Fail(ConnectError),
    /// The script wants an error end frame.
    Scripted(ConnectError),
    /// An injected fault ended the stream; nothing more is sent.
    Cut,
    /// The script closes the stream as it is.
    Closed,
}

pub(crate) type Step<T = ()> = Result<T, Stop>;

/// A question to the client that is not answered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Key {
    Exec(u32),
    Kv(u32),
    Query(u32),
}

#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Exec(Box<ExecAnswer>),
    /// `None`: the client does not have the blob. For stores: `Some` of nothing.
    Kv(Option<Bytes>),
    Query(InteractionResponse),
}

/// What is known about an open question.
#[derive(Clone, Debug, Default)]
struct Asked {
    field: u32,
    exec_id: String,
    answer: ExecAnswer,
}

#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) sim: Sim,
    pub(crate) control: Arc<Control>,
    pub(crate) out: Outbound,
    pub(crate) quirks: Quirks,
    pub(crate) cut: Option<Cut>,
    pub(crate) next_exec: u32,
    pub(crate) next_kv: u32,
    pub(crate) next_query: u32,
    tape: RunTape,
    inbound: Inbound,
    half_closed: bool,
    last_heard: Instant,
    last_sent: Instant,
    open: BTreeMap<Key, Asked>,
    /// All that was ever asked: an abort may cross with a result, and some clients follow
    /// a streamed shell with a plain result.
    asked: BTreeSet<Key>,
    answers: HashMap<Key, Answer>,
}

impl Engine {
    pub(crate) fn new(
        sim: Sim,
        control: Arc<Control>,
        inbound: Inbound,
        out: Outbound,
        tape: RunTape,
    ) -> Self {
        let now = Instant::now();
        Self {
            sim,
            control,
            out,
            quirks: Quirks::default(),
            cut: None,
            next_exec: 1,
            next_kv: 1,
            next_query: 1,
            tape,
            inbound,
            half_closed: false,
            last_heard: now,
            last_sent: now,
            open: BTreeMap::new(),
            asked: BTreeSet::new(),
            answers: HashMap::new(),
        }
    }

    // === sending ===

    /// Sends an update.
    pub(crate) async fn update(&mut self, update: Update) -> Step {
        let update = InteractionUpdate { message: Some(update) };
        self.emit(ToClient::InteractionUpdate(update)).await
    }

    pub(crate) async fn emit(&mut self, message: ToClient) -> Step {
        let message = AgentServerMessage { message: Some(message) };
        if self.cut.is_some() {
            return self.emit_bytes(&message.encode_to_vec()).await;
        }
        self.tape.note(Direction::FromServer, 0, || message.encode_to_vec().into());
        self.out.push(&message);
        self.flush_if_due().await
    }

    /// Sends an encoded `AgentServerMessage`.
    pub(crate) async fn emit_bytes(&mut self, payload: &[u8]) -> Step {
        self.tape.note(Direction::FromServer, 0, || Bytes::copy_from_slice(payload));
        let frame = self.out.frame_of(payload);
        self.emit_frame(&frame).await
    }

    /// Sends bytes that count as one frame.
    pub(crate) async fn emit_frame(&mut self, frame: &[u8]) -> Step {
        if let Some(cut) = self.cut.take_if(|cut| cut.after_frames <= self.out.frames) {
            self.strike(cut.how, frame).await?;
        }
        self.out.push_frame(frame);
        self.flush_if_due().await
    }

    async fn flush_if_due(&mut self) -> Step {
        if self.out.due() { self.flush().await } else { Ok(()) }
    }

    /// Gives everything that was sent so far to the transport.
    pub(crate) async fn flush(&mut self) -> Step {
        while let Some(chunk) = self.out.take() {
            self.send_chunk(chunk).await?;
        }
        self.last_sent = Instant::now();
        Ok(())
    }

    pub(crate) async fn send_chunk(&mut self, chunk: Bytes) -> Step {
        use tokio::sync::mpsc::error::TrySendError;
        let chunk = match self.out.tx.try_send(Ok(chunk)) {
            Ok(()) => return Ok(()),
            Err(TrySendError::Closed(_)) => return Err(Stop::Gone),
            Err(TrySendError::Full(chunk)) => chunk,
        };
        // The client reads slowly. Listen to it meanwhile: it may cancel.
        let tx = self.out.tx.clone();
        loop {
            tokio::select! {
                permit = tx.reserve() => {
                    permit.map_err(|_| Stop::Gone)?.send(chunk);
                    return Ok(());
                }
                heard = self.inbound.next(), if !self.half_closed => self.hear(heard)?,
            }
        }
    }

    /// The end frame; the caller then drops the engine, which closes the stream.
    pub(crate) async fn end(&mut self, error: Option<&ConnectError>) -> Step {
        let frame = self.out.end_frame(error);
        self.tape.note(Direction::FromServer, 2, || frame.slice(5..));
        self.emit_frame(&frame).await?;
        self.flush().await
    }

    // === waiting ===

    /// Waits for a time; the client is heard and heartbeats go out.
    pub(crate) async fn sleep(&mut self, time: Duration) -> Step {
        if time.is_zero() {
            return Ok(());
        }
        self.flush().await?;
        let end = Instant::now() + time;
        self.wait(Some(end), |_| false).await
    }

    /// Only heartbeats from here on, until the client leaves.
    pub(crate) async fn heartbeats_only(&mut self) -> Step {
        self.flush().await?;
        self.wait(None, |_| false).await
    }

    /// Waits until all these questions are answered.
    pub(crate) async fn answered(&mut self, keys: &[Key]) -> Step {
        self.flush().await?;
        self.wait(None, |engine| keys.iter().all(|key| !engine.open.contains_key(key))).await
    }

    async fn wait(&mut self, end: Option<Instant>, done: impl Fn(&Self) -> bool) -> Step {
        let (heartbeat, silence) =
            (self.sim.inner.config.heartbeat, self.sim.inner.config.client_silence);
        while !done(self) {
            let (beat, drop) = (self.last_sent + heartbeat, self.last_heard + silence);
            let wake = end.map_or(beat.min(drop), |end| end.min(beat).min(drop));
            tokio::select! {
                heard = self.inbound.next(), if !self.half_closed => self.hear(heard)?,
                () = self.out.tx.closed() => return Err(Stop::Gone),
                () = tokio::time::sleep_until(wake) => {
                    let now = Instant::now();
                    if now >= drop {
                        return Err(Stop::Silent);
                    }
                    if end.is_some_and(|end| now >= end) {
                        return Ok(());
                    }
                    if now >= beat {
                        self.beat().await?;
                    }
                }
            }
        }
        Ok(())
    }

    async fn beat(&mut self) -> Step {
        let beat = Update::Heartbeat(HeartbeatUpdate {});
        let message = InteractionUpdate { message: Some(beat) };
        let message = AgentServerMessage { message: Some(ToClient::InteractionUpdate(message)) };
        self.tape.note(Direction::FromServer, 0, || message.encode_to_vec().into());
        self.out.push(&message);
        self.flush().await
    }

    // === asking ===

    /// Sends an exec request; the answer is waited for elsewhere.
    pub(crate) async fn ask_exec(
        &mut self,
        id: u32,
        exec_id: &str,
        arm: &crate::step::Arm,
    ) -> Step<Key> {
        let key = Key::Exec(id);
        let asked = Asked { field: arm.field, exec_id: exec_id.to_owned(), ..Asked::default() };
        self.open.insert(key, asked);
        self.asked.insert(key);
        add(&self.sim.inner.counters.execs_sent);
        self.emit_bytes(&exec::request(id, exec_id, arm)).await?;
        Ok(key)
    }

    /// Sends any other question.
    pub(crate) async fn ask(&mut self, key: Key, message: &[u8]) -> Step {
        self.open.insert(key, Asked::default());
        self.asked.insert(key);
        self.emit_bytes(message).await
    }

    /// No answer is expected any more.
    pub(crate) fn forget(&mut self, key: Key) {
        self.open.remove(&key);
    }

    pub(crate) fn take_answer(&mut self, key: Key) -> Option<Answer> {
        self.answers.remove(&key)
    }

    /// Waits for one exec and gives its answer.
    pub(crate) async fn exec_answer(&mut self, key: Key) -> Step<ExecAnswer> {
        self.answered(&[key]).await?;
        Ok(match self.take_answer(key) {
            Some(Answer::Exec(answer)) => *answer,
            _ => ExecAnswer::default(),
        })
    }

    // === hearing ===

    /// The next message as bytes, before the run has begun.
    pub(crate) async fn first(&mut self) -> Step<FromClient> {
        let limit = self.sim.inner.config.client_silence;
        loop {
            let heard = tokio::select! {
                heard = self.inbound.next() => heard,
                () = self.out.tx.closed() => return Err(Stop::Gone),
                () = tokio::time::sleep(limit) => return Err(Stop::Silent),
            };
            self.last_heard = Instant::now();
            match heard {
                Heard::Message(bytes) => match self.decode(bytes)? {
                    Some(FromClient::ClientHeartbeat(_) | FromClient::PrewarmRequest(_)) | None => {
                    }
                    Some(message) => return Ok(message),
                },
                Heard::HalfClosed => {
                    return Err(fail(Code::InvalidArgument, "No run request"));
                }
                Heard::Gone => return Err(Stop::Gone),
                Heard::Malformed(what) => return Err(fail(Code::InvalidArgument, &what)),
            }
        }
    }

    fn decode(&self, bytes: Bytes) -> Step<Option<FromClient>> {
        let counters = &self.sim.inner.counters;
        add(&counters.client_messages);
        self.tape.note(Direction::FromClient, 0, || bytes.clone());
        for unknown in pbwalk::unknown_fields(CLIENT_MESSAGE, &bytes) {
            counters.unknown_field(format!("{} field {}", unknown.message, unknown.field));
        }
        match AgentClientMessage::decode(bytes) {
            Ok(message) => Ok(message.message),
            Err(error) => {
                counters.violation(format!("message does not parse: {error}"));
                Err(fail(Code::InvalidArgument, "parse binary: invalid message"))
            }
        }
    }

    fn hear(&mut self, heard: Heard) -> Step {
        match heard {
            Heard::Message(bytes) => {
                self.last_heard = Instant::now();
                match self.decode(bytes)? {
                    Some(message) => self.hear_message(message),
                    None => Ok(()),
                }
            }
            Heard::HalfClosed => {
                self.half_closed = true;
                Ok(())
            }
            Heard::Gone => Err(Stop::Gone),
            Heard::Malformed(what) => Err(fail(Code::InvalidArgument, &what)),
        }
    }

    fn hear_message(&mut self, message: FromClient) -> Step {
        let counters = &self.sim.inner.counters;
        match message {
            FromClient::ClientHeartbeat(_) => add(&counters.client_heartbeats),
            FromClient::ExecClientMessage(message) => self.hear_exec(&message),
            FromClient::ExecClientControlMessage(message) => self.hear_control(message),
            FromClient::KvClientMessage(message) => self.hear_kv(message),
            FromClient::InteractionResponse(response) => {
                add(&counters.query_answers);
                let key = Key::Query(response.id);
                self.close(key, Answer::Query(response));
            }
            FromClient::ConversationAction(action) => match action.action {
                Some(conversation_action::Action::CancelAction(_)) => return Err(Stop::Cancelled),
                // Seen from clients after tool results; harmless.
                Some(conversation_action::Action::ResumeAction(_)) => {}
                _ => self.violation("action in the middle of a run"),
            },
            FromClient::RunRequest(_) => self.violation("second run request on a stream"),
            FromClient::PrewarmRequest(_) => {}
        }
        Ok(())
    }

    fn hear_exec(&mut self, message: &ExecClientMessage) {
        add(&self.sim.inner.counters.exec_results);
        let key = Key::Exec(message.id);
        let Some(asked) = self.open.get_mut(&key) else {
            if !self.asked.contains(&key) {
                self.violation("exec result nobody asked for");
            }
            return;
        };
        if asked.exec_id != message.exec_id {
            self.sim.inner.counters.violation("exec_id is not echoed".to_owned());
        }
        if let Some(reply) = &message.message
            && !exec::answers(asked.field, reply)
        {
            let (sent, got) = (asked.field, exec::field_of(reply));
            let what = format!("exec arm {sent} answered with result arm {got}");
            self.sim.inner.counters.violation(what);
        }
        if asked.answer.take(message) {
            let answer = Box::new(asked.answer.clone());
            self.close(key, Answer::Exec(answer));
        }
    }

    fn hear_control(&mut self, message: ExecClientControlMessage) {
        let counters = &self.sim.inner.counters;
        match message.message {
            Some(Control_::StreamClose(close)) => {
                add(&counters.exec_closes);
                let key = Key::Exec(close.id);
                if let Some(asked) = self.open.get(&key) {
                    let answer = ExecAnswer { outcome: Outcome::Closed, ..asked.answer.clone() };
                    self.violation("exec closed without a result");
                    self.close(key, Answer::Exec(Box::new(answer)));
                }
            }
            Some(Control_::Throw(throw)) => {
                add(&counters.exec_throws);
                let answer =
                    ExecAnswer { outcome: Outcome::Thrown, text: throw.error, reply: None };
                self.close(Key::Exec(throw.id), Answer::Exec(Box::new(answer)));
            }
            Some(Control_::Heartbeat(_)) | None => {}
        }
    }

    fn hear_kv(&mut self, message: KvClientMessage) {
        let answer = match message.message {
            Some(KvReply::GetBlobResult(result)) => result.blob_data,
            Some(KvReply::SetBlobResult(result)) => {
                if result.error.is_some() {
                    self.violation("client could not store a blob");
                }
                Some(Bytes::new())
            }
            None => None,
        };
        self.close(Key::Kv(message.id), Answer::Kv(answer));
    }

    fn close(&mut self, key: Key, answer: Answer) {
        if self.open.remove(&key).is_some() {
            self.answers.insert(key, answer);
        } else if !self.asked.contains(&key) {
            self.violation("answer nobody asked for");
        }
    }

    pub(crate) fn violation(&self, what: &str) {
        self.sim.inner.counters.violation(what.to_owned());
    }
}

pub(crate) fn fail(code: Code, message: &str) -> Stop {
    Stop::Fail(ConnectError::new(code, message))
}
