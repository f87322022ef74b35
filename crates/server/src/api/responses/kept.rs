//! A response on its way to its client, and into the store: it is there before the client
//! has the end of it, so that the next request finds it.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll, ready},
};

use axum::{body::Body, response::Response};
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, header};
use http_body::{Frame, SizeHint};
use ibeam_core::{
    error::TurnError,
    model::{TurnEvent, TurnRequest},
    wire::{
        Collect, Encode,
        responses::{
            self, Echo, EndedResponse, ResponsesCollector, ResponsesEncoder, ResponsesRequest,
        },
    },
};
use serde_json::value::RawValue;
use tokio::time::timeout;
use tracing::warn;

use crate::{
    api::{
        Service, Shared,
        turn::{self, Asked, Reply},
    },
    keys::Caller,
    session::STORE_PATIENCE,
    store::{Scope, StoredResponse},
};

/// Starts the turn of a request. The answer is the client's; the caller that passes it on sees to
/// its being kept.
///
/// # Errors
/// The turn failed before anything of it went out.
pub(in crate::api) async fn answer<S: Service>(
    shared: &Shared<S>,
    asked: Asked,
    request: ResponsesRequest,
    wanted: Wanted,
) -> Result<(Response, Keeper<S>), TurnError> {
    let (keeper, reply, turn) = Keeper::new(shared, &asked.caller, request, wanted).await?;
    let response = turn::respond(shared, asked, turn, reply).await?;
    Ok((response, keeper))
}

/// Who wants a response once it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::api) enum Wanted {
    /// The store, if it is to be kept there.
    ByStore,
    /// The connection too, in any case.
    ByConnection,
}

/// How a response ended, when it has.
type Ending = Arc<OnceLock<EndedResponse>>;

/// A list of items as JSON.
pub(super) fn list(items: &[Box<RawValue>]) -> String {
    serde_json::to_string(items).unwrap_or_else(|_| "[]".to_owned())
}

/// Knows a response's request, and learns how it ended.
pub(in crate::api) struct Keeper<S> {
    shared: Shared<S>,
    id: String,
    previous: Option<String>,
    input: Arc<[Box<RawValue>]>,
    /// Whose it is when it is to be kept. Asked for in the beginning: by the end another
    /// account may be signed in.
    scope: Option<Scope>,
    ending: Ending,
}

impl<S> Clone for Keeper<S> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
            id: self.id.clone(),
            previous: self.previous.clone(),
            input: Arc::clone(&self.input),
            scope: self.scope,
            ending: Arc::clone(&self.ending),
        }
    }
}

impl<S: Service> Keeper<S> {
    /// # Errors
    /// It is not known whose the response would be.
    pub(in crate::api) async fn new(
        shared: &Shared<S>,
        caller: &Caller,
        request: ResponsesRequest,
        wanted: Wanted,
    ) -> Result<(Self, Answering<S>, TurnRequest), TurnError> {
        let service = &shared.service;
        let scope = if request.store && service.settings().keep_responses {
            Some(service.scope(caller).await?)
        } else {
            None
        };
        let id = responses::response_id(service.random());
        let ending = Ending::default();
        let wanted = scope.is_some() || wanted == Wanted::ByConnection;
        let reply = Answering {
            id: id.clone(),
            created: service.unix_now(),
            echo: request.echo,
            service: Arc::clone(service),
            ending: wanted.then(|| Arc::clone(&ending)),
        };
        let keeper = Self {
            shared: shared.clone(),
            id,
            previous: request.previous,
            input: request.input.into(),
            scope,
            ending,
        };
        Ok((keeper, reply, request.turn))
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// What the request said itself.
    pub(super) fn items(&self) -> Arc<[Box<RawValue>]> {
        Arc::clone(&self.input)
    }

    /// The response as it is kept, once it has ended.
    pub(in crate::api) fn ended(&self) -> Option<StoredResponse> {
        let EndedResponse { status, body, output } = self.ending.get()?;
        Some(StoredResponse {
            id: self.id.clone(),
            previous: self.previous.clone(),
            status: (*status).to_owned(),
            body: body.clone(),
            input: list(&self.input),
            output: output.clone(),
        })
    }

    /// Keeps the response, if it has ended and is to be kept. A store that takes too long
    /// goes on by itself.
    pub(in crate::api) fn keep(&self) -> impl Future<Output = ()> + Send + use<S> {
        let kept = self.scope.and_then(|scope| Some((scope, self.ended()?)));
        let service = Arc::clone(&self.shared.service);
        async move {
            let Some((scope, response)) = kept else { return };
            let save = save(Arc::clone(&service), scope, response);
            let saved = service.tasks().spawn("response", save);
            if timeout(STORE_PATIENCE, saved).await.is_err() {
                warn!("the store is slow; a response will be available later");
            }
        }
    }

    /// The same response, whose end waits until it is kept.
    pub(in crate::api) async fn before_the_end_of(self, response: Response) -> Response {
        if self.scope.is_none() {
            return response;
        }
        if self.ending.get().is_some() {
            self.keep().await;
            return response;
        }
        response.map(|body| Body::new(Held { body, keeper: self, stage: Stage::Before }))
    }
}

async fn save<S: Service>(service: Arc<S>, scope: Scope, response: StoredResponse) {
    let now = service.unix_now();
    if let Err(error) = service.store().save_response(scope, response, now).await {
        warn!(%error, "cannot store a response");
    }
}

// === what the encoders leave ===

/// The reply's encoders, with an eye on how they end.
pub(in crate::api) struct Answering<S> {
    id: String,
    created: u64,
    echo: Echo,
    service: Arc<S>,
    /// None: it is not needed.
    ending: Option<Ending>,
}

impl<S: Service> Answering<S> {
    pub(in crate::api) fn encoder(self) -> Recorder {
        let Self { id, created, echo, service, ending } = self;
        let encoder =
            ResponsesEncoder::new(id, created, echo).with_clock(move || service.unix_now());
        Recorder { encoder, ending }
    }
}

impl<S: Service> Reply for Answering<S> {
    fn stream(self) -> Box<dyn Encode> {
        Box::new(self.encoder())
    }

