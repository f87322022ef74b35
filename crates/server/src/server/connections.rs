//! The open connections. When the limit is reached, a new one evicts another: if many have not
//! shown a valid key, the oldest of those; else the one that has been idle for the longest time; else,
//! if several keys share the gateway, the newest of the key that has most.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::keys::KeyHash;

/// A connection that has served this many requests is closed: no client stays with this process for
/// ever.
const REQUESTS: u64 = 10_000;

/// How many connections beyond the limit may be closing. They have files until they are closed, so
/// new ones wait for them.
pub(super) const LEAVING: usize = 128;

/// How long an evicted connection may take to close.
pub(super) const MAKE_ROOM: Duration = Duration::from_secs(1);

/// Connections that have not shown a key are many when they are more than this part of the limit.
/// As long as they are few, a new one is not closed before its client has asked for something.
const STRANGERS: usize = 8;

#[derive(Debug)]
pub(super) struct Connections {
    limit: usize,
    inner: Mutex<ConnectionsInner>,
    left: Notify,
}

#[derive(Debug, Default)]
struct ConnectionsInner {
    open: usize,
    /// The last one that was given out.
    numbers: u64,
    /// Those without a request, since the lowest number for the longest time.
    idle: BTreeMap<u64, CancellationToken>,
    /// Those that have not shown a key, with or without a request. A client may keep such a request
    /// open for long: it does not read a page, or sends its head slowly.
    strangers: BTreeMap<u64, CancellationToken>,
    /// Those of keys that leave room for others, by their key.
    sharing: HashMap<KeyHash, BTreeMap<u64, SharingConnection>>,
    /// Requests of all of them.
    running: usize,
    /// When one last came or ended.
    last: Option<Instant>,
}

/// A connection of a key that leaves room for others.
#[derive(Debug)]
struct SharingConnection {
    evicted: CancellationToken,
    cut: CancellationToken,
}

/// The activity of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ConnectionActivity {
    /// Since when no request runs. None: one does.
    pub(super) idle: Option<Instant>,
    /// Requests so far.
    pub(super) served: u64,
}

impl ConnectionActivity {
    /// It has served enough.
    pub(super) fn is_worn(self) -> bool {
        self.served >= REQUESTS
    }
}

/// One connection; dropping it frees its slot.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    crowd: Arc<Connections>,
    /// Cancelled when the connection is evicted.
    evicted: CancellationToken,
    /// Cancelled when it is closed even while a request with a key is being answered.
    cut: CancellationToken,
    mood: watch::Sender<ConnectionActivity>,
    count: Mutex<RequestCount>,
}

#[derive(Debug, Default)]
struct RequestCount {
    running: usize,
    /// Its number in `strangers`. None: a request on it had a valid key.
    stranger: Option<u64>,
    /// Its number in `idle`.
    idle: Option<u64>,
    /// Where it is in `sharing`.
    sharing: Option<(KeyHash, u64)>,
}

/// A request that is being answered.
#[derive(Debug)]
pub(super) struct BusyRequest(Arc<ConnectionSlot>);

impl Connections {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, inner: Mutex::default(), left: Notify::new() })
    }

    /// How many are open.
    pub(super) fn len(&self) -> usize {
        self.inner.lock().open
    }

    /// Whether a request runs, and when one last came or ended.
    pub(super) fn traffic(&self) -> (bool, Option<Instant>) {
        let inner = self.inner.lock();
        (inner.running > 0, inner.last)
    }

    /// A slot for one more, or `None` if all others are busy and have shown a key.
    pub(super) async fn enter(self: &Arc<Self>) -> Option<Arc<ConnectionSlot>> {
        while self.len() >= self.limit.saturating_add(LEAVING) {
            // They are cut when they time out.
            timeout(MAKE_ROOM, self.left.notified()).await.ok()?;
        }
        let evicted = CancellationToken::new();
        let mut inner = self.inner.lock();
        // It takes a moment to close and is one too many until then.
        if inner.open >= self.limit && !inner.evict(self.limit / STRANGERS) {
            return None;
        }
        inner.open += 1;
        let number = inner.number();
        inner.strangers.insert(number, evicted.clone());
        inner.idle.insert(number, evicted.clone());
        drop(inner);
        Some(Arc::new(ConnectionSlot {
            crowd: Arc::clone(self),
            evicted,
            cut: CancellationToken::new(),
            mood: watch::Sender::new(ConnectionActivity { idle: Some(Instant::now()), served: 0 }),
            count: Mutex::new(RequestCount {
                running: 0,
                stranger: Some(number),
                idle: Some(number),
                sharing: None,
            }),
        }))
    }
}

