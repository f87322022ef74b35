//! Which conversations are in use, and which ids the backend does not take any more.

use std::{
    collections::{HashMap, HashSet, VecDeque, hash_map::Entry},
    pin::Pin,
    sync::Arc,
};

use ibeam_core::model::ids::SessionId;
use parking_lot::Mutex;
use tokio::sync::{Notify, futures::Notified};

use crate::store::Scope;

/// How many replaced ids are remembered.
const REMEMBERED: usize = 10_000;

type ScopedId = (Scope, String);

#[derive(Debug, Default)]
pub(crate) struct Conversations {
    inner: Mutex<ClaimTable>,
    /// Notified whenever a conversation is released.
    freed: Notify,
}

#[derive(Debug, Default)]
struct ClaimTable {
    claimed: HashSet<ScopedId>,
    /// Claimed by turns that only close their stream to the backend.
    leaving: HashSet<ScopedId>,
    /// Names that clients chose, and the turn that has each.
    names: HashMap<ScopedId, SessionId>,
    /// Ids the backend got stuck on, and what they were replaced by.
    renewed: HashMap<String, String>,
    order: VecDeque<String>,
}

/// The right to run turns of a conversation: one has it at a time.
#[derive(Debug)]
pub(crate) struct ConversationClaim {
    conversations: Arc<Conversations>,
    claimed: ScopedId,
    /// Further ids of the same conversation.
    renewed: Vec<ScopedId>,
    /// Given back with the conversation.
    name: Option<NameClaim>,
}

/// The right to continue what is kept under a name. One turn has it, also while what it began is
/// not stored yet.
#[derive(Debug)]
pub(crate) struct NameClaim {
    conversations: Arc<Conversations>,
    name: ScopedId,
}

impl Conversations {
    /// `None` when a turn has claimed it.
    pub(crate) fn claim(self: &Arc<Self>, scope: Scope, id: &str) -> Option<ConversationClaim> {
        let claimed = (scope, id.to_owned());
        let free = self.inner.lock().claimed.insert(claimed.clone());
        free.then(|| ConversationClaim {
            conversations: Arc::clone(self),
            claimed,
            renewed: Vec::new(),
            name: None,
        })
    }

    /// The right to a name, for the turn of that session.
    ///
    /// # Errors
    /// The session of the turn that has it.
    pub(crate) fn claim_name(
        self: &Arc<Self>,
        scope: Scope,
        name: &str,
        session: SessionId,
    ) -> Result<NameClaim, SessionId> {
        let name = (scope, name.to_owned());
        match self.inner.lock().names.entry(name.clone()) {
            Entry::Occupied(taken) => Err(*taken.get()),
            Entry::Vacant(free) => {
                free.insert(session);
                Ok(NameClaim { conversations: Arc::clone(self), name })
            }
        }
    }

    /// Ready when a conversation or a name has been given back after this call.
    pub(crate) fn freed(&self) -> Pin<Box<Notified<'_>>> {
        let mut freed = Box::pin(self.freed.notified());
        // From here on no notice is missed.
        freed.as_mut().enable();
        freed
    }

    /// The same, but waits for a turn that is about to release it.
    pub(crate) async fn claim_soon(
        self: &Arc<Self>,
        scope: Scope,
        id: &str,
    ) -> Option<ConversationClaim> {
        let key = (scope, id.to_owned());
        loop {
            let freed = self.freed();
            if let Some(claim) = self.claim(scope, id) {
                return Some(claim);
            }
            if !self.inner.lock().leaving.contains(&key) {
                // It may have been released between the two checks.
                return self.claim(scope, id);
            }
            freed.await;
        }
    }

    /// The id to use for this one.
    pub(crate) fn current(&self, mut id: String) -> String {
        let inner = self.inner.lock();
        // Each is replaced at most once, so this ends; a cycle would be a bug.
        for _ in 0..inner.renewed.len() {
            let Some(next) = inner.renewed.get(&id) else { break };
            id.clone_from(next);
        }
        id
    }

    /// The backend got stuck on `old`; the conversation continues as `new`.
    fn renew(&self, old: &str, new: &str) {
        let mut inner = self.inner.lock();
        if inner.renewed.insert(old.to_owned(), new.to_owned()).is_none() {
            inner.order.push_back(old.to_owned());
        }
        if inner.order.len() > REMEMBERED
            && let Some(oldest) = inner.order.pop_front()
        {
            inner.renewed.remove(&oldest);
        }
    }
}

