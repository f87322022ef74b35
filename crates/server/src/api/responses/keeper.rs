//! A response on its way to its client and into the store. It is stored before the client gets its
//! end, so that the next request finds it.

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
        GatewayService, Shared,
        turn::{self, ReplyFormat, RequestHead},
    },
    keys::Caller,
    session::STORE_PATIENCE,
    store::{Scope, StoredResponse},
};

/// Starts the turn of a request. The caller passes the answer on to the client and stores it.
///
/// # Errors
/// The turn failed before anything of it went out.
pub(in crate::api) async fn answer<S: GatewayService>(
    shared: &Shared<S>,
    asked: RequestHead,
    request: ResponsesRequest,
    wanted: KeepFor,
) -> Result<(Response, ResponseKeeper<S>), TurnError> {
    let (keeper, reply, turn) = ResponseKeeper::new(shared, &asked.caller, request, wanted).await?;
    let response = turn::respond(shared, asked, turn, reply).await?;
    Ok((response, keeper))
}

/// Where a response is needed after it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::api) enum KeepFor {
    /// In the store, if its request allows that.
    Store,
    /// On the connection, too, in any case.
    Connection,
}

/// How a response ended, when it has.
type ResponseEnding = Arc<OnceLock<EndedResponse>>;

/// A list of items as JSON.
pub(super) fn list(items: &[Box<RawValue>]) -> String {
    serde_json::to_string(items).unwrap_or_else(|_| "[]".to_owned())
}

/// Stores a response with its request once it has ended.
pub(in crate::api) struct ResponseKeeper<S> {
    shared: Shared<S>,
    id: String,
    previous: Option<String>,
    input: Arc<[Box<RawValue>]>,
    /// The owner, if the response is to be stored. Determined at the start: by the end another
    /// account may be signed in.
    scope: Option<Scope>,
    ending: ResponseEnding,
}

impl<S> Clone for ResponseKeeper<S> {
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

impl<S: GatewayService> ResponseKeeper<S> {
    /// # Errors
    /// The owner of the response cannot be determined.
    pub(in crate::api) async fn new(
        shared: &Shared<S>,
        caller: &Caller,
        request: ResponsesRequest,
        wanted: KeepFor,
    ) -> Result<(Self, ResponseReply<S>, TurnRequest), TurnError> {
        let service = &shared.service;
        let scope = if request.store && service.settings().keep_responses {
            Some(service.scope(caller).await?)
        } else {
            None
        };
        let id = responses::response_id(service.random());
        let ending = ResponseEnding::default();
        let wanted = scope.is_some() || wanted == KeepFor::Connection;
        let reply = ResponseReply {
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

    /// The items of the request itself.
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

    /// Stores the response, if it has ended and is to be stored. A slow store continues in the
    /// background.
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

    /// The same HTTP response; its end waits until it is stored.
    pub(in crate::api) async fn before_the_end_of(self, response: Response) -> Response {
        if self.scope.is_none() {
            return response;
        }
        if self.ending.get().is_some() {
            self.keep().await;
            return response;
        }
        response
            .map(|body| Body::new(KeptBody { body, keeper: self, stage: KeptBodyStage::Before }))
    }
}

async fn save<S: GatewayService>(service: Arc<S>, scope: Scope, response: StoredResponse) {
    let now = service.unix_now();
    if let Err(error) = service.store().save_response(scope, response, now).await {
        warn!(%error, "cannot store a response");
    }
}

// === what the encoders leave ===

/// The encoders of the reply, which record its ending.
pub(in crate::api) struct ResponseReply<S> {
    id: String,
    created: u64,
    echo: Echo,
    service: Arc<S>,
    /// None: it is not needed.
    ending: Option<ResponseEnding>,
}

impl<S: GatewayService> ResponseReply<S> {
    pub(in crate::api) fn encoder(self) -> EndingEncoder {
        let Self { id, created, echo, service, ending } = self;
        let encoder =
            ResponsesEncoder::new(id, created, echo).with_clock(move || service.unix_now());
        EndingEncoder { encoder, ending }
    }
}

impl<S: GatewayService> ReplyFormat for ResponseReply<S> {
    fn stream(self) -> Box<dyn Encode> {
        Box::new(self.encoder())
    }

    fn whole(self) -> Box<dyn Collect> {
        let Self { id, created, echo, service, ending } = self;
        let collector =
            ResponsesCollector::new(id, created, echo).with_clock(move || service.unix_now());
        Box::new(EndingCollector { collector, ending })
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

pub(in crate::api) struct EndingEncoder {
    encoder: ResponsesEncoder,
    ending: Option<ResponseEnding>,
}

impl EndingEncoder {
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

impl Encode for EndingEncoder {
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

struct EndingCollector {
    collector: ResponsesCollector,
    ending: Option<ResponseEnding>,
}

impl Collect for EndingCollector {
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

/// A stream that holds its last frame back until the response is stored.
struct KeptBody<S> {
    body: Body,
    keeper: ResponseKeeper<S>,
    stage: KeptBodyStage,
}

enum KeptBodyStage {
    Before,
    Keeping(Frame<Bytes>, Pin<Box<dyn Future<Output = ()> + Send>>),
    /// The frame went out.
    Kept,
}

impl<S: GatewayService> http_body::Body for KeptBody<S> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        if let KeptBodyStage::Before = this.stage {
            let frame = ready!(Pin::new(&mut this.body).poll_frame(cx));
            match frame {
                Some(Ok(frame)) if this.keeper.ending.get().is_some() => {
                    this.stage = KeptBodyStage::Keeping(frame, Box::pin(this.keeper.keep()));
                }
                frame => return Poll::Ready(frame),
            }
        }
        if let KeptBodyStage::Keeping(_, keeping) = &mut this.stage {
            ready!(keeping.as_mut().poll(cx));
            if let KeptBodyStage::Keeping(frame, _) =
                std::mem::replace(&mut this.stage, KeptBodyStage::Kept)
            {
                return Poll::Ready(Some(Ok(frame)));
            }
        }
        Pin::new(&mut this.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        !matches!(self.stage, KeptBodyStage::Keeping(..)) && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}