impl ConnectionsInner {
    fn began(&mut self) {
        self.running += 1;
        self.last = Some(Instant::now());
    }

    fn ended(&mut self) {
        self.running = self.running.saturating_sub(1);
        self.last = Some(Instant::now());
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Evicts one. False: none may be evicted.
    fn evict(&mut self, few: usize) -> bool {
        let are_many = self.strangers.len() > few;
        (are_many && first_goes(&mut self.strangers))
            || first_goes(&mut self.idle)
            || self.evict_of_key()
            || first_goes(&mut self.strangers)
    }

    /// Evicts the newest connection of the key that has most. A key that has one keeps it.
    fn evict_of_key(&mut self) -> bool {
        let most = self.sharing.values_mut().max_by_key(|connections| connections.len());
        let Some(most) = most.filter(|connections| connections.len() > 1) else { return false };
        while let Some((_, connection)) = most.pop_last() {
            if !connection.evicted.is_cancelled() {
                // Its requests may never end: a client can send a body slowly.
                connection.cut.cancel();
                connection.evicted.cancel();
                return true;
            }
        }
        false
    }

    fn leave_key(&mut self, sharing: Option<(KeyHash, u64)>) {
        let Some((key, number)) = sharing else { return };
        if let Some(connections) = self.sharing.get_mut(&key) {
            connections.remove(&number);
            if connections.is_empty() {
                self.sharing.remove(&key);
            }
        }
    }
}

fn first_goes(connections: &mut BTreeMap<u64, CancellationToken>) -> bool {
    while let Some((_, connection)) = connections.pop_first() {
        // One that is closing already may still be in the other list.
        if !connection.is_cancelled() {
            connection.cancel();
            return true;
        }
    }
    false
}

impl ConnectionSlot {
    /// A request has come.
    pub(super) fn begin(self: &Arc<Self>) -> BusyRequest {
        let mut count = self.count.lock();
        count.running += 1;
        {
            let mut inner = self.crowd.inner.lock();
            inner.began();
            if let Some(number) = count.idle.take() {
                inner.idle.remove(&number);
            }
        }
        self.mood
            .send_modify(|mood| *mood = ConnectionActivity { idle: None, served: mood.served + 1 });
        BusyRequest(Arc::clone(self))
    }

    fn end(&self) {
        let mut count = self.count.lock();
        count.running = count.running.saturating_sub(1);
        let mut inner = self.crowd.inner.lock();
        inner.ended();
        if count.running == 0 {
            let number = inner.number();
            count.idle = Some(number);
            inner.idle.insert(number, self.evicted.clone());
            if let Some(stranger) = &mut count.stranger {
                inner.strangers.remove(stranger);
                inner.strangers.insert(number, self.evicted.clone());
                *stranger = number;
            }
            drop(inner);
            self.mood.send_modify(|mood| mood.idle = Some(Instant::now()));
        }
    }

