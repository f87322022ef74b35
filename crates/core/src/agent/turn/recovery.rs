//! Another try: what is done about a failure, by how far the turn got.

use std::time::Duration;

use super::{
    Command, Turn,
    stream::{Link, Purpose},
};
use crate::{
    agent::classify::{Failure, Remedy},
    error::{ErrorCode, TurnError},
    model::Millis,
    retry::Attempts,
    turn::OpenSpec,
};

/// What was tried for the present leg. Each remedy is good for once.
#[derive(Debug, Default)]
pub(super) struct Tried {
    pub(super) attempts: Attempts,
    /// Under a fresh conversation id.
    renewed: bool,
    /// From the newest checkpoint.
    resumed: bool,
    /// From the start, because the lost stream had results that its first message lacks.
    rebuilt: bool,
    /// With a word about the tool call that must come.
    pub(super) insisted: bool,
    /// Requests of the backend that were refused.
    pub(super) refusals: u32,
}

impl Tried {
    /// For a leg that begins on a stream which is already open.
    pub(super) fn on_open_stream() -> Self {
        Self { attempts: Attempts::ON_OPEN_STREAM, ..Self::default() }
    }

    /// For another answer to the same leg.
    pub(super) fn once_more(&self) -> Self {
        Self { attempts: self.attempts.once_more(), ..Self::default() }
    }
}

impl Turn {
    /// The rules for another try, in one place. As long as the client has seen nothing of the
    /// leg, a temporary failure is retried with back-off, whatever the backend has asked for
    /// meanwhile, and a fresh conversation id is tried once where that is what helps. A turn
    /// whose transport was lost is resumed once, from the newest checkpoint, unless the
    /// client has seen more than that: it would come twice. A token that is refused is
    /// replaced once, while nothing of this stream has reached the model.
    pub(super) fn recover(&mut self, failure: Failure, prefer_h1: bool, now: Millis) {
        let Failure { error, remedy } = failure.for_profile(&self.settings.sign_in);
        let again = matches!(remedy, Remedy::Retry | Remedy::Resume);
        let (silent, purpose) = match &self.link {
            Link::Opening { purpose, .. } => (true, *purpose),
            Link::Open(link) => (!link.heard, link.purpose),
            Link::Waiting { .. } | Link::Done => (false, Purpose::Start),
        };
        let unseen = !self.answer.delivered();
        let seen = self.answer.visible();
        let covered = self
            .checkpoint
            .as_ref()
            .is_some_and(|checkpoint| checkpoint.seen == seen && !checkpoint.before_results)
            // The client has half of a call that another stream would make under another id.
            && !self.has_announced_calls();
        // What the backend asked for on the old stream, it will ask for again.
        self.calls.clear();
        if !self.tried.attempts.may_run() {
            // Each remedy is good for once, but all of them together are too many.
        } else if silent && again {
            if let Some(wait) = self.wait_for_retry(&error) {
                self.commands.push_back(Command::Close { cancel: true });
                self.link = Link::Waiting { until: now + wait, purpose, prefer_h1 };
                return;
            }
        } else if silent && remedy == Remedy::FreshToken && !self.reauthorized {
            self.reauthorized = true;
            self.commands.push_back(Command::Close { cancel: true });
            self.open_with(purpose, prefer_h1, true);
            return;
        } else if remedy == Remedy::FreshConversation && unseen && !self.tried.renewed {
            self.tried.renewed = true;
            let id = self.draws.uuid();
            self.spec.rename(id);
            self.tell_anew(prefer_h1);
            return;
        } else if remedy == Remedy::Resume && covered && !self.tried.resumed {
            self.tried.resumed = true;
            self.commands.push_back(Command::Close { cancel: true });
            self.open(Purpose::Resume, prefer_h1);
            return;
        } else if again && unseen && self.call_count > 0 && !self.tried.rebuilt {
            // The first message of this turn lacks the results that the lost stream had.
            self.tried.rebuilt = true;
            self.tell_anew(prefer_h1);
            return;
        } else if again
            && unseen
            && let Some(wait) = self.wait_for_retry(&error)
        {
            self.forget_run();
            self.link = Link::Waiting { until: now + wait, purpose: Purpose::Start, prefer_h1 };
            return;
        }
        self.fail(error, true);
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

    /// Drops what a lost run left behind, so that the next one starts where it started.
    fn forget_run(&mut self) {
        self.since.clear();
        self.checkpoint = None;
        self.answer.start_over();
        self.commands.push_back(Command::Close { cancel: true });
    }

    /// Tells the whole conversation on a new stream.
    fn tell_anew(&mut self, prefer_h1: bool) {
        if !self.since.is_bare() {
            if let Some(request) = &self.request {
                self.spec.rebuild(request);
            }
        } else if !self.since.is_empty() {
            // Only we know what came before.
            let state = self.state_so_far();
            self.spec.go_on_from(state);
        }
        self.forget_run();
        self.open(Purpose::Start, prefer_h1);
    }

    pub(super) fn open(&mut self, purpose: Purpose, prefer_h1: bool) {
        if purpose == Purpose::Start {
            self.answer.new_run();
        }
        self.open_with(purpose, prefer_h1, false);
    }

    fn open_with(&mut self, purpose: Purpose, prefer_h1: bool, fresh_token: bool) {
        self.tried.attempts.begin_run();
        // What is sent may have changed since.
        self.first = None;
        self.link = Link::Opening { purpose, prefer_h1 };
        self.commands.push_back(Command::Open(OpenSpec {
            request_id: self.draws.uuid(),
            original_request_id: self.draws.original_id(),
            prefer_h1,
            fresh_token,
            child: None,
        }));
    }
}

/// A stream that ended before its turn did.
pub(super) fn cut_short() -> Failure {
    let text = "Cursor closed the stream before the answer was complete.";
    Failure { error: TurnError::new(ErrorCode::UpstreamClosed, text), remedy: Remedy::Resume }
}
