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
use serde::Serialize;

use super::{Headers, Talk, begin};
use crate::{
    api::{Ctx, Service, Shared, log::RequestLog, turn::Incoming},
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
        incoming: Incoming,
    ) -> Result<Option<Body>, TurnError> {
        let (asked, mut request) = incoming.decode(shared, chat::decode_request).await?;
        request.turn.hints.stream = true;
        let response = crate::api::chat::answer(shared, asked, request).await?;
        Ok(Some(response.into_body()))
    }

    fn failure(&self, error: &TurnError) -> String {
        #[derive(Serialize)]
        struct Failure<'a> {
            error: chat::OpenAiError<'a>,
            #[serde(skip_serializing_if = "Option::is_none")]
            headers: Option<Headers>,
        }
        let error_object = chat::OpenAiErrorBody::from(error).error;
        let failure = Failure { error: error_object, headers: Headers::of(error) };
        serde_json::to_string(&failure).unwrap_or_default()
    }

    fn message<'a>(&self, data: &'a str) -> &'a str {
        if data == "[DONE]" { DONE } else { data }
    }
}
