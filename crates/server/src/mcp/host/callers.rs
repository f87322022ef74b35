//! The connections to hosted tools. Every program of this machine can open one, so connections
//! without a key are limited, and one too many evicts the oldest of them. A connection with an
//! authorized request is never closed for another one.
//!
//! Accepting never waits: otherwise a program that opens connections fast enough would keep the
//! system's queue full and lock a child out. So a silent connection is closed as soon as its slot
//! is needed. One that has sent something has a moment to show its key, however fast others are
//! opened.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// Connections at once that have a moment to show their key, and at least as many places for those
/// that have sent nothing: those have all that are free. The more there are, the longer a child may
/// take from connecting to its first bytes while others come.
pub(super) const STRANGERS: usize = 64;

/// For a connection that has sent something to show its key. A child sends it all at once, so this
/// is for a machine that is busy.
pub(super) const TIME_FOR_KEY: Duration = Duration::from_millis(250);

/// Connections for each child: one for each call that waits, and one for events.
const PER_CHILD: usize = 16;

/// How often the log may say that connections were closed.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// The limit of connections for this number of children.
#[must_use]
pub(crate) fn limit(children: usize) -> usize {
    children.saturating_mul(PER_CHILD).saturating_add(2 * STRANGERS).min(1024)
}

#[derive(Debug)]
pub(super) struct Callers {
    limit: usize,
    inner: Mutex<CallersInner>,
}

#[derive(Debug, Default)]
struct CallersInner {
    next: u64,
    /// Those that have shown no key, in the order in which they came. Any of them may have to go.
    strangers: BTreeMap<u64, CancellationToken>,
    /// Those that have sent something, in the order in which they did.
    speakers: BTreeMap<u64, SpeakingCaller>,
    /// Those that have, and ask for nothing now, the longest idle first.
    idle: BTreeMap<u64, CancellationToken>,
    /// Those with a request.
    busy: usize,
    turned_away: u64,
    warned: Option<Instant>,
}

#[derive(Debug)]
struct SpeakingCaller {
    evicted: CancellationToken,
    /// No other one that speaks takes its place before then.
    until: Instant,
}

/// One connection; it leaves when dropped.
#[derive(Debug)]
pub(super) struct HostCaller {
    callers: Arc<Callers>,
    evicted: CancellationToken,
    at: Mutex<CallerState>,
}

#[derive(Clone, Copy, Debug)]
enum CallerState {
    Stranger(u64),
    Speaker(u64),
    Idle(u64),
    /// With this number of requests.
    Busy(usize),
}

/// An authorized request, until its response is sent.
#[derive(Debug)]
pub(super) struct BusyCaller(Arc<HostCaller>);

impl Callers {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, inner: Mutex::default() })
    }

    /// A slot for one more, at once; `None` when all others are busy.
    pub(super) fn enter(self: &Arc<Self>) -> Option<Arc<HostCaller>> {
        let mut inner = self.inner.lock();
        if inner.open() >= self.limit {
            inner.turn_away();
            inner.pop_oldest()?.cancel();
        }
        let evicted = CancellationToken::new();
        let number = inner.number();
        inner.strangers.insert(number, evicted.clone());
        drop(inner);
        let at = Mutex::new(CallerState::Stranger(number));
        Some(Arc::new(HostCaller { callers: Arc::clone(self), evicted, at }))
    }

    /// How many connections were closed so far for want of room.
    pub(super) fn turned_away(&self) -> u64 {
        self.inner.lock().turned_away
    }
}

impl CallersInner {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn open(&self) -> usize {
        self.strangers.len() + self.speakers.len() + self.idle.len() + self.busy
    }

    /// The one that goes first; `None` when all are busy.
    fn pop_oldest(&mut self) -> Option<CancellationToken> {
        let silent = self.strangers.pop_first().map(|(_, evicted)| evicted);
        let oldest = silent.or_else(|| self.speakers.pop_first().map(|(_, one)| one.evicted));
        oldest.or_else(|| self.idle.pop_first().map(|(_, evicted)| evicted))
    }

