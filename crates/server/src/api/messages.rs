//! `POST /v1/messages`.

use axum::{extract::State, response::Response};
use ibeam_core::{
    error::TurnError,
    tokens::quick_estimate,
    wire::{
        Collect, Encode,
        messages::{self, MessagesCollector, MessagesEncoder, Thinking},
    },
};

use super::{
    Ctx, GatewayService,
    error::HandlerError,
    turn::{self, IncomingRequest, ReplyFormat},
};
pub(super) async fn create<S: GatewayService>(
    State(shared): Ctx<S>,
    incoming: IncomingRequest,
) -> Result<Response, HandlerError> {
    let (asked, request) = incoming.decode(&shared, decode).await?;
    let (messages::MessagesRequest { turn, thinking }, input_estimate) = request;
    let reply = MessageReply {
        id: messages::message_id(shared.service.random()),
        model: turn.model.clone(),
        thinking,
        stop: turn.sampling.stop.clone(),
        input_estimate,
    };
    Ok(turn::respond(&shared, asked, turn, reply).await?)
}

/// Decodes a body and estimates its tokens, for the start of a stream: that reads all of it.
fn decode(body: &[u8]) -> Result<(messages::MessagesRequest, u64), TurnError> {
    let request = messages::decode(body)?;
    let estimate = if request.turn.hints.stream { quick_estimate(&request.turn) } else { 0 };
    Ok((request, estimate))
}

struct MessageReply {
    id: String,
    model: String,
    thinking: Thinking,
    stop: Vec<String>,
    /// Tokens of the prompt, for the start of a stream.
    input_estimate: u64,
}

impl ReplyFormat for MessageReply {
    fn stream(self) -> Box<dyn Encode> {
        let encoder = MessagesEncoder::new(self.id, self.model, self.thinking, self.stop);
        Box::new(encoder.with_input_estimate(self.input_estimate))
    }

    fn whole(self) -> Box<dyn Collect> {
        Box::new(MessagesCollector::new(self.id, self.model, self.thinking, self.stop))
    }
}
