//! Results that go back to the backend, and the leg that they begin.

use super::{
    TapeEntry, Turn, TurnState,
    calls::Call,
    offer::{Brought, Offer, beside, note_loops},
    recovery::Tried,
};
use crate::{
    history,
    model::{Item, Millis, Part, TurnRequest},
    peer::Peer,
};

impl<P: Peer> Turn<P> {
    /// Resumes the parked turn with the results in `request`. The next events are the answer to
    /// `request`. Results that are not awaited are ignored; a call without a result is answered as
    /// such; the later of two results for one call counts.
    ///
    /// # Errors
    /// Returns the request if the waiting link cannot serve it: none of its new results is awaited
    /// here, the backend no longer waits for one, it offers other tools, or it has a message for
    /// which no result has room.
    pub fn resume(
        &mut self,
        mut request: TurnRequest,
        now: Millis,
    ) -> Result<(), Box<TurnRequest>> {
        let waits = self.state == TurnState::AwaitingTools && !self.calls.any_lost();
        if !waits || Offer::of(&request) != self.offer {
            return Err(Box::new(request));
        }
        let new = history::split(&request.items);
        let brought = request.items.get(new..).unwrap_or_default();
        let brought = Brought::new(brought, |id| self.awaits(id));
        let room = self.calls.list.iter().any(|call| call.is_out() && call.takes_words());
        if !brought.any || (!brought.messages.is_empty() && !room) {
            return Err(Box::new(request));
        }
        let beside = beside(&brought.messages);
        if let Some(tape) = &mut self.tape {
            tape.note_at(now, TapeEntry::Resumed(Box::new(request.clone())));
        }
        let calls = &self.calls.list;
        note_loops(&mut self.loops, &mut request, new, |id| {
            calls.iter().find(|call| call.id.as_str() == id).is_none_or(Call::takes_words)
        });
        let calls = self.calls.out();
        self.peer.begin_leg(&request, new, calls, &self.settings.clocks, now);
        self.begin_leg(&request, now);
        self.send_results(request.items.get(new..).unwrap_or_default(), beside);
        self.request = Some(Box::new(request));
        self.pump(now);
        self.begin_held_calls(now);
        self.pump(now);
        Ok(())
    }

    fn begin_leg(&mut self, request: &TurnRequest, now: Millis) {
        self.state = TurnState::Streaming;
        self.cut = false;
        self.started = now;
        self.tried = Tried::on_open_link();
        self.counted.new_texts.clear();
        self.answer.begin_leg();
        self.visible_before = self.answer.visible();
        self.demand(request);
    }

    fn send_results(&mut self, new: &[Item], mut beside: Vec<Part>) {
        let calls = std::mem::take(&mut self.calls.list);
        let (out, held): (Vec<_>, Vec<_>) = calls.into_iter().partition(Call::is_out);
        self.calls.list = held;
        // The message goes behind the last result that can carry it.
        let carrier = out.iter().rposition(Call::takes_words);
        for (at, call) in out.iter().enumerate() {
            let Some(asked) = call.asked() else { continue };
            let id = call.id.as_str();
            let result = new.iter().rev().find_map(|item| match item {
                Item::ToolResult(result) if result.call_id == id => Some(result),
                _ => None,
            });
            let more = if carrier == Some(at) { std::mem::take(&mut beside) } else { Vec::new() };
            let texts = self.peer.send_result(id, &asked.peer, result, more);
            self.counted.new_texts.extend(texts);
        }
    }

    /// Hands out calls that came late or had to wait for others.
    fn begin_held_calls(&mut self, now: Millis) {
        if !self.calls.is_empty() {
            self.answer.started();
        }
        let mut at = 0;
        while at < self.calls.list.len() && !self.answer.ended() {
            self.hand_out(at, now);
            at += 1;
            if self.calls.one_by_one {
                break;
            }
        }
    }
}
