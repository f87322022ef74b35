//! What a turn leaves in the store, and when: before its client can act on it.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use ibeam_core::{
    history::{Chain, Fingerprint},
    model::{TurnEvent, ids::SessionId},
    peer::Peer,
    turn::Turn,
};
use sha2::{Digest as _, Sha256};
use tokio::time::timeout;
use tracing::{debug, warn};

use super::{
    conversations::{Claim, Conversations},
    route::Told,
};
use crate::{
    clock,
    store::{Conversation, Scope, Store},
};

/// A store that needs longer than this does not hold up an answer.
pub(crate) const STORE_PATIENCE: Duration = Duration::from_secs(2);

/// Writes one conversation down, leg by leg.
#[derive(Debug)]
pub(crate) struct Keeper {
    store: Store,
    conversations: Arc<Conversations>,
    /// Given back when the turn is over.
    claim: Option<Claim>,
    scope: Scope,
    session: SessionId,
    name: Option<String>,
    setup: [u8; 32],
    said: Said,
    /// The id that the turn began with; the backend may get stuck on it.
    asked_id: String,
    saved_id: Option<String>,
    /// The state that the turn went on from.
    base: Option<Bytes>,
    /// The store failed this turn once; it is not waited for again.
    broken: bool,
}

/// Everything said so far, as the next request will bring it.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    /// What came before, when the client does not send it any more.
    before: Option<Fingerprint>,
    chain: Chain,
}

/// What a turn takes over from the conversation it continues.
#[derive(Clone, Debug)]
pub(crate) struct Heirloom {
    pub(crate) name: Option<String>,
    pub(crate) fingerprint: Fingerprint,
    /// The state that the turn goes on from.
    pub(crate) base: Option<Bytes>,
}

/// Whose conversation it is, and what is known of it.
#[derive(Debug)]
pub(crate) struct Keeping {
    pub(crate) store: Store,
    pub(crate) conversations: Arc<Conversations>,
    pub(crate) scope: Scope,
    pub(crate) session: SessionId,
    pub(crate) setup: [u8; 32],
    pub(crate) claim: Claim,
    /// The backend's id of it.
    pub(crate) id: String,
    /// There when it is known from an earlier turn.
    pub(crate) before: Option<Heirloom>,
}

impl Keeper {
    /// `named`: what the client calls the conversation.
    pub(crate) fn new(keeping: Keeping, told: Told, named: Option<String>) -> Self {
        let Keeping { store, conversations, scope, session, setup, claim, id, before } = keeping;
        let said = Said::new(told, before.as_ref().map(|before| before.fingerprint));
        let (name, base) = match before {
            Some(Heirloom { name, base, .. }) => (named.or(name), base),
            None => (named, None),
        };
        Self {
            store,
            conversations,
            claim: Some(claim),
            scope,
            session,
            name,
            setup,
            said,
            asked_id: id,
            saved_id: None,
            base,
            broken: false,
        }
    }

    /// What will have been said when this is added to it. Nothing changes until
    /// [`Self::go_on`].
    pub(super) fn peek(&self, told: Told) -> Said {
        Said::new(told, Some(self.said.fingerprint()))
    }

    /// A further leg began.
    pub(super) fn go_on(&mut self, next: Said) {
        self.said = next;
    }

    pub(super) fn hear(&mut self, event: &TurnEvent) {
        self.said.chain.hear(event);
    }

    /// Writes down how far the conversation is. A store that fails is said once and
    /// changes nothing for the client.
    pub(super) async fn save<P: Peer>(&mut self, turn: &mut Turn<P>) {
        let id = turn.conversation_id().to_owned();
        if id != self.asked_id {
            self.conversations.renew(&self.asked_id, &id);
            if let Some(claim) = &mut self.claim {
                claim.extend(self.scope, &id);
            }
        }
        let (calls, mut checkpoint) = (turn.calls(), turn.checkpoint());
        let blobs = turn.take_new_blobs();
        if self.broken {
            return;
        }
        if checkpoint.is_some() || id != self.asked_id {
            self.base = None;
        } else if !calls.is_empty() {
            // Results that come without their history need something to go on from, and
            // an older state is better than none.
            checkpoint.clone_from(&self.base);
        }
        let conversation = Conversation {
            scope: self.scope,
            id: id.clone(),
            session: Some(self.session),
            name: self.name.clone(),
            setup: self.setup,
            fingerprint: self.said.fingerprint(),
            checkpoint,
            calls,
        };
        let write = async {
            self.store.save(conversation, blobs, clock::unix_seconds()).await?;
            if id != self.asked_id && self.saved_id.as_ref() != Some(&id) {
                // What was kept under the id that the backend gave up on is of no use.
                self.store.forget(self.scope, &self.asked_id).await?;
            }
            Ok::<_, crate::store::StoreError>(())
        };
        match timeout(STORE_PATIENCE, write).await {
            Ok(Ok(())) => self.saved_id = Some(id),
            Ok(Err(error)) => {
                // The store has warned of it, once for all turns.
                self.broken = true;
                debug!(%error, "cannot store the conversation");
            }
            Err(_elapsed) => {
                self.broken = true;
                warn!("the store is slow; a conversation continues without it");
            }
        }
    }

    /// The turn is over; others will be able to go on in a moment.
    pub(super) fn leave(&self) {
        if let Some(claim) = &self.claim {
            claim.leave();
        }
    }

    /// Others may go on with the conversation.
    pub(super) fn release(&mut self) {
        self.claim = None;
    }
}

impl Said {
    fn new(told: Told, before: Option<Fingerprint>) -> Self {
        // A client that tells everything from the start needs nothing from before.
        let before = before.filter(|_| !told.has_past);
        Self { before, chain: told.chain }
    }

    fn fingerprint(&self) -> Fingerprint {
        let new = self.chain.fingerprint();
        match self.before {
            None => new,
            // No history of a client's has this fingerprint: it is not told as one.
            Some(before) => {
                let mut hash = Sha256::new_with_prefix(b"after");
                hash.update(before.0);
                hash.update(new.0);
                Fingerprint(hash.finalize().into())
            }
        }
    }
}
