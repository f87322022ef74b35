//! `POST /v1/messages`.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{Request, State},
    response::Response,
};
use ibeam_core::{
    error::TurnError,
    wire::{
        Collect, Encode,
        messages::{self, Collector, Encoder, Thinking},
    },
};

use super::{
    Ctx, Service, Shared, error,
    log::RequestLog,
    turn::{self, Incoming, Reply},
};
use crate::keys::Caller;

pub(super) async fn create<S: Service>(
    State(shared): Ctx<S>,
    Extension(log): Extension<Arc<RequestLog>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Response {
    match Incoming::read(&shared, log, caller, request).await {
        Ok(incoming) => {
            answer(&shared, incoming).await.unwrap_or_else(|failure| error::response(&failure))
        }
        Err(response) => response,
    }
}

async fn answer<S: Service>(shared: &Shared<S>, incoming: Incoming) -> Result<Response, TurnError> {
    let messages::Request { turn, thinking } = messages::decode(&incoming.body)?;
    let reply = Message {
        id: messages::message_id(shared.service.random()),
        model: turn.model.clone(),
        thinking,
        stop: turn.sampling.stop.clone(),
    };
    turn::respond(shared, incoming.into_asked(), turn, reply).await
}

struct Message {
    id: String,
    model: String,
    thinking: Thinking,
    stop: Vec<String>,
}

impl Reply for Message {
    fn stream(self) -> Box<dyn Encode> {
        Box::new(Encoder::new(self.id, self.model, self.thinking, self.stop))
    }

    fn whole(self) -> Box<dyn Collect> {
        Box::new(Collector::new(self.id, self.model, self.thinking, self.stop))
    }
}
