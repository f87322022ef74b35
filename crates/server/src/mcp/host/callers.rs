//! The connections to hosted tools. Every program of this machine can open one, so those that
//! have shown no key yet are few, and one too many costs the oldest of them its place. A
//! connection with a request that was let in is never closed for another one.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// Connections at once that have shown no key. A child shows it with its first bytes.
pub(super) const STRANGERS: usize = 64;

/// Connections for each child: one for each call that waits, and one for events.
const PER_CHILD: usize = 16;

/// How often the log may say that connections were closed.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// How many connections there may be for so many children.
#[must_use]
pub(crate) fn limit(children: usize) -> usize {
    children.saturating_mul(PER_CHILD).saturating_add(2 * STRANGERS).min(1024)
}

#[derive(Debug)]
pub(super) struct Callers {
    limit: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    next: u64,
    /// Those that have shown no key, in the order in which they came.
    strangers: BTreeMap<u64, CancellationToken>,
    /// Those that have, and ask for nothing now, the longest idle first.
    idle: BTreeMap<u64, CancellationToken>,
    /// Those with a request.
    busy: usize,
    turned_away: u64,
    warned: Option<Instant>,
}

/// One connection; it leaves when dropped.
#[derive(Debug)]
pub(super) struct Caller {
    callers: Arc<Callers>,
    evicted: CancellationToken,
    at: Mutex<At>,
}

#[derive(Clone, Copy, Debug)]
enum At {
    Stranger(u64),
    Idle(u64),
    /// With so many requests.
    Busy(usize),
}

/// A request that was let in, until its response is sent.
#[derive(Debug)]
pub(super) struct Busy(Arc<Caller>);

impl Callers {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, inner: Mutex::default() })
    }

    /// A place for one more; `None` when all the others are busy.
    pub(super) fn enter(self: &Arc<Self>) -> Option<Arc<Caller>> {
        let mut inner = self.inner.lock();
        let open = inner.strangers.len() + inner.idle.len() + inner.busy;
        if inner.strangers.len() >= STRANGERS || open >= self.limit {
            inner.turn_away();
            let oldest = inner.strangers.pop_first().or_else(|| inner.idle.pop_first());
            let (_, oldest) = oldest?;
            oldest.cancel();
        }
        let evicted = CancellationToken::new();
        let number = inner.number();
        inner.strangers.insert(number, evicted.clone());
        drop(inner);
        let at = Mutex::new(At::Stranger(number));
        Some(Arc::new(Caller { callers: Arc::clone(self), evicted, at }))
    }

    /// How many connections were closed so far for want of room.
    pub(super) fn turned_away(&self) -> u64 {
        self.inner.lock().turned_away
    }
}

impl Inner {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn turn_away(&mut self) {
        self.turned_away += 1;
        let strangers = self.strangers.len();
        if self.warned.is_none_or(|warned| warned.elapsed() >= WARN_EVERY) {
            self.warned = Some(Instant::now());
            warn!(
                without_key = strangers,
                idle = self.idle.len(),
                busy = self.busy,
                "too many connections to hosted tools, the oldest without a request is closed; \
                 another program of this machine may be opening them"
            );
        }
    }
}

impl Caller {
    /// A request was let in.
    pub(super) fn begin(self: &Arc<Self>) -> Busy {
        let mut at = self.at.lock();
        let mut inner = self.callers.inner.lock();
        *at = match *at {
            At::Busy(requests) => At::Busy(requests + 1),
            before => {
                inner.leave(before);
                inner.busy += 1;
                At::Busy(1)
            }
        };
        drop(inner);
        Busy(Arc::clone(self))
    }

    /// Waits until another one needs the place.
    pub(super) async fn evicted(&self) {
        self.evicted.cancelled().await;
    }

    fn end(&self) {
        let mut at = self.at.lock();
        let mut inner = self.callers.inner.lock();
        *at = match *at {
            At::Busy(requests) if requests > 1 => At::Busy(requests - 1),
            before => {
                inner.leave(before);
                let number = inner.number();
                inner.idle.insert(number, self.evicted.clone());
                At::Idle(number)
            }
        };
    }
}

impl Inner {
    fn leave(&mut self, at: At) {
        match at {
            At::Stranger(number) => drop(self.strangers.remove(&number)),
            At::Idle(number) => drop(self.idle.remove(&number)),
            At::Busy(_) => self.busy = self.busy.saturating_sub(1),
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        let at = *self.at.get_mut();
        self.callers.inner.lock().leave(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enter(callers: &Arc<Callers>) -> Arc<Caller> {
        callers.enter().unwrap()
    }

    fn counts(callers: &Callers) -> (usize, usize, usize) {
        let inner = callers.inner.lock();
        (inner.strangers.len(), inner.idle.len(), inner.busy)
    }

    #[tokio::test]
    async fn strangers_take_no_place_of_those_with_a_key() {
        let callers = Callers::new(STRANGERS + 10);
        let (busy, idle) = (enter(&callers), enter(&callers));
        let request = busy.begin();
        drop(idle.begin());
        let strangers: Vec<_> = (0..1000).map(|_| enter(&callers)).collect();
        assert_eq!(counts(&callers), (STRANGERS, 1, 1));
        let evicted = strangers.iter().filter(|one| one.evicted.is_cancelled()).count();
        assert_eq!(evicted, 1000 - STRANGERS);
        assert_eq!(callers.turned_away(), evicted as u64);
        assert!(strangers.last().is_some_and(|last| !last.evicted.is_cancelled()));
        assert!(!busy.evicted.is_cancelled() && !idle.evicted.is_cancelled());
        drop(strangers);
        drop(request);
        assert_eq!(counts(&callers), (0, 2, 0));
        drop((busy, idle));
        assert_eq!(counts(&callers), (0, 0, 0));
    }

    #[tokio::test]
    async fn the_longest_idle_makes_room_and_the_busy_stay() {
        let callers = Callers::new(3);
        let [first, second, third] = [enter(&callers), enter(&callers), enter(&callers)];
        let requests = (first.begin(), second.begin());
        drop(third.begin());
        drop(requests.1);
        let fourth = enter(&callers);
        third.evicted().await;
        drop(third);
        assert!(!second.evicted.is_cancelled());
        let more = (second.begin(), fourth.begin());
        assert!(callers.enter().is_none(), "all are busy");
        drop(more.0);
        assert!(callers.enter().is_some());
        assert!(second.evicted.is_cancelled() && !first.evicted.is_cancelled());
    }

    #[test]
    fn the_limit_follows_the_children() {
        assert_eq!((limit(0), limit(8), limit(usize::MAX)), (128, 256, 1024));
    }
}
