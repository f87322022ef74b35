//! How a leg, or the whole turn, ends.

use super::{Command, TapeEntry, Turn, TurnState, offer::CALL_NOW, view};
use crate::{
    error::{ErrorCode, TurnError},
    model::{FinishReason, Millis, Usage},
    peer::{LinkRelease, Peer, PeerFailure, Remedy, Shown},
};

impl<P: Peer> Turn<P> {
    /// The backend reports that its answer is complete.
    pub(super) fn on_ended(&mut self, reason: FinishReason, now: Millis) {
        if self.state == TurnState::AwaitingTools {
            // Without the results: they will be sent in a new run.
            self.end(LinkRelease::Finished);
        } else if self.answer.has_calls() {
            self.finish(FinishReason::ToolCalls);
        } else if self.peer.resumes() && self.answer.visible() == self.visible_before {
            // The text before the cut is not the whole answer.
            self.recover(PeerFailure::cut_short(), now);
        } else if self.answer.is_empty() {
            let text = "Cursor ended the turn without an answer.";
            let error = TurnError::new(ErrorCode::UpstreamError, text);
            self.recover(PeerFailure { error, remedy: Remedy::FreshConversation }, now);
        } else if self.must_call && reason == FinishReason::Stop {
            self.insist();
        } else {
            self.finish(reason);
        }
    }

    /// The run failed. That does not matter if its calls are with the client: those are complete,
    /// and a new run gets their results.
    pub(super) fn on_failed(&mut self, failure: PeerFailure, now: Millis) {
        if self.state == TurnState::AwaitingTools {
            self.hang_up();
        } else if self.answer.has_calls() {
            self.answer.finish(FinishReason::ToolCalls);
            self.hang_up();
        } else {
            self.recover(failure, now);
        }
    }

    /// The answer lacks the call that the client requires. It is requested once more.
    fn insist(&mut self) {
        let may_insist = !self.tried.insisted && self.tried.attempts.may_run();
        if !may_insist {
            let text = "The model ended its answer without the tool call that `tool_choice` \
                        requires.";
            self.fail(TurnError::new(ErrorCode::ToolChoiceUnmet, text));
            return;
        }
        self.tried.insisted = true;
        self.leave(LinkRelease::Answered);
        let view = view(self.state, &self.answer, &self.calls, self.request.as_deref());
        self.peer.ask_more(CALL_NOW, None, &view);
        self.open(false);
    }

    /// Ends the answer, because the client needs no more of it, and stops the backend. `shown` is
    /// the text that the client saw, if that is known. Returns the tokens that the backend counted;
    /// [`Self::uncounted`] is what the client saw.
    pub fn cut(&mut self, shown: Option<String>) -> Option<Usage> {
        if let Some(tape) = &mut self.tape {
            tape.note(TapeEntry::Cut(shown.clone()));
        }
        self.cut = true;
        self.peer.set_shown(Shown::Cut(shown.clone()));
        self.calls.list.clear();
        if self.state != TurnState::Done {
            self.hang_up();
        }
        self.answer.cut(shown)
    }

    /// Whether the answer ended by [`Self::cut`].
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// The answer that just ended is not what its client asked for: asks the model again. The next
    /// events are the answer in its place. Returns false if there is nothing to ask about.
    pub fn ask_again(&mut self, text: &str) -> bool {
        if let Some(tape) = &mut self.tape {
            tape.note(TapeEntry::AskedAgain(text.to_owned()));
        }
        let may_ask = self.request.is_some() && self.tried.attempts.may_run();
        if self.state != TurnState::Done || !may_ask {
            return false;
        }
        let view = view(self.state, &self.answer, &self.calls, self.request.as_deref());
        self.peer.ask_more(text, Some(view.text), &view);
        self.answer.end_leg();
        self.answer.begin_leg();
        self.tried = self.tried.once_more();
        self.counted.new_texts = vec![text.to_owned()];
        self.open(false);
        true
    }

    pub(super) fn fail(&mut self, error: TurnError) {
        self.answer.fail(error);
        self.end(LinkRelease::Working);
    }

    fn finish(&mut self, reason: FinishReason) {
        self.answer.finish(reason);
        self.end(LinkRelease::Finished);
    }

    /// Releases a link whose client has its ending. Calls that the backend waits for are answered
    /// in a new run when the client comes back.
    pub(super) fn hang_up(&mut self) {
        self.end(LinkRelease::Working);
    }

    fn end(&mut self, how: LinkRelease) {
        self.leave(how);
        self.state = TurnState::Done;
    }

    /// Releases the present link.
    pub(super) fn leave(&mut self, how: LinkRelease) {
        let mut farewell = Vec::new();
        let cancel = if self.is_open() { self.peer.leave(how, &mut farewell) } else { true };
        for message in farewell {
            self.commands.push(Command::Send(message));
        }
        self.commands.push(Command::Close { cancel });
    }
}
