//! `POST /v1/completions`.

use axum::{extract::State, response::Response};
use ibeam_core::wire::{
    Collect, Encode,
    completions::{self, CompletionCollector, CompletionEncoder},
};

use super::{
    Ctx, Service,
    error::Failed,
    turn::{self, Incoming, Reply},
};
pub(super) async fn completions<S: Service>(
    State(shared): Ctx<S>,
    incoming: Incoming,
) -> Result<Response, Failed> {
    let (asked, turn) = incoming.decode(&shared, completions::decode).await?;
    let reply = Completion {
        id: completions::completion_id(shared.service.random()),
        created: shared.service.unix_now(),
        model: turn.model.clone(),
        include_usage: turn.hints.include_usage,
    };
    Ok(turn::respond(&shared, asked, turn, reply).await?)
}

struct Completion {
    id: String,
    created: u64,
    model: String,
    include_usage: bool,
}

impl Reply for Completion {
    fn stream(self) -> Box<dyn Encode> {
        Box::new(CompletionEncoder::new(&self.id, self.created, &self.model, self.include_usage))
    }

    fn whole(self) -> Box<dyn Collect> {
        Box::new(CompletionCollector::new(self.id, self.created, self.model))
    }
}
