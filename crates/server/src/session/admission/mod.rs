//! Admission: which leg answers a request. [`Admission::route`] reads from top to bottom.

mod context;
mod earlier;
mod named;
mod origin;
mod outline;
mod permit;

use std::{
    borrow::Cow,
    collections::{HashMap, hash_map::Entry},
    ops::ControlFlow::{self, Break, Continue},
    sync::Arc,
    time::Duration,
};

use ibeam_core::{
    controls::Controls,
    error::{ErrorCode, TurnError},
    model::{Dialect, TurnRequest, ids::SessionId},
};
use tokio::{
    sync::oneshot,
    time::{Instant, timeout},
};
use tracing::warn;

pub use self::context::{NameSource, RequestContext, SessionName};
pub(crate) use self::{
    origin::Origin,
    outline::{RequestOutline, SaidInRequest, hashed},
};
use super::{
    Conversations, Hub, TurnStream,
    parked::LiveTurn,
    retries::{RetryClaim, RetryKey},
    visit::{LegRequest, ParkedEnding, Resume, Visit},
};
use crate::{
    config::Config,
    store::{Scope, Store, StoreError},
};

/// A store that takes longer does not delay an answer.
pub(crate) const STORE_PATIENCE: Duration = Duration::from_secs(2);

/// Where a request goes.
pub(crate) enum Route {
    /// A finished leg, sent again.
    Replay(TurnStream),
    /// A leg that runs.
    Attach(TurnStream),
    /// The next leg of a parked turn.
    Resume(TurnStream),
    /// The first leg of a new turn.
    Start(Box<(LegRequest, Origin)>),
}

/// Decides the route of each request.
#[derive(Debug)]
pub(crate) struct Admission {
    pub(crate) config: Arc<Config>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) store: Store,
    pub(crate) conversations: Arc<Conversations>,
}

impl Admission {
    /// Finds the leg that answers a request. `received`: when the request came.
    ///
    /// # Errors
    /// It brings results of unknown calls, or there is no permit.
    pub(crate) async fn route(
        &self,
        request: TurnRequest,
        outline: &RequestOutline,
        controls: Option<Box<Controls>>,
        context: &RequestContext,
        received: Instant,
    ) -> Result<Route, TurnError> {
        let deadline = Instant::now() + self.config.clocks.queue;
        let leg_entry = match self.earlier_leg(outline, context, deadline).await? {
            Break(route) => return Ok(route),
            Continue(leg_entry) => leg_entry,
        };
        let reuse = self.config.sessions.reuse && !context.fresh;
        self.check_results(outline, reuse, request.dialect).await?;
        let permit = self.permit(outline, &context.caller, deadline).await?;
        self.end_superseded(&request, outline).await;

        let (key, by_client) = (RetryKey::new(outline), context.retry_count > 0);
        let (retry, said) = (RetryClaim { key, by_client }, outline.said.clone());
        let leg = LegRequest { request, said, permit, leg_entry, controls, retry };
        let (leg, forked) = match self.resume_parked(leg, outline, received).await? {
            Break(stream) => return Ok(Route::Resume(stream)),
            Continue(not_resumed) => not_resumed,
        };
        let origin = self.origin(outline, reuse, forked, deadline).await?;
        self.hub.registry.count(|fates| fates.note(origin.matched));
        Ok(Route::Start(Box::new((leg, origin))))
    }

