//! Background responses: `background` turns, which run in a task of their own
//! and are asked about later, and `POST /v1/responses/{id}/cancel`.

use std::{collections::HashMap, sync::Arc, time::Duration};

use axum::{Extension, extract::State, response::Response};
use bytes::BytesMut;
use ibeam_core::{
    error::{ErrorCode, TurnError},
    limits::has_room,
    model::TurnEvent,
    wire::{Encode as _, responses::ResponsesRequest},
};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{
    kept::{Keeper, Recorder, Wanted, list},
    stored::{self, Id, json, named},
};
use crate::{
    api::{Ctx, Service, Shared, error::Failed, turn::Asked},
    keys::Caller,
    store::Scope,
};

/// Responses in the background at once. Those beyond the number of turns only wait.
const MOST: usize = 256;

/// How long the answer waits for the turn to start. A turn that has to queue starts later.
const START: Duration = Duration::from_secs(2);

/// Those that run.
#[derive(Default)]
pub(in crate::api) struct Background {
    jobs: Mutex<HashMap<String, Arc<Job>>>,
}

struct Job {
    scope: Scope,
    /// What its request said.
    input: Arc<[Box<RawValue>]>,
    recorder: Mutex<Recorder>,
    cancel: CancellationToken,
    /// It has ended, and is kept.
    over: CancellationToken,
}

impl Background {
    fn find(&self, scope: Scope, id: &str) -> Option<Arc<Job>> {
        self.jobs.lock().get(id).filter(|job| job.scope == scope).cloned()
    }

    /// Whether it runs.
    pub(super) fn has(&self, scope: Scope, id: &str) -> bool {
        self.find(scope, id).is_some()
    }

    /// The response as it is now, while it runs.
    pub(super) fn current(&self, scope: Scope, id: &str) -> Option<String> {
        let job = self.find(scope, id)?;
        let current = job.recorder.lock().current();
        Some(current)
    }

    pub(super) fn input(&self, scope: Scope, id: &str) -> Option<String> {
        self.find(scope, id).map(|job| list(&job.input))
    }

    /// Ends one that runs, and waits until it is kept. False: none of that id does.
    pub(super) async fn cancel(&self, scope: Scope, id: &str) -> bool {
        let Some(job) = self.find(scope, id) else { return false };
        job.cancel.cancel();
        job.over.cancelled().await;
        true
    }
}

/// Starts one, and answers with what there is of it: nothing yet.
pub(super) async fn start<S: Service>(
    shared: &Shared<S>,
    mut asked: Asked,
    request: ResponsesRequest,
) -> Result<Response, TurnError> {
    if request.turn.hints.stream {
        let text = "a background response cannot be streamed; leave `stream` out and poll it with \
                    GET";
        return Err(TurnError::new(ErrorCode::UnsupportedParameter, text).param("stream"));
    }
    if !request.store || !shared.service.settings().keep_responses {
        let text = "a background response must be stored: leave `store` out, and set \
                    `responses.retention` above 0";
        return Err(TurnError::new(ErrorCode::InvalidValue, text).param("store"));
    }
    let scope = shared.service.scope(&asked.caller).await?;
    let (keeper, reply, turn) =
        Keeper::new(shared, &asked.caller, request, Wanted::ByStore).await?;
    let job = Arc::new(Job {
        scope,
        input: keeper.items(),
        recorder: Mutex::new(reply.encoder()),
        cancel: CancellationToken::new(),
        over: CancellationToken::new(),
    });
    let running = Running { shared: shared.clone(), id: keeper.id().to_owned(), job };
    running.enter(&asked.caller)?;
    let current = running.job.recorder.lock().current();
    let mut events = asked.start(shared, turn);
    // An invalid request is refused at once.
    if let Ok(started) = timeout(START, events.started()).await {
        started?;
    }
    let run = async move {
        // Their log line is written when the turn is over.
        let _asked = asked;
        running.run(events).await;
        keeper.keep().await;
        drop(running);
    };
    shared.service.tasks().spawn("background response", run);
    Ok(json(current))
}

