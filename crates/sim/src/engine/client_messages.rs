//! Client messages during a run, and the questions they answer. Only the right answer closes a
//! question; anything else is recorded as a violation, and the run keeps waiting.

use bytes::Bytes;
use ibeam_core::codec::{connect::Code, pbwalk};
use ibeam_proto::Wire as _;
use ibeam_proto::{
    agent::{
        AgentClientMessage, ExecClientControlMessage, ExecClientMessage, InteractionResponse,
        KvClientMessage, agent_client_message::Message as FromClient, conversation_action,
        exec_client_control_message::Message as Control_, exec_client_message::Message as Reply,
        kv_client_message::Message as KvReply, shell_stream,
    },
    fields::CLIENT_MESSAGE,
};
use tokio::time::Instant;

use super::{
    exec::{self, ExecAnswer, ExecOutcome},
    run_io::{ClientAnswer, QuestionKey, RunIo, RunResult, RunStop, fail},
};
use crate::{
    record::{Direction, add},
    scenario::Quirk,
    stream::InboundEvent,
};

/// The arms of KV messages, the same in both directions.
pub(crate) const KV_GET: u32 = 2;
pub(crate) const KV_SET: u32 = 3;
/// The arm of a shell whose output is streamed.
const SHELL_STREAM: u32 = 14;
/// `AgentClientMessage.interaction_response`.
const RESPONSE: u32 = 6;
/// `InteractionResponse.id`; every other field is an arm.
const RESPONSE_ID: u32 = 1;

pub(crate) fn is_store(key: QuestionKey, field: u32) -> bool {
    matches!(key, QuestionKey::Kv(_)) && field == KV_SET
}

/// Whether this is the end of a shell's stream.
fn is_exit(reply: &Reply) -> bool {
    matches!(
        reply,
        Reply::ShellStream(stream) if matches!(stream.event, Some(shell_stream::Event::Exit(_)))
    )
}

impl RunIo {
    pub(crate) fn decode(&self, bytes: &Bytes) -> RunResult<Option<FromClient>> {
        let counters = &self.sim.counters();
        add(&counters.client_messages);
        self.tape.note(Direction::FromClient, 0, || bytes.clone());
        for (unknown, _) in pbwalk::unknown_fields(CLIENT_MESSAGE, bytes) {
            counters.unknown_field(format!("{} field {}", unknown.message, unknown.field));
        }
        match AgentClientMessage::from_wire(bytes.clone()) {
            Ok(message) => Ok(message.message),
            Err(error) => {
                counters.violation(format!("message does not parse: {error}"));
                Err(fail(Code::InvalidArgument, "parse binary: invalid message"))
            }
        }
    }

    pub(crate) fn on_inbound(&mut self, event: InboundEvent) -> RunResult {
        match event {
            InboundEvent::Message(bytes) => {
                self.last_heard = Instant::now();
                match self.decode(&bytes)? {
                    Some(message) => self.on_message(message, &bytes),
                    None => Ok(()),
                }
            }
            InboundEvent::HalfClosed => {
                self.half_closed = true;
                if self.turn_over || self.quirks.has(Quirk::HalfCloseOk) {
                    // Stored blobs can no longer be confirmed.
                    self.open.retain(|key, asked| !is_store(*key, asked.field));
                    return Ok(());
                }
                self.violation("request closed while the run goes on");
                Err(RunStop::HalfClosed)
            }
            InboundEvent::Gone => Err(RunStop::Gone),
            InboundEvent::Malformed(what) => Err(fail(Code::InvalidArgument, &what)),
        }
    }

    fn on_message(&mut self, message: FromClient, raw: &[u8]) -> RunResult {
        let counters = &self.sim.counters();
        match message {
            FromClient::ClientHeartbeat(_) => add(&counters.client_heartbeats),
            FromClient::ExecClientMessage(message) => self.on_exec_result(&message),
            FromClient::ExecClientControlMessage(message) => self.on_exec_control(message),
            FromClient::KvClientMessage(message) => return self.on_blob_answer(message),
            FromClient::InteractionResponse(response) => self.on_query_answer(response, raw),
            FromClient::ConversationAction(action) => match action.action {
                Some(conversation_action::Action::CancelAction(_)) => {
                    return Err(RunStop::Cancelled);
                }
                // Some clients send it after tool results; harmless.
                Some(conversation_action::Action::ResumeAction(_)) => {}
                _ => self.violation("action in the middle of a run"),
            },
            FromClient::RunRequest(_) => self.violation("second run request on a stream"),
            FromClient::PrewarmRequest(_) => {}
        }
        Ok(())
    }

