//! How many tokens a request would be: `POST /v1/messages/count_tokens` and
//! `POST /v1/responses/input_tokens`.

use axum::{
    Json,
    extract::State,
    response::{IntoResponse as _, Response},
};
use http::{HeaderName, HeaderValue};
use ibeam_core::{model::TurnRequest, wire::messages};
use serde::Serialize;

use super::{
    Ctx, Service, Shared,
    error::Failed,
    responses,
    turn::{Asked, Incoming},
};

/// Says whether the number is the tokenizer's own.
const TOKENS: HeaderName = HeaderName::from_static("x-ibeam-tokens");

#[derive(Serialize)]
struct Counted {
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<&'static str>,
    input_tokens: u64,
}

pub(super) async fn tokens<S: Service>(
    State(shared): Ctx<S>,
    incoming: Incoming,
) -> Result<Response, Failed> {
    let request = messages::decode_count(&incoming.body)?;
    reply(&shared, incoming.into_asked(), request, None).await
}

pub(super) async fn input_tokens<S: Service>(
    State(shared): Ctx<S>,
    incoming: Incoming,
) -> Result<Response, Failed> {
    let (caller, body) = (&incoming.asked.caller, &incoming.body);
    let prepared = responses::prepare(&shared, caller, body, None).await?;
    let request = prepared.request.turn;
    reply(&shared, incoming.into_asked(), request, Some("response.input_tokens")).await
}

async fn reply<S: Service>(
    shared: &Shared<S>,
    asked: Asked,
    request: TurnRequest,
    object: Option<&'static str>,
) -> Result<Response, Failed> {
    asked.log.model(&request.model);
    let count = shared.service.count_tokens(request, asked.digest).await?;
    let word = if count.exact { "exact" } else { "estimate" };
    let header = [(TOKENS, HeaderValue::from_static(word))];
    Ok((header, Json(Counted { object, input_tokens: count.tokens })).into_response())
}
