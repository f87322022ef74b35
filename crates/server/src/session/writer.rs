//! What a turn saves in the store, and when: before its client can act on it.

use bytes::Bytes;
use ibeam_core::{
    history::{Fingerprint, HistoryChain},
    model::{TurnEvent, ids::SessionId},
    peer::Peer,
    turn::Turn,
};
use sha2::{Digest as _, Sha256};
use tokio::time::timeout;
use tracing::{debug, warn};

use super::{
    admission::{RequestOutline, STORE_PATIENCE, SaidInRequest},
    conversations::ConversationClaim,
};
use crate::{
    clock,
    store::{Scope, Store, StoredConversation},
};

/// Writes one conversation to the store, leg by leg, and holds the claim on it.
#[derive(Debug)]
pub(crate) struct ConversationWriter {
    store: Store,
    /// Released when the turn is over.
    claim: Option<ConversationClaim>,
    scope: Scope,
    session: SessionId,
    /// The client's name for the conversation.
    name: Option<String>,
    setup: [u8; 32],
    opening: Option<Fingerprint>,
    said: SaidSoFar,
    /// The id that the turn began with; the backend may get stuck on it.
    asked_id: String,
    saved_id: Option<String>,
    /// The state that the turn continues from.
    pub(super) base: Option<Bytes>,
    /// The store has failed in this turn; the turn does not wait for it again.
    broken: bool,
    /// Its client means the conversation by its name, and may send only what is new.
    by_name: bool,
    /// It does so with the present leg: an answer that it interrupts is kept as far as it saw it.
    keeps_interrupted: bool,
}

/// The whole conversation so far, as the next request will bring it.
#[derive(Clone, Debug)]
pub(crate) struct SaidSoFar {
    /// The earlier part, if the client no longer sends it.
    before: Option<Fingerprint>,
    chain: HistoryChain,
}

impl ConversationWriter {
    /// `before`: the stored conversation that this one continues.
    pub(crate) fn new(
        store: &Store,
        claim: ConversationClaim,
        session: SessionId,
        outline: &RequestOutline,
        before: Option<&StoredConversation>,
    ) -> Self {
        let fingerprint = before.map(|before| before.fingerprint);
        Self {
            store: store.clone(),
            scope: outline.identity.scope,
            asked_id: claim.id().to_owned(),
            claim: Some(claim),
            session,
            name: outline.name().map(str::to_owned).or_else(|| before?.name.clone()),
            setup: outline.identity.setup,
            // A request with only new messages does not know how its conversation began.
            opening: match before {
                Some(before) if !outline.said.has_past => before.opening,
                _ => Some(outline.opening),
            },
            said: SaidSoFar::new(outline.said.clone(), fingerprint),
            saved_id: None,
            base: None,
            broken: false,
            by_name: outline.has_marker(),
            keeps_interrupted: outline.only_new_by_marker(),
        }
    }

    pub(crate) fn scope(&self) -> Scope {
        self.scope
    }

    pub(crate) fn session(&self) -> SessionId {
        self.session
    }

    /// The id that the turn begins with.
    pub(crate) fn conversation(&self) -> &str {
        &self.asked_id
    }

    /// The conversation after this is added to it. Nothing changes until [`Self::go_on`].
    pub(super) fn peek(&self, said: SaidInRequest) -> SaidSoFar {
        SaidSoFar::new(said, Some(self.said.fingerprint()))
    }

    /// A further leg began.
    pub(super) fn go_on(&mut self, next: SaidSoFar) {
        self.said = next;
        self.keeps_interrupted = self.by_name;
    }

    /// Whether an answer that the client interrupts is saved.
    pub(super) fn keeps_interrupted(&self) -> bool {
        self.keeps_interrupted
    }

    pub(super) fn hear(&mut self, event: &TurnEvent) {
        self.said.chain.hear(event);
    }

    /// Saves the present state of the conversation. A store that fails is reported once and changes
    /// nothing for the client.
    pub(super) async fn save<P: Peer>(&mut self, turn: &mut Turn<P>) {
        let id = turn.conversation_id().to_owned();
        if id != self.asked_id
            && let Some(claim) = &mut self.claim
        {
            claim.renew(&id);
        }
        let (calls, mut checkpoint) = (turn.calls(), turn.checkpoint());
        let blobs = turn.take_new_blobs();
        // What was saved before is better than nothing to a client that sends only what is new.
        let worse = self.by_name && turn.is_cut() && checkpoint.is_none();
        if self.broken || worse {
            return;
        }
        if checkpoint.is_some() || id != self.asked_id {
            self.base = None;
        } else if !calls.is_empty() {
            // Results that come without their history need a state to continue from, and an
            // older one is better than none.
            checkpoint.clone_from(&self.base);
        }
        let conversation = StoredConversation {
            scope: self.scope,
            id: id.clone(),
            session: Some(self.session),
            name: self.name.clone(),
            setup: self.setup,
            fingerprint: self.said.fingerprint(),
            opening: self.opening,
            checkpoint,
            calls,
            highest_call: Some(turn.highest_call()),
        };
        let write = async {
            self.store.save(conversation, blobs, clock::unix_seconds()).await?;
            if id != self.asked_id && self.saved_id.as_ref() != Some(&id) {
                // The state under the id on which the backend got stuck is useless.
                self.store.forget(self.scope, &self.asked_id).await?;
            }
            Ok::<_, crate::store::StoreError>(())
        };
        match timeout(STORE_PATIENCE, write).await {
            Ok(Ok(())) => self.saved_id = Some(id),
            Ok(Err(error)) => {
                // The store has warned of it, once for all turns.
                self.broken = true;
                debug!(%error, "the conversation is not saved");
            }
            Err(_elapsed) => {
                self.broken = true;
                warn!(
                    "the store takes too long; the turn continues without saving its conversation"
                );
            }
        }
    }

    /// The turn is over; other turns can claim the conversation in a moment.
    pub(super) fn leave(&self) {
        if let Some(claim) = &self.claim {
            claim.leave();
        }
    }

    /// Other turns may claim the conversation.
    pub(super) fn release(&mut self) {
        self.claim = None;
    }
}

impl SaidSoFar {
    fn new(said: SaidInRequest, before: Option<Fingerprint>) -> Self {
        // A client that sends its whole history needs nothing from before.
        let before = before.filter(|_| !said.has_past);
        Self { before, chain: said.chain }
    }

    fn fingerprint(&self) -> Fingerprint {
        let new = self.chain.fingerprint();
        match self.before {
            None => new,
            // No history that a client sends has this fingerprint.
            Some(before) => {
                let mut hash = Sha256::new_with_prefix(b"after");
                hash.update(before.0);
                hash.update(new.0);
                Fingerprint(hash.finalize().into())
            }
        }
    }
}
