//! How many tokens a request would be: `POST /v1/messages/count_tokens` and
//! `POST /v1/responses/input_tokens`.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::{Request, State},
    response::{IntoResponse as _, Response},
};
use http::{HeaderName, HeaderValue};
use ibeam_core::{error::TurnError, model::TurnRequest, wire::messages};
use serde::Serialize;

use super::{
    Ctx, Service, Shared, error,
    log::RequestLog,
    responses,
    turn::{Asked, Incoming},
};
use crate::keys::Caller;

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
    Extension(log): Extension<Arc<RequestLog>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Response {
    let incoming = match Incoming::read(&shared, log, caller, request).await {
        Ok(incoming) => incoming,
        Err(response) => return response,
    };
    let request = messages::decode_count(&incoming.body);
    reply(&shared, incoming.into_asked(), request, None).await
}

pub(super) async fn input_tokens<S: Service>(
    State(shared): Ctx<S>,
    Extension(log): Extension<Arc<RequestLog>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Response {
    let incoming = match Incoming::read(&shared, log, caller, request).await {
        Ok(incoming) => incoming,
        Err(response) => return response,
    };
    let prepared = responses::prepare(&shared, &incoming.asked.caller, &incoming.body, None).await;
    let request = prepared.map(|prepared| prepared.request.turn);
    reply(&shared, incoming.into_asked(), request, Some("response.input_tokens")).await
}

async fn reply<S: Service>(
    shared: &Shared<S>,
    asked: Asked,
    request: Result<TurnRequest, TurnError>,
    object: Option<&'static str>,
) -> Response {
    let counted = async {
        let request = request?;
        asked.log.model(&request.model);
        shared.service.count_tokens(request, asked.digest).await
    };
    match counted.await {
        Ok(count) => {
            let word = if count.exact { "exact" } else { "estimate" };
            let header = [(TOKENS, HeaderValue::from_static(word))];
            (header, Json(Counted { object, input_tokens: count.tokens })).into_response()
        }
        Err(failure) => error::response(&failure),
    }
}
