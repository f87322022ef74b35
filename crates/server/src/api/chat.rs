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
    Ctx, GatewayService, Shared,
    error::HandlerError,
    turn::{self, IncomingRequest, ReplyFormat, RequestHead},
};
pub(super) async fn completions<S: GatewayService>(
    State(shared): Ctx<S>,
    incoming: IncomingRequest,
) -> Result<Response, HandlerError> {
    let (asked, request) = incoming.decode(&shared, chat::decode_request).await?;
    Ok(answer(&shared, asked, request).await?)
}

/// The answer to a request that is understood.
pub(super) async fn answer<S: GatewayService>(
    shared: &Shared<S>,
    asked: RequestHead,
    ChatRequest { turn, custom }: ChatRequest,
) -> Result<Response, TurnError> {
    let reply = ChatReply {
        id: chat::completion_id(shared.service.random()),
        created: shared.service.unix_now(),
        model: turn.model.clone(),
        include_usage: turn.hints.include_usage,
        custom,
    };
    turn::respond(shared, asked, turn, reply).await
}

struct ChatReply {
    id: String,
    created: u64,
    model: String,
    include_usage: bool,
    /// The names of custom tools.
    custom: Vec<String>,
}

impl ReplyFormat for ChatReply {
    fn stream(self) -> Box<dyn Encode> {
        let encoder = ChatEncoder::new(&self.id, self.created, &self.model, self.include_usage);
        Box::new(encoder.with_custom(self.custom))
    }

    fn whole(self) -> Box<dyn Collect> {
        Box::new(ChatCollector::new(self.id, self.created, self.model, self.custom))
    }
}
