//! How many tokens a request would be.

use ibeam_core::{
    error::{ErrorCode, TurnError},
    model::TurnRequest,
    models::{Family, ModelInfo},
    tokens::Count,
};

use super::App;
use crate::api::CountedBody;

impl App {
    /// Counts here, without the backend. `body` is the request as it came, `key` the
    /// one that its client called with.
    ///
    /// # Errors
    /// There is no such model.
    pub async fn count(
        &self,
        request: TurnRequest,
        body: CountedBody,
        key: &[u8; 32],
    ) -> Result<Count, TurnError> {
        let (family, model) = match self.catalog.resolve(&request.model, None).await {
            Ok(resolved) => {
                let family = resolved.info.as_ref().map(ModelInfo::family);
                (family.unwrap_or_else(|| Family::of(&resolved.wire_id)), resolved.wire_id)
            }
            Err(error) if error.code == ErrorCode::ModelNotFound => return Err(error),
            // Counting needs no sign-in and no list.
            Err(_) => (Family::of(&request.model), request.model.clone()),
        };
        self.hub.counter.request((family, &model), request, body, key).await
    }
}
