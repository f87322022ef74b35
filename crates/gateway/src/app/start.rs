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
    time::{Instant, timeout},
};
use tracing::debug;

use super::{
    App,
    build::turn_settings,
    settle::{Case, Origin, Settled},
};
use crate::{
    api::RequestMeta,
    random,
    session::{Actor, Ask, Identity, Keeper, Keeping, Names, Outline, TurnStream},
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
        let mut names = Names { keys: Vec::new(), body: meta.body };
        if let Some(stream) = self.again(scope, meta, &mut names).await? {
            return Ok(stream);
        }
        let family =
            resolved.info.as_ref().map_or_else(|| Family::of(&resolved.wire_id), ModelInfo::family);
        let model = ModelPick {
            id: resolved.wire_id,
            parameters: resolved.parameters,
            max_mode: resolved.max_mode,
        };
        let outline = Outline::of(&request);
        let identity = Identity { scope, setup: outline.setup, model };
        names.keys.extend(outline.results_key(scope, &request));
        let case = Case { scope, outline, identity, names, asked };

        let (ask, origin) = match self.settle(request, &case).await? {
            Settled::Stream(stream) => return Ok(stream),
            Settled::Start(start) => *start,
        };
        let (Ask { request, permit }, Origin { id, claim, kept, before }) = (ask, origin);
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
            names: case.names,
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
    pub(super) async fn permit(&self) -> Result<OwnedSemaphorePermit, TurnError> {
        if let Ok(permit) = Arc::clone(&self.hub.turns).try_acquire_owned() {
            return Ok(permit);
        }
        let busy = || {
            let text = format!(
                "All {} turns are in use. Try again shortly, or raise `limits.turns`.",
                self.config.limits.turns
            );
            TurnError::new(ErrorCode::Overloaded, text)
        };
        let _place = self.queue.try_acquire().map_err(|_| busy())?;
        let waiting = Arc::clone(&self.hub.turns).acquire_owned();
        match timeout(self.config.clocks.queue, waiting).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) | Err(_) => Err(busy()),
        }
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
