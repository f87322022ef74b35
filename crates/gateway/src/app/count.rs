//! How many tokens a request would be.

use ibeam_core::{
    error::{ErrorCode, TurnError},
    model::TurnRequest,
    models::{Family, ModelInfo},
    tokens,
};

use super::App;
use crate::session::IMAGE_TOKENS;

impl App {
    /// Counts here, without the backend.
    ///
    /// # Errors
    /// There is no such model.
    pub async fn count(&self, request: TurnRequest) -> Result<u64, TurnError> {
        let family = match self.catalog.resolve(&request.model, None).await {
            Ok(resolved) => resolved
                .info
                .as_ref()
                .map_or_else(|| Family::of(&resolved.wire_id), ModelInfo::family),
            Err(error) if error.code == ErrorCode::ModelNotFound => return Err(error),
            // Nobody is signed in, say; that is no reason not to count.
            Err(_) => Family::of(&request.model),
        };
        // Loading the tokenizer takes a moment the first time.
        let counted = self.hub.tasks.spawn_blocking(move || {
            let texts: u64 = request.texts().map(|text| tokens::count(text, family)).sum();
            texts + request.images() as u64 * IMAGE_TOKENS
        });
        counted.await.map_err(|_| {
            TurnError::new(ErrorCode::Internal, "the tokens could not be counted; try again")
        })
    }
}
