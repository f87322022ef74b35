//! The chain of requests, and what is heard meanwhile.

use std::{collections::VecDeque, fmt};

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

use super::{
    answers::{Agent, PromptEnding, session_name},
    calls::AcpCalls,
    failures,
    models::{MODEL, ModelChoice, ModelOffer},
    modes,
    permission::{self, ToolPolicy},
    requests,
};
use crate::{
    codec::{
        jsonrpc::{self, METHOD_NOT_FOUND, Members, RpcError, RpcId, RpcMessage},
        ndjson::Lines,
    },
    model::FinishReason,
    peer::child::{self, ChildEvent, ChildRequest, Exit, Ready, ToChild},
    peer::{PeerFailure, Remedy},
};

/// One run over ACP.
#[derive(Default)]
pub struct AcpSpeaker {
    policy: ToolPolicy,
    lines: Lines,
    state: AcpState,
    /// The number of our newest request.
    last_id: u64,
    ask: ChildRequest,
    ready: Ready,
    agent: Agent,
    /// The conversation that is open.
    session: Option<String>,
    /// The mode is another one than that of the open conversation.
    other_mode: bool,
    signed_in: bool,
    cancelled: bool,
    /// Words were heard, or of a deed.
    answered: bool,
    calls: AcpCalls,
    out: VecDeque<ToChild>,
    heard: VecDeque<ChildEvent>,
    unknown: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum AcpState {
    /// Not begun.
    #[default]
    Idle,
    /// Our newest request has no answer yet.
    Waits(AcpStep),
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AcpStep {
    Greet,
    SignIn,
    New,
    Load,
    /// The model is set; `listed` when it was found among those that there are.
    Choose {
        listed: bool,
    },
    Mode,
    Prompt,
}

impl AcpSpeaker {
    #[must_use]
    pub fn new(policy: ToolPolicy) -> Self {
        Self { policy, ..Self::default() }
    }

    // === saying ===

    fn request(&mut self, step: AcpStep, method: &str, params: &impl Serialize) {
        self.last_id += 1;
        self.state = AcpState::Waits(step);
        self.out.push_back(ToChild::Input(jsonrpc::request(self.last_id, method, params)));
    }

    fn open(&mut self) {
        if !self.ask.prompt.images.is_empty() && !self.agent.images {
            return self.release(ChildEvent::Failed(failures::no_images()));
        }
        match self.ask.resume.clone() {
            None => self.open_session(AcpStep::New, None),
            Some(name) if self.ready.session.as_ref() == Some(&name) => {
                self.opened(name);
                self.set_unlisted();
            }
            Some(_) if !self.agent.loads => {
                self.release(ChildEvent::Failed(failures::cannot_load()));
            }
            Some(name) => self.open_session(AcpStep::Load, Some(&name)),
        }
    }

    fn open_session(&mut self, step: AcpStep, name: Option<&str>) {
        let ready = std::mem::take(&mut self.ready);
        let host = ready.host.as_ref().filter(|_| self.agent.http_servers);
        let params = requests::OpenSession {
            session_id: name,
            cwd: &ready.workspace,
            mcp_servers: host.map(requests::HostServer::hosted).into_iter().collect(),
        };
        let method = if name.is_some() { "session/load" } else { "session/new" };
        self.request(step, method, &params);
        self.ready = ready;
    }

    fn opened(&mut self, name: String) {
        if self.session.as_ref() != Some(&name) {
            self.heard.push_back(ChildEvent::Session(name.clone()));
        }
        self.session = Some(name);
    }

    /// The models of a session that was open already are not known.
    fn set_unlisted(&mut self) {
        let model = self.ask.model.clone();
        if model.is_empty() {
            self.prompt();
        } else {
            self.set_model(MODEL, &model, AcpStep::Choose { listed: false });
        }
    }

    fn choose(&mut self, opened: Option<&RawValue>) {
        self.other_mode = modes::current(opened) != self.ask.mode;
        let offer = ModelOffer::read(opened);
        match offer.choose(&self.ask.model) {
            Ok(ModelChoice::Stay) => self.set_mode(),
            Ok(ModelChoice::Set(model)) => {
                self.set_model(&offer.option, &model, AcpStep::Choose { listed: true });
            }
            Err(error) => {
                self.release(ChildEvent::Failed(PeerFailure { error, remedy: Remedy::None }));
            }
        }
    }

    fn set_model(&mut self, option: &str, model: &str, step: AcpStep) {
        let session = self.session.clone().unwrap_or_default();
        let params = requests::SetOption { session_id: &session, config_id: option, value: model };
        self.request(step, "session/set_config_option", &params);
    }

    /// A conversation that was open already has the mode that it needs.
    fn set_mode(&mut self) {
        if !std::mem::take(&mut self.other_mode) {
            return self.prompt();
        }
        let session = self.session.clone().unwrap_or_default();
        let mode = self.ask.mode.name();
        let params = requests::SetMode { session_id: &session, mode_id: mode };
        self.request(AcpStep::Mode, "session/set_mode", &params);
    }

    fn prompt(&mut self) {
        let session = self.session.clone().unwrap_or_default();
        // Told once: it may be large.
        let prompt = std::mem::take(&mut self.ask.prompt);
        let params = requests::PromptParams::new(&session, &prompt);
        self.request(AcpStep::Prompt, "session/prompt", &params);
    }

    // === ending ===

    fn end(&mut self, last: ChildEvent) {
        if self.state != AcpState::Over {
            self.state = AcpState::Over;
            self.heard.push_back(last);
        }
    }

    fn fail(&mut self, failure: PeerFailure) {
        self.end(ChildEvent::Failed(failure));
    }

    /// An end that leaves the child in order.
    fn release(&mut self, last: ChildEvent) {
        if self.state != AcpState::Over {
            self.end(last);
            self.out.push_back(ToChild::Release);
        }
    }

    /// The resumed session has not got anything of the prompt yet.
    fn is_untold(&self) -> bool {
        self.ask.resume.is_some() && self.state != AcpState::Waits(AcpStep::Prompt)
    }

    // === hearing ===

    fn line(&mut self, line: &[u8]) {
        if self.state == AcpState::Over {
            return;
        }
        match jsonrpc::parse(line) {
            Some(RpcMessage::Request { id, method, params }) => {
                self.on_request(&id, &method, params);
            }
            Some(RpcMessage::Notification { method, params }) => {
                self.on_notification(&method, params);
            }
            Some(RpcMessage::Response { id, outcome }) => self.on_response(id.as_ref(), outcome),
            None => self.unknown += 1,
        }
    }

    fn on_request(&mut self, id: &RpcId, method: &str, params: Option<&RawValue>) {
        let Self { policy, cancelled, calls, .. } = &*self;
        let reply = permission::reply(*policy, *cancelled, calls, id, method, params);
        self.unknown += u64::from(!reply.known);
        self.out.push_back(ToChild::Input(reply.line));
        self.hear(ChildEvent::Alive);
    }

    fn on_notification(&mut self, method: &str, params: Option<&RawValue>) {
        match method {
            "session/update" => {
                let heard = self.update(params);
                self.hear(heard);
            }
            "cursor/update_todos" | "cursor/task" => self.hear(ChildEvent::Alive),
            _ => {
                self.unknown += 1;
                self.hear(ChildEvent::Alive);
            }
        }
    }

    /// Notes what counts as an answer. One sign of life is as good as many.
    fn hear(&mut self, heard: ChildEvent) {
        match &heard {
            ChildEvent::Alive if self.heard.back() == Some(&ChildEvent::Alive) => return,
            ChildEvent::Text(_) | ChildEvent::Did(_) | ChildEvent::Announced => {
                self.answered = true
            }
            _ => {}
        }
        self.heard.push_back(heard);
    }

    fn update(&mut self, params: Option<&RawValue>) -> ChildEvent {
        let notified = Members::of(params).unwrap_or_default();
        // An agent below this one speaks under a name of its own.
        let other = notified.text("sessionId").is_some_and(|name| self.session != Some(name));
        if other || self.cancelled || self.state != AcpState::Waits(AcpStep::Prompt) {
            return ChildEvent::Alive;
        }
        let update = notified.object("update");
        let kind = update.text("sessionUpdate").unwrap_or_default();
        match (kind.as_str(), notified.get("update")) {
            ("agent_message_chunk", _) => self.words(&update, ChildEvent::Text),
            ("agent_thought_chunk", _) => self.words(&update, ChildEvent::Thought),
            ("tool_call", Some(raw)) => self.calls.begin(raw),
            ("tool_call_update", Some(raw)) => self.calls.update(raw),
            (
                "user_message_chunk"
                | "plan"
                | "current_mode_update"
                | "available_commands_update"
                | "session_info_update"
                | "config_option_update"
                | "usage_update",
                _,
            ) => ChildEvent::Alive,
            _ => {
                self.unknown += 1;
                ChildEvent::Alive
            }
        }
    }

    fn words(&mut self, update: &Members<'_>, heard: fn(String) -> ChildEvent) -> ChildEvent {
        match update.object("content").text("text") {
            Some(text) if text.is_empty() => ChildEvent::Alive,
            Some(text) => heard(text),
            None => {
                self.unknown += 1;
                ChildEvent::Alive
            }
        }
    }

    fn on_response(&mut self, id: Option<&RpcId>, outcome: Result<Option<&RawValue>, RpcError>) {
        let AcpState::Waits(step) = self.state else { return };
        // Without an id it can only be the one request that waits.
        if id.is_some_and(|id| !id.is(self.last_id)) {
            self.unknown += 1;
            return;
        }
        match outcome {
            Ok(result) => self.on_result(step, result),
            Err(error) => self.on_error(step, &error),
        }
    }

    fn on_result(&mut self, step: AcpStep, result: Option<&RawValue>) {
        match step {
            AcpStep::Greet => {
                self.agent = Agent::read(result);
                if self.agent.protocol == requests::PROTOCOL {
                    self.open();
                } else {
                    self.fail(failures::other_protocol(self.agent.protocol));
                }
            }
            AcpStep::SignIn => {
                self.signed_in = true;
                self.open();
            }
            AcpStep::New => match session_name(result) {
                Some(name) => {
                    self.opened(name);
                    self.choose(result);
                }
                None => self.fail(failures::no_session()),
            },
            AcpStep::Load => {
                let name = self.ask.resume.clone().unwrap_or_default();
                self.opened(name);
                self.choose(result);
            }
            AcpStep::Choose { .. } => self.set_mode(),
            AcpStep::Mode => self.prompt(),
            AcpStep::Prompt => self.on_ending(&PromptEnding::read(result)),
        }
    }

    fn on_ending(&mut self, ending: &PromptEnding) {
        let stop = match ending.reason.as_deref() {
            Some("end_turn") => Ok(FinishReason::Stop),
            Some("max_tokens") => Ok(FinishReason::Length),
            Some("refusal") => Err(failures::refused()),
            Some("cancelled") => Err(failures::cancelled()),
            Some("max_turn_requests") => Err(failures::too_many_requests()),
            _ => {
                self.unknown += 1;
                Ok(FinishReason::Stop)
            }
        };
        let last = match stop {
            _ if self.cancelled => ChildEvent::Failed(failures::cancelled()),
            Ok(FinishReason::Stop) if !self.answered => ChildEvent::Failed(failures::empty()),
            Ok(reason) => ChildEvent::Ended(reason),
            Err(failure) => ChildEvent::Failed(failure),
        };
        if let Some(usage) = ending.usage {
            self.hear(ChildEvent::Usage(usage));
        }
        self.release(last);
    }

    fn on_error(&mut self, step: AcpStep, error: &RpcError) {
        if self.cancelled {
            return self.fail(failures::cancelled());
        }
        let demands_sign_in = failures::demands_sign_in(error);
        match step {
            AcpStep::SignIn => self.fail(failures::not_signed_in(error)),
            AcpStep::New | AcpStep::Load if demands_sign_in && !self.signed_in => {
                let method = self.agent.sign_in.clone();
                let params = requests::Authenticate { method_id: &method };
                self.request(AcpStep::SignIn, "authenticate", &params);
            }
            _ if demands_sign_in => self.fail(failures::not_signed_in(error)),
            AcpStep::Load => self.fail(failures::lost(error)),
            // The child was started with the model, too.
            AcpStep::Choose { .. } if error.code == METHOD_NOT_FOUND => self.set_mode(),
            // Opened once more, the conversation says how the models are called.
            AcpStep::Choose { listed: false } => {
                let name = self.session.clone();
                self.open_session(AcpStep::Load, name.as_deref());
            }
            AcpStep::Prompt if self.ask.resume.is_some() && failures::is_lost(error) => {
                self.fail(failures::lost(error));
            }
            AcpStep::Greet
            | AcpStep::New
            | AcpStep::Choose { listed: true }
            | AcpStep::Mode
            | AcpStep::Prompt => self.fail(failures::rpc(error)),
        }
    }
}

impl child::Speaker for AcpSpeaker {
    fn begin(&mut self, ready: &Ready, ask: &ChildRequest) {
        self.ready = ready.clone();
        self.ask = ask.clone();
        if ready.greeted {
            self.open();
        } else {
            self.request(AcpStep::Greet, "initialize", &requests::Initialize::ours());
        }
    }

    fn on_output(&mut self, bytes: Bytes) {
        self.lines.push(bytes);
        while let Some(line) = self.lines.next() {
            self.line(&line);
        }
    }

    fn on_exit(&mut self, exit: &Exit) {
        self.lines.finish();
        while let Some(line) = self.lines.next() {
            self.line(&line);
        }
        if self.state == AcpState::Over {
            return;
        }
        // Replies to the last lines have no recipient any more.
        self.out.clear();
        if self.cancelled {
            return self.fail(failures::cancelled());
        }
        // Whether the client saw some of it is known to the turn alone: it may have begun
        // another leg.
        let passing = if self.is_untold() { Remedy::FreshConversation } else { Remedy::Retry };
        self.fail(failures::gone(exit, self.ask.resume.is_some(), passing));
    }

    fn cancel(&mut self) {
        match self.state {
            AcpState::Over => {}
            AcpState::Waits(AcpStep::Prompt) => {
                if !std::mem::replace(&mut self.cancelled, true) {
                    let session = self.session.clone().unwrap_or_default();
                    let params = requests::Cancel { session_id: &session };
                    let line = jsonrpc::notification("session/cancel", &params);
                    self.out.push_back(ToChild::Input(line));
                }
            }
            // Nothing was asked that could be cancelled.
            AcpState::Idle | AcpState::Waits(_) => self.fail(failures::cancelled()),
        }
    }

    fn poll_send(&mut self) -> Option<ToChild> {
        self.out.pop_front()
    }

    fn poll_heard(&mut self) -> Option<ChildEvent> {
        self.heard.pop_front()
    }

    fn unknown(&self) -> u64 {
        self.unknown + self.lines.dropped()
    }
}

/// Neither the conversation nor the bearer of its server.
impl fmt::Debug for AcpSpeaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Speaker")
            .field("policy", &self.policy)
            .field("state", &self.state)
            .field("session", &self.session)
            .field("cancelled", &self.cancelled)
            .field("unknown", &self.unknown)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "speaker_tests.rs"]
mod tests;
