//! The state of a room: its tools, and the calls that wait.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use ibeam_core::{
    constant_time,
    mcp::server::ToolServer,
    model::Tool,
    peer::child::{HostedCall, HostedResult, SERVER_NAME},
};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::RoomEvent;
use crate::keys::KeyHash;

/// Calls that wait at once.
pub(super) const CALLS: usize = 64;

/// Every call has up to two events: that it came, and that its caller left.
const EVENTS: usize = 2 * CALLS;

pub(super) struct RoomState {
    server: ToolServer,
    /// Of the bearer.
    hash: KeyHash,
    events: mpsc::Sender<RoomEvent>,
    places: Arc<Semaphore>,
    waiting: Mutex<WaitingCalls>,
    last: AtomicU64,
    seen: AtomicBool,
    closed: CancellationToken,
}

#[derive(Default)]
struct WaitingCalls {
    closed: bool,
    calls: HashMap<u64, oneshot::Sender<HostedResult>>,
}

/// Why a call is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallRefused {
    /// Too many wait.
    Full,
    /// The room is closed.
    Closed,
}

impl RoomState {
    pub(super) fn new(tools: &[Tool], bearer: &str) -> (Self, mpsc::Receiver<RoomEvent>) {
        let (events, heard) = mpsc::channel(EVENTS);
        let inside = Self {
            server: ToolServer::new(SERVER_NAME, env!("CARGO_PKG_VERSION"), tools),
            hash: Sha256::digest(bearer).into(),
            events,
            places: Arc::new(Semaphore::new(CALLS)),
            waiting: Mutex::default(),
            last: AtomicU64::new(0),
            seen: AtomicBool::new(false),
            closed: CancellationToken::new(),
        };
        (inside, heard)
    }

    /// What is said to the messages of its clients.
    pub(super) fn server(&self) -> &ToolServer {
        &self.server
    }

    /// Whether this is the bearer. A wrong one takes the same time.
    pub(super) fn lets_in(&self, bearer: &str) -> bool {
        constant_time::eq(&Sha256::digest(bearer), &self.hash)
    }

    /// Reports a call. The caller holds the result while it waits.
    pub(super) async fn begin(
        self: &Arc<Self>,
        name: String,
        arguments: String,
    ) -> Result<RoomCall, CallRefused> {
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| CallRefused::Full)?;
        // Both at once, so that there is room for the event that the caller has left. Without a
        // receiver, the call waits here.
        let reserve = || self.events.clone().reserve_owned();
        let arrival = reserve().await.map_err(|_| CallRefused::Closed)?;
        let departure = reserve().await.map_err(|_| CallRefused::Closed)?;
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let (result, answer) = oneshot::channel();
        {
            let mut waiting = self.waiting.lock();
            if waiting.closed {
                return Err(CallRefused::Closed);
            }
            waiting.calls.insert(id, result);
        }
        arrival.send(RoomEvent::Call(HostedCall { id, name, arguments }));
        let inside = Arc::clone(self);
        Ok(RoomCall { inside, id, answer, departure: Some(departure), _place: place })
    }

    pub(super) fn answer(&self, result: HostedResult) {
        let waits = self.waiting.lock().calls.remove(&result.id);
        if waits.is_none_or(|caller| caller.send(result).is_err()) {
            debug!("a result came for a call that is no longer waiting");
        }
    }

    pub(super) fn note_seen(&self) {
        self.seen.store(true, Ordering::Relaxed);
    }

    pub(super) fn seen(&self) -> bool {
        self.seen.load(Ordering::Relaxed)
    }

    /// Ends all waiting calls, and accepts no more.
    pub(super) fn close(&self) {
        let calls = {
            let mut waiting = self.waiting.lock();
            waiting.closed = true;
            std::mem::take(&mut waiting.calls)
        };
        drop(calls);
        self.closed.cancel();
    }

    /// Waits for [`Self::close`].
    pub(super) async fn closed(&self) {
        self.closed.cancelled().await;
    }
}

/// A call that waits. Dropped without an answer, it reports that the caller has left.
pub(super) struct RoomCall {
    inside: Arc<RoomState>,
    id: u64,
    answer: oneshot::Receiver<HostedResult>,
    departure: Option<mpsc::OwnedPermit<RoomEvent>>,
    _place: OwnedSemaphorePermit,
}

impl RoomCall {
    /// The result, or `None` when the room was closed. May be asked again when the future
    /// was dropped.
    pub(super) async fn answered(&mut self) -> Option<HostedResult> {
        (&mut self.answer).await.ok()
    }
}

impl Drop for RoomCall {
    fn drop(&mut self) {
        let unanswered = self.inside.waiting.lock().calls.remove(&self.id).is_some();
        if let Some(departure) = self.departure.take().filter(|_| unanswered) {
            departure.send(RoomEvent::Dropped(self.id));
        }
    }
}
