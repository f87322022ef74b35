//! Where the conversation of a new turn comes from: it is continued, rebuilt, forked or new.

use ibeam_core::{
    error::TurnError,
    model::ids::{SessionId, uuid_from_random},
    peer::StoredState,
};

use tokio::time::Instant;

use super::{
    Admission, NameSource, RequestOutline, end, known, no_store,
    outline::{FoundBy, StoredUse},
};
use crate::{
    random,
    session::{SessionMatch, conversations::ConversationClaim, writer::ConversationWriter},
    store::StoredConversation,
};

/// The conversation of a new turn.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) writer: ConversationWriter,
    /// The stored state that the turn continues from.
    pub(crate) kept: Option<StoredState>,
    pub(crate) matched: SessionMatch,
}

impl Origin {
    /// Whether results of the request answer no call that the model knows: it gets them as text.
    pub(crate) fn ignores_results(&self, outline: &RequestOutline) -> bool {
        let known =
            |id: &String| self.kept.iter().flat_map(|kept| &kept.calls).any(|call| call.id == *id);
        outline.has_stray_results || !outline.missing_calls.iter().all(known)
    }
}

impl Admission {
    /// Finds and claims the conversation for a new turn. `reuse`: stored states may be used.
    /// `forked`: a parked turn of it has another prompt, other tools or another model.
    ///
    /// # Errors
    /// What is kept under its name was not free before the deadline.
    pub(super) async fn origin(
        &self,
        outline: &RequestOutline,
        reuse: bool,
        mut forked: bool,
        deadline: Instant,
    ) -> Result<Origin, TurnError> {
        let session = new_session();
        let must_continue = reuse && outline.only_new_by_marker();
        let mut name = self.claim_name(outline, session, must_continue.then_some(deadline)).await?;
        if must_continue && let Some(claimed) = self.claim_kept(outline, deadline).await? {
            let (stored, way, claim) = claimed;
            let parts = (claim.named(name), session);
            return self.take_up(stored, way, outline, parts).await.ok_or_else(no_store);
        }
        let ways: &[FoundBy] = match (&outline.results, outline.name_source()) {
            _ if forked => &[],
            (Some(_), _) => &[FoundBy::Session],
            (None, None) => &[FoundBy::Past],
            (None, Some(NameSource::Marker)) => &[FoundBy::Marker, FoundBy::Past],
            (None, Some(NameSource::SessionId | NameSource::Affinity)) => {
                &[FoundBy::Header, FoundBy::Past]
            }
        };
        let mut in_use = false;
        for by in ways.iter().copied() {
            for stored in self.candidates(by, outline).await {
                let way = outline.judge(&stored, by, reuse);
                match way {
                    StoredUse::Not => {}
                    StoredUse::Fork => forked = true,
                    StoredUse::Continue { .. } | StoredUse::Rebuild => {
                        let Some(claim) = self.claim_stored(&stored.id, outline).await else {
                            in_use = true;
                            continue;
                        };
                        let parts = (claim.named(name.take()), session);
                        if let Some(origin) = self.take_up(stored, way, outline, parts).await {
                            return Ok(origin);
                        }
                    }
                }
            }
        }
        // A history that began like a stored one but matches none was edited.
        if outline.said.has_past && !(forked || in_use) {
            let began = self.store.has_opening(outline.scope(), outline.opening);
            forked = known(began).await.unwrap_or_default();
        }
        let has_history = outline.said.has_past || outline.results.is_some();
        let matched = match (forked, has_history) {
            (true, _) => SessionMatch::Forked,
            (false, true) => SessionMatch::Rebuilt,
            (false, false) => SessionMatch::New,
        };
        let claim = self.claim_unstored(outline, has_history).await.named(name);
        let writer = ConversationWriter::new(&self.store, claim, session, outline, None);
        Ok(Origin { writer, kept: None, matched })
    }

