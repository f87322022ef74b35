//! Results on their way back to the backend, and the leg that they begin.

use super::{
    Command, Phase, Turn,
    call::Call,
    recovery::Tried,
    stream::{Link, upload_time},
};
use crate::{
    guard::LoopGuard,
    history,
    model::{Item, Message, Millis, Part, Role, ToolChoice, ToolContent, ToolResult, TurnRequest},
};

/// What a call without a result is answered with.
const NO_RESULT: &str = "The client sent no result for this call.";

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
        if self.phase() != Phase::AwaitingTools || offer(&request) != self.offer {
            return Err(Box::new(request));
        }
        let new = history::split(&request.items);
        let mut messages = Vec::new();
        let mut brought = false;
        for item in request.items.get(new..).unwrap_or_default() {
            match item {
                Item::ToolResult(result) => brought |= self.awaits(&result.call_id),
                // What stands before the results was said before the calls.
                Item::Message(message) if brought && message.role == Role::User => {
                    messages.push(message);
                }
                _ => {}
            }
        }
        let room = self.calls.iter().any(|call| call.is_out() && call.takes_words());
        if !brought || (!messages.is_empty() && !room) {
            return Err(Box::new(request));
        }
        let beside = beside(&messages);
        note_loops(&mut self.loops, &self.calls, &mut request, new);
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
        self.tried = Tried::default();
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
        self.offer = offer(request);
        self.one_by_one = !request.parallel_tool_calls;
        self.must_call = matches!(request.tool_choice, ToolChoice::Required | ToolChoice::Named(_));
        if self.must_call {
            self.answer.hold();
        }
    }
}

/// Which of its tools a request offers to the model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Offer {
    #[default]
    All,
    None,
    One(String),
}

fn offer(request: &TurnRequest) -> Offer {
    match &request.tool_choice {
        ToolChoice::Auto | ToolChoice::Required => Offer::All,
        ToolChoice::None => Offer::None,
        ToolChoice::Named(name) => Offer::One(name.clone()),
    }
}

/// Nothing but results can be said on a stream that waits for them, so what the user
/// says meanwhile rides on one.
fn beside(messages: &[&Message]) -> Vec<ToolContent> {
    let mut content = Vec::new();
    for part in messages.iter().flat_map(|message| &message.parts) {
        content.push(match part {
            Part::Text(text) => {
                ToolContent::Text(format!("<user_message>\n{text}\n</user_message>"))
            }
            Part::Image(image) => ToolContent::Image(image.clone()),
        });
    }
    content
}

/// Counts the new results, and lets a note ride on those that repeat themselves.
pub(super) fn note_loops(
    loops: &mut LoopGuard,
    calls: &[Call],
    request: &mut TurnRequest,
    new: usize,
) {
    let mut user = false;
    for item in request.items.get_mut(new..).unwrap_or_default() {
        match item {
            Item::ToolResult(result) => {
                let note = loops.on_result(&result.call_id, result);
                let call = calls.iter().find(|call| call.id.as_str() == result.call_id);
                if call.is_none_or(Call::takes_words) {
                    result.content.extend(note.map(ToolContent::Text));
                }
            }
            Item::Message(_) => user = true,
            Item::ToolCall(_) | Item::Reasoning(_) => {}
        }
    }
    if user {
        loops.on_user_message();
    }
}
