//! One run of a probe: what is sent first, how the service's questions are answered, and when it
//! is over. It is short: bounded in time, messages and calls.

use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use ibeam_proto::Wire as _;
use ibeam_proto::agent::{
    AgentClientMessage, AgentServerMessage, CancelAction, ClientHeartbeat, ConversationAction,
    ConversationStateStructure, ExecClientControlMessage, ExecClientStreamClose, ExecClientThrow,
    ExecServerMessage, GetBlobResult, InteractionQuery, InteractionUpdate, KvClientMessage,
    KvServerMessage, RequestContext, SetBlobResult, ToolCall as WireCall,
    agent_client_message::Message as ToServer, agent_server_message::Message as FromServer,
    conversation_action, exec_client_control_message::Message as Control,
    exec_client_message::Message as Reply, exec_server_message::Message as Ask,
    interaction_update::Message as Update, kv_client_message, kv_server_message, tool_call::Tool,
};

use super::trace::{CallNotice, ProbeEnd, ProbeFailure, ProbeTrace};
use crate::{
    codec::connect::{self, Decoder, Envelope},
    model::{Millis, Part, ToolResult},
    peer::{
        LinkError,
        agent::{
            blobs::{self, Blobs},
            exec::{self, Back, Equipment, Verdict},
            query,
            request::Permissions,
            tools::Toolbox,
        },
    },
};

/// The word that every tool of a probe answers.
pub(super) const TOOL_WORD: &str = "amber";

/// Characters of an answer that are kept, of a partial call, and notices.
const TEXT_CAP: usize = 16 * 1024;
const NOTICE_CAP: usize = 512;
/// A run with more of these is stopped.
const FRAME_CAP: u32 = 20_000;
const CALL_CAP: usize = 8;
/// Entries of a state that are remembered.
const ENTRY_CAP: usize = 64;

/// How long a run may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeClocks {
    /// Between our heartbeats.
    pub heartbeat: Duration,
    /// For the first output of the model.
    pub first_output: Duration,
    /// For all of it, without the time for which a call is held.
    pub whole: Duration,
    /// For what comes after the end of the turn.
    pub end_wait: Duration,
}

impl Default for ProbeClocks {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_secs(5),
            first_output: Duration::from_secs(180),
            whole: Duration::from_secs(300),
            end_wait: Duration::from_secs(3),
        }
    }
}

/// A run to be made.
#[derive(Debug)]
pub struct ProbeRun {
    pub headers: ProbeHeaders,
    pub(super) first: Bytes,
    pub(super) context: RequestContext,
    pub(super) toolbox: Toolbox,
    pub(super) blobs: Blobs,
    /// The first call waits so long for its result.
    pub(super) hold: Option<Duration>,
}

/// What of a run is in its headers and its address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProbeHeaders {
    /// Empty: none.
    pub allowed_tools: String,
    /// In place of the usual one.
    pub client_version: Option<&'static str>,
    /// With a key for the encryption of blobs or without; None: as usual.
    pub blob_key: Option<bool>,
    /// An origin in place of the usual one.
    pub host: Option<String>,
}

impl ProbeHeaders {
    /// Whether nothing differs from the runs of clients.
    #[must_use]
    pub fn is_usual(&self) -> bool {
        self.client_version.is_none() && self.blob_key.is_none() && self.host.is_none()
    }
}

/// The run as a machine.
#[derive(Debug)]
pub struct ProbeMachine {
    run: ProbeRun,
    clocks: ProbeClocks,
    decoder: Decoder,
    out: VecDeque<Bytes>,
    begun: Millis,
    next_heartbeat: Millis,
    /// Set by the end of the turn.
    ended_until: Option<Millis>,
    held: Option<HeldCall>,
    /// Calls that came as execs.
    made: Vec<String>,
    trace: ProbeTrace,
    over: bool,
}

#[derive(Debug)]
struct HeldCall {
    since: Millis,
    until: Millis,
    exec: u32,
    exec_id: String,
    back: Back,
}

