//! The chain of requests, and what is heard meanwhile.

use std::{collections::VecDeque, fmt};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{
    calls::Calls,
    failures,
    hear::{Agent, Ending, session_name},
    leave::{self, Policy},
    models::{Choice, MODEL, Offer},
    say,
};
use crate::{
    codec::{
        jsonrpc::{self, Id, METHOD_NOT_FOUND, Message, RpcError, read, text},
        ndjson::Lines,
    },
    model::FinishReason,
    peer::child::{self, Ask, Exit, Heard, Ready, ToChild},
    peer::{Failure, Remedy},
};

/// One run over ACP.
#[derive(Default)]
pub struct Speaker {
    policy: Policy,
    lines: Lines,
    state: State,
    /// The number of our newest request.
    last_id: u64,
    ask: Ask,
    ready: Ready,
    agent: Agent,
    /// The conversation that is open.
    session: Option<String>,
    signed_in: bool,
    cancelled: bool,
    /// Words were heard, or of a deed.
    answered: bool,
    calls: Calls,
    out: VecDeque<ToChild>,
    heard: VecDeque<Heard>,
    unknown: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Not begun.
    #[default]
    Idle,
    /// Our newest request has no answer yet.
    Waits(Step),
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Greet,
    SignIn,
    New,
    Load,
    /// The model is set; `listed` when it was found among those that there are.
    Choose {
        listed: bool,
    },
    Prompt,
}

