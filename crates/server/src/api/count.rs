//! How many tokens a request would be: `POST /v1/messages/count_tokens` and
//! `POST /v1/responses/input_tokens`.

use axum::{
    Json,
    extract::State,
    response::{IntoResponse as _, Response},
};
use http::{HeaderName, HeaderValue};
use ibeam_core::{error::TurnError, model::TurnRequest, wire::messages};
use serde::Serialize;

use super::{
    CountedBody, Ctx, GatewayService, Shared,
    error::HandlerError,
    turn::{IncomingRequest, RequestHead},
};

/// Says whether the number is the tokenizer's own.
const TOKENS: HeaderName = HeaderName::from_static("x-ibeam-tokens");

#[derive(Serialize)]
struct CountReply {
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<&'static str>,
    input_tokens: u64,
}

pub(super) async fn tokens<S: GatewayService>(
    State(shared): Ctx<S>,
    incoming: IncomingRequest,
) -> Result<Response, HandlerError> {
    let (asked, request) = incoming.decode(&shared, messages::decode_count).await?;
    let body = CountedBody::Messages(asked.digest);
    reply(&shared, asked, request, body).await
}

pub(super) async fn input_tokens<S: GatewayService>(
    State(shared): Ctx<S>,
    incoming: IncomingRequest,
) -> Result<Response, HandlerError> {
    let (asked, prepared) = incoming.prepare(&shared, None).await?;
    let request = prepared.request.turn;
    let body = CountedBody::Responses(asked.digest);
    reply(&shared, asked, request, body).await
}

async fn reply<S: GatewayService>(
    shared: &Shared<S>,
    mut asked: RequestHead,
    request: TurnRequest,
    body: CountedBody,
) -> Result<Response, HandlerError> {
    asked.log.model(&request.model);
    let object = match body {
        CountedBody::Messages(_) => None,
        CountedBody::Responses(_) => Some("response.input_tokens"),
    };
    let share = asked.share.take();
    let count = shared.service.count_tokens(request, body, &asked.caller);
    let count = match share {
        Some(share) => share.unless_evicted(count).await.map_err(TurnError::from)??,
        None => count.await?,
    };
    let word = if count.exact { "exact" } else { "estimate" };
    let header = [(TOKENS, HeaderValue::from_static(word))];
    Ok((header, Json(CountReply { object, input_tokens: count.tokens })).into_response())
}
