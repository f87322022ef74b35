//! Clocks, endings and recovery: how a turn is over, and when it is not yet.

use ibeam_proto::agent::{
    AgentClientMessage, CancelAction, ConversationAction, ExecClientControlMessage,
    agent_client_message::Message as ToServer, conversation_action, exec_client_control_message,
};
use sha2::{Digest as _, Sha256};

use super::{Command, Link, OpenSpec, Purpose, Turn, cut_short};
use crate::{
    agent::classify::{Failure, Remedy},
    codec::connect,
    error::{ErrorCode, TurnError},
    model::{FinishReason, Millis, ids::uuid_from_random},
};

impl Turn {
    pub(super) fn on_stream_timeout(&mut self, now: Millis) {
        let clocks = self.settings.clocks;
        let Link::Open(link) = &self.link else { return };
        let due = |at: Option<Millis>| at.is_some_and(|at| now >= at);
        if self.awaiting {
            if link.reading && now >= link.last_frame + clocks.no_frame {
                self.hang_up(true);
            }
        } else if due(link.batch_until) {
            self.flush_batch(now);
        } else if due(link.ended_until)
            || (self.looks_complete(link) && now >= link.last_progress + clocks.quiet_end)
        {
            self.finish_stop(now, true);
        } else if link.reading && now >= link.last_frame + clocks.no_frame + link.upload {
            let error = TurnError::new(
                ErrorCode::Timeout,
                format!("Cursor sent nothing for {} s.", clocks.no_frame.as_secs()),
            );
            self.recover(Failure { error, remedy: Remedy::Resume }, false, now);
        } else if link.reading && now >= link.last_progress + clocks.heartbeat_only {
            self.fail_by_clock(
                "Cursor sent only heartbeats for longer than the `heartbeat_only` clock allows.",
            );
        }
    }

    /// The stream is gone. That does not matter when the turn said it is over, or
    /// when it handed out tool calls: those are whole. Gives whether it is settled.
    pub(super) fn settle(&mut self, now: Millis) -> bool {
        let Link::Open(link) = &self.link else { return false };
        if self.awaiting {
            self.hang_up(false);
            return true;
        }
        let whole = link.batch_until.is_some() && !self.has_announced_calls();
        let over = link.ended_until.is_some() || whole;
        if over {
            self.finish_stop(now, false);
        }
        over
    }

    /// A clean end. An answer with nothing in it is none.
    pub(super) fn finish_stop(&mut self, now: Millis, cancel: bool) {
        if self.has_announced_calls() {
            let text = "Cursor announced a tool call and ended the turn without making it.";
            self.fail(TurnError::new(ErrorCode::UpstreamError, text), cancel);
            return;
        }
        if self.answer.has_calls() {
            self.answer.finish(FinishReason::ToolCalls);
            self.close(cancel);
            return;
        }
        let Link::Open(link) = &self.link else { return };
        let added = self.answer.visible() > link.seen_before;
        if link.purpose == Purpose::Resume && !added {
            // What was said before the cut is not the whole answer.
            let prefer_h1 = link.prefer_h1;
            self.recover(cut_short(), prefer_h1, now);
            return;
        }
        if self.answer.is_empty() {
            let error = TurnError::new(
                ErrorCode::UpstreamError,
                "Cursor ended the turn without an answer.",
            );
            self.recover(Failure { error, remedy: Remedy::FreshConversation }, false, now);
            return;
        }
        if self.must_call {
            self.insist();
            return;
        }
        self.answer.finish(FinishReason::Stop);
        self.close(cancel);
    }

    /// The answer lacks the call that the client asked for. It is asked for once more.
    fn insist(&mut self) {
        let unmet = || {
            let text = "The model ended its answer without the tool call that `tool_choice` asks \
                        for, twice.";
            TurnError::new(ErrorCode::ToolChoiceUnmet, text)
        };
        let newest = self.checkpoint();
        let Some(request) = self.request.as_ref().filter(|_| !self.insisted) else {
            self.fail(unmet(), true);
            return;
        };
        self.insisted = true;
        self.spec.insist(request, newest, "Call the tool now. Do not answer with text.");
        self.answer.forget_held();
        self.commands.push_back(Command::Close { cancel: true });
        self.open(Purpose::Start, false);
    }

    /// Lets go of a stream whose client has its ending. What the backend waits for is
    /// told anew when the client comes back.
    pub(super) fn hang_up(&mut self, cancel: bool) {
        self.tell_cancel(cancel);
        self.commands.push_back(Command::Close { cancel });
        self.link = Link::Done;
    }

