//! OpenAI's Responses: `POST /v1/responses`, and what can be asked about the responses that
//! were kept.

mod background;
mod compact;
mod continuation;
mod keeper;
mod recent;
mod stored;

use axum::{extract::State, response::Response};
use ibeam_core::error::{ErrorCode, TurnError};

pub(super) use self::{
    background::{Background, cancel},
    compact::compact,
    continuation::{PreparedRequest, prepare},
    keeper::{KeepFor, ResponseKeeper, answer},
    recent::{RecentBytes, RecentResponses},
    stored::{delete, get, input_items},
};
use super::{Ctx, GatewayService, error::HandlerError, turn::IncomingRequest};

pub(super) async fn create<S: GatewayService>(
    State(shared): Ctx<S>,
    incoming: IncomingRequest,
) -> Result<Response, HandlerError> {
    let keeps = shared.service.settings().keep_responses;
    let trim = |mut prepared: PreparedRequest| {
        if !(prepared.request.store && keeps) {
            // It is not asked for again.
            prepared.request.input = Vec::new();
        }
        prepared.without_before()
    };
    let (asked, PreparedRequest { request, before: _ }) =
        incoming.prepare_and(&shared, None, trim).await?;
    if !request.generate {
        let text = "`generate` is only supported over WebSockets";
        return Err(TurnError::new(ErrorCode::UnsupportedParameter, text).param("generate").into());
    }
    if request.background {
        return Ok(background::start(&shared, asked, request).await?);
    }
    let (response, keeper) = answer(&shared, asked, request, KeepFor::Store).await?;
    Ok(keeper.before_the_end_of(response).await)
}

/// A response that does not exist, or not any more.
fn not_found(id: &str) -> TurnError {
    let text = format!("the response `{}` was not found or has expired", short(id));
    TurnError::new(ErrorCode::ResponseNotFound, text)
}

fn unreadable(error: &crate::store::StoreError) -> TurnError {
    let text = "stored responses cannot be read right now; try again shortly";
    TurnError::new(ErrorCode::Unavailable, text).cause(error.to_string())
}

/// An id as far as it is worth repeating.
fn short(id: &str) -> &str {
    id.get(..id.floor_char_boundary(100)).unwrap_or(id)
}
