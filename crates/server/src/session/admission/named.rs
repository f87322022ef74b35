//! Conversations that a client means by their name: a request with only new messages continues what
//! is kept, and waits for the turn that has it.

use std::time::Duration;

use ibeam_core::{
    error::{ErrorCode, TurnError},
    model::ids::SessionId,
};
use tokio::{
    sync::oneshot,
    time::{Instant, timeout, timeout_at},
};

use super::{
    Admission, RequestOutline, STORE_PATIENCE, no_store,
    origin::newest,
    outline::{FoundBy, StoredUse},
};
use crate::{
    session::{
        conversations::{ConversationClaim, NameClaim},
        visit::Visit,
    },
    store::StoredConversation,
};

/// A turn that is being started cannot be visited yet; it is looked for again.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

type ClaimedConversation = (StoredConversation, StoredUse, ConversationClaim);

impl Admission {
    /// Claims the name of the conversation for the turn of `session`, if the client chose it. With
    /// a deadline it is waited for; a turn that has it and no reader ends.
    ///
    /// # Errors
    /// It was not free before the deadline.
    pub(super) async fn claim_name(
        &self,
        outline: &RequestOutline,
        session: SessionId,
        deadline: Option<Instant>,
    ) -> Result<Option<NameClaim>, TurnError> {
        let Some(name) = outline.name().filter(|_| outline.has_marker()) else { return Ok(None) };
        let scope = outline.scope();
        // Open while this request waits.
        let mut visited: Option<(SessionId, oneshot::Receiver<()>)> = None;
        loop {
            let freed = self.conversations.freed();
            let holder = match self.conversations.claim_name(scope, name, session) {
                Ok(claim) => return Ok(Some(claim)),
                Err(holder) => holder,
            };
            // A request that has its history needs nothing that is kept.
            let Some(deadline) = deadline else { return Ok(None) };
            let is_visited = visited.as_ref().is_some_and(|(session, _)| *session == holder);
            if !is_visited && let Some(live) = self.hub.registry.find(holder, scope) {
                let (waiting, waits) = oneshot::channel();
                if live.mailbox.try_send(Visit::Yield { waiting }).is_ok() {
                    visited = Some((holder, waits));
                }
            }
            let until = match visited {
                Some(_) => deadline,
                None => deadline.min(Instant::now() + LOOK_AGAIN),
            };
            if timeout_at(until, freed).await.is_err() && Instant::now() >= deadline {
                return Err(in_use());
            }
        }
    }

    /// Claims the newest conversation of the name, for a request that has only new messages.
    ///
    /// # Errors
    /// It was not free before the deadline, or the store cannot be read.
    pub(super) async fn claim_kept(
        &self,
        outline: &RequestOutline,
        deadline: Instant,
    ) -> Result<Option<ClaimedConversation>, TurnError> {
        let name = outline.name().unwrap_or_default();
        loop {
            let freed = self.conversations.freed();
            let asked = self.store.by_name(outline.scope(), name, None);
            let found = timeout(STORE_PATIENCE, asked).await.map_err(|_elapsed| no_store())?;
            let mut found = newest(found.map_err(|_| no_store())?, false);
            let Some(stored) = found.pop() else { return Ok(None) };
            let way = outline.judge(&stored, FoundBy::Marker, true);
            if let Some(claim) = self.claim_stored(&stored.id, outline).await {
                // It may have changed since it was read, if a turn had it then.
                let is_newest = |now: &StoredConversation| *now == stored;
                let asked = self.store.by_name(outline.scope(), name, None);
                let now = timeout(STORE_PATIENCE, asked).await.map_err(|_elapsed| no_store())?;
                let now = newest(now.map_err(|_| no_store())?, false);
                if now.first().is_some_and(is_newest) {
                    return Ok(Some((stored, way, claim)));
                }
                continue;
            }
            // A turn that brought its own history has it.
            if timeout_at(deadline, freed).await.is_err() {
                return Err(in_use());
            }
        }
    }
}

fn in_use() -> TurnError {
    let text = "The turn before this one still runs in the conversation of that name. Send the \
                message again when it has ended.";
    TurnError::new(ErrorCode::Overloaded, text)
}
