//! Another try: what is done about a failure, by how far the turn got.

use super::{Link, Turn};
use crate::{
    agent::{LinkError, classify},
    child::{Failure, Remedy, Start, prompt::Telling},
    error::{ErrorCode, TurnError},
    model::Millis,
    retry::Attempts,
    turn::{Command, OpenSpec},
};

/// What was tried for the present leg.
#[derive(Debug, Default)]
pub(super) struct Tried {
    pub(super) attempts: Attempts,
    /// Without the conversation that was to be gone on with.
    anew: bool,
    /// With a word about the tool call that must come.
    pub(super) insisted: bool,
    /// Calls of tools that nobody offers.
    pub(super) refusals: u32,
}

impl Tried {
    /// For a leg that begins with a child which is already there.
    pub(super) fn on_open_stream() -> Self {
        Self { attempts: Attempts::ON_OPEN_STREAM, ..Self::default() }
    }

    /// For another answer to the same leg.
    pub(super) fn once_more(&self) -> Self {
        Self { attempts: self.attempts.once_more(), ..Self::default() }
    }
}

impl Turn {
    /// The rules for another try, in one place. Nothing is tried again once the client has
    /// seen a part of the answer: it would come twice. A passing fault is tried again, with
    /// back-off. A conversation that the child does not find is told anew, once; but not to
    /// answer as if nothing had been said, where the request tells nothing of it.
    pub(super) fn recover(&mut self, failure: Failure, now: Millis) {
        let Failure { error, remedy } = failure;
        let unseen = !self.answer.delivered();
        let untold = self.bare && self.telling.resume.is_some();
        if !self.tried.attempts.may_run() {
            // The leg has had all its runs.
        } else if unseen && remedy == Remedy::Retry {
            let jitter = self.draws.fraction();
            let backoff = &self.settings.backoff;
            if let Some(wait) = self.tried.attempts.retry(backoff, jitter, error.retry_after) {
                self.drop_run();
                self.link = Link::Waiting { until: now + wait };
                return;
            }
        } else if unseen && remedy == Remedy::TellAnew && !untold && !self.tried.anew {
            self.tried.anew = true;
            self.telling = Telling { resume: None, covers: 0, ..std::mem::take(&mut self.telling) };
            self.drop_run();
            self.open();
            return;
        }
        self.fail(error);
    }

    /// How many retries the present leg may take; those that it took count.
    pub fn allow_retries(&mut self, retries: u32) {
        self.settings.backoff.retries = retries;
    }

    /// Gets rid of the present child. What it wanted, the next one will want again.
    fn drop_run(&mut self) {
        self.calls.clear();
        self.note_unknown();
        self.commands.push_back(Command::Close { cancel: true });
    }

    /// Asks for a child that is told what there is to tell.
    pub(super) fn open(&mut self) {
        self.tried.attempts.begin_run();
        self.answer.start_over();
        self.name.clone_from(&self.telling.resume);
        self.link = Link::Opening;
        self.commands.push_back(Command::Open(OpenSpec {
            request_id: self.draws.uuid(),
            original_request_id: self.draws.original_id(),
            child: Some(Box::new(Start {
                model: self.model.clone(),
                conversation: self.conversation_id.clone(),
                resume: self.telling.resume.clone(),
                workspace: self.workspace.clone(),
                tools: self.tools.clone(),
            })),
            ..OpenSpec::default()
        }));
    }
}

/// What it means that there is no link to a child.
pub(super) fn from_link(error: &LinkError) -> Failure {
    match error {
        LinkError::Reset(why) => {
            let text = format!("Cursor's CLI stopped before the answer was complete: {why}.");
            let error = TurnError::new(ErrorCode::UpstreamClosed, text);
            Failure { error, remedy: Remedy::Retry }
        }
        error => {
            let classify::Failure { error, remedy } = classify::link_error(error);
            let passing = matches!(remedy, classify::Remedy::Retry | classify::Remedy::Resume);
            Failure { error, remedy: if passing { Remedy::Retry } else { Remedy::None } }
        }
    }
}