    fn turn_away(&mut self) {
        self.turned_away += 1;
        let strangers = self.strangers.len() + self.speakers.len();
        if self.warned.is_none_or(|warned| warned.elapsed() >= WARN_EVERY) {
            self.warned = Some(Instant::now());
            warn!(
                without_key = strangers,
                idle = self.idle.len(),
                busy = self.busy,
                "too many connections to the hosted tools; closing the oldest idle one. Another \
                 program on this machine may be opening them"
            );
        }
    }
}

impl HostCaller {
    /// It has sent something, and has a moment for the rest. With too many that have one, it stays
    /// among those that have sent nothing.
    pub(super) fn spoke(&self) {
        let now = Instant::now();
        let mut at = self.at.lock();
        let CallerState::Stranger(number) = *at else { return };
        let mut inner = self.callers.inner.lock();
        // An evicted connection gets no other slot.
        if !inner.strangers.contains_key(&number) {
            return;
        }
        if inner.speakers.len() >= STRANGERS {
            let oldest = inner.speakers.first_entry().filter(|oldest| oldest.get().until <= now);
            let Some(oldest) = oldest else { return };
            oldest.remove().evicted.cancel();
            inner.turn_away();
        }
        inner.strangers.remove(&number);
        let evicted = self.evicted.clone();
        let number = inner.number();
        inner.speakers.insert(number, SpeakingCaller { evicted, until: now + TIME_FOR_KEY });
        *at = CallerState::Speaker(number);
    }

    /// A request was authorized.
    pub(super) fn begin(self: &Arc<Self>) -> BusyCaller {
        let mut at = self.at.lock();
        let mut inner = self.callers.inner.lock();
        *at = match *at {
            CallerState::Busy(requests) => CallerState::Busy(requests + 1),
            before => {
                inner.leave(before);
                inner.busy += 1;
                CallerState::Busy(1)
            }
        };
        drop(inner);
        BusyCaller(Arc::clone(self))
    }

    /// Waits until the connection is evicted.
    pub(super) async fn evicted(&self) {
        self.evicted.cancelled().await;
    }

    fn end(&self) {
        let mut at = self.at.lock();
        let mut inner = self.callers.inner.lock();
        *at = match *at {
            CallerState::Busy(requests) if requests > 1 => CallerState::Busy(requests - 1),
            before => {
                inner.leave(before);
                let number = inner.number();
                inner.idle.insert(number, self.evicted.clone());
                CallerState::Idle(number)
            }
        };
    }
}

impl CallersInner {
    fn leave(&mut self, at: CallerState) {
        match at {
            CallerState::Stranger(number) => drop(self.strangers.remove(&number)),
            CallerState::Speaker(number) => drop(self.speakers.remove(&number)),
            CallerState::Idle(number) => drop(self.idle.remove(&number)),
            CallerState::Busy(_) => self.busy = self.busy.saturating_sub(1),
        }
    }
}

