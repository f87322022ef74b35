//! `GET /v1/chat/completions` with an upgrade: a request is a message, and so is each
//! chunk of its answer.

use std::sync::Arc;

use axum::{
    Extension,
    body::Body,
    extract::{Request, State},
    response::Response,
};
use ibeam_core::{error::TurnError, wire::chat};

use super::{Said, Talk, begin};
use crate::{
    api::{Ctx, Service, Shared, log::RequestLog, turn::Asked},
    keys::Caller,
};

/// Says that an answer is complete, where every message is JSON.
const DONE: &str = r#"{"object":"chat.completion.done"}"#;

pub(in crate::api) async fn chat<S: Service>(
    State(shared): Ctx<S>,
    Extension(log): Extension<Arc<RequestLog>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Response {
    begin(shared, caller, log, request, Chat)
}

struct Chat;

impl<S: Service> Talk<S> for Chat {
    async fn answer(
        &mut self,
        shared: &Shared<S>,
        asked: Asked,
        message: Said,
    ) -> Result<Option<Body>, TurnError> {
        let mut turn = chat::decode(message.text.as_bytes())?;
        drop(message);
        turn.hints.stream = true;
        let response = crate::api::chat::answer(shared, asked, turn).await?;
        Ok(Some(response.into_body()))
    }

    fn failure(&self, error: &TurnError) -> String {
        serde_json::to_string(&chat::ErrorBody::from(error)).unwrap_or_default()
    }

    fn message<'a>(&self, data: &'a str) -> &'a str {
        if data == "[DONE]" { DONE } else { data }
    }
}
