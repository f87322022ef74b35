//! The readers of a leg: the request that began it, and those that attached.

use std::{
    collections::VecDeque,
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use ibeam_core::{
    error::{ErrorCode, TurnError},
    model::TurnEvent,
};
use tokio::{sync::mpsc, time::Instant};
use tracing::{debug, warn};

use super::TurnStream;

/// How many requests may read one leg.
const READERS: usize = 4;

type Room = Result<mpsc::OwnedPermit<TurnEvent>, mpsc::error::SendError<()>>;
type Wait<T> = Pin<Box<dyn Future<Output = T> + Send>>;

#[derive(Default)]
pub(super) struct LegReaders {
    list: Vec<LegReader>,
}

/// One reader.
struct LegReader {
    sender: mpsc::Sender<TurnEvent>,
    /// Made once: a new wait for each event would cost more than the event.
    left: Wait<()>,
    /// Present while the channel is full.
    room: Option<Wait<Room>>,
    /// A reserved place for the error to a reader that accepts nothing else.
    farewell: Option<mpsc::OwnedPermit<TurnEvent>>,
    /// Events that found the channel full.
    queue: VecDeque<TurnEvent>,
    /// Since when it has accepted no event.
    stalled: Option<Instant>,
    /// It has its terminal event, or will have once the queue is empty.
    ended: bool,
}

impl LegReaders {
    /// The reader whose request began the leg.
    pub(super) fn open(&mut self) -> TurnStream {
        self.add(&[])
    }

    /// A further reader, which first gets the events `before`. `None`: there are enough.
    pub(super) fn attach(&mut self, before: &[TurnEvent]) -> Option<TurnStream> {
        (self.count() < READERS).then(|| self.add(before))
    }

    fn add(&mut self, before: &[TurnEvent]) -> TurnStream {
        let (sender, stream) = TurnStream::channel();
        let watched = sender.clone();
        let mut reader = LegReader {
            left: Box::pin(async move { watched.closed().await }),
            room: None,
            // The channel is new, so there is room for this one.
            farewell: sender.clone().try_reserve_owned().ok(),
            sender,
            queue: VecDeque::new(),
            stalled: None,
            ended: false,
        };
        for event in before {
            // The channel is new: its reader cannot have left.
            reader.send(event.clone());
        }
        self.list.push(reader);
        stream
    }

    /// Sends the event to all readers of the leg.
    pub(super) fn send(&mut self, event: TurnEvent) {
        let mut events = std::iter::repeat_n(event, self.count());
        self.list.retain_mut(|reader| {
            reader.ended || events.next().is_none_or(|event| reader.send(event))
        });
    }

    /// The leg is over. Readers that are behind may still read it to the end.
    pub(super) fn end_leg(&mut self) {
        self.list.retain_mut(|reader| {
            reader.ended = true;
            !reader.queue.is_empty()
        });
    }

    /// Whether a reader has no room for more of the leg.
    pub(super) fn is_blocked(&self) -> bool {
        self.list.iter().any(|reader| !reader.ended && !reader.queue.is_empty())
    }

    /// The number of readers of the leg.
    pub(super) fn count(&self) -> usize {
        self.list.iter().filter(|reader| !reader.ended).count()
    }

    /// Whether there is no reader left, not even of an earlier leg.
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Waits until a reader has room again or left. Waits for ever if there is none.
    pub(super) async fn changed(&mut self) {
        poll_fn(|cx| self.poll_changed(cx)).await;
    }

    fn poll_changed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut moved = false;
        self.list.retain_mut(|reader| match reader.poll(cx) {
            Poll::Pending => true,
            Poll::Ready(stays) => {
                moved = true;
                stays
            }
        });
        if moved { Poll::Ready(()) } else { Poll::Pending }
    }

    /// When the next stalled reader must be disconnected.
    pub(super) fn deadline(&self, stall: Duration) -> Option<Instant> {
        self.list.iter().filter_map(|reader| reader.stalled).min().map(|since| since + stall)
    }

    /// Disconnects readers that accepted nothing for too long. Returns whether there were any.
    pub(super) fn cut_stalled(&mut self, stall: Duration) -> bool {
        let (now, before) = (Instant::now(), self.list.len());
        self.list.retain_mut(|reader| {
            let cut = reader.stalled.is_some_and(|since| now >= since + stall);
            if cut {
                reader.farewell();
            }
            !cut
        });
        before != self.list.len()
    }
}

impl LegReader {
    /// False if the reader has left.
    fn send(&mut self, event: TurnEvent) -> bool {
        if !self.queue.is_empty() {
            self.queue.push_back(event);
            return true;
        }
        match self.sender.try_send(event) {
            Ok(()) => true,
            Err(mpsc::error::TrySendError::Full(event)) => {
                self.queue.push_back(event);
                self.wait_for_room();
                true
            }
            Err(mpsc::error::TrySendError::Closed(_)) => {
                debug!("a reader left");
                false
            }
        }
    }

    fn wait_for_room(&mut self) {
        self.stalled = Some(Instant::now());
        self.room = Some(Box::pin(self.sender.clone().reserve_owned()));
    }

    /// Ready when something changed; false if the reader must be removed.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        if self.left.as_mut().poll(cx).is_ready() {
            debug!("a reader left");
            return Poll::Ready(false);
        }
        let Some(room) = &mut self.room else { return Poll::Pending };
        match room.as_mut().poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(_)) => Poll::Ready(false),
            Poll::Ready(Ok(room)) => {
                self.room = None;
                self.stalled = None;
                if let Some(event) = self.queue.pop_front() {
                    room.send(event);
                }
                self.flush();
                Poll::Ready(!self.ended || !self.queue.is_empty())
            }
        }
    }

    fn flush(&mut self) {
        while let Some(event) = self.queue.pop_front() {
            if let Err(full) = self.sender.try_send(event) {
                // A reader that left is found by the wait for room.
                self.queue.push_front(full.into_inner());
                self.wait_for_room();
                return;
            }
        }
    }

    fn farewell(&mut self) {
        warn!("the client stopped reading; dropping it");
        if let Some(room) = self.farewell.take() {
            let text = "The client stopped reading for too long, so its turn was cancelled.";
            room.send(TurnEvent::Failed(TurnError::new(ErrorCode::Cancelled, text)));
        }
    }
}

#[cfg(test)]
#[path = "readers_tests.rs"]
mod tests;
