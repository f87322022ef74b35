//! From a client's request to the turn that answers it.

use std::sync::Arc;

use ibeam_core::{
    agent::ModelPick,
    backend::BackendKind,
    capabilities::Support,
    cli,
    controls::{self, Controls, ReadFormat},
    error::{ErrorCode, TurnError},
    history,
    limits::{Kind, Quota, Why},
    model::{Dialect, Format, ImageSource, Item, Part, ToolContent, TurnRequest, ids::SessionId},
    models::{AUTO_NAME, AUTO_WIRE_ID, Family, ModelInfo, ModelList, Resolved},
};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use tracing::debug;

use super::{
    App,
    build::turn_settings,
    machine::{Backend, Blueprint, ChildProtocol},
    read::Read,
    settle::{Again, Case, Origin, Settled, shown_id},
};
use crate::{
    api::{RequestMeta, amount},
    driver::AnyDriver,
    keys::Caller,
    limits::{Place, Seeker, owner},
    mcp::bridge::Offer,
    random,
    session::{Actor, Ask, Bridged, Keeper, Keeping, RetryClaim, RetryKey, TurnStream},
    store::Scope,
};

impl App {
    /// Starts the turn of a request, or finds the one that it belongs to.
    ///
    /// # Errors
    /// The request cannot be served at all: the model is unknown, there is no
    /// sign-in, or there are too many turns already.
    pub async fn start(
        &self,
        mut request: TurnRequest,
        meta: &RequestMeta,
    ) -> Result<TurnStream, TurnError> {
        let asked = Instant::now();
        let mute = |item: &Item| matches!(item, Item::Reasoning(_));
        if request.system.is_empty() && request.items.iter().all(mute) {
            let text = "the request has no messages";
            let param = conversation_field(request.dialect);
            return Err(TurnError::new(ErrorCode::MissingMessages, text).param(param));
        }
        fit_results(&request, self.config.limits.tool_result)?;
        let resolved = self.resolve(&request).await?;
        // Before anything is looked up: the account decides what belongs to whom.
        self.hub.tokens.current().await?;
        // Where the backend cannot look, it is not the model that is at fault.
        match self.hub.driver.kind().capabilities().images {
            Support::Impossible => take_no_images(&request)?,
            Support::Native | Support::Emulated => see_images(&request, &resolved)?,
        }

        let scope = self.scope_of(&meta.caller.id);
        let family =
            resolved.info.as_ref().map_or_else(|| Family::of(&resolved.wire_id), ModelInfo::family);
        let model = ModelPick {
            id: resolved.wire_id,
            parameters: resolved.parameters,
            max_mode: resolved.max_mode,
        };
        // A prompt that is to be completed is no conversation.
        let offer = match request.dialect {
            Dialect::Completions => None,
            _ => self.bridge.offer(&mut request.tools).await,
        };
        // The instructions about the format belong to the prompt.
        let controls = self.prepare(&mut request, family).await?;
        // From here on work on the whole request may hold no stream up.
        let bytes = request.bytes();
        let read = self.work_on(&meta.caller, bytes, move || Read::new(request, scope, model));
        let Read { request, outline, told, identity, results_key, missing_calls } = read.await?;
        let until = Instant::now() + self.config.clocks.queue;
        let seeker = self.seeker(&meta.caller);
        let named_by = meta.named_by;
        let key = RetryKey::new(
            &scope,
            request.hints.session.as_deref(),
            &outline.setup,
            told.chain.fingerprint(),
        );
        let case = Case {
            scope,
            seeker,
            outline,
            identity,
            results_key,
            missing_calls,
            named_by,
            retry: RetryClaim { key, by_client: meta.retry_count > 0 },
            asked,
            until,
        };

        let ticket = match self.again(&case, meta).await? {
            Again::Stream(stream) => return Ok(stream),
            Again::Never(ticket) => ticket,
        };
        let (ask, origin) = match self.settle(request, told, ticket, controls, &case).await? {
            Settled::Stream(stream) => return Ok(stream),
            Settled::Start(start) => *start,
        };
        let Ask { request, told, place, ticket, controls, retry } = ask;
        let Origin { id, claim, kept, before, matched } = origin;
        self.hub.registry.count(|fates| fates.note(matched));
        debug!(
            conversation = %id,
            session = matched.name(),
            model = %case.identity.model.id,
            "starting a turn"
        );
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
        let keeper = Keeper::new(keeping, told, request.hints.session.clone());
        let mut settings = turn_settings(&self.config);
        settings.park &= !request.hints.fresh;
        settings.backoff.retries = self.hub.retries.left(retry);
        // A run that is given up cannot get the results of our own tools.
        settings.park |= offer.is_some();
        let blueprint = Blueprint {
            config: Arc::clone(&self.config),
            backend: self.backend_for(&case).await,
            settings,
            conversation_id: id.clone(),
            session,
            kept,
            seed: random::bytes(),
        };
        let names = offer.as_ref().map(Offer::names);
        let build = move || blueprint.build(request, names);
        let machine = self.work_on(&meta.caller, bytes, build).await?;
        let actor = Actor {
            session,
            model: case.identity.model.id.clone(),
            identity: case.identity,
            family,
            controls,
            keeper,
            ticket,
            asked,
            place,
            bridged: offer.map(|offer| Box::new(Bridged::new(offer))),
            retry_key: retry.key,
        };
        Ok(actor.start(machine, &self.hub).matched_as(matched, id))
    }

