//! `POST /v1/completions`.

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
        completions::{self, Collector, Encoder},
    },
};

use super::{
    Ctx, Service, Shared, error,
    log::RequestLog,
    turn::{self, Incoming, Reply},
};
use crate::keys::Caller;

pub(super) async fn completions<S: Service>(
    State(shared): Ctx<S>,
    Extension(log): Extension<Arc<RequestLog>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Response {
    match Incoming::read(&shared, log, caller, request).await {
        Ok(incoming) => {
            complete(&shared, incoming).await.unwrap_or_else(|failure| error::response(&failure))
        }
        Err(response) => response,
    }
}

async fn complete<S: Service>(
    shared: &Shared<S>,
    incoming: Incoming,
) -> Result<Response, TurnError> {
    let turn = completions::decode(&incoming.body)?;
    let reply = Completion {
        id: completions::completion_id(shared.service.random()),
        created: shared.service.unix_now(),
        model: turn.model.clone(),
        include_usage: turn.hints.include_usage,
    };
    turn::respond(shared, incoming.into_asked(), turn, reply).await
}

struct Completion {
    id: String,
    created: u64,
    model: String,
    include_usage: bool,
}

impl Reply for Completion {
    fn stream(self) -> Box<dyn Encode> {
        Box::new(Encoder::new(&self.id, self.created, &self.model, self.include_usage))
    }

    fn whole(self) -> Box<dyn Collect> {
        Box::new(Collector::new(self.id, self.created, self.model))
    }
}
