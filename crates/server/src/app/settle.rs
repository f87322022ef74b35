//! Where a request belongs: to an answer that somebody asked for before, to a turn that
//! waits for it, to a conversation that is known, or to none.

use ibeam_core::{
    controls::Controls,
    error::{ErrorCode, TurnError},
    model::{
        Dialect, TurnRequest,
        ids::{SessionId, uuid_from_random},
    },
    peer::Kept,
};
use tokio::{
    sync::oneshot,
    time::{Instant, timeout, timeout_at},
};
use tracing::warn;

use super::{App, start::conversation_field};
use crate::{
    api::{NamedBy, RequestMeta},
    limits::Seeker,
    random,
    session::{
        Ask, Attached, By, Claim, Ending, Found, Heirloom, Identity, LegKey, Live, Matched, Names,
        Outline, Probe, Resume, RetryClaim, STORE_PATIENCE, Ticket, Told, TurnStream, Use, Visit,
        body_key, calls_in, idempotency_key,
    },
    store::{Conversation, Scope, StoreError},
};

/// Where the conversation of a new turn comes from.
pub(super) struct Origin {
    pub(super) id: String,
    pub(super) claim: Claim,
    pub(super) kept: Option<Kept>,
    pub(super) before: Option<Heirloom>,
    pub(super) matched: Matched,
}

/// What is known about a request once it was looked at.
pub(super) struct Case {
    pub(super) scope: Scope,
    pub(super) seeker: Seeker,
    pub(super) outline: Outline,
    pub(super) identity: Identity,
    /// Names the leg that its results begin, if it has any.
    pub(super) results_key: Option<LegKey>,
    /// The ids of calls that it has results for and does not have itself.
    pub(super) missing_calls: Vec<String>,
    /// What names its conversation.
    pub(super) named_by: Option<NamedBy>,
    pub(super) retry: RetryClaim,
    pub(super) asked: Instant,
    /// How long it may wait for others.
    pub(super) until: Instant,
}

/// What comes of looking for a request that came before.
pub(super) enum Again {
    Stream(TurnStream),
    /// There was none. From now on others find this one.
    Never(Ticket),
}

/// What comes of looking for where a request belongs.
pub(super) enum Settled {
    Stream(TurnStream),
    Start(Box<(Ask, Origin)>),
}

// === a request that came before ===

impl App {
    /// A retry gets the answer that was asked for the first time, and so do results that
    /// came before. A copy that is still on its way to its turn is waited for.
    pub(super) async fn again(&self, case: &Case, meta: &RequestMeta) -> Result<Again, TurnError> {
        let (names, probes) = names(case, meta);
        // It may finish while we ask; then it is found finished.
        let mut tries = 2;
        while tries > 0 {
            match self.hub.legs.find_or_reserve(&probes, &names) {
                Err(ticket) => return Ok(Again::Never(ticket)),
                Ok(Found::Coming(first)) => {
                    timeout_at(case.until, first.over()).await.map_err(|_elapsed| self.busy())?;
                }
                Ok(Found::Finished(record)) => {
                    self.hub.registry.count(|fates| fates.note(Matched::Replayed));
                    return Ok(Again::Stream(TurnStream::replay(record)));
                }
                Ok(Found::Running { mailbox, number }) => {
                    tries -= 1;
                    let (reply, answer) = oneshot::channel();
                    // A turn that has just ended takes no visits; then nobody answers.
                    let _ = mailbox.send(Visit::Attach { leg: number, reply }).await;
                    match answer.await {
                        Ok(Attached::Stream(stream)) => return Ok(Again::Stream(stream)),
                        Ok(Attached::Full) => {
                            let text = "Too many requests are attached to this answer.";
                            return Err(TurnError::new(ErrorCode::Overloaded, text));
                        }
                        Ok(Attached::Over) | Err(_) => {}
                    }
                }
            }
        }
        Ok(Again::Never(self.hub.legs.reserve(names)))
    }
}

/// What the request can be asked for by, and by what it asks for others.
fn names(case: &Case, meta: &RequestMeta) -> (Names, Vec<Probe>) {
    let (mut keys, mut probes) = (Vec::new(), Vec::new());
    if let Some(key) = &meta.idempotency_key {
        let key = idempotency_key(case.scope, key);
        keys.push(key);
        probes.push(Probe { key, body: Some(meta.body) });
    }
    let same_body = body_key(case.scope, &meta.body);
    keys.push(same_body);
    // Two equal requests are two turns, unless one says that it is the other.
    if meta.retry_count > 0 {
        probes.push(Probe { key: same_body, body: None });
    }
    if let Some(key) = case.results_key {
        keys.push(key);
        probes.push(Probe { key, body: None });
    }
    (Names { keys, body: meta.body }, probes)
}

// === a request that goes on with something ===

