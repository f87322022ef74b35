//! A turn that stays parked for long: its connection sends the heartbeats, and incoming heartbeats
//! do not wake its task.

use std::{
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use ibeam_core::turn::TurnState;
use tokio::{sync::Notify, time::Instant};

use super::{Task, Wake};
use crate::{
    driver::{LinkPeer, LinkReceiver as _},
    net::pool::Asleep,
};

/// How long a parked turn stays awake: most tools are done by then.
const DOZE_AFTER: Duration = Duration::from_secs(10);

/// How long a sleeping turn may go without a look: a stream that ends silently does not wake it.
pub(super) const LOOK_AFTER: Duration = Duration::from_secs(60);

/// A turn that waits for tool results.
pub(super) struct Parking {
    pub(super) since: Instant,
    /// What the turn held when it was last measured, and what it received since.
    pub(super) weight: usize,
    pub(super) unweighed: usize,
    pub(super) doze: Option<Doze>,
}

impl Parking {
    pub(super) fn new(weight: usize) -> Self {
        Self { since: Instant::now(), weight, unweighed: 0, doze: None }
    }
}

/// A parked turn that its connection looks after.
pub(super) struct Doze {
    _asleep: Asleep,
    /// The backend seems to want something.
    pub(super) called: Arc<Notify>,
    pub(super) looked: Instant,
}

impl<W: LinkPeer> Task<W> {
    pub(super) fn doze(&self) -> Option<&Doze> {
        self.parked.as_ref()?.doze.as_ref()
    }

    /// The connection no longer looks after the turn.
    pub(super) fn wake(&mut self) {
        if let Some(parked) = &mut self.parked {
            parked.doze = None;
        }
    }

    /// A turn that is parked for a while leaves its heartbeats to the connection, and those of the
    /// backend do not wake it.
    pub(super) fn fall_asleep(&mut self) {
        let Some(parked) = &mut self.parked else { return };
        let long = parked.since.elapsed() >= DOZE_AFTER;
        if !long || parked.doze.is_some() || self.leg.turn().state() != TurnState::AwaitingTools {
            return;
        }
        let Some(heartbeat) = W::heartbeat() else { return };
        let asleep = self.upstream.link.as_mut().and_then(|link| link.rx.sleep(heartbeat));
        if let Some((asleep, called)) = asleep {
            self.leg.turn_mut().relieve();
            parked.doze = Some(Doze { _asleep: asleep, called, looked: Instant::now() });
        }
    }

    /// Reads what arrived during its sleep, without asking to be woken for more.
    pub(super) fn catch_up(&mut self) {
        let Some(doze) = self.parked.as_mut().and_then(|parked| parked.doze.as_mut()) else {
            return;
        };
        doze.looked = Instant::now();
        while self.doze().is_some() && self.reads() {
            let Some(link) = self.upstream.link.as_mut() else { return };
            let there = {
                let next = std::pin::pin!(link.rx.next());
                next.poll(&mut Context::from_waker(Waker::noop()))
            };
            let Poll::Ready(chunk) = there else { return };
            self.handle(Wake::Heard(chunk));
        }
    }
}
