//! What the backend says, and the answers it must get.

use std::time::Duration;

use bytes::Bytes;
use ibeam_proto::Wire as _;
use ibeam_proto::agent::{
    AgentServerMessage, ConversationTokenDetails, ExecServerMessage, GetBlobResult,
    InteractionQuery, InteractionUpdate, KvClientMessage, KvServerMessage, SetBlobError,
    SetBlobResult, ToolCall as WireCall, TurnEndedUpdate,
    agent_client_message::Message as ToServer, agent_server_message::Message as FromServer,
    exec_client_message::Message as Reply, exec_server_control_message,
    exec_server_message::Message as Ask, interaction_update::Message as Update, kv_client_message,
    kv_server_message, tool_call::Tool,
};
use sha2::{Digest as _, Sha256};

use super::{
    AgentCall, AgentPeer, Checkpoint,
    kept_id::kept_id,
    stream::{BEGUN_CAP, Stored},
};
use crate::{
    codec::{connect::ConnectError, pbwalk},
    model::{FinishReason, Millis},
    peer::agent::{
        blobs,
        exec::{self, ClientCall, Verdict},
        query,
    },
    peer::{
        PeerCall, PeerEvent, PeerFailure, PeerOutput, RunTokens, TurnClocks, TurnView, classify,
    },
};

/// `interaction_query` in `AgentServerMessage`.
const QUERY: u32 = 7;

impl AgentPeer {
    pub(super) fn on_frame(
        &mut self,
        bytes: &Bytes,
        turn: &TurnView<'_>,
        clocks: &TurnClocks,
        now: Millis,
    ) {
        if !std::mem::replace(&mut self.stream.started, true) {
            self.event(PeerEvent::Started);
        }
        let message = AgentServerMessage::from_wire(bytes.clone());
        let stream = &mut self.stream;
        stream.heard = true;
        stream.last_frame = now;
        stream.upload = Duration::ZERO;
        let Ok(message) = message else {
            stream.last_progress = now;
            self.drift.undecodable();
            self.refuse_undecodable(bytes);
            return;
        };
        let update = match &message.message {
            Some(FromServer::InteractionUpdate(update)) => update.message.as_ref(),
            _ => None,
        };
        if matches!(update, Some(Update::Heartbeat(_))) {
            stream.heartbeats += 1;
            return;
        }
        stream.last_progress = now;
        stream.heartbeats = 0;
        let frequent = matches!(
            update,
            Some(Update::TextDelta(_) | Update::ThinkingDelta(_) | Update::TokenDelta(_))
        );
        self.drift.inspect(bytes, frequent);

        match message.message {
            Some(FromServer::InteractionUpdate(update)) => {
                self.on_update(update, turn, clocks, now);
            }
            Some(FromServer::ExecServerMessage(exec)) => self.on_exec(&exec),
            Some(FromServer::ConversationCheckpointUpdate(state)) => {
                self.on_checkpoint(bytes, state.token_details, turn);
            }
            Some(FromServer::KvServerMessage(kv)) => self.on_kv(kv),
            Some(FromServer::ExecServerControlMessage(control)) => match control.message {
                Some(exec_server_control_message::Message::Abort(abort)) => {
                    self.event(PeerEvent::CallWithdrawn(abort.id.into()));
                }
                None => self.drift.unknown_arm("agent.v1.ExecServerControlMessage"),
            },
            Some(FromServer::InteractionQuery(query)) => self.on_query(&query, bytes),
            None => self.drift.unknown_arm("agent.v1.AgentServerMessage"),
        }
    }

