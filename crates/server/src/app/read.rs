//! What a request says about where it belongs. All of it is hashed for that, which takes time in
//! proportion to its size: see [`LargeWork`](crate::large::LargeWork).

use ibeam_core::{agent::ModelPick, model::TurnRequest};

use crate::{
    session::{Identity, LegKey, Outline, Told, results_without_call},
    store::Scope,
};

/// A request that was read to its end.
pub(super) struct Read {
    pub(super) request: TurnRequest,
    pub(super) outline: Outline,
    pub(super) told: Told,
    pub(super) identity: Identity,
    /// Names the leg that the results of the request begin, if it has any.
    pub(super) results_key: Option<LegKey>,
    /// The ids of calls that it has results for and does not have itself.
    pub(super) missing_calls: Vec<String>,
}

impl Read {
    pub(super) fn new(request: TurnRequest, scope: Scope, model: ModelPick) -> Self {
        let (outline, told) = Outline::with_told(&request);
        let identity = Identity { scope, setup: outline.setup, model };
        let results_key = outline.results_key(&identity, &request);
        let missing_calls = results_without_call(&request, outline.split);
        let missing_calls = missing_calls.into_iter().map(str::to_owned).collect();
        Self { request, outline, told, identity, results_key, missing_calls }
    }
}
