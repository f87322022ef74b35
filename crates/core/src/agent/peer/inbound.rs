//! What the backend says, and the answers it must get.

use std::time::Duration;

use bytes::Bytes;
use ibeam_proto::Wire as _;
use ibeam_proto::agent::{
    AgentServerMessage, ConversationTokenDetails, ExecServerMessage, GetBlobResult,
    InteractionQuery, InteractionUpdate, KvClientMessage, KvServerMessage, SetBlobError,
    SetBlobResult, TurnEndedUpdate, agent_client_message::Message as ToServer,
    agent_server_message::Message as FromServer, exec_client_message::Message as Reply,
    exec_server_control_message, exec_server_message::Message as Ask,
    interaction_update::Message as Update, kv_client_message, kv_server_message,
};

use super::{
    Checkpoint, Command, Turn,
    stream::{BEGUN_CAP, Link, Stored},
};
use crate::{
    agent::{
        blobs, classify,
        exec::{self, Verdict},
        query,
    },
    answer::Totals,
    codec::{
        connect::{self, ConnectError},
        pbwalk,
    },
    model::Millis,
};

/// `interaction_query` in `AgentServerMessage`.
const QUERY: u32 = 7;

impl Turn {
    pub(super) fn on_message(&mut self, bytes: &Bytes, now: Millis) {
        self.answer.started();
        let message = AgentServerMessage::from_wire(bytes.clone());
        let Link::Open(link) = &mut self.link else { return };
        link.heard = true;
        link.last_frame = now;
        link.upload = Duration::ZERO;
        let Ok(message) = message else {
            link.last_progress = now;
            self.drift.undecodable();
            self.refuse_undecodable(bytes);
            return;
        };
        let update = match &message.message {
            Some(FromServer::InteractionUpdate(update)) => update.message.as_ref(),
            _ => None,
        };
        if matches!(update, Some(Update::Heartbeat(_))) {
            link.heartbeats += 1;
            return;
        }
        link.last_progress = now;
        link.heartbeats = 0;
        let frequent = matches!(
            update,
            Some(Update::TextDelta(_) | Update::ThinkingDelta(_) | Update::TokenDelta(_))
        );
        self.drift.inspect(bytes, frequent);

        match message.message {
            Some(FromServer::InteractionUpdate(update)) => self.on_update(update, now),
            Some(FromServer::ExecServerMessage(exec)) => self.on_exec(&exec, now),
            Some(FromServer::ConversationCheckpointUpdate(state)) => {
                self.on_checkpoint(bytes, state.token_details, now);
            }
            Some(FromServer::KvServerMessage(kv)) => self.on_kv(kv),
            Some(FromServer::ExecServerControlMessage(control)) => match control.message {
                Some(exec_server_control_message::Message::Abort(abort)) => self.on_abort(abort.id),
                None => self.drift.unknown_arm(),
            },
            Some(FromServer::InteractionQuery(query)) => self.on_query(&query, bytes),
            None => self.drift.unknown_arm(),
        }
        if self.awaiting && self.answer.waiting() + self.held_bytes() > self.settings.parked_bytes {
            // More than is kept for a client that may never come back.
            self.hang_up(true);
        }
    }

    fn on_update(&mut self, update: InteractionUpdate, now: Millis) {
        let Link::Open(link) = &mut self.link else { return };
        let Some(update) = update.message else {
            self.drift.unknown_arm();
            return;
        };
        match update {
            Update::TextDelta(delta) => {
                link.stored = Stored::Nothing;
                self.answer.text(delta.text);
            }
            Update::ThinkingDelta(delta) => self.answer.reasoning(delta.text),
            Update::TokenDelta(delta) => self.answer.output_tokens(delta.tokens),
            Update::StepStarted(_) => link.open_steps += 1,
            Update::StepCompleted(_) => {
                link.open_steps = link.open_steps.saturating_sub(1);
                self.flush_batch(now);
            }
            Update::ToolCallStarted(call) => {
                self.on_announced(&call.call_id, call.tool_call, "");
                if let Link::Open(link) = &mut self.link
                    && link.begun.len() < BEGUN_CAP
                {
                    link.begun.insert(call.call_id);
                }
            }
            Update::PartialToolCall(call) => {
                self.on_announced(&call.call_id, call.tool_call, &call.args_text_delta);
            }
            Update::ToolCallCompleted(call) => {
                link.begun.remove(&call.call_id);
                self.on_completed(&call.call_id);
            }
            Update::TurnEnded(usage) => {
                link.ended_until = Some(now + self.settings.clocks.end_wait);
                self.answer.run_ended(totals(&usage));
                if self.awaiting {
                    // Over, without the results: they will be told anew.
                    self.hang_up(false);
                } else {
                    self.flush_batch(now);
                }
            }
            // Notices for a user interface that is not ours.
            Update::ThinkingCompleted(_)
            | Update::UserMessageAppended(_)
            | Update::ToolCallDelta(_)
            | Update::Summary(_)
            | Update::SummaryStarted(_)
            | Update::SummaryCompleted(_)
            | Update::ShellOutputDelta(_)
            | Update::Heartbeat(_)
            | Update::RoutedModelUpdate(_) => {}
        }
    }

