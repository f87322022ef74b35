//! `POST /v1/messages`.

use axum::{extract::State, response::Response};
use ibeam_core::{
    tokens::quick_estimate,
    wire::{
        Collect, Encode,
        messages::{self, MessagesCollector, MessagesEncoder, Thinking},
    },
};

use super::{
    Ctx, Service,
    error::Failed,
    turn::{self, Incoming, Reply},
};
pub(super) async fn create<S: Service>(
    State(shared): Ctx<S>,
    incoming: Incoming,
) -> Result<Response, Failed> {
    let (asked, request) = incoming.decode(&shared, messages::decode).await?;
    let messages::MessagesRequest { turn, thinking } = request;
    let reply = Message {
        id: messages::message_id(shared.service.random()),
        model: turn.model.clone(),
        thinking,
        stop: turn.sampling.stop.clone(),
        input_estimate: if turn.hints.stream { quick_estimate(&turn) } else { 0 },
    };
    Ok(turn::respond(&shared, asked, turn, reply).await?)
}

struct Message {
    id: String,
    model: String,
    thinking: Thinking,
    stop: Vec<String>,
    /// Tokens of the prompt, for the start of a stream.
    input_estimate: u64,
}

impl Reply for Message {
    fn stream(self) -> Box<dyn Encode> {
        let encoder = MessagesEncoder::new(self.id, self.model, self.thinking, self.stop);
        Box::new(encoder.with_input_estimate(self.input_estimate))
    }

    fn whole(self) -> Box<dyn Collect> {
        Box::new(MessagesCollector::new(self.id, self.model, self.thinking, self.stop))
    }
}
