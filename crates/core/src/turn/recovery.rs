//! Retries: what is done about a failure, depending on how far the turn got.

use std::time::Duration;

use super::{Command, OpenLink, TapeEntry, Turn, TurnState, view};
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
    /// With a message that requires the tool call.
    pub(super) insisted: bool,
    /// The next run is such a one.
    rebuild: Option<RebuildUnder>,
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

/// The conversation is rebuilt, under another id if there is one.
#[derive(Debug)]
struct RebuildUnder(Option<String>);

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
    /// The rules for another attempt, in one place. As long as the client has seen nothing of the
    /// leg, or the backend sent nothing on the link, a temporary failure is retried with back-off,
    /// whatever the backend has requested meanwhile, and a changed request or a fresh conversation
    /// is tried once if that helps. A turn whose transport was lost is resumed once, from the
    /// newest checkpoint, unless the client has seen more than that, which would come twice. A
    /// refused token is replaced once, as long as nothing of this link has reached the model.
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
        // The backend will repeat what it requested on the old link.
        self.calls.list.clear();
        if !self.tried.attempts.may_run() {
            // Each remedy is used at most once, but all of them together would be too many.
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
                    self.rebuild_at(now, Some(id));
                }
                // The first message of the run lacks the results that came later.
                ChangedRun::Same if self.calls.any_so_far() && self.peer.lacks_results() => {
                    self.rebuild_at(now, None);
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
            self.rebuild_at(now, None);
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
        if let Some(tape) = &mut self.tape {
            tape.note(TapeEntry::Retries(retries));
        }
        self.settings.backoff.retries = retries;
    }

    /// How long to wait before the next retry. `None`: none is left.
    fn wait_for_retry(&mut self, error: &TurnError) -> Option<Duration> {
        let jitter = self.draws.fraction();
        self.tried.attempts.retry(&self.settings.backoff, jitter, error.retry_after)
    }

    /// Has the whole conversation sent over a new link. That is done on the next time-out, which
    /// is due at once: it takes long for a large one, and the caller cannot know that a message
    /// would lead to it.
    fn rebuild_at(&mut self, now: Millis, conversation_id: Option<String>) {
        self.leave(LinkRelease::Replaced);
        self.tried.rebuild = Some(RebuildUnder(conversation_id));
        self.state = TurnState::Backoff { until: now };
    }

    /// The wait is over.
    pub(super) fn try_again(&mut self) {
        if let Some(RebuildUnder(id)) = self.tried.rebuild.take() {
            let view = view(self.state, &self.answer, &self.calls, self.request.as_deref());
            self.peer.rebuild(id, &view);
        }
        self.open(false);
    }

    pub(super) fn open(&mut self, fresh_token: bool) {
        if !self.peer.resumes() {
            self.answer.start_over();
        }
        self.tried.attempts.begin_run();
        self.state = TurnState::Opening;
        self.commands.push(Command::Open(OpenLink {
            request_id: self.draws.uuid(),
            original_request_id: self.draws.original_id(),
            fresh_token,
            peer: self.peer.open(),
        }));
    }
}