    fn on_exec(&mut self, exec: &ExecServerMessage, now: Millis) {
        let is_context = matches!(exec.message, Some(Ask::RequestContextArgs(_)));
        if is_context {
            self.flush_batch(now);
        }
        if let Some(refusal) = self.half_read.refusal(exec) {
            self.reply(exec, refusal);
            return;
        }
        let around = &self.spec.around;
        let verdict = exec::judge(
            exec,
            &around.toolbox,
            &around.equipment,
            &around.context,
            around.permissions,
        );
        if !is_context && !matches!(verdict, Verdict::ClientTool(_)) && self.is_stubborn() {
            return;
        }
        match verdict {
            Verdict::Reply(reply) => self.reply(exec, *reply),
            Verdict::Throw(error) => {
                if exec.message.is_none() {
                    self.drift.unknown_arm();
                }
                self.throw(exec.id, error);
            }
            Verdict::ClientTool(call) => self.on_client_call(exec, *call, now),
        }
    }

    fn reply(&mut self, exec: &ExecServerMessage, reply: Reply) {
        self.send_reply(exec.id, &exec.exec_id, reply);
        self.close_exec(exec.id);
    }

    fn on_checkpoint(
        &mut self,
        message: &Bytes,
        tokens: Option<ConversationTokenDetails>,
        now: Millis,
    ) {
        const CHECKPOINT: u32 = 3;
        let raw = pbwalk::fields(message).find(|field| field.number == CHECKPOINT);
        let seen = self.answer.visible();
        self.checkpoint = raw.and_then(|field| field.payload).map(|bytes| Checkpoint {
            bytes: Bytes::copy_from_slice(bytes),
            seen,
            before_results: false,
        });
        self.since.checkpoint(self.answer.words().len());
        if let Some(tokens) = tokens {
            self.answer.context_tokens(tokens.used_tokens.into());
        }
        self.flush_batch(now);
    }

    fn on_kv(&mut self, kv: KvServerMessage) {
        let answer = match kv.message {
            Some(kv_server_message::Message::GetBlobArgs(get)) => {
                kv_client_message::Message::GetBlobResult(GetBlobResult {
                    blob_data: self.spec.blobs.get(&get.blob_id),
                })
            }
            Some(kv_server_message::Message::SetBlobArgs(set)) => {
                // An answer of our own history, stored again, is no news.
                let text = blobs::assistant_text(&set.blob_data)
                    .filter(|text| !self.spec.has_answer(text));
                if let Link::Open(link) = &mut self.link {
                    let stored = if text.is_some() { Stored::Answer } else { Stored::Something };
                    link.stored = link.stored.max(stored);
                }
                if let Some(text) = text {
                    self.answer.blob_text(text);
                }
                let refused = self.spec.blobs.accept(&set.blob_id, &set.blob_data).err();
                kv_client_message::Message::SetBlobResult(SetBlobResult {
                    error: refused.map(|why| SetBlobError { message: why.to_string() }),
                })
            }
            None => {
                self.drift.unknown_arm();
                return;
            }
        };
        let message = KvClientMessage { id: kv.id, message: Some(answer) };
        self.send(ToServer::KvClientMessage(message));
    }

    fn on_query(&mut self, query: &InteractionQuery, message: &[u8]) {
        if let Some(answer) = query::answer(query, self.spec.around.permissions) {
            self.send(ToServer::InteractionResponse(answer));
            return;
        }
        self.drift.unknown_arm();
        self.refuse_query(query.id, message);
    }

    /// Refuses a query by the number of its arm, which our schema does not have.
    fn refuse_query(&mut self, id: u32, message: &[u8]) {
        const RESPONSE_TAG: u8 = 0x32; // AgentClientMessage field 6, length-delimited
        let raw = pbwalk::fields(message).find(|field| field.number == QUERY);
        if let Some(arm) = raw.and_then(|field| field.payload).and_then(query::arm_number) {
            let body = query::refuse_by_number(id, arm);
            let mut out = vec![RESPONSE_TAG];
            prost::encoding::encode_varint(body.len() as u64, &mut out);
            out.extend_from_slice(&body);
            self.commands.push_back(Command::Send(connect::frame(0, &out)));
        }
    }

    /// A message that our schema cannot read may still be a question, and an
    /// unanswered one hangs the turn: its id is enough to say no.
    fn refuse_undecodable(&mut self, message: &[u8]) {
        const EXEC: u32 = 2;
        let Some(field) = pbwalk::fields(message).next() else { return };
        let Some(payload) = field.payload else { return };
        // An id of 0 is not on the wire.
        let id = pbwalk::fields(payload).find(|field| field.number == 1);
        let id = id.and_then(|field| field.varint).and_then(|id| u32::try_from(id).ok());
        match field.number {
            EXEC => self.throw(id.unwrap_or(0), "this client cannot read that request"),
            QUERY => self.refuse_query(id.unwrap_or(0), message),
            _ => {}
        }
    }

    pub(super) fn on_end(&mut self, error: Option<&ConnectError>, now: Millis) {
        if let Link::Open(link) = &mut self.link {
            link.last_frame = now;
        }
        match error {
            _ if self.awaiting => self.hang_up(false),
            None => self.finish_stop(now, false),
            // Calls that were handed out are whole, whatever became of the stream.
            Some(_) if self.answer.has_calls() => self.finish_stop(now, false),
            Some(error) => self.recover(classify::connect_error(error), false, now),
        }
    }
}

fn totals(ended: &TurnEndedUpdate) -> Totals {
    Totals {
        input: ended.input_tokens,
        output: ended.output_tokens,
        cache_read: ended.cache_read_tokens,
        cache_write: ended.cache_write_tokens,
        reasoning: ended.reasoning_tokens,
    }
}
