//! `POST /v1/messages/count_tokens`.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::{Request, State},
    response::{IntoResponse as _, Response},
};
use ibeam_core::{error::TurnError, wire::messages};
use serde::Serialize;

use super::{Ctx, Service, Shared, error, log::RequestLog, turn::Incoming};
use crate::keys::Caller;

#[derive(Serialize)]
struct Count {
    input_tokens: u64,
}

pub(super) async fn tokens<S: Service>(
    State(shared): Ctx<S>,
    Extension(log): Extension<Arc<RequestLog>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Response {
    match Incoming::read(&shared, log, caller, request).await {
        Ok(incoming) => match count(&shared, incoming).await {
            Ok(count) => Json(count).into_response(),
            Err(failure) => error::response(&failure),
        },
        Err(response) => response,
    }
}

async fn count<S: Service>(shared: &Shared<S>, incoming: Incoming) -> Result<Count, TurnError> {
    let request = messages::decode_count(&incoming.body)?;
    incoming.asked.log.model(&request.model);
    let input_tokens = shared.service.count_tokens(request).await?;
    Ok(Count { input_tokens })
}
