//! From a client's request to the turn that answers it.

use std::sync::Arc;

use ibeam_core::{
    backend::{BackendKind, Capability},
    controls::{self, Controls, ReadFormat},
    error::{ErrorCode, TurnError},
    history,
    model::{AnswerFormat, Dialect, Item, Part, TurnRequest},
    models::{Family, ModelInfo, ModelList, ModelPick, Resolved},
    peer::child::ChildOwner,
};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use tracing::debug;

use super::{App, build::turn_settings};
use crate::{
    api::amount,
    driver::{NewTurn, TurnSetup},
    mcp::bridge::OfferedTools,
    random,
    session::{
        Actor, Bridged, LegRequest, NameSource, Origin, RequestContext, RequestOutline, Route,
        SessionName, TurnStream, refusal, shown_id,
    },
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
        mut context: RequestContext,
    ) -> Result<TurnStream, TurnError> {
        let received = Instant::now();
        request.hints.modes = request.hints.modes.or(self.config.models.modes);
        let (model, family) = self.check(&request).await?;
        let scope = self.scope_of(&context.caller.id);
        let (offer, controls) = self.prepare(&mut request, &mut context, family).await?;
        // From here on work on the whole request must not hold up other streams.
        let (bytes, name) = (request.bytes(), context.session.take());
        let read = move || (RequestOutline::new(&request, name, scope, model), request);
        let (large_work, key) = (&self.hub.large_work, &context.caller.id);
        let (outline, request) = large_work.run(key, bytes, read).await?;
        let route = self.admission.route(request, &outline, controls, &context, received).await?;
        let (leg, origin) = match route {
            Route::Replay(stream) | Route::Attach(stream) | Route::Resume(stream) => {
                return Ok(stream);
            }
            Route::Start(start) => *start,
        };

        let LegRequest { request, permit, leg_entry, controls, retry, .. } = leg;
        let ignored_results = origin.ignores_results(&outline);
        let Origin { writer, kept, matched } = origin;
        let (identity, id) = (outline.identity, writer.conversation().to_owned());
        let how = matched.name();
        debug!(conversation = %id, session = how, model = %identity.model.id, "starting a turn");
        let mut settings = turn_settings(&self.config);
        // A run that is given up cannot get the results of our own tools.
        settings.park = (settings.park && !context.fresh) || offer.is_some();
        settings.backoff.retries = self.hub.retries.left(retry);
        let turn = NewTurn {
            setup: TurnSetup {
                model: identity.model.clone(),
                models: self.catalog.known(),
                conversation_id: id.clone(),
                kept,
                setup: identity.setup,
                owner: ChildOwner { scope, assured: context.caller.assured() },
            },
            session: writer.session(),
            settings,
            seed: random::bytes(),
            bridged: offer.as_ref().map(OfferedTools::names),
            recorder: self.hub.recorder.clone(),
        };
        let driver = Arc::clone(&self.driver);
        let machine = move || driver.machine(turn, request);
        let machine = large_work.run(key, bytes, machine).await?;
        let actor = Actor {
            hub: Arc::clone(&self.hub),
            session: writer.session(),
            model: identity.model.id.clone(),
            identity,
            family,
            controls,
            writer,
            leg_entry,
            asked: received,
            permit,
            bridged: offer.map(|offer| Box::new(Bridged::new(offer))),
            retry_key: retry.key,
        };
        let stream = machine.start(actor).matched_as(matched, id);
        Ok(stream.ignoring_results(ignored_results))
    }

    /// Refuses what no turn can answer, and finds the model.
    async fn check(&self, request: &TurnRequest) -> Result<(ModelPick, Family), TurnError> {
        let is_silent = |item: &Item| matches!(item, Item::Reasoning(_));
        if request.system.is_empty() && request.items.iter().all(is_silent) {
            let text = "the request has no messages";
            return Err(refusal(ErrorCode::MissingMessages, text, request.dialect));
        }
        fit_results(request, self.config.limits.tool_result)?;
        let mut resolved = self.resolve(request).await?;
        if request.hints.modes.max == Some(true) {
            resolved = resolved.in_max_mode();
        }
        // Before anything is looked up: the scope depends on the account.
        self.hub.tokens.current().await?;
        check_images(request, self.driver.kind(), resolved.info.as_ref())?;
        let Resolved { wire_id, parameters, max_mode, info, .. } = resolved;
        let family = info.as_ref().map_or_else(|| Family::of(&wire_id), ModelInfo::family);
        Ok((ModelPick { id: wire_id, parameters, max_mode }, family))
    }

    /// Adds to a request what its headers, the MCP servers of the user and its format call for.
    /// Nothing changes it after that. Returns the tools of the servers, and the controls.
    async fn prepare(
        &self,
        request: &mut TurnRequest,
        context: &mut RequestContext,
        family: Family,
    ) -> Result<(Option<OfferedTools>, Option<Box<Controls>>), TurnError> {
        // A name in the conversation itself is nearer to it than a header.
        if let Some(name) = request.hints.session.take() {
            context.session = Some(SessionName { name, source: NameSource::Marker });
        }
        request.hints.session = context.session.as_ref().map(|session| session.name.clone());
        request.hints.workspace = context.workspace.take();
        let offer = match request.dialect {
            // A prompt that is to be completed is not a conversation.
            Dialect::Completions => None,
            _ => self.bridge.offer(&mut request.tools).await,
        };
        // The instructions about the format belong to the prompt.
        Ok((offer, self.controls(request, family).await?))
    }

    /// The owner of the turns and conversations of this caller.
    pub(super) fn scope_of(&self, caller: &[u8; 32]) -> Scope {
        let mut hash = Sha256::new_with_prefix(b"scope");
        let account = self.hub.tokens.account();
        let config = &self.config;
        let host = config.upstream.api.authority.as_str();
        // A conversation that is kept holds what only its backend can continue. With the
        // simulator all backends have one name and may have one account.
        let kind = self.driver.kind().name();
        let profile = config.account.profile.as_str();
        for part in [self.backend, kind, host, profile, account.as_str()] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        hash.update(caller);
        hash.finalize().into()
    }

    /// The controls of a request. A schema takes a moment to read, and that is not done on
    /// an async thread.
    async fn controls(
        &self,
        request: &mut TurnRequest,
        family: Family,
    ) -> Result<Option<Box<Controls>>, TurnError> {
        if !matches!(request.sampling.format, AnswerFormat::Schema(_)) {
            return controls::prepare(request, family);
        }
        let format = request.sampling.format.clone();
        let read = self.hub.checks.run(move || ReadFormat::of(&format)).await;
        let text = "The JSON Schema could not be compiled.";
        let failed = |_| TurnError::new(ErrorCode::Internal, text);
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
}