    /// The request that runs has a valid key. `sharing`: that key, if it leaves room for others.
    /// The newest counts.
    pub(super) fn showed_key(&self, sharing: Option<KeyHash>) {
        let mut count = self.count.lock();
        if count.stranger.is_none() && count.sharing.map(|(key, _)| key) == sharing {
            return;
        }
        let mut inner = self.crowd.inner.lock();
        if let Some(number) = count.stranger.take() {
            inner.strangers.remove(&number);
        }
        inner.leave_key(count.sharing.take());
        if let Some(key) = sharing {
            let number = inner.number();
            let (evicted, cut) = (self.evicted.clone(), self.cut.clone());
            let connection = SharingConnection { evicted, cut };
            inner.sharing.entry(key).or_default().insert(number, connection);
            count.sharing = Some((key, number));
        }
    }

    pub(super) fn has_shown_key(&self) -> bool {
        self.count.lock().stranger.is_none()
    }

    pub(super) fn mood(&self) -> watch::Receiver<ConnectionActivity> {
        self.mood.subscribe()
    }

    /// Waits until its requests are no longer answered to the end.
    pub(super) async fn cut(&self) {
        self.cut.cancelled().await;
    }

    /// Waits until the connection is evicted.
    pub(super) async fn evicted(&self) {
        self.evicted.cancelled().await;
    }
}

impl Drop for BusyRequest {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut inner = self.crowd.inner.lock();
        inner.open = inner.open.saturating_sub(1);
        let count = self.count.get_mut();
        if let Some(number) = count.idle {
            inner.idle.remove(&number);
        }
        if let Some(number) = count.stranger {
            inner.strangers.remove(&number);
        }
        inner.leave_key(count.sharing.take());
        self.crowd.left.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn longest_idle_connection_is_evicted_and_busy_ones_stay() {
        let crowd = Connections::new(2);
        let (first, second) = (crowd.enter().await.unwrap(), crowd.enter().await.unwrap());
        drop(first.begin());
        // It asked since, so the other one is idle for longer.
        let third = crowd.enter().await.unwrap();
        second.evicted().await;
        assert!(!first.evicted.is_cancelled());
        drop(second);
        let requests = (first.begin(), third.begin());
        first.showed_key(None);
        third.showed_key(None);
        assert_eq!(crowd.len(), 2);
        assert!(crowd.enter().await.is_none());
        drop(requests);
        assert!(crowd.enter().await.is_some());
        assert!(first.evicted.is_cancelled() && !third.evicted.is_cancelled());
    }

    #[tokio::test]
    async fn busy_connections_without_a_key_can_be_evicted() {
        let crowd = Connections::new(2);
        let (first, second) = (crowd.enter().await.unwrap(), crowd.enter().await.unwrap());
        let (_page, _answer) = (first.begin(), second.begin());
        second.showed_key(None);
        let third = crowd.enter().await.unwrap();
        assert!(first.evicted.is_cancelled() && !second.evicted.is_cancelled());
        let _page = third.begin();
        assert!(crowd.enter().await.is_some(), "the first one goes and does not count");
        assert!(third.evicted.is_cancelled() && !second.evicted.is_cancelled());
    }

    #[tokio::test]
    async fn few_new_connections_are_not_evicted_before_their_first_request() {
        let crowd = Connections::new(16);
        let known: Vec<_> = futures_util::future::join_all((0..14).map(|_| crowd.enter())).await;
        for member in known.iter().flatten() {
            let _request = member.begin();
            member.showed_key(None);
        }
        let newcomers = [crowd.enter().await.unwrap(), crowd.enter().await.unwrap()];
        let _third = crowd.enter().await.unwrap();
        assert!(newcomers.iter().all(|member| !member.evicted.is_cancelled()));
        let gone = known.iter().flatten().filter(|member| member.evicted.is_cancelled()).count();
        assert_eq!(gone, 1, "the longest idle one went");
        crowd.enter().await.unwrap();
        assert!(newcomers[0].evicted.is_cancelled(), "now they are many");
    }