impl App {
    pub(super) async fn settle(
        &self,
        request: TurnRequest,
        told: Told,
        ticket: Ticket,
        controls: Option<Box<Controls>>,
        case: &Case,
    ) -> Result<Settled, TurnError> {
        self.check_results(&request, case).await?;
        let place = self.place(case).await?;
        self.supersede(&request, case).await;
        let mut ask = Ask { request, told, place, ticket, controls, retry: case.retry };
        let mut forked = false;
        if let Some(results) = &case.outline.results
            && let Some(live) = self.hub.registry.find(results.session, case.scope)
        {
            forked = *live.identity != case.identity;
            if !forked {
                ask = match visit(&live, ask, case.asked).await? {
                    Ok(stream) => return Ok(Settled::Stream(stream)),
                    Err(ask) => ask,
                };
            }
        }
        let origin = self.origin(&ask.request, case, forked).await;
        Ok(Settled::Start(Box::new((ask, origin))))
    }

    /// Whether a turn waits for what the request brings, here or in the store.
    pub(super) async fn is_awaited(&self, case: &Case) -> bool {
        match &case.outline.results {
            Some(results) => self.knows(results.session, case.scope).await.unwrap_or(false),
            None => false,
        }
    }

    /// Whether the calls of that session are known, here or in the store. `None`: the store
    /// cannot say.
    async fn knows(&self, session: SessionId, scope: Scope) -> Option<bool> {
        if self.hub.registry.find(session, scope).is_some() {
            return Some(true);
        }
        Some(known(self.store.by_session(scope, session)).await?.is_some())
    }

    /// Refuses results whose call neither the request nor a known session has: the model
    /// would not know what they answer.
    async fn check_results(&self, request: &TurnRequest, case: &Case) -> Result<(), TurnError> {
        let reuse = self.config.sessions.reuse && !request.hints.fresh;
        // Each session is looked up once, however many of its calls are answered.
        let mut found = Vec::new();
        for id in &case.missing_calls {
            let Some((session, _)) = SessionId::of_call(id).filter(|_| reuse) else {
                return Err(no_call(id, request.dialect));
            };
            if found.contains(&session) {
                continue;
            }
            match self.knows(session, case.scope).await {
                Some(true) => found.push(session),
                Some(false) => return Err(no_call(id, request.dialect)),
                None => return Err(no_store()),
            }
        }
        Ok(())
    }

    /// Ends parked turns whose calls the client went past. A request with another prompt,
    /// other tools or another model (for a title, say) goes beside them and not past.
    async fn supersede(&self, request: &TurnRequest, case: &Case) {
        let wanted = case.outline.results.as_ref().map(|results| results.session);
        let past_calls = calls_in(&request.items).filter(|(session, _)| Some(*session) != wanted);
        for live in self.hub.registry.waiting_for(case.scope, past_calls) {
            if *live.identity == case.identity {
                end(&live).await;
            }
        }
    }

    /// The conversation for a new turn.
    async fn origin(&self, request: &TurnRequest, case: &Case, mut forked: bool) -> Origin {
        let Case { scope, outline, .. } = case;
        let reuse = self.config.sessions.reuse && !request.hints.fresh;
        let ways: &[By] = match (&outline.results, case.named_by) {
            _ if forked => &[],
            (Some(_), _) => &[By::Session],
            (None, None) => &[By::Past],
            (None, Some(NamedBy::Marker)) => &[By::Marker, By::Past],
            (None, Some(NamedBy::SessionId | NamedBy::Affinity)) => &[By::Header, By::Past],
        };
        for by in ways.iter().copied() {
            for stored in self.candidates(by, request, case).await {
                let way = outline.judge(&stored, by, reuse);
                match way {
                    Use::Not => {}
                    Use::Fork => forked = true,
                    Use::Continue { .. } | Use::Rebuild => {
                        if let Some(origin) = self.take_up(stored, way, case).await {
                            return origin;
                        }
                    }
                }
            }
        }
        let has_history = outline.has_past || outline.results.is_some();
        let matched = match (forked, has_history) {
            (true, _) => Matched::Forked,
            (false, true) => Matched::Rebuilt,
            (false, false) => Matched::New,
        };
        if has_history {
            let id = self.conversations.current(outline.content_id(*scope));
            if let Some(claim) = self.conversations.claim_soon(*scope, &id).await {
                return Origin { id, claim, kept: None, before: None, matched };
            }
        }
        loop {
            let id = uuid_from_random(random::bytes());
            if let Some(claim) = self.conversations.claim(*scope, &id) {
                return Origin { id, claim, kept: None, before: None, matched };
            }
        }
    }