impl Drop for BusyCaller {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Drop for HostCaller {
    fn drop(&mut self) {
        let at = *self.at.get_mut();
        self.callers.inner.lock().leave(at);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    fn enter(callers: &Arc<Callers>) -> Arc<HostCaller> {
        callers.enter().unwrap()
    }

    fn enter_all(callers: &Arc<Callers>, count: usize) -> Vec<Arc<HostCaller>> {
        (0..count).map(|_| enter(callers)).collect()
    }

    fn speak_all(callers: &Arc<Callers>, count: usize) -> Vec<Arc<HostCaller>> {
        let speak = |_| {
            let one = enter(callers);
            one.spoke();
            one
        };
        (0..count).map(speak).collect()
    }

    fn evicted(callers: &[Arc<HostCaller>]) -> usize {
        callers.iter().filter(|one| one.evicted.is_cancelled()).count()
    }

    /// The numbers of silent, speaking, idle and busy connections.
    fn counts(callers: &Callers) -> (usize, usize, usize, usize) {
        let inner = callers.inner.lock();
        (inner.strangers.len(), inner.speakers.len(), inner.idle.len(), inner.busy)
    }

    #[tokio::test(start_paused = true)]
    async fn connections_without_a_key_never_evict_busy_ones() {
        let callers = Callers::new(2 * STRANGERS + 2);
        let (busy, idle) = (enter(&callers), enter(&callers));
        let request = busy.begin();
        drop(idle.begin());
        let mut strangers = speak_all(&callers, 1000);
        strangers.extend(enter_all(&callers, 1000));
        assert_eq!(counts(&callers), (STRANGERS, STRANGERS, 1, 1));
        assert_eq!(evicted(&strangers), 2000 - 2 * STRANGERS);
        assert_eq!(callers.turned_away(), 2000 - 2 * STRANGERS as u64);
        assert!(strangers.last().is_some_and(|last| !last.evicted.is_cancelled()));
        assert!(!busy.evicted.is_cancelled() && !idle.evicted.is_cancelled());
        drop(strangers);
        drop(request);
        assert_eq!(counts(&callers), (0, 0, 2, 0));
        drop((busy, idle));
        assert_eq!(counts(&callers), (0, 0, 0, 0));
    }

    /// Once it has sent something; until then it has only as long as others need to fill all places.
    #[tokio::test(start_paused = true)]
    async fn speaking_connection_keeps_its_slot_for_a_moment() {
        let callers = Callers::new(2 * STRANGERS);
        let child = enter(&callers);
        let silent = enter_all(&callers, STRANGERS - 1);
        assert_eq!(evicted(&silent), 0);
        child.spoke();
        let before = speak_all(&callers, STRANGERS - 1);
        advance(TIME_FOR_KEY - Duration::from_millis(1)).await;
        let more = (enter_all(&callers, 1000), speak_all(&callers, 1000));
        assert!(!child.evicted.is_cancelled() && evicted(&before) == 0);
        assert_eq!(evicted(&silent), STRANGERS - 1, "those that say nothing go");
        // A connection that gets no speaking slot is accepted as well, until it is evicted.
        let last = more.1.last().unwrap();
        assert!(!last.evicted.is_cancelled());
        drop(last.begin());

        // After that time the oldest goes, for one that speaks.
        let request = before[0].begin();
        drop(speak_all(&callers, 1));
        let filled = speak_all(&callers, 1);
        assert!(!child.evicted.is_cancelled() && evicted(&filled) == 0);
        advance(Duration::from_millis(1)).await;
        enter(&callers);
        assert!(!child.evicted.is_cancelled());
        enter(&callers).spoke();
        assert!(child.evicted.is_cancelled() && evicted(&before) == 0);
        drop(request);
    }

    #[tokio::test(start_paused = true)]
    async fn evicted_connection_takes_no_speaking_slot() {
        let callers = Callers::new(STRANGERS);
        let late = enter(&callers);
        let strangers = enter_all(&callers, STRANGERS);
        late.evicted().await;
        late.spoke();
        assert_eq!(counts(&callers), (STRANGERS, 0, 0, 0));
        drop((late, strangers));
        assert_eq!(counts(&callers), (0, 0, 0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn longest_idle_caller_is_evicted_and_busy_ones_stay() {
        let callers = Callers::new(3);
        let [first, second, third] = [enter(&callers), enter(&callers), enter(&callers)];
        let requests = (first.begin(), second.begin());
        drop(third.begin());
        drop(requests.1);
        let fourth = enter(&callers);
        third.evicted().await;
        drop(third);
        assert!(!second.evicted.is_cancelled());
        fourth.spoke();
        let fifth = enter(&callers);
        assert!(fourth.evicted.is_cancelled() && !second.evicted.is_cancelled(), "it has no key");
        let more = (second.begin(), fifth.begin());
        assert!(callers.enter().is_none(), "all are busy");
        drop(more.0);
        assert!(callers.enter().is_some());
        assert!(second.evicted.is_cancelled() && !first.evicted.is_cancelled());
    }

    #[test]
    fn connection_limit_grows_with_the_children() {
        assert_eq!((limit(0), limit(8), limit(usize::MAX)), (128, 256, 1024));
    }
}
