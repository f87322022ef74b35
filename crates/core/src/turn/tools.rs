//! Tool calls on their way to the client.
//!
//! A call is expected (not every backend says so), made (the backend waits for the result),
//! handed out (the client has all of it) and answered. The client sees nothing of a call before
//! it is made: until then the backend may still change or refuse it.

use super::{
    Turn, TurnState,
    calls::{AskedCall, Call, CallStage},
    offer::STUBBORN,
};
use crate::{
    error::{ErrorCode, TurnError},
    guard::LoopVerdict,
    model::{FinishReason, Millis, ToolCall},
    peer::{Peer, PeerCall},
};

// === from the backend ===

impl<P: Peer> Turn<P> {
    /// The backend waits for the result of this call.
    pub(super) fn on_call(&mut self, call: PeerCall<P::Call>, now: Millis) {
        let PeerCall { key, name, arguments, is_client_tool, call: peer } = call;
        self.calls.made();
        let asked = AskedCall { key, arguments, is_client_tool, peer };
        let id = self.calls.next_id();
        self.calls.list.push(Call { id, name, stage: CallStage::Held(asked) });
        if !self.holds_calls() {
            self.hand_out(self.calls.list.len() - 1, now);
        }
    }

    /// The backend no longer wants this call.
    pub(super) fn on_withdrawn(&mut self, key: u64) {
        self.calls.withdraw(key);
        if self.state == TurnState::AwaitingTools && !self.calls.list.iter().any(Call::is_out) {
            // No result of the client could wake it.
            self.hang_up();
        }
    }

    /// A request of the backend was refused. A model that repeats it again and again would continue
    /// until the last clock expires.
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
        self.stop(TurnError::new(ErrorCode::ToolLoop, text));
    }
}

// === to the client ===

impl<P: Peer> Turn<P> {
    /// Whether a further call must wait: for the results of those that the client has, or because
    /// the client takes one at a time.
    fn holds_calls(&self) -> bool {
        self.state == TurnState::AwaitingTools || (self.calls.one_by_one && self.answer.has_calls())
    }

    /// Sends the client a call that it has not seen at all.
    pub(super) fn hand_out(&mut self, at: usize, now: Millis) {
        let Some(call) = self.calls.list.get_mut(at) else { return };
        let CallStage::Held(asked) = &call.stage else { return };
        if asked.is_client_tool
            && let LoopVerdict::Stop(text) =
                self.loops.on_call(call.id.as_str(), &call.name, &asked.arguments)
        {
            self.fail(TurnError::new(ErrorCode::ToolLoop, text));
            return;
        }
        self.answer.started();
        self.answer.call_begin(call.id.clone(), call.name.clone());
        self.answer.call_args(&call.id, asked.arguments.clone());
        self.answer.call_end(call.id.clone());
        self.peer.on_handed_out(&asked.peer);
        call.hand_out();
        self.calls.batch = Some(now);
    }

    /// How long to wait for further calls before the client gets those that are there.
    pub(super) fn batch_until(&self) -> Option<Millis> {
        let newest = self.calls.batch?;
        let are_expected = self.calls.are_expected();
        let window = if are_expected { P::CALL_PATIENCE } else { self.settings.clocks.tool_batch };
        Some(newest + window)
    }

    /// Hands the collected calls to the client, if that is due.
    pub(super) fn flush_batch(&mut self) {
        if self.state != TurnState::Streaming || self.calls.batch.is_none() {
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

    /// Whether the result of this call is awaited.
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