    /// Conversations that the request may go on with, the likeliest first.
    async fn candidates(&self, by: By, request: &TurnRequest, case: &Case) -> Vec<Conversation> {
        let (scope, outline) = (case.scope, &case.outline);
        match by {
            By::Session => {
                let Some(results) = &outline.results else { return Vec::new() };
                let found = known(self.store.by_session(scope, results.session)).await;
                found.flatten().into_iter().collect()
            }
            By::Marker => {
                let Some(name) = &request.hints.session else { return Vec::new() };
                let found = known(self.store.by_name(scope, name, None)).await;
                newest(found.unwrap_or_default(), outline.has_past)
            }
            By::Header => {
                let Some(name) = &request.hints.session else { return Vec::new() };
                // Programs that send this header ask for titles and summaries under it, one
                // independent of the other.
                let affinity = case.named_by == Some(NamedBy::Affinity);
                if affinity && !outline.has_past && request.tools.is_empty() {
                    return Vec::new();
                }
                let setup = Some(outline.setup);
                let found = known(self.store.by_name(scope, name, setup)).await;
                newest(found.unwrap_or_default(), outline.has_past)
            }
            By::Past if outline.has_past => {
                known(self.store.by_fingerprint(scope, outline.past())).await.unwrap_or_default()
            }
            By::Past => Vec::new(),
        }
    }

    /// Goes on with a stored conversation, unless a turn has it.
    async fn take_up(&self, stored: Conversation, way: Use, case: &Case) -> Option<Origin> {
        let mut claim = self.conversations.claim_soon(case.scope, &stored.id).await;
        if claim.is_none()
            && case.outline.results.is_none()
            && let Some(live) = self.hub.registry.parked_as(case.scope, &stored.id)
            // With its whole past, another model's request can run elsewhere.
            && (*live.identity == case.identity || !case.outline.has_past)
        {
            // It waits for results, and the client went on without.
            end(&live).await;
            claim = self.conversations.claim_soon(case.scope, &stored.id).await;
        }
        let claim = claim?;
        let Conversation { id, name, fingerprint, .. } = stored;
        let kept = match (way, stored.checkpoint) {
            (Use::Continue { covers, new_setup }, Some(checkpoint)) => {
                let blobs = known(self.store.blobs(case.scope, &id)).await?;
                Some(Kept { checkpoint, blobs, covers, calls: stored.calls, new_setup })
            }
            _ => None,
        };
        let matched = if kept.is_some() { Matched::Continued } else { Matched::Rebuilt };
        let base = kept.as_ref().map(|kept| kept.checkpoint.clone());
        let before = Some(Heirloom { name, fingerprint, base });
        Some(Origin { id, claim, kept, before, matched })
    }
}

/// Brings a request to the turn that may wait for it. Gives it back if it does not.
async fn visit(
    live: &Live,
    ask: Ask,
    asked: Instant,
) -> Result<Result<TurnStream, Ask>, TurnError> {
    let (reply, answer) = oneshot::channel();
    let resume = Resume { ask, asked, reply };
    if let Err(refused) = live.mailbox.send(Visit::Resume(Box::new(resume))).await {
        return match refused.0 {
            Visit::Resume(resume) => Ok(Err(resume.ask)),
            Visit::Attach { .. } | Visit::End { .. } => Err(lost()),
        };
    }
    match answer.await {
        Ok(Ok(stream)) => Ok(Ok(stream)),
        Ok(Err(ask)) => Ok(Err(*ask)),
        Err(_) => Err(lost()),
    }
}

/// Ends a parked turn and waits until its conversation is free.
async fn end(live: &Live) {
    let (done, ended) = oneshot::channel();
    let visit = Visit::End { why: Ending::Superseded, done: Some(done) };
    if live.mailbox.send(visit).await.is_ok() {
        let _ = ended.await;
    }
}

/// The id of a call for a message. It is the client's, and may be of any length.
pub(super) fn shown_id(id: &str) -> String {
    const SHOWN: usize = 80;
    id.chars().filter(|c| !c.is_control()).take(SHOWN).collect()
}

fn no_call(id: &str, dialect: Dialect) -> TurnError {
    let shown = shown_id(id);
    let text = format!(
        "the tool result for `{shown}` has no matching tool call in this request or in a known \
         session. Send the call before its result."
    );
    TurnError::new(ErrorCode::InvalidValue, text).param(conversation_field(dialect))
}

/// A retry may find it.
fn no_store() -> TurnError {
    let text =
        "the session store does not answer, so these tool results cannot be matched; try again";
    TurnError::new(ErrorCode::Unavailable, text)
}

/// Of the conversations of a name, those that a request may continue. One without a past continues
/// the newest: while a turn has that one, an older one would be the wrong one.
fn newest(mut found: Vec<Conversation>, has_past: bool) -> Vec<Conversation> {
    if !has_past {
        found.retain(|stored| stored.checkpoint.is_some());
        found.truncate(1);
    }
    found
}

fn lost() -> TurnError {
    let text = "The parked turn for these tool results was lost. Send the request again.";
    TurnError::new(ErrorCode::Unavailable, text)
}

/// What the store knows. If it cannot say in time, that is nothing.
async fn known<T>(asked: impl Future<Output = Result<T, StoreError>>) -> Option<T> {
    match timeout(STORE_PATIENCE, asked).await {
        Ok(Ok(found)) => Some(found),
        Ok(Err(error)) => {
            warn!(%error, "the store cannot be read; rebuilding the conversation from the request");
            None
        }
        Err(_elapsed) => {
            warn!("the store is slow; rebuilding the conversation from the request");
            None
        }
    }
}
