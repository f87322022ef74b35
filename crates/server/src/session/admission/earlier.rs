//! Retries: the leg of an earlier copy of a request, which is attached to or replayed.

use std::ops::ControlFlow::{self, Break, Continue};

use ibeam_core::error::{ErrorCode, TurnError};
use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};

use super::{
    Admission, RequestContext, RequestOutline, Route,
    outline::{body_key, idempotency_key},
};
use crate::session::{
    SessionMatch, TurnStream,
    leg_index::{FoundLeg, LegEntry, LegKeys, LegQuery},
    visit::{Attached, Visit},
};

impl Admission {
    /// A retry gets the answer of the first request, and so do results that were sent before. A
    /// copy that is still on its way to its turn is waited for. If there is no earlier copy, the
    /// request gets an entry under which later ones find it.
    pub(super) async fn earlier_leg(
        &self,
        outline: &RequestOutline,
        context: &RequestContext,
        deadline: Instant,
    ) -> Result<ControlFlow<Route, LegEntry>, TurnError> {
        let (keys, queries) = leg_keys(outline, context);
        // It may finish while we ask; then it is found finished.
        let mut tries = 2;
        while tries > 0 {
            match self.hub.leg_index.find_or_reserve(&queries, &keys) {
                Err(leg_entry) => return Ok(Continue(leg_entry)),
                Ok(FoundLeg::Coming(mut first)) => {
                    let waited = timeout_at(deadline, first.changed()).await;
                    let _ = waited.map_err(|_elapsed| self.busy())?;
                }
                Ok(FoundLeg::Finished(record)) => {
                    self.hub.registry.count(|fates| fates.note(SessionMatch::Replayed));
                    return Ok(Break(Route::Replay(TurnStream::replay(record))));
                }
                Ok(FoundLeg::Running { mailbox, number }) => {
                    tries -= 1;
                    let (reply, answer) = oneshot::channel();
                    // A turn that has just ended takes no message and drops the reply.
                    let _ = mailbox.send(Visit::Attach { leg: number, reply }).await;
                    match answer.await {
                        Ok(Attached::Stream(stream)) => return Ok(Break(Route::Attach(stream))),
                        Ok(Attached::Full) => {
                            let text = "Too many requests read this answer already.";
                            return Err(TurnError::new(ErrorCode::Overloaded, text));
                        }
                        Ok(Attached::Over) | Err(_) => {}
                    }
                }
            }
        }
        Ok(Continue(self.hub.leg_index.reserve(keys)))
    }
}

/// The keys under which later requests find this one, and those for which it looks.
fn leg_keys(outline: &RequestOutline, context: &RequestContext) -> (LegKeys, Vec<LegQuery>) {
    let (mut keys, mut queries) = (Vec::new(), Vec::new());
    if let Some(key) = &context.idempotency_key {
        let key = idempotency_key(outline.scope(), key);
        keys.push(key);
        queries.push(LegQuery { key, body: Some(context.body) });
    }
    let same_body = body_key(outline.scope(), &context.body);
    keys.push(same_body);
    // Two equal requests are two turns, unless one is marked as a retry.
    if context.retry_count > 0 {
        queries.push(LegQuery { key: same_body, body: None });
    }
    if let Some(key) = outline.results_key {
        keys.push(key);
        queries.push(LegQuery { key, body: None });
    }
    (LegKeys { keys, body: context.body }, queries)
}
