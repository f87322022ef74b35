//! From a client's request to the turn that answers it.

use std::sync::Arc;

use ibeam_core::{
    agent::{BlobLimits, ModelPick, Plan, Turn},
    error::{ErrorCode, TurnError},
    model::{Item, Millis, Part, TurnRequest, ids::SessionId},
    models::{Family, ModelInfo, ModelList, Resolved},
};
use sha2::{Digest as _, Sha256};
use tokio::{
    sync::OwnedSemaphorePermit,
    time::{Instant, timeout_at},
};
use tracing::debug;

use super::{
    App,
    build::turn_settings,
    settle::{Again, Case, Origin, Settled},
};
use crate::{
    api::RequestMeta,
    random,
    session::{Actor, Ask, Identity, Keeper, Keeping, Outline, TurnStream},
    store::Scope,
};

impl App {
    /// Starts the turn of a request, or finds the one that it belongs to.
    ///
    /// # Errors
    /// The request cannot be served at all: the model is unknown, nobody is signed
    /// in, or there are too many turns already.
    pub async fn start(
        &self,
        request: TurnRequest,
        meta: &RequestMeta,
    ) -> Result<TurnStream, TurnError> {
        let asked = Instant::now();
        let resolved = self.resolve(&request).await?;
        // Before anything is looked up: the account decides what belongs to whom.
        self.hub.tokens.current().await?;
        see_images(&request, &resolved)?;

        let scope = self.scope(&meta.caller);
        let family =
            resolved.info.as_ref().map_or_else(|| Family::of(&resolved.wire_id), ModelInfo::family);
        let model = ModelPick {
            id: resolved.wire_id,
            parameters: resolved.parameters,
            max_mode: resolved.max_mode,
        };
        let outline = Outline::of(&request);
        let identity = Identity { scope, setup: outline.setup, model };
        let until = Instant::now() + self.config.clocks.queue;
        let case = Case { scope, outline, identity, affinity: meta.affinity, asked, until };

        let ticket = match self.again(&case, meta, &request).await? {
            Again::Stream(stream) => return Ok(stream),
            Again::Never(ticket) => ticket,
        };
        let (ask, origin) = match self.settle(request, ticket, &case).await? {
            Settled::Stream(stream) => return Ok(stream),
            Settled::Start(start) => *start,
        };
        let (Ask { request, permit, ticket }, Origin { id, claim, kept, before }) = (ask, origin);
        debug!(conversation = %id, model = %case.identity.model.id, "starting a turn");
        let session = SessionId::from_random(random::bytes());
        let keeping = Keeping {
            store: self.store.clone(),
            conversations: Arc::clone(&self.conversations),
            scope,
            session,
            setup: case.outline.setup,
            claim,
            id: id.clone(),
            before,
        };
        let keeper = Keeper::new(keeping, &request);
        let plan = Plan {
            model: case.identity.model.clone(),
            conversation_id: id,
            session,
            surroundings: self.surroundings.of(&request, &case.outline.setup),
            limits: BlobLimits {
                count: self.config.limits.blobs,
                blob_bytes: self.config.limits.blob_size,
                total_bytes: self.config.limits.blob_bytes,
            },
            kept,
        };
        let settings = turn_settings(&self.config);
        let actor = Actor {
            turn: Turn::new(request, plan, settings, random::bytes(), Millis(0)),
            session,
            identity: case.identity,
            family,
            keeper,
            ticket,
            asked,
            permit,
        };
        Ok(actor.start(&self.hub))
    }

    /// Whom turns and conversations of this caller belong to.
    fn scope(&self, caller: &[u8; 32]) -> Scope {
        let mut hash = Sha256::new_with_prefix(b"scope");
        let account = self.hub.tokens.account();
        let config = &self.config;
        let host = config.api.authority.as_str();
        for part in [self.backend, host, config.profile.as_str(), account.as_str()] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        hash.update(caller);
        hash.finalize().into()
    }
}

// === what every request needs ===

impl App {
    /// Unknown models are refused before anything else, as long as there is a list
    /// to know them by.
    async fn resolve(&self, request: &TurnRequest) -> Result<Resolved, TurnError> {
        let effort = request.sampling.effort;
        match self.catalog.resolve(&request.model, effort).await {
            Err(error) if error.code != ErrorCode::ModelNotFound => {
                self.hub.tokens.current().await?;
                // `auto` needs no list: the backend picks.
                ModelList::default()
                    .resolve_with(&request.model, effort, self.config.models.unknown)
                    .map_err(|_| error)
            }
            resolved => resolved,
        }
    }

    /// A place among the running turns, waiting for one if need be.
    pub(super) async fn permit(&self, until: Instant) -> Result<OwnedSemaphorePermit, TurnError> {
        if let Ok(permit) = Arc::clone(&self.hub.turns).try_acquire_owned() {
            return Ok(permit);
        }
        let _place = self.queue.try_acquire().map_err(|_| self.busy())?;
        let waiting = Arc::clone(&self.hub.turns).acquire_owned();
        match timeout_at(until, waiting).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) | Err(_) => Err(self.busy()),
        }
    }

    pub(super) fn busy(&self) -> TurnError {
        let text = format!(
            "All {} turns are in use. Try again shortly, or raise `limits.turns`.",
            self.config.limits.turns
        );
        TurnError::new(ErrorCode::Overloaded, text)
    }
}

/// A model that cannot see must not be asked to look.
fn see_images(request: &TurnRequest, resolved: &Resolved) -> Result<(), TurnError> {
    let Some(Item::Message(last)) = request.items.last() else { return Ok(()) };
    let shows = last.parts.iter().any(|part| matches!(part, Part::Image(_)));
    match &resolved.info {
        Some(info) if shows && !info.images => {
            let text = format!(
                "The model `{}` takes no images. `ibeam models` shows which ones do.",
                request.model
            );
            Err(TurnError::new(ErrorCode::InvalidValue, text).param("messages"))
        }
        _ => Ok(()),
    }
}