impl ProbeMachine {
    /// The stream is open.
    #[must_use]
    pub fn new(run: ProbeRun, clocks: ProbeClocks, now: Millis) -> Self {
        Self {
            out: VecDeque::from([run.first.clone()]),
            run,
            clocks,
            decoder: Decoder::new(),
            begun: now,
            next_heartbeat: now + clocks.heartbeat,
            ended_until: None,
            held: None,
            made: Vec::new(),
            trace: ProbeTrace::default(),
            over: false,
        }
    }

    /// The next message to send.
    pub fn poll_send(&mut self) -> Option<Bytes> {
        self.out.pop_front()
    }

    #[must_use]
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// What was observed.
    #[must_use]
    pub fn into_trace(self) -> ProbeTrace {
        self.trace
    }

    pub fn on_bytes(&mut self, bytes: Bytes, now: Millis) {
        self.decoder.push(bytes);
        while !self.over {
            match self.decoder.next() {
                Ok(Some(Envelope::Message(message))) => self.on_frame(&message, now),
                Ok(Some(Envelope::End(error))) => {
                    let end = match error {
                        None => self.plain_end(),
                        Some(error) => ProbeEnd::Failed(Box::new(ProbeFailure::of_connect(&error))),
                    };
                    self.finish(end, now);
                }
                Ok(None) => break,
                Err(_) => self.finish(ProbeEnd::Lost, now),
            }
        }
    }

    /// The stream is gone; without an error, it was closed.
    pub fn on_lost(&mut self, error: Option<&LinkError>, now: Millis) {
        let end = match (self.ended_until, error) {
            (Some(_), _) => self.plain_end(),
            (None, Some(error @ LinkError::Status { .. })) => {
                ProbeEnd::Failed(Box::new(ProbeFailure::of_link(error)))
            }
            (None, Some(error)) if self.trace.frames == 0 => {
                ProbeEnd::Failed(Box::new(ProbeFailure::of_link(error)))
            }
            (None, _) => ProbeEnd::Lost,
        };
        self.finish(end, now);
    }

    #[must_use]
    pub fn deadline(&self) -> Millis {
        let limit = match (&self.held, self.trace.first_output) {
            (Some(held), _) => held.until,
            (None, None) => self.begun + self.clocks.first_output,
            (None, Some(_)) => self.whole_limit(),
        };
        limit.min(self.next_heartbeat).min(self.ended_until.unwrap_or(Millis(u64::MAX)))
    }

    pub fn on_timeout(&mut self, now: Millis) {
        if self.over {
            return;
        }
        if now >= self.next_heartbeat {
            self.next_heartbeat = now + self.clocks.heartbeat;
            self.send(ToServer::ClientHeartbeat(ClientHeartbeat {}));
        }
        if self.ended_until.is_some_and(|until| now >= until) {
            let end = self.plain_end();
            return self.finish(end, now);
        }
        if let Some(held) = self.held.take_if(|held| now >= held.until) {
            self.trace.held = Some(since(held.since, now));
            self.send_result(held.exec, &held.exec_id, &held.back);
        }
        if self.held.is_some() {
            return;
        }
        if self.trace.first_output.is_none() && now >= self.begun + self.clocks.first_output {
            self.give_up(ProbeEnd::Silent, now);
        } else if now >= self.whole_limit() {
            self.give_up(ProbeEnd::Slow, now);
        }
    }

    fn whole_limit(&self) -> Millis {
        self.begun + self.clocks.whole + self.run.hold.unwrap_or_default()
    }

    /// An end without an error.
    fn plain_end(&self) -> ProbeEnd {
        let trace = &self.trace;
        let empty = trace.text.is_empty() && trace.calls() == 0 && trace.natives == 0;
        if empty { ProbeEnd::Empty } else { ProbeEnd::Answered }
    }

    fn finish(&mut self, end: ProbeEnd, now: Millis) {
        if let Some(held) = self.held.take() {
            self.trace.held = Some(since(held.since, now));
        }
        self.trace.end = end;
        self.trace.whole = since(self.begun, now);
        self.over = true;
    }

    /// Ends a run that is still at work.
    fn give_up(&mut self, end: ProbeEnd, now: Millis) {
        let action = conversation_action::Action::CancelAction(CancelAction::default());
        self.send(ToServer::ConversationAction(ConversationAction { action: Some(action) }));
        self.finish(end, now);
    }

