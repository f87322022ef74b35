//! `POST /v1/chat/completions`.

use axum::{extract::State, response::Response};
use ibeam_core::{
    error::TurnError,
    wire::{
        Collect, Encode,
        chat::{self, ChatCollector, ChatEncoder, ChatRequest},
    },
};

use super::{
    Ctx, Service, Shared,
    error::Failed,
    turn::{self, Asked, Incoming, Reply},
};
pub(super) async fn completions<S: Service>(
    State(shared): Ctx<S>,
    incoming: Incoming,
) -> Result<Response, Failed> {
    let (asked, request) = incoming.decode(&shared, chat::decode_request).await?;
    Ok(answer(&shared, asked, request).await?)
}

/// The answer to a request that is understood.
pub(super) async fn answer<S: Service>(
    shared: &Shared<S>,
    asked: Asked,
    ChatRequest { turn, custom }: ChatRequest,
) -> Result<Response, TurnError> {
    let reply = Chat {
        id: chat::completion_id(shared.service.random()),
        created: shared.service.unix_now(),
        model: turn.model.clone(),
        include_usage: turn.hints.include_usage,
        custom,
    };
    turn::respond(shared, asked, turn, reply).await
}

struct Chat {
    id: String,
    created: u64,
    model: String,
    include_usage: bool,
    /// The names of custom tools.
    custom: Vec<String>,
}

impl Reply for Chat {
    fn stream(self) -> Box<dyn Encode> {
        let encoder = ChatEncoder::new(&self.id, self.created, &self.model, self.include_usage);
        Box::new(encoder.with_custom(self.custom))
    }

    fn whole(self) -> Box<dyn Collect> {
        Box::new(ChatCollector::new(self.id, self.created, self.model, self.custom))
    }
}
