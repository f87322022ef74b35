//! How a leg, or the whole turn, is over.

use super::{Link, Phase, Shown, Turn};
use crate::{
    child::{Failure, Remedy, ToChild, prompt::Telling},
    error::{ErrorCode, TurnError},
    model::{FinishReason, Millis, Usage},
    turn::{
        Command,
        results::{CALL_NOW, said},
    },
};

impl Turn {
    /// The child is gone. That does not matter when its calls are with the client: those are
    /// whole, and their results are told anew. Gives whether it is settled.
    pub(super) fn settle(&mut self) -> bool {
        if self.awaiting {
            self.let_go(true);
            return true;
        }
        let calls = self.answer.has_calls();
        if calls {
            self.answer.finish(FinishReason::ToolCalls);
            self.let_go(true);
        }
        calls
    }

    /// The child says that its answer is whole.
    pub(super) fn on_ended(&mut self, reason: FinishReason, now: Millis) {
        if self.awaiting {
            // Without the results: they will be told anew.
            self.let_go(false);
        } else if self.answer.has_calls() {
            self.answer.finish(FinishReason::ToolCalls);
            self.let_go(false);
        } else if self.answer.is_empty() {
            let text = "Cursor ended the turn without an answer.";
            let error = TurnError::new(ErrorCode::UpstreamError, text);
            self.recover(Failure { error, remedy: Remedy::TellAnew }, now);
        } else if self.must_call && reason == FinishReason::Stop {
            self.insist();
        } else {
            self.answer.finish(reason);
            self.let_go(false);
        }
    }

    pub(super) fn on_failed(&mut self, failure: Failure, now: Millis) {
        if !self.settle() {
            self.recover(failure, now);
        }
    }

    /// The answer lacks the call that the client asked for. It is asked for once more.
    fn insist(&mut self) {
        if self.tried.insisted || !self.tried.attempts.may_run() {
            let text = "The model ended its answer without the tool call that `tool_choice` \
                        requires.";
            self.fail(TurnError::new(ErrorCode::ToolChoiceUnmet, text));
            return;
        }
        self.tried.insisted = true;
        self.release();
        self.tell_more(CALL_NOW, None);
    }

    /// Asks for something beyond the request, in the same conversation if it has a name.
    fn tell_more(&mut self, text: &str, words: Option<&str>) {
        let resume = self.name.clone();
        self.telling = Telling {
            covers: self.request.as_ref().map_or(0, |request| request.items.len()),
            calls: match resume {
                // It knows them by now.
                Some(_) => Vec::new(),
                None => std::mem::take(&mut self.telling.calls),
            },
            // It was given this request's by now.
            new_setup: false,
            said: words.and_then(|words| said(words, 0)),
            text: Some(text.to_owned()),
            resume,
        };
        self.open();
    }

    /// The client has all it wants of this answer: nothing more of it is given, and the
    /// child is stopped. `shown` is the text that the client saw, if that is known. Gives
    /// the tokens that the child counted; [`Self::uncounted`] is what the client saw.
    pub fn cut(&mut self, shown: Option<String>) -> Option<Usage> {
        self.shown = Shown::Cut;
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
        self.shown == Shown::Cut
    }

    /// The client did not see what the child remembers.
    pub fn show_otherwise(&mut self) {
        self.shown = Shown::Other;
    }

    /// The answer that just ended is not what its client asked for: tells the model so. The
    /// next events are the answer in its place. Gives false when there is nothing to ask
    /// about.
    pub fn ask_again(&mut self, text: &str) -> bool {
        let may_ask = self.request.is_some() && self.tried.attempts.may_run();
        if self.phase() != Phase::Done || !may_ask {
            return false;
        }
        let words = self.answer.words().to_owned();
        self.answer.end_leg();
        self.answer.begin_leg();
        self.tried = self.tried.once_more();
        self.new_texts = vec![text.to_owned()];
        self.tell_more(text, Some(&words));
        true
    }

    pub(super) fn fail(&mut self, error: TurnError) {
        self.answer.fail(error);
        self.let_go(true);
    }

    /// Lets go of the child. `cancel`: it is still at work.
    pub(super) fn let_go(&mut self, cancel: bool) {
        if !cancel {
            self.release();
        } else {
            if let Link::Open(run) = &mut self.link {
                run.speaker.cancel();
            }
            self.say();
            self.note_unknown();
            self.commands.push_back(Command::Close { cancel: true });
        }
        self.link = Link::Done;
    }

    /// Leaves a child that is done in order.
    fn release(&mut self) {
        self.say();
        self.note_unknown();
        self.commands.push_back(Command::Tell(ToChild::Release));
        self.commands.push_back(Command::Close { cancel: false });
    }

    pub(super) fn note_unknown(&mut self) {
        if let Link::Open(run) = &self.link {
            self.unknown += run.speaker.unknown();
        }
    }
}