    fn send(&mut self, message: ToServer) {
        self.out.push_back(connect::encode(&AgentClientMessage { message: Some(message) }));
    }

    fn note(&mut self, notice: CallNotice) {
        if self.trace.notices.len() < NOTICE_CAP {
            self.trace.notices.push(notice);
        }
    }

    fn output(&mut self, now: Millis) {
        let first = since(self.begun, now);
        self.trace.first_output.get_or_insert(first);
    }

    fn on_frame(&mut self, bytes: &Bytes, now: Millis) {
        self.trace.frames += 1;
        if self.trace.frames >= FRAME_CAP {
            return self.give_up(ProbeEnd::Stopped, now);
        }
        let Ok(message) = AgentServerMessage::from_wire(bytes.clone()) else { return };
        match message.message {
            Some(FromServer::InteractionUpdate(update)) => self.on_update(update, now),
            Some(FromServer::ExecServerMessage(exec)) => self.on_exec(&exec, now),
            Some(FromServer::ConversationCheckpointUpdate(state)) => self.on_state(&state),
            Some(FromServer::KvServerMessage(kv)) => self.on_kv(kv),
            Some(FromServer::InteractionQuery(query)) => self.on_query(&query, bytes),
            Some(FromServer::ExecServerControlMessage(_)) | None => {}
        }
    }

    fn on_update(&mut self, update: InteractionUpdate, now: Millis) {
        match update.message {
            Some(Update::TextDelta(delta)) => {
                self.output(now);
                push(&mut self.trace.text, &delta.text);
            }
            Some(Update::ThinkingDelta(_)) => self.output(now),
            Some(Update::PartialToolCall(call)) if is_mcp(call.tool_call.as_ref()) => {
                self.output(now);
                let text = call.args_text_delta;
                self.note(CallNotice::Partial(!text.is_empty()));
                push(&mut self.trace.joined_partials, &text);
                if (self.trace.longest_partial.len()..=TEXT_CAP).contains(&text.len()) {
                    self.trace.longest_partial = text;
                }
            }
            Some(Update::ToolCallStarted(call)) if is_mcp(call.tool_call.as_ref()) => {
                self.output(now);
                self.note(CallNotice::Started);
            }
            Some(Update::ToolCallCompleted(call))
                if is_mcp(call.tool_call.as_ref()) && !self.made.contains(&call.call_id) =>
            {
                self.note(CallNotice::Refused);
            }
            Some(Update::ToolRequestsListed(listed)) => {
                self.note(CallNotice::Listed(listed.call_count));
            }
            Some(Update::TurnEnded(_)) => {
                self.ended_until = Some(now + self.clocks.end_wait);
            }
            _ => {}
        }
    }

    fn on_exec(&mut self, exec: &ExecServerMessage, now: Millis) {
        self.trace.asked_status |= matches!(exec.message, Some(Ask::McpStateExecArgs(_)));
        let (toolbox, context) = (&self.run.toolbox, &self.run.context);
        let nothing = Permissions::default();
        let is_mcp = matches!(exec.message, Some(Ask::McpArgs(_)));
        match exec::judge(exec, toolbox, &Equipment::default(), context, nothing) {
            Verdict::Reply(reply) => self.reply(exec, *reply),
            Verdict::Refuse(reply) => {
                self.output(now);
                self.count_refused(is_mcp);
                self.reply(exec, *reply);
            }
            Verdict::Throw(error) => {
                self.count_refused(is_mcp);
                let throw =
                    ExecClientThrow { id: exec.id, error: error.to_owned(), stack_trace: None };
                self.control(Control::Throw(throw));
                self.close(exec.id);
            }
            Verdict::ClientTool(call) => {
                self.output(now);
                self.note(CallNotice::Exec);
                let id = exec.message.as_ref().and_then(exec::call_id).unwrap_or_default();
                self.made.push(id.to_owned());
                self.answer_call(exec, call.back, now);
            }
        }
        if self.made.len() + usize::try_from(self.trace.natives).unwrap_or(CALL_CAP) >= CALL_CAP {
            self.give_up(ProbeEnd::Stopped, now);
        }
    }

