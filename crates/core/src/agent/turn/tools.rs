//! Tool calls on their way to the client.
//!
//! A call is announced (its name, and arguments as they grow), asked for (the exec
//! that waits for the result), handed out (the client has all of it) and answered.

use std::time::Duration;

use ibeam_proto::agent::{
    ExecServerMessage, ToolCall as WireCall, exec_server_message::Message as Ask, tool_call::Tool,
};

use super::{
    Turn,
    call::{Asked, Call, Stage},
    stream::Link,
};
use crate::{
    agent::exec::ClientCall,
    codec::json_tail,
    error::{ErrorCode, TurnError},
    guard::LoopVerdict,
    model::{FinishReason, Millis, ToolCall, ids::CallId},
    turn::results::STUBBORN,
};

/// How long the backend may be silent about a call that it announced while others wait.
const PATIENCE: Duration = Duration::from_secs(10);

// === from the backend ===

impl Turn {
    /// A notice about a call: its name goes out at once, and its arguments as they grow.
    /// The text is the whole of them so far, and often empty.
    pub(super) fn on_announced(&mut self, wire_id: &str, call: Option<WireCall>, so_far: &str) {
        let Some(Tool::McpToolCall(mcp)) = call.and_then(|call| call.tool) else { return };
        // The first notice has no name yet.
        let Some(args) = mcp.args else { return };
        let Some(name) = self.spec.around.toolbox.client_name(&args) else { return };
        let known = self.calls.iter().position(|call| call.wire_id == wire_id);
        let at = match known {
            Some(at) => at,
            // One after the other: the rest waits for its exec.
            None if self.awaiting || (self.one_by_one && self.answer.has_calls()) => return,
            None if wire_id.is_empty() => return,
            None => {
                let name = name.to_owned();
                let id = self.next_call_id();
                self.answer.call_begin(id.clone(), name.clone());
                let stage = Stage::Announced { streamed: String::new() };
                self.calls.push(Call { id, name, wire_id: wire_id.to_owned(), stage });
                self.calls.len() - 1
            }
        };
        if let Some(Call { id, stage: Stage::Announced { streamed }, .. }) = self.calls.get_mut(at)
            && let Some(more) = all_but_the_end(so_far).strip_prefix(streamed.as_str())
        {
            self.answer.call_args(id, more.to_owned());
            streamed.push_str(more);
        }
    }

    /// The order to call a tool of the client.
    pub(super) fn on_client_call(
        &mut self,
        exec: &ExecServerMessage,
        call: ClientCall,
        now: Millis,
    ) {
        let wire_id = match &exec.message {
            Some(Ask::McpArgs(args)) => args.tool_call_id.as_str(),
            Some(Ask::ReadArgs(args) | Ask::RedactedReadArgs(args)) => args.tool_call_id.as_str(),
            _ => "",
        };
        let ClientCall { name, arguments, back } = call;
        let asked = Asked { exec: exec.id, exec_id: exec.exec_id.clone(), arguments, back };
        // Only calls of the client's own tools are announced. Without an id the name decides.
        let by_name = wire_id.is_empty() && asked.back.is_mcp();
        let announced =
            self.calls.iter_mut().enumerate().find_map(|(at, call)| match &mut call.stage {
                Stage::Announced { streamed }
                    if call.wire_id == wire_id || (by_name && call.name == name) =>
                {
                    Some((at, std::mem::take(streamed)))
                }
                _ => None,
            });
        if let Some((at, streamed)) = announced {
            self.hand_out(at, asked, &streamed, now);
            return;
        }
        let id = self.next_call_id();
        let call = Call { id, name, wire_id: wire_id.to_owned(), stage: Stage::Held(asked) };
        self.calls.push(call);
        let busy = self.awaiting || (self.one_by_one && self.answer.has_calls());
        if !busy {
            self.begin(self.calls.len() - 1, now);
        }
    }

    /// The backend no longer wants this one.
    pub(super) fn on_abort(&mut self, exec: u32) {
        self.calls.retain(|call| call.asked().is_none_or(|asked| asked.exec != exec));
        if self.awaiting && !self.calls.iter().any(Call::is_out) {
            // Nothing that the client brings could wake it.
            self.hang_up(true);
        }
    }

    /// A call is over. If it was only announced, it will never be made: the backend
    /// refused it by itself.
    pub(super) fn on_completed(&mut self, wire_id: &str) {
        let announced = |call: &Call| call.is_announced() && call.wire_id == wire_id;
        if self.calls.iter().any(announced) {
            let text = "Cursor announced a tool call but did not make it.";
            self.fail(TurnError::new(ErrorCode::UpstreamError, text), true);
        }
    }