    /// Does work in proportion to the size of a request, beside the event loop if that is large.
    async fn work_on<T: Send + 'static>(
        &self,
        caller: &Caller,
        bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, TurnError> {
        self.hub.large_work.run(&caller.id, bytes, work).await.map_err(|error| {
            let text = "The request could not be processed.";
            TurnError::new(ErrorCode::Internal, text).cause(error.to_string())
        })
    }

    /// What the driver speaks.
    async fn backend_for(&self, case: &Case) -> Backend {
        let model = &case.identity.model;
        match &self.hub.driver {
            AnyDriver::Agent(driver) => Backend::Agent {
                driver: Arc::clone(driver),
                model: model.clone(),
                surroundings: Arc::clone(&self.surroundings),
                setup: case.outline.setup,
            },
            AnyDriver::Child(driver) => Backend::Child {
                driver: Arc::clone(driver),
                protocol: match driver.kind() {
                    BackendKind::Acp => ChildProtocol::Acp,
                    BackendKind::Agent | BackendKind::Cli => ChildProtocol::Cli,
                },
                model: self.spelled(model).await,
                images: driver.kind().capabilities().images == Support::Native,
            },
        }
    }

    /// The model as Cursor's CLI spells it. Some builds take nothing but what they list.
    async fn spelled(&self, model: &ModelPick) -> String {
        if model.id == AUTO_WIRE_ID {
            return AUTO_NAME.to_owned();
        }
        let written = written_out(model);
        match self.catalog.get().await {
            Ok(list) => cli::listing::listed(&list, &written).to_owned(),
            Err(_) => written,
        }
    }