    fn count_refused(&mut self, is_mcp: bool) {
        if !is_mcp {
            self.trace.natives += 1;
        }
    }

    fn answer_call(&mut self, exec: &ExecServerMessage, back: Back, now: Millis) {
        match self.run.hold.filter(|_| self.made.len() == 1) {
            Some(hold) => {
                self.held = Some(HeldCall {
                    since: now,
                    until: now + hold,
                    exec: exec.id,
                    exec_id: exec.exec_id.clone(),
                    back,
                });
            }
            None => self.send_result(exec.id, &exec.exec_id, &back),
        }
    }

    fn send_result(&mut self, exec: u32, exec_id: &str, back: &Back) {
        let result = ToolResult {
            call_id: String::new(),
            content: vec![Part::Text(TOOL_WORD.to_owned())],
            is_error: false,
        };
        for reply in back.replies(&result) {
            self.send(ToServer::ExecClientMessage(exec::result(exec, exec_id, reply)));
        }
        self.close(exec);
    }

    fn reply(&mut self, exec: &ExecServerMessage, reply: Reply) {
        self.send(ToServer::ExecClientMessage(exec::result(exec.id, &exec.exec_id, reply)));
        self.close(exec.id);
    }

    fn close(&mut self, id: u32) {
        self.control(Control::StreamClose(ExecClientStreamClose { id }));
    }

    fn control(&mut self, message: Control) {
        let control = ExecClientControlMessage { message: Some(message) };
        self.send(ToServer::ExecClientControlMessage(control));
    }

    fn on_state(&mut self, state: &ConversationStateStructure) {
        let breakdown = state.token_details.as_ref().and_then(|tokens| tokens.breakdown.as_ref());
        if let Some(breakdown) = breakdown {
            let rules = breakdown.categories.iter().filter(|category| category.id == "rules");
            self.trace.rule_tokens = Some(rules.map(|category| category.estimated_tokens).sum());
        }
        let roots = &state.root_prompt_messages_json;
        if roots.len() <= ENTRY_CAP {
            let entries = roots.iter().filter_map(|id| self.run.blobs.get(id));
            self.trace.entries = entries.collect();
            self.trace.signed = self.trace.entries.iter().any(|entry| is_signed(entry));
        }
    }

    fn on_kv(&mut self, kv: KvServerMessage) {
        let answer = match kv.message {
            Some(kv_server_message::Message::GetBlobArgs(get)) => {
                kv_client_message::Message::GetBlobResult(GetBlobResult {
                    blob_data: self.run.blobs.get(&get.blob_id),
                    ..GetBlobResult::default()
                })
            }
            Some(kv_server_message::Message::SetBlobArgs(set)) => {
                // One that does not fit is missing from the entries, and the judge is left in doubt.
                let _ = self.run.blobs.accept(&set.blob_id, &set.blob_data);
                kv_client_message::Message::SetBlobResult(SetBlobResult::default())
            }
            None => return,
        };
        self.send(ToServer::KvClientMessage(KvClientMessage { id: kv.id, message: Some(answer) }));
    }

    fn on_query(&mut self, query: &InteractionQuery, message: &[u8]) {
        match query::answer(query, Permissions::default()) {
            Some(answer) => self.send(ToServer::InteractionResponse(answer)),
            None => self.out.extend(query::refuse_unknown(query.id, message)),
        }
    }
}

fn since(from: Millis, now: Millis) -> u64 {
    u64::try_from(now.since(from).as_millis()).unwrap_or(u64::MAX)
}

fn push(text: &mut String, more: &str) {
    if text.len() + more.len() <= TEXT_CAP {
        text.push_str(more);
    }
}

fn is_mcp(call: Option<&WireCall>) -> bool {
    matches!(call.and_then(|call| call.tool.as_ref()), Some(Tool::McpToolCall(_)))
}

/// Whether an entry has reasoning with a signature.
fn is_signed(entry: &[u8]) -> bool {
    blobs::assistant_message(entry).is_some_and(|answer| !answer.signed.is_empty())
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
