//! Results on their way back to the child, and the leg that they begin.

use super::{
    Phase, Shown, Turn,
    call::{Call, Stage},
    recovery::Tried,
    run::Link,
};
use crate::{
    child::{HostedResult, ToChild, cap::cap, prompt::Telling},
    history,
    model::{Item, Millis, ToolContent, TurnRequest},
    turn::{
        Command,
        results::{Brought, NO_RESULT, Offer, beside, must_call, note_loops},
    },
};

impl Turn {
    /// Goes on with the results that `request` brings, in the child that waits for them.
    /// The next events are the answer to `request`. Results that nobody waits for are passed
    /// over; calls that got none are answered with that; of two results for one call the
    /// later counts.
    ///
    /// # Errors
    /// Gives the request back when the waiting child cannot serve it: none of its new
    /// results is awaited here, the child gave up on one, or other tools are offered.
    pub fn resume(
        &mut self,
        mut request: TurnRequest,
        now: Millis,
    ) -> Result<(), Box<TurnRequest>> {
        let gone = self.calls.iter().any(|call| call.stage == Stage::Dropped);
        let waits = self.phase() == Phase::AwaitingTools && !gone;
        let new = history::split(&request.items);
        let told = request.items.get(new..).unwrap_or_default();
        let brought = Brought::new(told, |id| self.awaits(id));
        if !waits || !brought.any || Offer::of(&request) != self.offer {
            return Err(Box::new(request));
        }
        let beside = beside(&brought.messages);
        note_loops(&mut self.loops, &mut request, new, |_| true);
        // What another child is told, should this one be lost.
        self.bare = new == 0;
        self.named = request.hints.session.is_some();
        let calls = if self.bare { self.calls() } else { Vec::new() };
        let resume = self.name.clone().filter(|_| self.bare);
        self.telling = Telling { resume, calls, ..Telling::default() };
        self.new_texts.clear();
        let told = request.items.get(new..).unwrap_or_default();
        self.send_results(told, beside);
        self.begin_leg(request, now);
        Ok(())
    }

    fn send_results(&mut self, new: &[Item], mut beside: Vec<ToolContent>) {
        let calls = std::mem::take(&mut self.calls);
        let (out, held): (Vec<_>, Vec<_>) = calls.into_iter().partition(Call::is_out);
        self.calls = held;
        let last = out.len().saturating_sub(1);
        for (at, call) in out.iter().enumerate() {
            let result = new.iter().rev().find_map(|item| match item {
                Item::ToolResult(result) if result.call_id == call.id.as_str() => Some(result),
                _ => None,
            });
            let (mut content, is_error) = match result {
                Some(result) => {
                    let content = cap(&result.content, self.rules.result_bytes);
                    (content.into_owned(), result.is_error)
                }
                None => (vec![ToolContent::Text(NO_RESULT.to_owned())], true),
            };
            if at == last {
                content.append(&mut beside);
            }
            self.new_texts.extend(content.iter().filter_map(|part| match part {
                ToolContent::Text(text) => Some(text.clone()),
                ToolContent::Image(_) => None,
            }));
            let result = HostedResult { id: call.hosted.id, content, is_error };
            self.commands.push_back(Command::Tell(ToChild::Result(result)));
        }
    }

    fn begin_leg(&mut self, request: TurnRequest, now: Millis) {
        self.awaiting = false;
        self.shown = Shown::All;
        self.started = now;
        self.tried = Tried::on_open_stream();
        self.answer.begin_leg();
        self.demand(&request);
        self.request = Some(Box::new(request));
        if let Link::Open(run) = &mut self.link {
            run.last_heard = now;
        }
        if !self.calls.is_empty() {
            self.answer.started();
        }
        // Calls that came late, or had to wait for their turn.
        let mut at = 0;
        while at < self.calls.len() && !self.answer.ended() {
            self.hand_out(at, now);
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
