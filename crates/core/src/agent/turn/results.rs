//! Results on their way back to the backend, and the leg that they begin.

use super::{
    Command, Phase, Turn,
    call::Call,
    recovery::Tried,
    stream::{Link, upload_time},
};
use crate::{
    history,
    model::{Item, Millis, ToolContent, ToolResult, TurnRequest},
    turn::results::{Brought, NO_RESULT, Offer, beside, must_call, note_loops},
};

impl Turn {
    /// Goes on with the results that `request` brings, on the stream that waits for
    /// them. The next events are the answer to `request`. Results that nobody waits for
    /// are passed over; calls that got none are answered with that; of two results for
    /// one call the later counts.
    ///
    /// # Errors
    /// Gives the request back when the waiting stream cannot serve it: none of its new
    /// results is awaited here, it offers other tools, or it says something to the model
    /// that no result has room for.
    pub fn resume(
        &mut self,
        mut request: TurnRequest,
        now: Millis,
    ) -> Result<(), Box<TurnRequest>> {
        if self.phase() != Phase::AwaitingTools || Offer::of(&request) != self.offer {
            return Err(Box::new(request));
        }
        let new = history::split(&request.items);
        let told = request.items.get(new..).unwrap_or_default();
        let brought = Brought::new(told, |id| self.awaits(id));
        let room = self.calls.iter().any(|call| call.is_out() && call.takes_words());
        if !brought.any || (!brought.messages.is_empty() && !room) {
            return Err(Box::new(request));
        }
        let beside = beside(&brought.messages);
        let calls = &self.calls;
        note_loops(&mut self.loops, &mut request, new, |id| {
            calls.iter().find(|call| call.id.as_str() == id).is_none_or(Call::takes_words)
        });
        self.new_texts.clear();
        self.since.begin(&request);
        let calls = self.calls().into_iter().map(Item::ToolCall);
        let told = request.items.get(new..).unwrap_or_default();
        self.since.add(calls.chain(told.iter().cloned()));
        self.anchor = None;
        if request.sampling.is_controlled() {
            self.drop_anchor();
        }
        self.send_results(told, beside);
        self.begin_leg(request, now);
        Ok(())
    }

    fn send_results(&mut self, new: &[Item], mut beside: Vec<ToolContent>) {
        let calls = std::mem::take(&mut self.calls);
        let (out, held): (Vec<_>, Vec<_>) = calls.into_iter().partition(Call::is_out);
        self.calls = held;
        // The message goes behind the last result that can carry it.
        let carrier = out.iter().rposition(Call::takes_words);
        for (at, call) in out.iter().enumerate() {
            let Some(asked) = call.asked() else { continue };
            let result = new.iter().rev().find_map(|item| match item {
                Item::ToolResult(result) if result.call_id == call.id.as_str() => Some(result),
                _ => None,
            });
            let more = if carrier == Some(at) { std::mem::take(&mut beside) } else { Vec::new() };
            let replies = match (result, more.is_empty()) {
                (None, true) => asked.back.unanswered(NO_RESULT),
                (Some(result), true) => {
                    self.new_texts.push(result.text());
                    asked.back.replies(result)
                }
                (result, false) => {
                    let mut result = result.cloned().unwrap_or_else(|| ToolResult {
                        call_id: call.id.as_str().to_owned(),
                        content: vec![ToolContent::Text(NO_RESULT.to_owned())],
                        is_error: true,
                    });
                    result.content.extend(more);
                    self.new_texts.push(result.text());
                    asked.back.replies(&result)
                }
            };
            self.half_read.note(&call.wire_id, &replies);
            for reply in replies {
                self.send_reply(asked.exec, &asked.exec_id, reply);
            }
            self.close_exec(asked.exec);
        }
    }

    fn begin_leg(&mut self, request: TurnRequest, now: Millis) {
        self.awaiting = false;
        self.shown = None;
        self.started = now;
        self.tried = Tried::on_open_stream();
        self.answer.begin_leg();
        self.demand(&request);
        self.request = Some(Box::new(request));
        if let Some(checkpoint) = &mut self.checkpoint {
            checkpoint.before_results = true;
        }
        let sent: usize = self.commands.iter().map(Command::bytes).sum();
        if let Link::Open(link) = &mut self.link {
            link.last_frame = now;
            link.last_progress = now;
            link.next_heartbeat.get_or_insert(now + self.settings.clocks.heartbeat);
            link.seen_before = self.answer.visible();
            link.upload = upload_time(sent);
        }
        if !self.calls.is_empty() {
            self.answer.started();
        }
        // Calls that came late, or had to wait for their turn.
        let mut at = 0;
        while at < self.calls.len() && !self.answer.ended() {
            self.begin(at, now);
            at += 1;
            if self.one_by_one {
                break;
            }
        }
    }

    /// Takes note of how `request` wants its tools called.
    pub(super) fn demand(&mut self, request: &TurnRequest) {
        self.offer = Offer::of(request);
        self.one_by_one = !request.parallel_tool_calls;
        self.must_call = must_call(request);
        if self.must_call {
            self.answer.hold();
        }
    }
}
