//! `GET /v1/responses` with an upgrade, as OpenAI's own clients use it: each
//! `response.create` is a request, each event of its answer a message. The connection
//! remembers its responses, also those that are not to be kept, so that the next request
//! need only say what is new.

use std::sync::Arc;

use axum::{
    Extension,
    body::Body,
    extract::{Request, State},
    response::Response,
};
use bytes::BytesMut;
use ibeam_core::{
    error::{ErrorCode, TurnError},
    model::{FinishReason, TurnEvent},
    wire::{Encode as _, chat::OpenAiErrorBody, responses},
};
use serde::{Deserialize, Serialize};

use super::{Headers, Talk, begin};
use crate::{
    api::{
        Ctx, Service, Shared,
        log::RequestLog,
        responses::{Keeper, Prepared, Recent, Wanted, answer},
        turn::{Asked, Incoming},
    },
    keys::Caller,
};

pub(in crate::api) async fn responses<S: Service>(
    State(shared): Ctx<S>,
    Extension(log): Extension<Arc<RequestLog>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Response {
    let recent = Recent::new(Arc::clone(&shared.remembered));
    begin(shared, caller, log, request, Responses { recent, running: None })
}

struct Responses<S> {
    recent: Recent,
    running: Option<Keeper<S>>,
}

/// What a message is.
#[derive(Deserialize)]
struct Envelope {
    #[serde(default)]
    r#type: String,
    #[serde(default)]
    stream_id: Option<serde::de::IgnoredAny>,
}

impl Envelope {
    fn of(message: &[u8]) -> Result<Self, TurnError> {
        serde_json::from_slice(message).map_err(|error| {
            let text = format!("the message is not a JSON object with a `type`: {error}");
            TurnError::new(ErrorCode::InvalidJson, text)
        })
    }
}

impl<S: Service> Talk<S> for Responses<S> {
    async fn answer(
        &mut self,
        shared: &Shared<S>,
        incoming: Incoming,
    ) -> Result<Option<Body>, TurnError> {
        let envelope = incoming.peek(shared, Envelope::of).await?;
        match envelope.r#type.as_str() {
            "response.create" => {}
            // Codex reports what it has seen. That needs no answer.
            "response.processed" => return Ok(None),
            _ => {
                let text = "unsupported message type; send `response.create`";
                return Err(TurnError::new(ErrorCode::InvalidValue, text).param("type"));
            }
        }
        if envelope.stream_id.is_some() {
            let text = "this connection is still answering a request; wait for it, or open another \
                        connection";
            return Err(TurnError::new(ErrorCode::UnsupportedParameter, text).param("stream_id"));
        }
        let (asked, Prepared { mut request, before: _ }) =
            incoming.prepare(shared, Some(&self.recent)).await?;
        if request.background {
            let text = "background responses are not available over a WebSocket; use POST \
                        /v1/responses";
            return Err(TurnError::new(ErrorCode::UnsupportedParameter, text).param("background"));
        }
        if !request.generate {
            return Ok(Some(self.warm_up(shared, &asked, request).await?));
        }
        request.turn.hints.stream = true;
        let (response, keeper) = answer(shared, asked, request, Wanted::ByConnection).await?;
        self.running = Some(keeper.clone());
        Ok(Some(keeper.before_the_end_of(response).await.into_body()))
    }

    /// As Codex reads it: the status and the headers are those that a response would have.
    fn failure(&self, error: &TurnError) -> String {
        #[derive(Serialize)]
        struct Failure<'a> {
            r#type: &'static str,
            status: u16,
            error: ibeam_core::wire::chat::OpenAiError<'a>,
            #[serde(skip_serializing_if = "Option::is_none")]
            headers: Option<Headers>,
        }
        let failure = Failure {
            r#type: "error",
            status: error.code.row().status,
            error: OpenAiErrorBody::from(error).error,
            headers: Headers::of(error),
        };
        serde_json::to_string(&failure).unwrap_or_default()
    }

    fn answered(&mut self) {
        if let Some(response) = self.running.take().and_then(|keeper| keeper.ended()) {
            self.recent.remember(response);
        }
    }
}

impl<S: Service> Responses<S> {
    /// A request that wants no answer yet. The next request continues it.
    async fn warm_up(
        &mut self,
        shared: &Shared<S>,
        asked: &Asked,
        request: responses::ResponsesRequest,
    ) -> Result<Body, TurnError> {
        let (keeper, reply, _) =
            Keeper::new(shared, &asked.caller, request, Wanted::ByConnection).await?;
        let mut recorder = reply.encoder();
        let mut events = BytesMut::new();
        recorder.on_event(&TurnEvent::Started, &mut events);
        recorder.on_event(&TurnEvent::Finished(FinishReason::Stop), &mut events);
        keeper.keep().await;
        self.running = Some(keeper);
        Ok(Body::from(events.freeze()))
    }
}