    fn on_exec_result(&mut self, message: &ExecClientMessage) {
        add(&self.sim.counters().exec_results);
        let key = QuestionKey::Exec(message.id);
        let note = |what: String| self.sim.counters().violation(what);
        let Some(asked) = self.open.get_mut(&key) else {
            if !self.asked.contains(&key) {
                note("unexpected exec result".to_owned());
            }
            return;
        };
        if asked.exec_id != message.exec_id {
            note("exec_id is not echoed".to_owned());
        }
        let Some(reply) = &message.message else {
            return note(format!("exec arm {} answered with no result", asked.field));
        };
        if !exec::answers(asked.field, reply) {
            let (sent, got) = (asked.field, exec::field_of(reply));
            return note(format!("exec arm {sent} answered with result arm {got}"));
        }
        match reply {
            // Row 7: a search can only be refused with an error.
            Reply::GrepResult(grep) if grep.result.is_none() => {
                if !self.quirks.has(Quirk::GrepRefusalOk) {
                    return note("grep answered with neither success nor error".to_owned());
                }
                asked.answer.outcome = ExecOutcome::Rejected;
            }
            Reply::ShellStream(stream) if stream.event.is_none() => {
                return note("shell stream without an event".to_owned());
            }
            reply => {
                let must_close = asked.field == SHELL_STREAM && self.behaviour.shell_close_required;
                let ended = match (must_close, reply) {
                    // The result repeats what the stream has shown.
                    (true, Reply::ShellResult(_)) if asked.shell.complete => true,
                    _ => asked.answer.take(reply),
                };
                if must_close {
                    asked.shell.complete |= ended;
                    asked.shell.result_missing = ended && is_exit(reply);
                    if !asked.shell.is_over() {
                        return;
                    }
                } else if !ended {
                    return;
                }
            }
        }
        let answer = Box::new(asked.answer.clone());
        self.close(key, ClientAnswer::Exec(answer));
    }

    fn on_exec_control(&mut self, message: ExecClientControlMessage) {
        let counters = &self.sim.counters();
        match message.message {
            Some(Control_::StreamClose(close)) => {
                add(&counters.exec_closes);
                self.on_exec_close(QuestionKey::Exec(close.id));
            }
            Some(Control_::Throw(throw)) => {
                add(&counters.exec_throws);
                let answer =
                    ExecAnswer { outcome: ExecOutcome::Thrown, text: throw.error, reply: None };
                self.close(QuestionKey::Exec(throw.id), ClientAnswer::Exec(Box::new(answer)));
            }
            Some(Control_::Heartbeat(_)) | None => {}
        }
    }

    fn on_exec_close(&mut self, key: QuestionKey) {
        let must_close = self.behaviour.shell_close_required;
        let Some(asked) = self.open.get_mut(&key) else { return };
        if must_close && asked.shell.complete {
            asked.shell.closed = true;
            if asked.shell.is_over() {
                let answer = Box::new(asked.answer.clone());
                self.close(key, ClientAnswer::Exec(answer));
            }
            return;
        }
        self.violation("exec closed without a result");
    }

    fn on_blob_answer(&mut self, message: KvClientMessage) -> RunResult {
        let key = QuestionKey::Kv(message.id);
        let (field, answer) = match message.message {
            Some(KvReply::GetBlobResult(result)) => (KV_GET, result.blob_data),
            Some(KvReply::SetBlobResult(result)) => {
                if result.error.is_some() && self.open.contains_key(&key) {
                    self.violation("client could not store a blob");
                    return Err(fail(Code::Internal, "Blob not stored"));
                }
                (KV_SET, Some(Bytes::new()))
            }
            None => (0, None),
        };
        match self.open.get(&key).map(|asked| asked.field) {
            Some(asked) if asked != field => {
                let what = format!("blob arm {asked} answered with result arm {field}");
                self.sim.counters().violation(what);
            }
            _ => self.close(key, ClientAnswer::Kv(answer)),
        }
        Ok(())
    }

    /// An approval. The arm is looked up in the bytes, so that an arm outside the schema can be
    /// answered too: under its own number, and not empty.
    fn on_query_answer(&mut self, response: InteractionResponse, raw: &[u8]) {
        add(&self.sim.counters().query_answers);
        let key = QuestionKey::Query(response.id);
        let arm = pbwalk::fields(raw)
            .filter(|field| field.number == RESPONSE)
            .filter_map(|field| field.payload)
            .flat_map(pbwalk::fields)
            .filter(|field| field.number != RESPONSE_ID)
            .last();
        let what = match (self.open.get(&key), arm) {
            (Some(asked), None) => format!("query arm {} answered with no arm", asked.field),
            (Some(asked), Some(arm)) if arm.number != asked.field => {
                format!("query arm {} answered with arm {}", asked.field, arm.number)
            }
            (Some(asked), Some(arm)) if arm.payload.is_none_or(<[u8]>::is_empty) => {
                format!("query arm {} answered with nothing in it", asked.field)
            }
            _ => return self.close(key, ClientAnswer::Query(response)),
        };
        self.sim.counters().violation(what);
    }

    fn close(&mut self, key: QuestionKey, answer: ClientAnswer) {
        if self.open.remove(&key).is_some() {
            self.answers.insert(key, answer);
        } else if !self.asked.contains(&key) {
            self.violation("unexpected answer");
        }
    }
}