impl Speaker {
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self { policy, ..Self::default() }
    }

    // === saying ===

    fn request(&mut self, step: Step, method: &str, params: &impl Serialize) {
        self.last_id += 1;
        self.state = State::Waits(step);
        self.out.push_back(ToChild::Input(jsonrpc::request(self.last_id, method, params)));
    }

    fn open(&mut self) {
        if !self.ask.prompt.images.is_empty() && !self.agent.images {
            return self.release(Heard::Failed(failures::no_images()));
        }
        match self.ask.resume.clone() {
            None => self.open_session(Step::New, None),
            Some(name) if self.ready.session.as_ref() == Some(&name) => {
                self.opened(name);
                self.set_unlisted();
            }
            Some(_) if !self.agent.loads => {
                self.release(Heard::Failed(failures::cannot_load()));
            }
            Some(name) => self.open_session(Step::Load, Some(&name)),
        }
    }

    fn open_session(&mut self, step: Step, name: Option<&str>) {
        let ready = std::mem::take(&mut self.ready);
        let host = ready.host.as_ref().filter(|_| self.agent.http_servers);
        let params = say::OpenSession {
            session_id: name,
            cwd: &ready.workspace,
            mcp_servers: host.map(say::McpServer::hosted).into_iter().collect(),
        };
        let method = if name.is_some() { "session/load" } else { "session/new" };
        self.request(step, method, &params);
        self.ready = ready;
    }

    fn opened(&mut self, name: String) {
        if self.session.as_ref() != Some(&name) {
            self.heard.push_back(Heard::Session(name.clone()));
        }
        self.session = Some(name);
    }

    /// In a conversation that was open already nobody said which models there are.
    fn set_unlisted(&mut self) {
        let model = self.ask.model.clone();
        if model.is_empty() {
            self.prompt();
        } else {
            self.set_model(MODEL, &model, Step::Choose { listed: false });
        }
    }

    fn choose(&mut self, opened: Option<&RawValue>) {
        let offer = Offer::read(opened);
        match offer.choose(&self.ask.model) {
            Ok(Choice::Stay) => self.prompt(),
            Ok(Choice::Set(model)) => {
                self.set_model(&offer.option, &model, Step::Choose { listed: true });
            }
            Err(error) => {
                self.release(Heard::Failed(Failure { error, remedy: Remedy::None }));
            }
        }
    }

    fn set_model(&mut self, option: &str, model: &str, step: Step) {
        let session = self.session.clone().unwrap_or_default();
        let params = say::SetOption { session_id: &session, config_id: option, value: model };
        self.request(step, "session/set_config_option", &params);
    }

    fn prompt(&mut self) {
        let session = self.session.clone().unwrap_or_default();
        // Told once: it may be large.
        let prompt = std::mem::take(&mut self.ask.prompt);
        let params = say::Ask::new(&session, &prompt);
        self.request(Step::Prompt, "session/prompt", &params);
    }

    // === ending ===

    fn end(&mut self, last: Heard) {
        if self.state != State::Over {
            self.state = State::Over;
            self.heard.push_back(last);
        }
    }

    fn fail(&mut self, failure: Failure) {
        self.end(Heard::Failed(failure));
    }

    /// An end that leaves the child in order.
    fn release(&mut self, last: Heard) {
        if self.state != State::Over {
            self.end(last);
            self.out.push_back(ToChild::Release);
        }
    }

    /// Nothing of the question was told yet to a conversation that was to be gone on with.
    fn is_untold(&self) -> bool {
        self.ask.resume.is_some() && self.state != State::Waits(Step::Prompt)
    }

    // === hearing ===

    fn line(&mut self, line: &[u8]) {
        if self.state == State::Over {
            return;
        }
        match jsonrpc::parse(line) {
            Some(Message::Request { id, method, params }) => {
                self.on_request(&id, &method, params);
            }
            Some(Message::Notification { method, params }) => {
                self.on_notification(&method, params);
            }
            Some(Message::Response { id, outcome }) => self.on_response(id.as_ref(), outcome),
            None => self.unknown += 1,
        }
    }

    fn on_request(&mut self, id: &Id, method: &str, params: Option<&RawValue>) {
        let Self { policy, cancelled, calls, .. } = &*self;
        let reply = leave::reply(*policy, *cancelled, calls, id, method, params);
        self.unknown += u64::from(!reply.known);
        self.out.push_back(ToChild::Input(reply.line));
        self.hear(Heard::Alive);
    }

    fn on_notification(&mut self, method: &str, params: Option<&RawValue>) {
        match method {
            "session/update" => {
                let heard = self.update(params);
                self.hear(heard);
            }
            "cursor/update_todos" | "cursor/task" => self.hear(Heard::Alive),
            _ => {
                self.unknown += 1;
                self.hear(Heard::Alive);
            }
        }
    }

    /// Notes what counts as an answer. One sign of life is as good as many.
    fn hear(&mut self, heard: Heard) {
        match &heard {
            Heard::Alive if self.heard.back() == Some(&Heard::Alive) => return,
            Heard::Text(_) | Heard::Did(_) | Heard::Announced => self.answered = true,
            _ => {}
        }
        self.heard.push_back(heard);
    }

    fn update(&mut self, params: Option<&RawValue>) -> Heard {
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Notified<'a> {
            #[serde(borrow)]
            session_id: Option<&'a RawValue>,
            #[serde(borrow)]
            update: Option<&'a RawValue>,
        }
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Update<'a> {
            #[serde(borrow)]
            session_update: Option<&'a RawValue>,
            #[serde(borrow)]
            content: Option<&'a RawValue>,
        }
        let notified: Notified<'_> = read(params).unwrap_or_default();
        // An agent below this one speaks under a name of its own.
        let other = text(notified.session_id).is_some_and(|name| self.session != Some(name));
        if other || self.cancelled || self.state != State::Waits(Step::Prompt) {
            return Heard::Alive;
        }
        let update: Update<'_> = read(notified.update).unwrap_or_default();
        let kind = text(update.session_update).unwrap_or_default();
        match (kind.as_str(), notified.update) {
            ("agent_message_chunk", _) => self.words(update.content, Heard::Text),
            ("agent_thought_chunk", _) => self.words(update.content, Heard::Thought),
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
            ) => Heard::Alive,
            _ => {
                self.unknown += 1;
                Heard::Alive
            }
        }
    }

    fn words(&mut self, content: Option<&RawValue>, heard: fn(String) -> Heard) -> Heard {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Content<'a> {
            #[serde(borrow)]
            text: Option<&'a RawValue>,
        }
        let content: Content<'_> = read(content).unwrap_or_default();
        match text(content.text) {
            Some(text) if text.is_empty() => Heard::Alive,
            Some(text) => heard(text),
            None => {
                self.unknown += 1;
                Heard::Alive
            }
        }
    }

    fn on_response(&mut self, id: Option<&Id>, outcome: Result<Option<&RawValue>, RpcError>) {
        let State::Waits(step) = self.state else { return };
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

    fn on_result(&mut self, step: Step, result: Option<&RawValue>) {
        match step {
            Step::Greet => {
                self.agent = Agent::read(result);
                if self.agent.protocol == say::PROTOCOL {
                    self.open();
                } else {
                    self.fail(failures::other_protocol(self.agent.protocol));
                }
            }
            Step::SignIn => {
                self.signed_in = true;
                self.open();
            }
            Step::New => match session_name(result) {
                Some(name) => {
                    self.opened(name);
                    self.choose(result);
                }
                None => self.fail(failures::no_session()),
            },
            Step::Load => {
                let name = self.ask.resume.clone().unwrap_or_default();
                self.opened(name);
                self.choose(result);
            }
            Step::Choose { .. } => self.prompt(),
            Step::Prompt => self.on_ending(&Ending::read(result)),
        }
    }

    fn on_ending(&mut self, ending: &Ending) {
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
            _ if self.cancelled => Heard::Failed(failures::cancelled()),
            Ok(FinishReason::Stop) if !self.answered => Heard::Failed(failures::empty()),
            Ok(reason) => Heard::Ended(reason),
            Err(failure) => Heard::Failed(failure),
        };
        if let Some(usage) = ending.usage {
            self.hear(Heard::Usage(usage));
        }
        self.release(last);
    }

    fn on_error(&mut self, step: Step, error: &RpcError) {
        if self.cancelled {
            return self.fail(failures::cancelled());
        }
        let demands_sign_in = failures::demands_sign_in(error);
        match step {
            Step::SignIn => self.fail(failures::not_signed_in(error)),
            Step::New | Step::Load if demands_sign_in && !self.signed_in => {
                let method = self.agent.sign_in.clone();
                let params = say::Authenticate { method_id: &method };
                self.request(Step::SignIn, "authenticate", &params);
            }
            _ if demands_sign_in => self.fail(failures::not_signed_in(error)),
            Step::Load => self.fail(failures::lost(error)),
            // The child was started with the model, too.
            Step::Choose { .. } if error.code == METHOD_NOT_FOUND => self.prompt(),
            // Opened once more, the conversation says how the models are called.
            Step::Choose { listed: false } => {
                let name = self.session.clone();
                self.open_session(Step::Load, name.as_deref());
            }
            Step::Prompt if self.ask.resume.is_some() && failures::is_lost(error) => {
                self.fail(failures::lost(error));
            }
            Step::Greet | Step::New | Step::Choose { listed: true } | Step::Prompt => {
                self.fail(failures::rpc(error));
            }
        }
    }
}

