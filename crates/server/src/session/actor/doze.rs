//! A turn that stays parked for long: its connection sends the heartbeats, and the task is
//! not woken by every one that comes back.

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

/// How long a parked turn is looked after at once: most tools are done by then.
const DOZE_AFTER: Duration = Duration::from_secs(10);

/// How long a turn that dozes may go without a look: a stream that ends without a word
/// does not call.
pub(super) const LOOK_AFTER: Duration = Duration::from_secs(60);

/// A parked turn that its connection looks after.
pub(super) struct Doze {
    _asleep: Asleep,
    /// The backend seems to want something.
    pub(super) called: Arc<Notify>,
    pub(super) looked: Instant,
}

impl<W: LinkPeer> Task<W> {
    /// A turn that is parked for a while leaves its heartbeats to the connection and is
    /// not woken by every sign of life of the backend.
    pub(super) fn fall_asleep(&mut self) {
        let long = self.parked.is_some_and(|since| since.elapsed() >= DOZE_AFTER);
        if !long || self.doze.is_some() || self.leg.turn().state() != TurnState::AwaitingTools {
            return;
        }
        let Some(heartbeat) = W::heartbeat() else { return };
        let asleep = self.link.as_mut().and_then(|link| link.rx.sleep(heartbeat));
        if let Some((asleep, called)) = asleep {
            self.leg.turn_mut().relieve();
            self.doze = Some(Doze { _asleep: asleep, called, looked: Instant::now() });
        }
    }

    /// Reads what came while it dozed, without asking to be woken for more.
    pub(super) fn catch_up(&mut self) {
        let Some(doze) = &mut self.doze else { return };
        doze.looked = Instant::now();
        while self.doze.is_some() && self.reads() {
            let Some(link) = self.link.as_mut() else { return };
            let there = {
                let next = std::pin::pin!(link.rx.next());
                next.poll(&mut Context::from_waker(Waker::noop()))
            };
            let Poll::Ready(chunk) = there else { return };
            self.handle(Wake::Heard(chunk));
        }
    }
}
