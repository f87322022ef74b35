//! Tool calls on their way to the client.
//!
//! A call is announced (its name, and arguments as they grow; not every backend does that),
//! made (the backend waits for the result), handed out (the client has all of it) and answered.

use std::time::Duration;

use super::{
    Turn, TurnState,
    calls::{AskedCall, Call, CallStage},
    offer::STUBBORN,
};
use crate::{
    codec::json_tail,
    error::{ErrorCode, TurnError},
    guard::LoopVerdict,
    model::{FinishReason, Millis, ToolCall},
    peer::{AnnouncedCall, Peer, PeerCall},
};

/// How long the backend may be silent about a call that it announced while others wait.
const PATIENCE: Duration = Duration::from_secs(10);

// === from the backend ===

impl<P: Peer> Turn<P> {
    /// A notice about a call: its name goes out at once, and its arguments as they grow.
    pub(super) fn on_announced(&mut self, announced: AnnouncedCall) {
        let AnnouncedCall { wire_id, name, arguments } = announced;
        let known = self.calls.list.iter().position(|call| call.wire_id == wire_id);
        let at = match known {
            Some(at) => at,
            // One after the other: the rest waits until it is made.
            None if self.holds_calls() || wire_id.is_empty() => return,
            None => {
                let id = self.calls.next_id();
                self.answer.call_begin(id.clone(), name.clone());
                let stage = CallStage::Announced { streamed: String::new() };
                self.calls.list.push(Call { id, name, wire_id, stage });
                self.calls.list.len() - 1
            }
        };
        if let Some(Call { id, stage: CallStage::Announced { streamed }, .. }) =
            self.calls.list.get_mut(at)
            && let Some(more) = all_but_the_end(&arguments).strip_prefix(streamed.as_str())
        {
            self.answer.call_args(id, more.to_owned());
            streamed.push_str(more);
        }
    }

    /// The backend waits for the result of this call.
    pub(super) fn on_call(&mut self, call: PeerCall<P::Call>, now: Millis) {
        let PeerCall { key, wire_id, name, arguments, is_client_tool, call: peer } = call;
        self.calls.made();
        let asked = AskedCall { key, arguments, is_client_tool, peer };
        // Only calls of the client's own tools are announced. Without an id the name decides.
        let by_name = wire_id.is_empty() && is_client_tool;
        let announced =
            self.calls.list.iter_mut().enumerate().find_map(|(at, call)| match &mut call.stage {
                CallStage::Announced { streamed }
                    if call.wire_id == wire_id || (by_name && call.name == name) =>
                {
                    Some((at, std::mem::take(streamed)))
                }
                _ => None,
            });
        if let Some((at, streamed)) = announced {
            self.hand_out(at, asked, Some(&streamed), now);
            return;
        }
        let id = self.calls.next_id();
        self.calls.list.push(Call { id, name, wire_id, stage: CallStage::Held(asked) });
        if !self.holds_calls() {
            self.begin_call(self.calls.list.len() - 1, now);
        }
    }

    /// The backend no longer wants this one.
    pub(super) fn on_withdrawn(&mut self, key: u64) {
        self.calls.withdraw(key);
        if self.state == TurnState::AwaitingTools && !self.calls.list.iter().any(Call::is_out) {
            // No result that the client brings could wake it.
            self.hang_up();
        }
    }

    /// A call is over. If it was only announced, it will never be made: the backend
    /// refused it by itself.
    pub(super) fn on_completed(&mut self, wire_id: &str) {
        let announced = |call: &Call<P::Call>| call.is_announced() && call.wire_id == wire_id;
        if self.calls.list.iter().any(announced) {
            let text = "Cursor announced a tool call but did not make it.";
            self.fail(TurnError::new(ErrorCode::UpstreamError, text));
        }
    }

    /// Something that the backend asked for was refused. A model that asks again and again
    /// would continue until the last clock runs out.
    pub(super) fn on_refused(&mut self) {
        self.calls.made();
        self.tried.refusals += 1;
        if self.tried.refusals <= STUBBORN || self.settings.max_repeat == 0 {
            return;
        }
        let text = format!(
            "The model called tools that this conversation does not have {STUBBORN} times. \
             Setting `tools.max_repeat` (TOOL_LOOP_MAX_REPEAT) to 0 removes this limit."
        );
        self.abort(TurnError::new(ErrorCode::ToolLoop, text));
    }
}