/// A result that the backend could not store would fail there, late and without a reason.
fn fit_results(request: &TurnRequest, limit: usize) -> Result<(), TurnError> {
    for item in &request.items {
        let Item::ToolResult(result) = item else { continue };
        let bytes: usize = result.content.iter().map(Part::bytes).sum();
        if bytes > limit {
            let text = format!(
                "the result of the tool call `{}` has {bytes} bytes; the limit is {}, the setting \
                 `limits.tool_result`",
                shown_id(&result.call_id),
                amount(limit)
            );
            return Err(refusal(ErrorCode::RequestTooLarge, text, request.dialect));
        }
    }
    Ok(())
}

/// Refuses images that the backend or the model does not take. Earlier images of a conversation are
/// replaced by a note.
fn check_images(
    request: &TurnRequest,
    backend: BackendKind,
    model: Option<&ModelInfo>,
) -> Result<(), TurnError> {
    let is_shown = |item: &Item| match item {
        Item::Message(message) => message.parts.iter().any(|part| matches!(part, Part::Image(_))),
        // Results are not part of the prompt.
        Item::ToolResult(_) | Item::ToolCall(_) | Item::Reasoning(_) => false,
    };
    let items = &request.items;
    let text = if !backend.has(Capability::Images) {
        // A model is not blamed for what its backend lacks.
        let shown = items.iter().skip(history::split(items)).any(is_shown);
        shown.then(|| backend.refusal(Capability::Images))
    } else if model.is_some_and(|model| !model.images) && items.last().is_some_and(is_shown) {
        let name = &request.model;
        Some(format!(
            "The model `{name}` does not accept images. `ibeam models` shows which ones do."
        ))
    } else {
        None
    };
    text.map_or(Ok(()), |text| Err(refusal(ErrorCode::InvalidValue, text, request.dialect)))
}

#[cfg(test)]
#[path = "start_tests.rs"]
mod tests;
