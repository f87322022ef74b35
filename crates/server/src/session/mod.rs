//! Turns in flight: one actor per turn, a registry that knows them all, and the
//! stream of events that an API handler reads.

mod actor;
mod admission;
mod conversations;
mod hub;
mod leg_index;
mod leg_timing;
mod parked;
mod readers;
mod registry;
mod retries;
mod send_queue;
mod session_match;
mod visit;
mod writer;

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use ibeam_core::{
    error::{ErrorCode, TurnError},
    model::TurnEvent,
};
use tokio::sync::mpsc;

pub(crate) use actor::{Actor, Bridged};
pub(crate) use admission::{
    Admission, Origin, RequestOutline, Route, STORE_PATIENCE, refusal, shown_id,
};
pub use admission::{NameSource, RequestContext, SessionName};
pub(crate) use conversations::Conversations;
pub(crate) use hub::Hub;
pub use hub::Patience;
use ibeam_core::leg::LegRecord;
pub(crate) use leg_index::LegIndex;
pub use parked::ParkedLimits;
pub use registry::{Fates, Registry, Snapshot};
pub(crate) use retries::Retries;
pub use session_match::{MatchedConversation, SessionMatch};
pub(crate) use visit::LegRequest;

/// Events waiting for a client. Small, so that a slow client's back-pressure
/// reaches the upstream window soon; large enough for a burst of deltas.
pub const EVENTS_CAP: usize = 64;

/// The events of one leg. Dropping it is how its turn learns that the reader left.
///
/// *Invariant:* it gives exactly one terminal event and then `None`, also when the
/// actor dies.
#[derive(Debug)]
pub struct TurnStream {
    source: Source,
    ended: bool,
    matched: Option<MatchedConversation>,
}

#[derive(Debug)]
enum Source {
    Live(mpsc::Receiver<TurnEvent>),
    /// A finished leg, and how much of it was replayed.
    Record(Arc<LegRecord>, usize),
}

impl TurnStream {
    /// The two ends of a leg's events.
    fn channel() -> (mpsc::Sender<TurnEvent>, Self) {
        // One more than that, for the error to a client that does not read.
        let (sender, events) = mpsc::channel(EVENTS_CAP + 1);
        (sender, Self { source: Source::Live(events), ended: false, matched: None })
    }

    /// A leg that finished before.
    pub(crate) fn replay(record: Arc<LegRecord>) -> Self {
        let conversation = record.conversation().to_owned();
        let stream = Self { source: Source::Record(record, 0), ended: false, matched: None };
        stream.matched_as(SessionMatch::Replayed, conversation)
    }

    /// Says how its request came to it.
    pub(crate) fn matched_as(self, how: SessionMatch, conversation: String) -> Self {
        let matched = MatchedConversation { how, conversation, ignored_results: false };
        Self { matched: Some(matched), ..self }
    }

    /// Says whether results of its request match no call that awaits them.
    pub(crate) fn ignoring_results(mut self, ignored: bool) -> Self {
        if let Some(matched) = &mut self.matched {
            matched.ignored_results = ignored;
        }
        self
    }

    /// How its request came to it.
    #[must_use]
    pub fn matched(&self) -> Option<&MatchedConversation> {
        self.matched.as_ref()
    }

    pub async fn next(&mut self) -> Option<TurnEvent> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<TurnEvent>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let event = match &mut self.source {
            Source::Live(events) => std::task::ready!(events.poll_recv(cx)),
            Source::Record(record, at) => {
                *at += 1;
                record.events().and_then(|events| events.get(*at - 1)).cloned()
            }
        };
        Poll::Ready(Some(self.note(event)))
    }

    fn note(&mut self, event: Option<TurnEvent>) -> TurnEvent {
        let event = event.unwrap_or_else(|| {
            let text = "The turn stopped without a final event. This is a bug in ibeam.";
            TurnEvent::Failed(TurnError::new(ErrorCode::Internal, text))
        });
        self.ended = event.is_terminal();
        event
    }
}
