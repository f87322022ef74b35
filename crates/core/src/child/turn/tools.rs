//! Tool calls on their way to the client.

use std::time::Duration;

use super::{
    Link, Run, Turn,
    call::{Call, Stage},
};
use crate::{
    child::{HostedCall, HostedResult, ToChild},
    error::{ErrorCode, TurnError},
    guard::LoopVerdict,
    model::{FinishReason, Millis, ToolCall, ToolContent, ids::CallId},
    turn::{Command, results::STUBBORN},
};

/// How long a call that was announced is waited for while others are with us.
const PATIENCE: Duration = Duration::from_secs(10);

// === from the child ===

impl Turn {
    /// The child called a tool that is hosted for it, and waits.
    pub(super) fn on_hosted_call(&mut self, mut hosted: HostedCall, now: Millis) {
        let Link::Open(run) = &mut self.link else { return };
        run.spoke = true;
        run.made += 1;
        self.answer.started();
        if !self.tools.iter().any(|tool| tool.name == hosted.name) {
            self.refuse(&hosted);
            return;
        }
        if hosted.arguments.trim().is_empty() {
            hosted.arguments = "{}".to_owned();
        }
        self.call_count += 1;
        let id = CallId::in_session(self.session, self.call_count);
        self.calls.push(Call { id, hosted, stage: Stage::Held });
        let busy = self.awaiting || (self.one_by_one && self.answer.has_calls());
        if !busy {
            self.hand_out(self.calls.len() - 1, now);
        }
        self.bound_parked();
    }

    /// Answers a call of a tool that nobody offers. A model that asks for such again and
    /// again would go on until the last clock runs out.
    fn refuse(&mut self, hosted: &HostedCall) {
        self.tried.refusals += 1;
        if self.tried.refusals > STUBBORN && self.settings.max_repeat > 0 && !self.awaiting {
            let text = format!(
                "The model called tools that this conversation does not have {STUBBORN} times. \
                 Setting `tools.max_repeat` (TOOL_LOOP_MAX_REPEAT) to 0 removes this limit."
            );
            self.fail(TurnError::new(ErrorCode::ToolLoop, text));
            return;
        }
        let text = format!("There is no tool named `{}`.", hosted.name);
        self.commands.push_back(Command::Tell(ToChild::Result(HostedResult {
            id: hosted.id,
            content: vec![ToolContent::Text(text)],
            is_error: true,
        })));
    }

    /// The child gave up on a call. If the client has it, its result is told anew.
    pub(super) fn on_dropped(&mut self, hosted: u64) {
        self.calls.retain(|call| call.hosted.id != hosted || call.is_out());
        for call in self.calls.iter_mut().filter(|call| call.hosted.id == hosted) {
            call.stage = Stage::Dropped;
        }
    }

    /// What calls hold that the client has yet to see or to answer.
    pub(super) fn held_bytes(&self) -> usize {
        let bytes = |call: &Call| call.hosted.arguments.len() + size_of::<Call>();
        self.calls.iter().map(bytes).sum()
    }
}

// === to the client ===

impl Turn {
    /// Gives a call that waited to the client.
    pub(super) fn hand_out(&mut self, at: usize, now: Millis) {
        let Some(call) = self.calls.get_mut(at).filter(|call| !call.is_out()) else { return };
        let HostedCall { name, arguments, .. } = &call.hosted;
        if let LoopVerdict::Stop(text) = self.loops.on_call(call.id.as_str(), name, arguments) {
            self.fail(TurnError::new(ErrorCode::ToolLoop, text));
            return;
        }
        call.stage = Stage::Out;
        self.answer.call_begin(call.id.clone(), name.clone());
        self.answer.call_args(&call.id, arguments.clone());
        self.answer.call_end(call.id.clone());
        if let Link::Open(run) = &mut self.link {
            run.batch = Some(now);
        }
    }

    /// Until when further calls are waited for before the client gets those that are there.
    pub(super) fn batch_until(&self, run: &Run) -> Option<Millis> {
        let more = run.announced > run.made && !self.one_by_one;
        let window = if more { PATIENCE } else { self.settings.clocks.tool_batch };
        run.batch.map(|newest| newest + window)
    }

    /// Hands the collected calls to the client.
    pub(super) fn flush_batch(&mut self) {
        let Link::Open(run) = &mut self.link else { return };
        run.batch = None;
        // What was announced and did not come is not waited for again.
        run.announced = run.announced.min(run.made);
        self.answer.finish(FinishReason::ToolCalls);
        if self.settings.park {
            self.awaiting = true;
            self.answer.end_leg();
        } else {
            self.let_go(true);
        }
    }

    /// Whether the result of this call is waited for.
    #[must_use]
    pub fn awaits(&self, call_id: &str) -> bool {
        self.calls.iter().any(|call| call.is_out() && call.id.as_str() == call_id)
    }

    /// The calls that the client has to answer.
    #[must_use]
    pub fn calls(&self) -> Vec<ToolCall> {
        let out = self.calls.iter().filter(|call| call.is_out());
        out.map(|call| ToolCall {
            id: call.id.as_str().to_owned(),
            name: call.hosted.name.clone(),
            arguments: call.hosted.arguments.clone(),
        })
        .collect()
    }
}
