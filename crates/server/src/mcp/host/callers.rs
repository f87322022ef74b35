//! The connections to hosted tools. Every program of this machine can open one, so those that
//! have shown no key yet are few, and one too many costs the oldest of them its place. A
//! connection with a request that was let in is never closed for another one.
//!
//! Each connection has a moment to show its key before it can lose its place, however fast others
//! are opened. Until a place is free the next one waits, and those behind it wait in the system's
//! queue, which has a limit of its own.

use std::{collections::BTreeMap, pin::pin, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// Connections at once that have shown no key. A child shows it with its first bytes.
pub(super) const STRANGERS: usize = 64;

/// For a connection to show its key. A child has sent it by the time that it is accepted, so this
/// is for a machine that is busy. With all places taken, 256 connections are accepted in a second.
pub(super) const TIME_FOR_KEY: Duration = Duration::from_millis(250);

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
    /// One has left, or shown its key.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    next: u64,
    /// Those that have shown no key, in the order in which they came.
    strangers: BTreeMap<u64, Stranger>,
    /// Those that have, and ask for nothing now, the longest idle first.
    idle: BTreeMap<u64, CancellationToken>,
    /// Those with a request.
    busy: usize,
    turned_away: u64,
    warned: Option<Instant>,
}

#[derive(Debug)]
struct Stranger {
    evicted: CancellationToken,
    /// It has its place until then.
    until: Instant,
}

/// Whether there is a place for one more.
enum Entry {
    Free(Arc<Caller>),
    /// Not before then, unless another one leaves.
    Later(Instant),
    /// All the others are busy.
    Full,
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
        Arc::new(Self { limit, inner: Mutex::default(), changed: Notify::new() })
    }

    /// A place for one more, if need be after a wait; `None` when all the others are busy.
    pub(super) async fn enter(self: &Arc<Self>) -> Option<Arc<Caller>> {
        loop {
            let mut changed = pin!(self.changed.notified());
            // Before looking: one that leaves meanwhile is noticed.
            changed.as_mut().enable();
            match self.try_enter() {
                Entry::Free(caller) => return Some(caller),
                Entry::Full => return None,
                Entry::Later(at) => {
                    let _ = timeout_at(at, changed).await;
                }
            }
        }
    }

    fn try_enter(self: &Arc<Self>) -> Entry {
        let now = Instant::now();
        let mut inner = self.inner.lock();
        let open = inner.strangers.len() + inner.idle.len() + inner.busy;
        if inner.strangers.len() >= STRANGERS || open >= self.limit {
            let until = inner.strangers.first_key_value().map(|(_, oldest)| oldest.until);
            if let Some(until) = until.filter(|until| *until > now) {
                return Entry::Later(until);
            }
            inner.turn_away();
            let oldest = match inner.strangers.pop_first() {
                Some((_, oldest)) => Some(oldest.evicted),
                None => inner.idle.pop_first().map(|(_, evicted)| evicted),
            };
            let Some(oldest) = oldest else { return Entry::Full };
            oldest.cancel();
        }
        let evicted = CancellationToken::new();
        let number = inner.number();
        let stranger = Stranger { evicted: evicted.clone(), until: now + TIME_FOR_KEY };
        inner.strangers.insert(number, stranger);
        drop(inner);
        let at = Mutex::new(At::Stranger(number));
        Entry::Free(Arc::new(Caller { callers: Arc::clone(self), evicted, at }))
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
        self.callers.changed.notify_waiters();
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
        self.callers.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{sleep, timeout};

    use super::*;

    async fn enter(callers: &Arc<Callers>) -> Arc<Caller> {
        callers.enter().await.unwrap()
    }

    async fn enter_all(callers: &Arc<Callers>, count: usize) -> Vec<Arc<Caller>> {
        let mut entered = Vec::new();
        for _ in 0..count {
            entered.push(enter(callers).await);
        }
        entered
    }

    fn counts(callers: &Callers) -> (usize, usize, usize) {
        let inner = callers.inner.lock();
        (inner.strangers.len(), inner.idle.len(), inner.busy)
    }

    #[tokio::test(start_paused = true)]
    async fn strangers_take_no_place_of_those_with_a_key() {
        let callers = Callers::new(STRANGERS + 10);
        let (busy, idle) = (enter(&callers).await, enter(&callers).await);
        let request = busy.begin();
        drop(idle.begin());
        let strangers = enter_all(&callers, 1000).await;
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

    #[tokio::test(start_paused = true)]
    async fn a_connection_has_time_to_show_its_key_however_fast_others_come() {
        let callers = Callers::new(2 * STRANGERS);
        let began = Instant::now();
        let child = enter(&callers).await;
        let others = enter_all(&callers, STRANGERS - 1).await;
        // One more is not let in at its cost.
        let just_before = TIME_FOR_KEY - Duration::from_millis(1);
        assert!(timeout(just_before, callers.enter()).await.is_err());
        assert!(!child.evicted.is_cancelled() && callers.turned_away() == 0);
        let request = child.begin();
        let late = enter(&callers).await;
        assert!(began.elapsed() < TIME_FOR_KEY, "the child's place was free at once");
        assert!(others.iter().all(|other| !other.evicted.is_cancelled()));
        // Those that show no key in that time make room, the oldest first.
        let next = enter(&callers).await;
        assert_eq!(began.elapsed(), TIME_FOR_KEY);
        assert!(others[0].evicted.is_cancelled() && !others[1].evicted.is_cancelled());
        assert!([&child, &late, &next].iter().all(|one| !one.evicted.is_cancelled()));
        drop(request);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_leaves_makes_room_for_one_that_waits() {
        let callers = Callers::new(2 * STRANGERS);
        let mut others = enter_all(&callers, STRANGERS).await;
        let began = Instant::now();
        let leave = async {
            sleep(Duration::from_millis(10)).await;
            drop(others.pop());
        };
        let (entered, ()) = tokio::join!(callers.enter(), leave);
        assert!(entered.is_some() && began.elapsed() == Duration::from_millis(10));
        assert_eq!((counts(&callers), callers.turned_away()), ((STRANGERS, 0, 0), 0));
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_idle_makes_room_and_the_busy_stay() {
        let callers = Callers::new(3);
        let [first, second, third] =
            [enter(&callers).await, enter(&callers).await, enter(&callers).await];
        let requests = (first.begin(), second.begin());
        drop(third.begin());
        drop(requests.1);
        let fourth = enter(&callers).await;
        third.evicted().await;
        drop(third);
        assert!(!second.evicted.is_cancelled());
        let more = (second.begin(), fourth.begin());
        assert!(callers.enter().await.is_none(), "all are busy");
        drop(more.0);
        assert!(callers.enter().await.is_some());
        assert!(second.evicted.is_cancelled() && !first.evicted.is_cancelled());
    }

    #[test]
    fn the_limit_follows_the_children() {
        assert_eq!((limit(0), limit(8), limit(usize::MAX)), (128, 256, 1024));
    }
}
