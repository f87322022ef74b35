//! Another try: what is done about a failure, by how far the turn got.

use std::time::Duration;

use super::{Command, OpenLink, Turn, TurnState, view};
use crate::{
    error::TurnError,
    model::Millis,
    peer::{Adapted, LinkRelease, Peer, PeerFailure, Remedy},
    retry::RunAttempts,
};

/// What was tried for the present leg. Each remedy is used at most once.
#[derive(Debug, Default)]
pub(super) struct Tried {
    pub(super) attempts: RunAttempts,
    /// Under a fresh conversation id.
    renewed: bool,
    /// From the newest checkpoint.
    resumed: bool,
    /// From the start, because the lost link had results that its first message lacks.
    rebuilt: bool,
    /// With a word about the tool call that must come.
    pub(super) insisted: bool,
    /// Requests of the backend that were refused.
    pub(super) refusals: u32,
}

/// A run with a changed request.
enum ChangedRun {
    /// In the same conversation.
    Same,
    /// Under another conversation id.
    Renamed,
}

impl Tried {
    /// For a leg that begins on a link which is already open.
    pub(super) fn on_open_link() -> Self {
        Self { attempts: RunAttempts::ON_OPEN_STREAM, ..Self::default() }
    }

    /// For another answer to the same leg.
    pub(super) fn once_more(&self) -> Self {
        Self { attempts: self.attempts.once_more(), ..Self::default() }
    }
}

impl<P: Peer> Turn<P> {
    /// The rules for another try, in one place. As long as the client has seen nothing of the
    /// leg, or the backend said nothing on the link, a temporary failure is retried with
    /// back-off, whatever the backend has asked for meanwhile, and a changed request or a fresh
    /// conversation is tried once where that is what helps. A turn whose transport was lost is
    /// resumed once, from the newest checkpoint, unless the client has seen more than that: it
    /// would come twice. A token that is refused is replaced once, while nothing of this link has
    /// reached the model.
    pub(super) fn recover(&mut self, failure: PeerFailure, now: Millis) {
        let PeerFailure { error, remedy } = failure.for_profile(&self.settings.sign_in);
        let again = matches!(remedy, Remedy::Retry | Remedy::Resume);
        let silent = self.state == TurnState::Opening || (self.is_open() && !self.peer.heard());
        let unseen = !self.answer.delivered();
        let covered = self.peer.can_resume(&view(
            self.state,
            &self.answer,
            &self.calls,
            self.request.as_deref(),
        ));
        // What the backend asked for on the old link, it will ask for again.
        self.calls.list.clear();
        if !self.tried.attempts.may_run() {
            // Each remedy is used at most once, but all of them together are too many.
        } else if silent && again {
            if let Some(wait) = self.wait_for_retry(&error) {
                self.leave(LinkRelease::Replaced);
                self.state = TurnState::Backoff { until: now + wait };
                return;
            }
        } else if silent && remedy == Remedy::FreshToken && !self.reauthorized {
            self.reauthorized = true;
            self.leave(LinkRelease::Replaced);
            self.open(true);
            return;
        } else if unseen
            && self.peer.can_rebuild()
            && let Some(run) = self.changed_run(remedy, &error)
        {
            match run {
                ChangedRun::Renamed => {
                    let id = self.draws.uuid();
                    self.rebuild(Some(id));
                }
                // The first message of the run lacks the results that came later.
                ChangedRun::Same if self.calls.any_so_far() && self.peer.lacks_results() => {
                    self.rebuild(None);
                }
                ChangedRun::Same => {
                    self.leave(LinkRelease::Replaced);
                    self.peer.repeat_run();
                    self.open(false);
                }
            }
            return;
        } else if remedy == Remedy::Resume && covered && !self.tried.resumed {
            self.tried.resumed = true;
            self.leave(LinkRelease::Replaced);
            self.peer.resume_run();
            self.open(false);
            return;
        } else if again
            && unseen
            && self.calls.any_so_far()
            && self.peer.lacks_results()
            && !self.tried.rebuilt
        {
            self.tried.rebuilt = true;
            self.rebuild(None);
            return;
        } else if again
            && unseen
            && let Some(wait) = self.wait_for_retry(&error)
        {
            self.leave(LinkRelease::Replaced);
            self.peer.repeat_run();
            self.answer.start_over();
            self.state = TurnState::Backoff { until: now + wait };
            return;
        }
        self.fail(error);
    }

    /// The run with a changed request, or under another conversation id, that may help.
    fn changed_run(&mut self, remedy: Remedy, error: &TurnError) -> Option<ChangedRun> {
        match self.peer.adapt(remedy, error) {
            Adapted::Repeat => Some(ChangedRun::Same),
            Adapted::Rebuild => Some(ChangedRun::Renamed),
            Adapted::Not if remedy == Remedy::FreshConversation && !self.tried.renewed => {
                self.tried.renewed = true;
                Some(ChangedRun::Renamed)
            }
            Adapted::Not => None,
        }
    }

    /// How many retries the present leg may take; those that it took count.
    pub fn allow_retries(&mut self, retries: u32) {
        self.settings.backoff.retries = retries;
    }

    /// How long to wait before the next retry. None: there is none left.
    fn wait_for_retry(&mut self, error: &TurnError) -> Option<Duration> {
        let jitter = self.draws.fraction();
        self.tried.attempts.retry(&self.settings.backoff, jitter, error.retry_after)
    }

    /// Sends the whole conversation over a new link.
    fn rebuild(&mut self, conversation_id: Option<String>) {
        self.leave(LinkRelease::Replaced);
        let view = view(self.state, &self.answer, &self.calls, self.request.as_deref());
        self.peer.rebuild(conversation_id, &view);
        self.open(false);
    }

    pub(super) fn open(&mut self, fresh_token: bool) {
        if !self.peer.resumes() {
            self.answer.start_over();
        }
        self.tried.attempts.begin_run();
        self.state = TurnState::Opening;
        self.commands.push_back(Command::Open(OpenLink {
            request_id: self.draws.uuid(),
            original_request_id: self.draws.original_id(),
            fresh_token,
            peer: self.peer.open(),
        }));
    }
}