// === to the client ===

impl<P: Peer> Turn<P> {
    /// Whether a further call has to wait: for the results of those that the client has, or
    /// because the client takes one after the other.
    fn holds_calls(&self) -> bool {
        self.state == TurnState::AwaitingTools || (self.calls.one_by_one && self.answer.has_calls())
    }

    /// Gives a call that the client knows nothing of to the client.
    pub(super) fn begin_call(&mut self, at: usize, now: Millis) {
        let Some(call) = self.calls.list.get_mut(at) else { return };
        let named = CallStage::Announced { streamed: String::new() };
        match std::mem::replace(&mut call.stage, named) {
            CallStage::Held(asked) => self.hand_out(at, asked, None, now),
            other => call.stage = other,
        }
    }

    /// Gives the client a call, or the rest of one whose name it has, and `streamed` arguments.
    fn hand_out(
        &mut self,
        at: usize,
        asked: AskedCall<P::Call>,
        streamed: Option<&str>,
        now: Millis,
    ) {
        let Some(call) = self.calls.list.get_mut(at) else { return };
        if asked.is_client_tool
            && let LoopVerdict::Stop(text) =
                self.loops.on_call(call.id.as_str(), &call.name, &asked.arguments)
        {
            self.fail(TurnError::new(ErrorCode::ToolLoop, text));
            return;
        }
        if streamed.is_none() {
            self.answer.started();
            self.answer.call_begin(call.id.clone(), call.name.clone());
        }
        let rest = match streamed.filter(|streamed| !streamed.is_empty()) {
            None => Some(asked.arguments.clone()),
            Some(streamed) => {
                let whole = serde_json::from_str(&asked.arguments).ok();
                whole.and_then(|whole| json_tail::tail(streamed, &whole))
            }
        };
        let Some(rest) = rest else {
            let text = "Cursor changed the arguments of a tool call after it had announced them.";
            self.fail(TurnError::new(ErrorCode::UpstreamError, text));
            return;
        };
        self.answer.call_args(&call.id, rest);
        self.answer.call_end(call.id.clone());
        self.peer.on_handed_out(&asked.peer);
        call.stage = CallStage::Out(asked);
        self.calls.batch = Some(now);
    }

    /// Until when further calls are waited for before the client gets those that are there.
    pub(super) fn batch_until(&self) -> Option<Millis> {
        let newest = self.calls.batch?;
        let window = self.settings.clocks.tool_batch;
        Some(if self.calls.has_announced() {
            (newest + window).max(self.peer.last_progress() + PATIENCE)
        } else if self.calls.are_expected() {
            newest + PATIENCE
        } else {
            newest + window
        })
    }

    /// Hands the collected calls to the client, if that is due.
    pub(super) fn flush_batch(&mut self, now: Millis) {
        if self.state != TurnState::Streaming || self.calls.batch.is_none() {
            return;
        }
        if self.calls.has_announced() {
            // The client has half of a call: the rest must come first.
            if now >= self.peer.last_progress() + PATIENCE {
                let text = "Cursor announced a tool call but did not make it.";
                self.fail(TurnError::new(ErrorCode::UpstreamError, text));
            }
            return;
        }
        self.calls.end_batch();
        self.answer.finish(FinishReason::ToolCalls);
        if self.settings.park && self.peer.can_park() {
            self.state = TurnState::AwaitingTools;
            self.peer.end_leg(self.answer.words());
            self.answer.end_leg();
        } else {
            self.hang_up();
        }
    }

    /// Whether the result of this call is waited for.
    #[must_use]
    pub fn awaits(&self, call_id: &str) -> bool {
        self.calls.awaits(call_id)
    }

    /// The calls that the client has to answer.
    #[must_use]
    pub fn calls(&self) -> Vec<ToolCall> {
        self.calls.out()
    }
}

/// A call is not the client's to make before the backend asks for it, so the arguments are
/// never whole until then.
fn all_but_the_end(so_far: &str) -> &str {
    match so_far.trim_end().strip_suffix('}') {
        Some(rest) if serde_json::from_str::<serde::de::IgnoredAny>(so_far).is_ok() => rest,
        _ => so_far,
    }
}
