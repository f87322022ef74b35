//! Turns in flight: one actor per turn, a registry that knows them all, and the
//! stream of events that an API handler reads.

mod actor;
mod conversations;
mod marks;
mod outbox;
mod registry;

use std::task::{Context, Poll};

use ibeam_core::{
    error::{ErrorCode, TurnError},
    model::TurnEvent,
};
use tokio::sync::mpsc;

pub use actor::{Actor, Patience};
pub use conversations::{Conversations, Memory};
pub use registry::{Registry, Snapshot};

/// Events waiting for a client. Small, so that a slow client's back-pressure
/// reaches the upstream window soon; large enough for a burst of deltas.
pub const EVENTS_CAP: usize = 64;

/// The events of one turn. Dropping it tells the turn that its client left.
///
/// *Invariant:* it gives exactly one terminal event and then `None`, also when the
/// actor dies.
#[derive(Debug)]
pub struct TurnStream {
    events: mpsc::Receiver<TurnEvent>,
    ended: bool,
}

impl TurnStream {
    /// The two ends of a turn's events.
    #[must_use]
    pub fn channel() -> (mpsc::Sender<TurnEvent>, Self) {
        // One more than that, for a last word to a client that does not read.
        let (sender, events) = mpsc::channel(EVENTS_CAP + 1);
        (sender, Self { events, ended: false })
    }

    pub async fn next(&mut self) -> Option<TurnEvent> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<TurnEvent>> {
        if self.ended {
            return Poll::Ready(None);
        }
        self.events.poll_recv(cx).map(|event| Some(self.note(event)))
    }

    fn note(&mut self, event: Option<TurnEvent>) -> TurnEvent {
        let event = event.unwrap_or_else(|| {
            let text = "The turn stopped without an ending. This is a fault in ibeam.";
            TurnEvent::Failed(TurnError::new(ErrorCode::Internal, text))
        });
        self.ended = event.is_terminal();
        event
    }
}
