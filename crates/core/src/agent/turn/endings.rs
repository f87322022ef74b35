//! How a leg, or the whole turn, is over.

use super::{
    Command, Phase, Turn,
    recovery::cut_short,
    since::Shown,
    stream::{Link, Purpose},
};
use crate::{
    agent::classify::{Failure, Remedy},
    error::{ErrorCode, TurnError},
    model::{FinishReason, Millis, TurnRequest, Usage},
    turn::results::{CALL_NOW, said},
};

impl Turn {
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
            let text = "Cursor announced a tool call but ended the turn without making it.";
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
            let text = "The model ended its answer without the tool call that `tool_choice` \
                        requires.";
            TurnError::new(ErrorCode::ToolChoiceUnmet, text)
        };
        let newest = self.checkpoint();
        let may_insist = !self.tried.insisted && self.tried.attempts.may_run();
        let Some(request) = self.request.as_ref().filter(|_| may_insist) else {
            self.fail(unmet(), true);
            return;
        };
        self.tried.insisted = true;
        self.spec.insist(request, newest, CALL_NOW);
        self.answer.forget_held();
        self.commands.push_back(Command::Close { cancel: true });
        self.open(Purpose::Start, false);
    }

    /// The client has all it wants of this answer: nothing more of it is given, and the
    /// backend is told to stop. `shown` is the text that the client saw, if that is known.
    /// Gives the tokens that the backend counted; [`Self::uncounted`] is what the client saw.
    pub fn cut(&mut self, shown: Option<String>) -> Option<Usage> {
        self.shown = Some(Shown::cut(shown.clone()));
        self.calls.clear();
        self.awaiting = false;
        if self.phase() != Phase::Done {
            self.let_go(true);
        }
        self.answer.cut(shown)
    }

    /// Whether the answer ended by [`Self::cut`].
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.shown.as_ref().is_some_and(Shown::is_cut)
    }

    /// The answer that just ended is not what its client asked for: tells the model so. The
    /// next events are the answer in its place. Gives false when there is nothing to ask about.
    pub fn ask_again(&mut self, text: &str) -> bool {
        if self.phase() != Phase::Done || !self.tried.attempts.may_run() {
            return false;
        }
        let Some(request) = self.request.take() else { return false };
        self.keep_first_anchor();
        match self.checkpoint() {
            Some(newest) => self.spec.insist(&request, Some(newest), text),
            None => {
                let mut told = TurnRequest::clone(&request);
                told.items.extend(said(self.answer.words(), 0));
                self.spec.insist(&told, None, text);
            }
        }
        self.answer.end_leg();
        self.answer.begin_leg();
        self.since.clear();
        self.checkpoint = None;
        self.tried = self.tried.once_more();
        self.new_texts = vec![text.to_owned()];
        self.request = Some(request);
        self.open(Purpose::Start, false);
        true
    }

    /// Lets go of a stream whose client has its ending. What the backend waits for is
    /// told anew when the client comes back.
    pub(super) fn hang_up(&mut self, cancel: bool) {
        self.let_go(cancel);
    }

    pub(super) fn fail(&mut self, error: TurnError, cancel: bool) {
        self.answer.fail(error);
        self.close(cancel);
    }

    /// Ends the turn after its last answer. `cancel`: the backend is still at work.
    pub(super) fn close(&mut self, cancel: bool) {
        debug_assert!(self.answer.ended(), "closed without an ending");
        self.let_go(cancel);
    }

    fn let_go(&mut self, cancel: bool) {
        if cancel {
            self.tell_cancel();
        }
        self.commands.push_back(Command::Close { cancel });
        self.link = Link::Done;
    }
}