    fn on_update(
        &mut self,
        update: InteractionUpdate,
        turn: &TurnView<'_>,
        clocks: &TurnClocks,
        now: Millis,
    ) {
        // A notice that we do not know needs no answer: it is a field like others.
        let Some(update) = update.message else { return };
        let stream = &mut self.stream;
        match update {
            Update::TextDelta(delta) => {
                stream.stored = Stored::Nothing;
                stream.generation.next();
                self.spec.learn();
                self.event(PeerEvent::Text(delta.text));
            }
            Update::ThinkingDelta(delta) => {
                stream.generation.next();
                self.event(PeerEvent::Reasoning(delta.text));
            }
            Update::TokenDelta(delta) => self.event(PeerEvent::OutputTokens(delta.tokens)),
            Update::StepStarted(_) => stream.open_steps += 1,
            Update::StepCompleted(_) => {
                stream.open_steps = stream.open_steps.saturating_sub(1);
                stream.generation.end();
                self.event(PeerEvent::BatchComplete);
            }
            Update::ToolCallStarted(call) => {
                if stream.begun.len() < BEGUN_CAP {
                    stream.begun.insert(kept_id(&call.call_id).into_owned());
                }
                self.on_named(&call.call_id, call.tool_call.as_ref());
            }
            Update::PartialToolCall(call) => {
                self.on_named(&call.call_id, call.tool_call.as_ref());
            }
            Update::ToolCallCompleted(call) => {
                stream.begun.remove(&*kept_id(&call.call_id));
                self.on_call_over(&call.call_id, call.tool_call.as_ref());
            }
            Update::ToolRequestsListed(listed) => {
                stream.generation.list(listed.call_count);
                self.report_calls();
            }
            Update::TurnEnded(usage) => {
                stream.ended_until = Some(now + clocks.end_wait);
                // Without the results of a parked turn: the stream is of no more use.
                stream.over |= turn.parked;
                self.event(PeerEvent::RunTokens(run_tokens(&usage)));
                self.event(if turn.parked {
                    PeerEvent::Ended(FinishReason::Stop)
                } else {
                    PeerEvent::BatchComplete
                });
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
            | Update::PromptSuggestion(_)
            | Update::PostRequestPrompt(_)
            | Update::ActiveBranchChange(_)
            | Update::FeedbackRequest(_)
            | Update::ResponseComparison(_)
            | Update::ContextInjectionState(_)
            | Update::RoutedModelUpdate(_) => {}
        }
    }

    /// A notice about a call. It may still be refused or changed, so the client hears nothing of
    /// it; but calls that came are kept back until this one is decided, too.
    fn on_named(&mut self, id: &str, call: Option<&WireCall>) {
        if is_lookup(call) {
            self.spilled.look_up(id);
        }
        if is_mcp(call) {
            self.stream.generation.name(id);
            self.report_calls();
        }
    }

    /// A call is over: made by the client, run by the backend, or refused before it was made.
    fn on_call_over(&mut self, id: &str, call: Option<&WireCall>) {
        if is_lookup(call) {
            self.stream.generation.look_up(id);
            self.report_calls();
            return;
        }
        // Of a call that was made this is no news.
        let listed = !(is_mcp(call) && self.spec.around.facts.listed_without_refused);
        let never_made = self.stream.generation.settle(id, listed);
        if never_made && is_mcp(call) {
            self.event(PeerEvent::Refused);
        } else if never_made {
            self.stream.generation.end_own_call();
        }
        self.report_calls();
    }

    /// Says how many calls are still to come.
    fn report_calls(&mut self) {
        let generation = &self.stream.generation;
        let (ahead, is_complete) = (generation.ahead(), generation.is_complete());
        self.event(PeerEvent::CallsAhead(ahead));
        if is_complete {
            self.event(PeerEvent::BatchComplete);
        }
    }

    /// The backend works on something else than calls, unless it said that more of them come.
    fn end_batch(&mut self) {
        if self.stream.generation.ahead() == 0 {
            self.event(PeerEvent::BatchComplete);
        }
    }

    fn on_exec(&mut self, exec: &ExecServerMessage) {
        if matches!(exec.message, Some(Ask::RequestContextArgs(_))) {
            self.end_batch();
        }
        let answer = self.spilled.answer(exec);
        if let Some(reply) = answer.or_else(|| self.half_read.refusal(exec)) {
            self.reply(exec, reply);
        } else {
            self.judge(exec);
        }
        if let Some(id) = exec.message.as_ref().and_then(exec::call_id) {
            self.stream.generation.settle(id, true);
            self.report_calls();
        }
    }

    fn judge(&mut self, exec: &ExecServerMessage) {
        let (around, context) = (&self.spec.around, self.spec.context());
        let verdict =
            exec::judge(exec, &around.toolbox, &around.equipment, &context, around.permissions);
        match verdict {
            Verdict::Reply(reply) => self.reply(exec, *reply),
            Verdict::Refuse(reply) => {
                self.event(PeerEvent::Refused);
                self.reply(exec, *reply);
            }
            Verdict::Throw(error) => {
                self.event(PeerEvent::Refused);
                if exec.message.is_none() {
                    self.drift.unknown_arm("agent.v1.ExecServerMessage");
                }
                self.throw(exec.id, error);
            }
            Verdict::ClientTool(call) => self.ask_client(exec, *call),
        }
    }

    /// The order to call a tool of the client.
    fn ask_client(&mut self, exec: &ExecServerMessage, call: ClientCall) {
        self.spec.learn();
        let wire_id = exec.message.as_ref().and_then(exec::call_id).unwrap_or_default();
        let ClientCall { name, arguments, back } = call;
        self.event(PeerEvent::Call(Box::new(PeerCall {
            key: exec.id.into(),
            name,
            arguments,
            is_client_tool: back.is_mcp(),
            call: AgentCall {
                exec: exec.id,
                exec_id: exec.exec_id.clone(),
                wire_id: kept_id(wire_id).into_owned(),
                back,
            },
        })));
    }

    fn reply(&mut self, exec: &ExecServerMessage, reply: Reply) {
        self.send_reply(exec.id, &exec.exec_id, reply);
        self.close_exec(exec.id);
    }

    fn on_checkpoint(
        &mut self,
        message: &Bytes,
        tokens: Option<ConversationTokenDetails>,
        turn: &TurnView<'_>,
    ) {
        const CHECKPOINT: u32 = 3;
        let raw = pbwalk::fields(message).find(|field| field.number == CHECKPOINT);
        self.checkpoint = raw.and_then(|field| field.payload).map(|bytes| Checkpoint {
            bytes: Bytes::copy_from_slice(bytes),
            seen: turn.visible,
            before_results: false,
        });
        self.since.checkpoint(turn.text.len());
        if let Some(tokens) = tokens {
            self.event(PeerEvent::ContextTokens(tokens.used_tokens.into()));
        }
        self.end_batch();
    }

    fn on_kv(&mut self, kv: KvServerMessage) {
        let answer = match kv.message {
            Some(kv_server_message::Message::GetBlobArgs(get)) => {
                self.stream.fetched = true;
                kv_client_message::Message::GetBlobResult(GetBlobResult {
                    blob_data: self.spec.blobs.get(&get.blob_id),
                    ..GetBlobResult::default()
                })
            }
            Some(kv_server_message::Message::SetBlobArgs(set)) => {
                let takes = self.spec.blobs.takes(&set.blob_data);
                let answer = takes.then(|| blobs::assistant_message(&set.blob_data)).flatten();
                let answer = answer.unwrap_or_default();
                let kept = self.spec.blobs.get(&set.blob_id);
                if kept.is_none_or(|kept| kept != set.blob_data) {
                    self.spec.note_reasoning(&answer.signed);
                }
                // An answer of our own history that is stored again is not new.
                let is_new = !answer.text.is_empty() && !self.has_answer(&answer.text);
                let text = is_new.then_some(answer.text);
                let stored = if text.is_some() { Stored::Answer } else { Stored::Something };
                self.stream.stored = self.stream.stored.max(stored);
                if let Some(text) = text {
                    self.event(PeerEvent::StoredText(text));
                }
                let refused = self.spec.blobs.accept(&set.blob_id, &set.blob_data).err();
                kv_client_message::Message::SetBlobResult(SetBlobResult {
                    error: refused.map(|why| SetBlobError { message: why.to_string() }),
                })
            }
            None => {
                self.drift.unknown_arm("agent.v1.KvServerMessage");
                return;
            }
        };
        let message = KvClientMessage { id: kv.id, message: Some(answer) };
        self.send(ToServer::KvClientMessage(message));
    }

    /// Whether the history of this run holds this answer already.
    fn has_answer(&mut self, text: &str) -> bool {
        let answers = self.stream.answers.get_or_insert_with(|| self.spec.answers());
        answers.contains(&<[u8; 32]>::from(Sha256::digest(text)))
    }

    fn on_query(&mut self, query: &InteractionQuery, message: &[u8]) {
        if let Some(answer) = query::answer(query, self.spec.around.permissions) {
            self.send(ToServer::InteractionResponse(answer));
            return;
        }
        self.drift.unknown_arm("agent.v1.InteractionQuery");
        self.refuse_query(query.id, message);
    }

    /// Refuses a query by the number of its arm, which our schema does not have.
    fn refuse_query(&mut self, id: u32, message: &[u8]) {
        let refusal = query::refuse_unknown(id, message);
        self.output.extend(refusal.map(PeerOutput::Send));
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
        self.stream.last_frame = now;
        self.stream.over = true;
        match error {
            None => self.event(PeerEvent::Ended(FinishReason::Stop)),
            Some(error) => {
                let PeerFailure { error, remedy } = classify::connect_error(error);
                self.give_up(error, remedy);
            }
        }
    }
}

/// Whether a notice is about a call of a client's tool. The first one names nothing.
fn is_mcp(call: Option<&WireCall>) -> bool {
    matches!(call.and_then(|call| call.tool.as_ref()), Some(Tool::McpToolCall(_)))
}

/// Whether a notice is about a look at the catalogue of tools.
fn is_lookup(call: Option<&WireCall>) -> bool {
    matches!(call.and_then(|call| call.tool.as_ref()), Some(Tool::GetMcpToolsToolCall(_)))
}

fn run_tokens(ended: &TurnEndedUpdate) -> RunTokens {
    RunTokens {
        input: ended.input_tokens,
        output: ended.output_tokens,
        cache_read: ended.cache_read_tokens,
        cache_write: ended.cache_write_tokens,
        reasoning: ended.reasoning_tokens,
    }
}