/// Whether a caller may have one more slot. `taken`: whose the slots are that are in use.
fn check_slots(
    taken: impl Iterator<Item = Scope>,
    own: Scope,
    caller: &Caller,
) -> Result<(), TurnError> {
    let (mut free, mut held) = (MOST, 0);
    for scope in taken {
        free = free.saturating_sub(1);
        held += usize::from(scope == own);
    }
    if has_room(held, free, caller.assured()) {
        return Ok(());
    }
    let text = if free == 0 {
        "too many responses are running in the background; try again shortly"
    } else {
        "this key has used its share of the background slots; the remaining slots are reserved \
         for other keys. Try again shortly"
    };
    Err(TurnError::new(ErrorCode::Overloaded, text))
}

/// One that runs. It is found until this is dropped.
struct Running<S> {
    shared: Shared<S>,
    id: String,
    job: Arc<Job>,
}

impl<S: Service> Running<S> {
    /// Takes a slot.
    fn enter(&self, caller: &Caller) -> Result<(), TurnError> {
        let mut jobs = self.shared.background.jobs.lock();
        check_slots(jobs.values().map(|job| job.scope), self.job.scope, caller)?;
        jobs.insert(self.id.clone(), Arc::clone(&self.job));
        Ok(())
    }

    async fn run(&self, mut events: crate::api::answer::Answer<S::Turn>) {
        let mut unread = BytesMut::new();
        loop {
            let event = tokio::select! {
                biased;
                () = self.job.cancel.cancelled() => {
                    let text = "the response was cancelled";
                    Some(TurnEvent::Failed(TurnError::new(ErrorCode::Cancelled, text)))
                }
                event = events.next() => event,
            };
            let mut recorder = self.job.recorder.lock();
            match event {
                Some(event) => recorder.on_event(&event, &mut unread),
                None => recorder.on_cut(&mut unread),
            }
            unread.clear();
            if recorder.is_ended() {
                return;
            }
        }
    }
}

impl<S> Drop for Running<S> {
    fn drop(&mut self) {
        self.shared.background.jobs.lock().remove(&self.id);
        self.job.over.cancel();
    }
}

pub(in crate::api) async fn cancel<S: Service>(
    State(shared): Ctx<S>,
    Extension(caller): Extension<Caller>,
    id: Id,
) -> Result<Response, Failed> {
    #[derive(Deserialize)]
    struct Head {
        #[serde(default)]
        background: Option<bool>,
    }
    let id = named(id)?;
    let scope = shared.service.scope(&caller).await?;
    let ran = shared.background.cancel(scope, &id).await;
    let found = stored::find(&shared, scope, &id).await?;
    let head: Head = serde_json::from_str(&found.body).unwrap_or(Head { background: None });
    if ran || found.status == "cancelled" {
        return Ok(json(found.body));
    }
    let text = match head.background {
        Some(true) => format!("this response is already {}", found.status),
        Some(false) | None => {
            "only background responses can be cancelled; to cancel another one, close its \
             connection"
                .to_owned()
        }
    };
    Err(TurnError::new(ErrorCode::InvalidValue, text).param("response_id").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many slots a caller gets while other keys hold so many.
    fn slots(others: usize, caller: &Caller) -> usize {
        let mut taken = vec![[9; 32]; others];
        while check_slots(taken.iter().copied(), [1; 32], caller).is_ok() {
            taken.push([1; 32]);
        }
        taken.len() - others
    }

    #[test]
    fn a_key_with_a_limit_of_its_own_is_assured_as_many_background_slots() {
        let alone = Caller::default();
        let shared = Caller { shares: true, ..Caller::default() };
        let limited = |limit| Caller { limit: Some(limit), ..shared.clone() };
        let others = MOST - 4;
        assert_eq!(slots(others, &alone), 4);
        assert_eq!(slots(others, &shared), 3, "one slot is left for other keys");
        assert_eq!(slots(others, &limited(4)), 4);
        assert_eq!(slots(others, &limited(2)), 3, "it may have more, like any key");
        assert_eq!(slots(0, &shared), MOST / 4 * 3, "three quarters");
        assert_eq!(slots(0, &limited(MOST)), MOST);
        assert_eq!(slots(MOST, &limited(4)), 0);
    }
}