    #[tokio::test]
    async fn one_key_cannot_take_all_connections() {
        let crowd = Connections::new(8);
        let (honest, greedy) = (Some([1; 32]), Some([2; 32]));
        let mut members = Vec::new();
        let mut requests = Vec::new();
        for key in [honest, greedy, greedy, greedy, greedy, greedy, greedy, greedy] {
            let member = crowd.enter().await.unwrap();
            requests.push(member.begin());
            member.showed_key(key);
            members.push(member);
        }
        let newcomer = crowd.enter().await.expect("others find a slot");
        let _request = newcomer.begin();
        newcomer.showed_key(honest);
        let gone: Vec<_> =
            members.iter().map(|member| u8::from(member.evicted.is_cancelled())).collect();
        assert_eq!(gone, [0, 0, 0, 0, 0, 0, 0, 1], "the newest of the key that has most");
        // What no other key needs is not taken from the only one.
        let crowd = Connections::new(2);
        let members = [crowd.enter().await.unwrap(), crowd.enter().await.unwrap()];
        let _requests = members.each_ref().map(|member| {
            member.showed_key(None);
            member.begin()
        });
        assert!(crowd.enter().await.is_none());
    }

    #[tokio::test]
    async fn connections_without_a_key_are_evicted_first() {
        let crowd = Connections::new(2);
        let ask = |member: &Arc<ConnectionSlot>| {
            let _request = member.begin();
            member.showed_key(None);
        };
        let known = crowd.enter().await.unwrap();
        ask(&known);
        let strangers = [crowd.enter().await.unwrap(), crowd.enter().await.unwrap()];
        let newest = crowd.enter().await.unwrap();
        assert!(strangers.iter().all(|stranger| stranger.evicted.is_cancelled()));
        assert!(!known.evicted.is_cancelled(), "it was idle for longer than they were");
        drop(strangers);
        ask(&newest);
        crowd.enter().await.unwrap();
        assert!(known.evicted.is_cancelled() && !newest.evicted.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn connection_is_idle_while_no_request_runs() {
        let crowd = Connections::new(2);
        let member = crowd.enter().await.unwrap();
        let mood = member.mood();
        let (one, two) = (member.begin(), member.begin());
        assert_eq!(mood.borrow().idle, None);
        drop(one);
        assert_eq!(mood.borrow().idle, None);
        assert_eq!(crowd.traffic(), (true, Some(Instant::now())));
        tokio::time::advance(Duration::from_secs(7)).await;
        drop(two);
        assert_eq!(crowd.traffic(), (false, Some(Instant::now())));
        assert_eq!(*mood.borrow(), ConnectionActivity { idle: Some(Instant::now()), served: 2 });
        for _ in 0..REQUESTS {
            assert_eq!(mood.borrow().is_worn(), mood.borrow().served >= REQUESTS);
            drop(member.begin());
        }
        assert!(mood.borrow().is_worn());
        drop(member);
        assert_eq!(crowd.len(), 0);
        let inner = crowd.inner.lock();
        assert!(inner.idle.is_empty() && inner.strangers.is_empty() && inner.sharing.is_empty());
    }

    /// New connections wait for closing ones, up to a limit.
    #[tokio::test(start_paused = true)]
    async fn number_of_closing_connections_is_limited() {
        let crowd = Connections::new(1);
        let mut members = Vec::new();
        for _ in 0..=LEAVING {
            members.push(crowd.enter().await.unwrap());
        }
        assert_eq!(crowd.len(), 1 + LEAVING);
        let began = Instant::now();
        assert!(crowd.enter().await.is_none(), "none was closed");
        assert_eq!(began.elapsed(), MAKE_ROOM);
        let (next, ()) = tokio::join!(crowd.enter(), async { drop(members.remove(0)) });
        assert!(next.is_some());
        assert_eq!(began.elapsed(), MAKE_ROOM);
        assert_eq!(crowd.len(), 1 + LEAVING);
    }
}