impl child::Speaker for Speaker {
    fn begin(&mut self, ready: &Ready, ask: &Ask) {
        self.ready = ready.clone();
        self.ask = ask.clone();
        if ready.greeted {
            self.open();
        } else {
            self.request(Step::Greet, "initialize", &say::Initialize::ours());
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
        if self.state == State::Over {
            return;
        }
        // What the last line made us say has nobody to be told to.
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
            State::Over => {}
            State::Waits(Step::Prompt) => {
                if !std::mem::replace(&mut self.cancelled, true) {
                    let session = self.session.clone().unwrap_or_default();
                    let params = say::Cancel { session_id: &session };
                    let line = jsonrpc::notification("session/cancel", &params);
                    self.out.push_back(ToChild::Input(line));
                }
            }
            // Nothing was asked that could be cancelled.
            State::Idle | State::Waits(_) => self.fail(failures::cancelled()),
        }
    }

    fn poll_send(&mut self) -> Option<ToChild> {
        self.out.pop_front()
    }

    fn poll_heard(&mut self) -> Option<Heard> {
        self.heard.pop_front()
    }

    fn unknown(&self) -> u64 {
        self.unknown + self.lines.dropped()
    }
}

/// Neither the conversation nor the bearer of its server.
impl fmt::Debug for Speaker {
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