    /// Counts a refusal. A model that asks for what is not there again and again would
    /// go on until the last clock runs out.
    pub(super) fn is_stubborn(&mut self) -> bool {
        self.tried.refusals += 1;
        let stubborn = self.tried.refusals > STUBBORN && self.settings.max_repeat > 0;
        if stubborn {
            let text = format!(
                "The model called tools that this conversation does not have {STUBBORN} times. \
                 Setting `tools.max_repeat` (TOOL_LOOP_MAX_REPEAT) to 0 removes this limit."
            );
            self.fail(TurnError::new(ErrorCode::ToolLoop, text), true);
        }
        stubborn
    }

    /// What calls hold that the client has yet to see or to answer.
    pub(super) fn held_bytes(&self) -> usize {
        let asked = self.calls.iter().filter_map(Call::asked);
        asked.map(|asked| asked.arguments.len() + size_of::<Call>()).sum()
    }

    fn next_call_id(&mut self) -> CallId {
        self.call_count += 1;
        CallId::in_session(self.session, self.call_count)
    }

    /// Gives a call that the client knows nothing of to the client.
    pub(super) fn begin(&mut self, at: usize, now: Millis) {
        let Some(call) = self.calls.get_mut(at) else { return };
        let named = Stage::Announced { streamed: String::new() };
        if let Stage::Held(asked) = std::mem::replace(&mut call.stage, named) {
            self.answer.call_begin(call.id.clone(), call.name.clone());
            self.hand_out(at, asked, "", now);
        }
    }

    /// Completes a call of which the client has the name, and `streamed` arguments.
    fn hand_out(&mut self, at: usize, asked: Asked, streamed: &str, now: Millis) {
        let Some(call) = self.calls.get_mut(at) else { return };
        let verdict = if asked.back.is_mcp() {
            self.loops.on_call(call.id.as_str(), &call.name, &asked.arguments)
        } else {
            LoopVerdict::Allow
        };
        if let LoopVerdict::Stop(text) = verdict {
            self.fail(TurnError::new(ErrorCode::ToolLoop, text), true);
            return;
        }
        let rest = if streamed.is_empty() {
            Some(asked.arguments.clone())
        } else {
            let whole = serde_json::from_str(&asked.arguments).ok();
            whole.and_then(|whole| json_tail::tail(streamed, &whole))
        };
        let Some(rest) = rest else {
            let text = "Cursor changed the arguments of a tool call after it had announced them.";
            self.fail(TurnError::new(ErrorCode::UpstreamError, text), true);
            return;
        };
        self.answer.call_args(&call.id, rest);
        self.answer.call_end(call.id.clone());
        let opening = asked.back.opening();
        let (exec, exec_id) = (asked.exec, asked.exec_id.clone());
        call.stage = Stage::Out(asked);
        for reply in opening {
            self.send_reply(exec, &exec_id, reply);
        }
        self.batch_starts(now);
    }

    fn batch_starts(&mut self, now: Millis) {
        let window = self.settings.clocks.tool_batch;
        if let Link::Open(link) = &mut self.link {
            link.batch_until = Some(now + window);
        }
    }

    // === to the client ===

    /// Hands the collected calls to the client, if that is due.
    pub(super) fn flush_batch(&mut self, now: Millis) {
        let Link::Open(link) = &mut self.link else { return };
        if link.batch_until.is_none() {
            return;
        }
        if self.calls.iter().any(Call::is_announced) {
            // The client has half of a call: the rest must come first.
            let late = link.last_progress + PATIENCE;
            if now >= late {
                let text = "Cursor announced a tool call but did not make it.";
                self.fail(TurnError::new(ErrorCode::UpstreamError, text), true);
            } else {
                link.batch_until = Some(late);
            }
            return;
        }
        link.batch_until = None;
        let ended = link.ended_until.is_some();
        self.answer.finish(FinishReason::ToolCalls);
        if self.settings.park && !ended {
            self.awaiting = true;
            self.since.end_leg(self.answer.words());
            self.answer.end_leg();
            self.request = None;
        } else {
            self.close(true);
        }
    }

    pub(super) fn has_announced_calls(&self) -> bool {
        self.calls.iter().any(Call::is_announced)
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
        out.filter_map(|call| {
            Some(ToolCall {
                id: call.id.as_str().to_owned(),
                name: call.name.clone(),
                arguments: call.asked()?.arguments.clone(),
            })
        })
        .collect()
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