impl ConversationClaim {
    /// The id that was claimed.
    pub(crate) fn id(&self) -> &str {
        &self.claimed.1
    }

    /// The turn that has it has this name as well.
    pub(crate) fn named(mut self, name: Option<NameClaim>) -> Self {
        self.name = name;
        self
    }

    /// Its turn is over and only has to close its stream to the backend.
    pub(crate) fn leave(&self) {
        self.conversations.inner.lock().leaving.extend(self.ids().cloned());
    }

    /// The conversation has this id from now on. It belongs to the same claim.
    pub(crate) fn renew(&mut self, id: &str) {
        self.conversations.renew(self.id(), id);
        let new = (self.claimed.0, id.to_owned());
        let known = self.ids().any(|claimed| *claimed == new);
        if !known && self.conversations.inner.lock().claimed.insert(new.clone()) {
            self.renewed.push(new);
        }
    }

    fn ids(&self) -> impl Iterator<Item = &ScopedId> {
        std::iter::once(&self.claimed).chain(&self.renewed)
    }
}

impl Drop for ConversationClaim {
    fn drop(&mut self) {
        let mut inner = self.conversations.inner.lock();
        for id in self.ids() {
            inner.claimed.remove(id);
            inner.leaving.remove(id);
        }
        drop(inner);
        self.conversations.freed.notify_waiters();
    }
}

impl Drop for NameClaim {
    fn drop(&mut self) {
        self.conversations.inner.lock().names.remove(&self.name);
        self.conversations.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_name_has_one_turn_at_a_time() {
        let all = Arc::new(Conversations::default());
        let [one, two] = [1, 2].map(|n| SessionId::from_random([n; 16]));
        let claim = all.claim([1; 32], "a").unwrap();
        let claim = claim.named(Some(all.claim_name([1; 32], "notes", one).unwrap()));
        assert_eq!(all.claim_name([1; 32], "notes", two).unwrap_err(), one);
        assert!(all.claim_name([2; 32], "notes", two).is_ok(), "another's");
        let freed = all.freed();
        drop(claim);
        freed.await;
        assert!(all.claim_name([1; 32], "notes", two).is_ok());
    }

    #[test]
    fn conversation_has_one_turn_at_a_time() {
        let all = Arc::new(Conversations::default());
        let mut claim = all.claim([1; 32], "a").unwrap();
        assert!(all.claim([1; 32], "a").is_none());
        assert!(all.claim([2; 32], "a").is_some(), "another's");
        claim.renew("b");
        assert!(all.claim([1; 32], "b").is_none());
        drop(claim);
        assert!(all.claim([1; 32], "a").is_some() && all.claim([1; 32], "b").is_some());
    }

    #[test]
    fn stuck_id_is_not_used_again() {
        let all = Conversations::default();
        assert_eq!(all.current("a".into()), "a");
        all.renew("a", "b");
        assert_eq!(all.current("a".into()), "b");
        all.renew("b", "c");
        assert_eq!(all.current("a".into()), "c", "nor is its replacement");
    }

    #[tokio::test(start_paused = true)]
    async fn conversation_that_is_being_released_is_waited_for() {
        let all = Arc::new(Conversations::default());
        let claim = all.claim([1; 32], "a").unwrap();
        assert!(all.claim_soon([1; 32], "a").await.is_none(), "a turn is at work there");
        claim.leave();
        let (next, ()) = tokio::join!(all.claim_soon([1; 32], "a"), async {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            drop(claim);
        });
        assert!(next.is_some());
        assert!(all.claim_soon([1; 32], "a").await.is_none(), "the next turn is not leaving");
    }
}