    /// Whom turns and conversations of this caller belong to.
    pub(super) fn scope_of(&self, caller: &[u8; 32]) -> Scope {
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
    /// The controls of a request. A schema takes a moment to read, and that is not done on
    /// an async thread.
    async fn prepare(
        &self,
        request: &mut TurnRequest,
        family: Family,
    ) -> Result<Option<Box<Controls>>, TurnError> {
        if !matches!(request.sampling.format, Format::Schema(_)) {
            return controls::prepare(request, family);
        }
        let format = request.sampling.format.clone();
        let read = self.hub.checks.run(move || ReadFormat::of(&format)).await;
        let failed = |_| {
            TurnError::new(
                ErrorCode::Internal,
                "The JSON Schema could not be \
                                                              compiled.",
            )
        };
        let read = read.transpose().map_err(failed)?.unwrap_or_else(ReadFormat::too_slow);
        controls::prepare_with(request, family, read)
    }

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

    /// Whose limit a request counts against.
    fn seeker(&self, caller: &Caller) -> Seeker {
        let limit = caller.limit.unwrap_or(self.config.limits.turns_per_key);
        let quota = Quota { limit, assured: caller.assured() };
        Seeker { owner: owner(&caller.id), quota }
    }

    /// A place among the running turns, waiting for one if need be.
    pub(super) async fn place(&self, case: &Case) -> Result<Place, TurnError> {
        let (turns, seeker) = (&self.hub.turns, case.seeker);
        if let Some(place) = turns.try_enter(seeker) {
            return Ok(place);
        }
        // Only looked at in a crowd: it may mean a question to the store.
        let kind = if self.is_awaited(case).await { Kind::Results } else { Kind::New };
        let patience = case.until.saturating_duration_since(Instant::now());
        turns.enter(seeker, kind, patience).await.map_err(|why| {
            let text = match why {
                Why::Total => return self.busy(),
                Why::Owner => format!(
                    "This key already runs {}, which is its limit. Try again shortly.",
                    counted(seeker.quota.limit)
                ),
                Why::Share => {
                    "This key has used its share of the turn slots; the remaining slots are \
                     reserved for other keys. Try again shortly, or give it a limit of its own: \
                     `ibeam keys add NAME --limit N`."
                        .to_owned()
                }
            };
            TurnError::new(ErrorCode::Overloaded, text)
        })
    }

    pub(super) fn busy(&self) -> TurnError {
        let taken = match self.config.limits.turns {
            1 => "The only turn slot is".to_owned(),
            all => format!("All {all} turn slots are"),
        };
        let text = format!("{taken} in use. Try again shortly, or raise `limits.turns`.");
        TurnError::new(ErrorCode::Overloaded, text)
    }
}

fn counted(count: usize) -> String {
    if count == 1 { "1 turn".to_owned() } else { format!("{count} turns") }
}

/// The id of a model, and in brackets what else was chosen.
fn written_out(model: &ModelPick) -> String {
    if model.parameters.is_empty() {
        return model.id.clone();
    }
    let parameters = model.parameters.iter().map(|(name, value)| format!("{name}={value}"));
    format!("{}[{}]", model.id, parameters.collect::<Vec<_>>().join(","))
}

/// The field that has the conversation.
pub(super) fn conversation_field(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Chat | Dialect::Messages => "messages",
        Dialect::Responses => "input",
        Dialect::Completions => "prompt",
    }
}

/// A result that the backend could not store would fail there, late and without a reason.
fn fit_results(request: &TurnRequest, limit: usize) -> Result<(), TurnError> {
    let size = |part: &ToolContent| match part {
        ToolContent::Text(text) => text.len(),
        ToolContent::Image(image) => {
            let ImageSource::Inline { data, .. } = &image.source;
            data.len()
        }
    };
    for item in &request.items {
        let Item::ToolResult(result) = item else { continue };
        let bytes: usize = result.content.iter().map(size).sum();
        if bytes > limit {
            let text = format!(
                "the result of the tool call `{}` has {bytes} bytes; the limit is {}, the setting \
                 `limits.tool_result`",
                shown_id(&result.call_id),
                amount(limit)
            );
            let param = conversation_field(request.dialect);
            return Err(TurnError::new(ErrorCode::RequestTooLarge, text).param(param));
        }
    }
    Ok(())
}

/// A backend that cannot be shown anything must not be asked to look. What was shown before
/// is marked as left out.
fn take_no_images(request: &TurnRequest) -> Result<(), TurnError> {
    let new = request.items.iter().skip(history::split(&request.items));
    let shows = new.into_iter().any(|item| match item {
        Item::Message(message) => message.parts.iter().any(|part| matches!(part, Part::Image(_))),
        // Results are not part of the prompt.
        Item::ToolResult(_) | Item::ToolCall(_) | Item::Reasoning(_) => false,
    });
    if !shows {
        return Ok(());
    }
    let text = "The backend `cli` takes no images. The backends `agent` and `acp` do.";
    Err(TurnError::new(ErrorCode::InvalidValue, text).param("messages"))
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

#[cfg(test)]
#[path = "start_tests.rs"]
mod tests;