    /// Stored conversations that the request may continue, the likeliest first.
    async fn candidates(&self, by: FoundBy, outline: &RequestOutline) -> Vec<StoredConversation> {
        let (scope, has_past) = (outline.scope(), outline.said.has_past);
        let name = outline.name().unwrap_or_default();
        match by {
            FoundBy::Session => {
                let Some(results) = &outline.results else { return Vec::new() };
                let found = known(self.store.by_session(scope, results.session)).await;
                found.flatten().into_iter().collect()
            }
            FoundBy::Marker => {
                let found = known(self.store.by_name(scope, name, None)).await;
                newest(found.unwrap_or_default(), has_past)
            }
            // Programs that send this header ask for titles and summaries under it, one
            // independent of the other.
            FoundBy::Header
                if outline.name_source() == Some(NameSource::Affinity)
                    && !(has_past || outline.has_tools) =>
            {
                Vec::new()
            }
            FoundBy::Header => {
                let setup = Some(outline.identity.setup);
                let found = known(self.store.by_name(scope, name, setup)).await;
                newest(found.unwrap_or_default(), has_past)
            }
            FoundBy::Past if has_past => {
                known(self.store.by_fingerprint(scope, outline.past)).await.unwrap_or_default()
            }
            FoundBy::Past => Vec::new(),
        }
    }

    /// Claims a stored conversation, unless a turn has it.
    pub(super) async fn claim_stored(
        &self,
        id: &str,
        outline: &RequestOutline,
    ) -> Option<ConversationClaim> {
        let scope = outline.scope();
        let mut claim = self.conversations.claim_soon(scope, id).await;
        if claim.is_none()
            && outline.results.is_none()
            && let Some(live) = self.hub.registry.parked_as(scope, id)
            // With its whole past, another model's request can run elsewhere.
            && (*live.identity == outline.identity || !outline.said.has_past)
        {
            // It waits for results, and the client continued without them.
            end(&live).await;
            claim = self.conversations.claim_soon(scope, id).await;
        }
        claim
    }

    /// Continues a stored conversation. `None`: the store cannot be read.
    async fn take_up(
        &self,
        stored: StoredConversation,
        way: StoredUse,
        outline: &RequestOutline,
        (claim, session): (ConversationClaim, SessionId),
    ) -> Option<Origin> {
        let (store, scope) = (&self.store, outline.scope());
        let mut writer = ConversationWriter::new(store, claim, session, outline, Some(&stored));
        let kept = match (way, stored.checkpoint) {
            (StoredUse::Continue { covers, new_setup }, Some(checkpoint)) => {
                let blobs = known(self.store.blobs(scope, &stored.id)).await?;
                writer.base = Some(checkpoint.clone());
                Some(StoredState { checkpoint, blobs, covers, calls: stored.calls, new_setup })
            }
            _ => None,
        };
        let matched = if kept.is_some() { SessionMatch::Continued } else { SessionMatch::Rebuilt };
        Some(Origin { writer, kept, matched })
    }

    /// Claims a conversation that is not stored: with a history the id that this history always
    /// gets, unless a turn has it, else a new one.
    async fn claim_unstored(
        &self,
        outline: &RequestOutline,
        has_history: bool,
    ) -> ConversationClaim {
        if has_history {
            let id = self.conversations.current(outline.content_id());
            if let Some(claim) = self.conversations.claim_soon(outline.scope(), &id).await {
                return claim;
            }
        }
        loop {
            let id = uuid_from_random(random::bytes());
            if let Some(claim) = self.conversations.claim(outline.scope(), &id) {
                return claim;
            }
        }
    }
}

fn new_session() -> SessionId {
    SessionId::from_random(random::bytes())
}

/// Of the conversations of a name, those that a request may continue. One without a past continues
/// the newest: while a turn has that one, an older one would be the wrong one.
pub(super) fn newest(
    mut found: Vec<StoredConversation>,
    has_past: bool,
) -> Vec<StoredConversation> {
    if !has_past {
        found.retain(|stored| stored.checkpoint.is_some());
        found.truncate(1);
    }
    found
}