    /// Refuses results whose call neither the request nor a known session has ever had: the model
    /// would not know what they answer.
    async fn check_results(
        &self,
        outline: &RequestOutline,
        reuse: bool,
        dialect: Dialect,
    ) -> Result<(), TurnError> {
        // Each session is looked up once, however many of its calls are answered.
        let mut found = HashMap::new();
        for id in &outline.missing_calls {
            let Some((session, number)) = SessionId::of_call(id).filter(|_| reuse) else {
                return Err(no_call(id, dialect));
            };
            let highest = match found.entry(session) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(place) => {
                    let calls = self.calls_of(session, outline.scope()).await;
                    *place.insert(calls.ok_or_else(no_store)?)
                }
            };
            if number == 0 || highest.is_none_or(|highest| number > highest) {
                return Err(no_call(id, dialect));
            }
        }
        Ok(())
    }

    /// Ends parked turns whose conversation continued without their calls. A request with another
    /// prompt, other tools or another model (for a title, say) leaves them parked.
    async fn end_superseded(&self, request: &TurnRequest, outline: &RequestOutline) {
        let wanted = outline.results.as_ref().map(|results| results.session);
        let calls = outline::calls_in(&request.items);
        let past_calls = calls.filter(|(session, _)| Some(*session) != wanted);
        for live in self.hub.registry.waiting_for(outline.scope(), past_calls) {
            if *live.identity == outline.identity {
                end(&live).await;
            }
        }
    }

    /// Brings results to the turn that is parked for them. Otherwise gives the request back, and
    /// whether that turn has another prompt, other tools or another model.
    async fn resume_parked(
        &self,
        leg: LegRequest,
        outline: &RequestOutline,
        received: Instant,
    ) -> Result<ControlFlow<TurnStream, (LegRequest, bool)>, TurnError> {
        let session = outline.results.as_ref().map(|results| results.session);
        let live = session.and_then(|session| self.hub.registry.find(session, outline.scope()));
        let Some(live) = live else { return Ok(Continue((leg, false))) };
        if *live.identity != outline.identity {
            return Ok(Continue((leg, true)));
        }
        let (reply, answer) = oneshot::channel();
        let resume = Resume { leg, asked: received, reply };
        if let Err(refused) = live.mailbox.send(Visit::Resume(Box::new(resume))).await {
            return match refused.0 {
                Visit::Resume(resume) => Ok(Continue((resume.leg, false))),
                Visit::Attach { .. } | Visit::End { .. } | Visit::Yield { .. } => Err(lost()),
            };
        }
        match answer.await {
            Ok(Ok(stream)) => Ok(Break(stream)),
            Ok(Err(leg)) => Ok(Continue((*leg, false))),
            Err(_) => Err(lost()),
        }
    }

    /// Whether the calls of that session are known, here or in the store. `None`: the store did not
    /// answer.
    async fn knows(&self, session: SessionId, scope: Scope) -> Option<bool> {
        Some(self.calls_of(session, scope).await?.is_some())
    }

    /// The highest number of a call of that session, if the session is known. `None`: the store
    /// cannot say.
    async fn calls_of(&self, session: SessionId, scope: Scope) -> Option<Option<u32>> {
        if let Some(highest) = self.hub.registry.highest_call(session, scope) {
            return Some(Some(highest));
        }
        let stored = known(self.store.by_session(scope, session)).await;
        // A turn that runs may not be stored. What older versions stored has no number.
        let runs = || self.hub.registry.find(session, scope).is_some();
        match stored {
            Some(Some(stored)) => Some(Some(stored.highest_call.unwrap_or(u32::MAX))),
            _ if runs() => Some(Some(u32::MAX)),
            Some(None) => Some(None),
            None => None,
        }
    }
}

/// Ends a parked turn and waits until its conversation is free.
async fn end(live: &LiveTurn) {
    let (done, ended) = oneshot::channel();
    let visit = Visit::End { why: ParkedEnding::Superseded, done: Some(done) };
    if live.mailbox.send(visit).await.is_ok() {
        let _ = ended.await;
    }
}

/// What the store knows. A store that does not answer in time counts as empty.
async fn known<T>(asked: impl Future<Output = Result<T, StoreError>>) -> Option<T> {
    match timeout(STORE_PATIENCE, asked).await {
        Ok(Ok(found)) => Some(found),
        Ok(Err(error)) => {
            warn!(%error, "the store cannot be read; rebuilding the conversation from the request");
            None
        }
        Err(_elapsed) => {
            warn!("the store takes too long; rebuilding the conversation from the request");
            None
        }
    }
}

/// Refuses the conversation of a request, and names the field.
pub(crate) fn refusal(
    code: ErrorCode,
    text: impl Into<Cow<'static, str>>,
    dialect: Dialect,
) -> TurnError {
    let field = match dialect {
        Dialect::Chat | Dialect::Messages => "messages",
        Dialect::Responses => "input",
        Dialect::Completions => "prompt",
    };
    TurnError::new(code, text).param(field)
}

/// The id of a call for a message. It is the client's, and may be of any length.
pub(crate) fn shown_id(id: &str) -> String {
    const SHOWN: usize = 80;
    id.chars().filter(|c| !c.is_control()).take(SHOWN).collect()
}

fn no_call(id: &str, dialect: Dialect) -> TurnError {
    let shown = shown_id(id);
    let text = format!(
        "the tool result for `{shown}` has no matching tool call in this request or in a known \
         session. Send the call before its result."
    );
    refusal(ErrorCode::InvalidValue, text, dialect)
}

fn no_store() -> TurnError {
    let text = "the session store does not answer, so the conversation of this request cannot be found; try \
         again";
    TurnError::new(ErrorCode::Unavailable, text)
}

fn lost() -> TurnError {
    let text = "The turn that waited for these results was lost. Send the request again.";
    TurnError::new(ErrorCode::Unavailable, text)
}