    /// The rules for another try, in one place. A stream on which the backend said
    /// nothing is opened again, with back-off. Before the client saw anything, a
    /// fresh conversation id is tried once where that is what helps. A turn whose
    /// transport was lost is resumed once, from the newest checkpoint, unless the
    /// client has seen more than that: it would come twice. A token that is refused is
    /// replaced once, while nothing of this stream has reached the model.
    pub(super) fn recover(&mut self, failure: Failure, prefer_h1: bool, now: Millis) {
        let Failure { error, remedy } = failure.for_profile(&self.settings.sign_in);
        let again = matches!(remedy, Remedy::Retry | Remedy::Resume);
        let (silent, purpose) = match &self.link {
            Link::Opening { purpose, .. } => (true, *purpose),
            Link::Open(link) => (!link.heard, link.purpose),
            Link::Waiting { .. } | Link::Done => (false, Purpose::Start),
        };
        let seen = self.answer.visible();
        let covered = self
            .checkpoint
            .as_ref()
            .is_some_and(|checkpoint| checkpoint.seen == seen && !checkpoint.before_results)
            // The client has half of a call that another stream would make under another id.
            && !self.has_announced_calls();
        // What the backend asked for on the old stream, it will ask for again.
        self.calls.clear();
        if silent && again {
            let jitter = self.draw_fraction();
            let wait = self.settings.backoff.delay(self.tries, jitter, error.retry_after);
            self.tries += 1;
            if let Some(wait) = wait {
                self.commands.push_back(Command::Close { cancel: true });
                self.link = Link::Waiting { until: now + wait, purpose, prefer_h1 };
                return;
            }
        } else if silent && remedy == Remedy::FreshToken && !self.reauthorized {
            self.reauthorized = true;
            self.commands.push_back(Command::Close { cancel: true });
            self.open_with(purpose, prefer_h1, true);
            return;
        } else if remedy == Remedy::FreshConversation && !self.answer.delivered() && !self.renewed {
            self.renewed = true;
            let id = self.draw_uuid();
            self.spec.rename(id);
            self.tell_anew(prefer_h1);
            return;
        } else if remedy == Remedy::Resume && covered && !self.resumed {
            self.resumed = true;
            self.tries = 0;
            self.commands.push_back(Command::Close { cancel: true });
            self.open(Purpose::Resume, prefer_h1);
            return;
        } else if again && self.sent_results() && !self.answer.delivered() && !self.rebuilt {
            self.rebuilt = true;
            self.tell_anew(prefer_h1);
            return;
        }
        self.fail(error, true);
    }

    /// Whether the open stream got results that only the client's request still has.
    fn sent_results(&self) -> bool {
        self.checkpoint.as_ref().is_none_or(|checkpoint| checkpoint.before_results)
            && self.call_count > 0
    }

    /// Tells the whole conversation on a new stream.
    fn tell_anew(&mut self, prefer_h1: bool) {
        if !self.since.is_bare() {
            if let Some(request) = &self.request {
                self.spec.rebuild(request);
            }
        } else if !self.since.is_empty() {
            // Only we know what came before.
            let state = self.state_so_far();
            self.spec.go_on_from(state);
        }
        self.since.clear();
        self.checkpoint = None;
        self.tries = 0;
        self.commands.push_back(Command::Close { cancel: true });
        self.open(Purpose::Start, prefer_h1);
    }

    pub(super) fn open(&mut self, purpose: Purpose, prefer_h1: bool) {
        self.open_with(purpose, prefer_h1, false);
    }

    fn open_with(&mut self, purpose: Purpose, prefer_h1: bool, fresh_token: bool) {
        self.link = Link::Opening { purpose, prefer_h1 };
        let request_id = self.draw_uuid();
        self.commands.push_back(Command::Open(OpenSpec {
            request_id,
            original_request_id: uuid_from_random(self.seed),
            prefer_h1,
            fresh_token,
        }));
    }

    pub(super) fn fail_by_clock(&mut self, text: &'static str) {
        self.fail(TurnError::new(ErrorCode::Timeout, text), true);
    }

    pub(super) fn fail(&mut self, error: TurnError, cancel: bool) {
        self.answer.fail(error);
        self.close(cancel);
    }

    /// `cancel`: the backend is still at work and must be told.
    pub(super) fn close(&mut self, cancel: bool) {
        debug_assert!(self.answer.ended(), "closed without an ending");
        self.tell_cancel(cancel);
        self.commands.push_back(Command::Close { cancel });
        self.link = Link::Done;
    }

    fn tell_cancel(&mut self, cancel: bool) {
        if cancel && matches!(self.link, Link::Open(_)) {
            let action = conversation_action::Action::CancelAction(CancelAction {});
            self.send(ToServer::ConversationAction(ConversationAction { action: Some(action) }));
        }
    }

    pub(super) fn send(&mut self, message: ToServer) {
        let message = AgentClientMessage { message: Some(message) };
        self.commands.push_back(Command::Send(connect::encode(&message)));
    }

    pub(super) fn send_control(&mut self, message: exec_client_control_message::Message) {
        self.send(ToServer::ExecClientControlMessage(ExecClientControlMessage {
            message: Some(message),
        }));
    }

    /// The next 16 bytes of the turn's own random source.
    pub(super) fn draw(&mut self) -> [u8; 16] {
        self.drawn += 1;
        let mut hash = Sha256::new();
        hash.update(self.seed);
        hash.update(self.drawn.to_be_bytes());
        let digest: [u8; 32] = hash.finalize().into();
        *digest.first_chunk().unwrap_or(&self.seed)
    }

    pub(super) fn draw_uuid(&mut self) -> String {
        uuid_from_random(self.draw())
    }

    /// A number in `0..1`.
    pub(super) fn draw_fraction(&mut self) -> f64 {
        let [a, b, ..] = self.draw();
        f64::from(u16::from_be_bytes([a, b])) / 65_536.0
    }
}