    fn whole(self) -> Box<dyn Collect> {
        let Self { id, created, echo, service, ending } = self;
        let collector =
            ResponsesCollector::new(id, created, echo).with_clock(move || service.unix_now());
        Box::new(WholeRecorder { collector, ending })
    }

    fn fails_in_stream(&self, headers: &HeaderMap, error: &TurnError) -> bool {
        is_codex(headers) && responses::codex_reads_in_stream(error.code)
    }
}

/// Codex names itself in both headers, as `codex_cli_rs`, `codex_exec` or `codex-tui`.
fn is_codex(headers: &HeaderMap) -> bool {
    let names = [HeaderName::from_static("originator"), header::USER_AGENT];
    names.iter().filter_map(|name| headers.get(name)).any(|value| {
        value.as_bytes().first_chunk::<5>().is_some_and(|name| name.eq_ignore_ascii_case(b"codex"))
    })
}

pub(in crate::api) struct Recorder {
    encoder: ResponsesEncoder,
    ending: Option<Ending>,
}

impl Recorder {
    /// The response as it is now.
    pub(super) fn current(&self) -> String {
        self.encoder.current()
    }

    fn look(&self) {
        if let Some(ending) = &self.ending
            && ending.get().is_none()
            && let Some(ended) = self.encoder.ended()
        {
            ending.get_or_init(|| ended);
        }
    }
}

impl Encode for Recorder {
    fn on_event(&mut self, event: &TurnEvent, out: &mut BytesMut) {
        self.encoder.on_event(event, out);
        self.look();
    }

    fn on_cut(&mut self, out: &mut BytesMut) {
        self.encoder.on_cut(out);
        self.look();
    }

    fn on_silence(&mut self, out: &mut BytesMut) {
        self.encoder.on_silence(out);
    }

    fn is_ended(&self) -> bool {
        self.encoder.is_ended()
    }
}

struct WholeRecorder {
    collector: ResponsesCollector,
    ending: Option<Ending>,
}

impl Collect for WholeRecorder {
    fn on_event(&mut self, event: TurnEvent) {
        self.collector.on_event(event);
    }

    fn finish(self: Box<Self>) -> Result<Vec<u8>, TurnError> {
        let Self { collector, ending } = *self;
        let ended = ending.and_then(|ending| Some((ending, collector.ended()?)));
        let body = Box::new(collector).finish()?;
        if let Some((ending, ended)) = ended {
            ending.get_or_init(|| ended);
        }
        Ok(body)
    }
}

// === the body ===

/// A stream whose last piece waits until the response is kept.
struct Held<S> {
    body: Body,
    keeper: Keeper<S>,
    stage: Stage,
}

enum Stage {
    Before,
    Keeping(Frame<Bytes>, Pin<Box<dyn Future<Output = ()> + Send>>),
    /// The frame went out.
    Kept,
}

impl<S: Service> http_body::Body for Held<S> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        if let Stage::Before = this.stage {
            let frame = ready!(Pin::new(&mut this.body).poll_frame(cx));
            match frame {
                Some(Ok(frame)) if this.keeper.ending.get().is_some() => {
                    this.stage = Stage::Keeping(frame, Box::pin(this.keeper.keep()));
                }
                frame => return Poll::Ready(frame),
            }
        }
        if let Stage::Keeping(_, keeping) = &mut this.stage {
            ready!(keeping.as_mut().poll(cx));
            if let Stage::Keeping(frame, _) = std::mem::replace(&mut this.stage, Stage::Kept) {
                return Poll::Ready(Some(Ok(frame)));
            }
        }
        Pin::new(&mut this.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        !matches!(self.stage, Stage::Keeping(..)) && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}
