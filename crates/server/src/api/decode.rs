//! Decodes request bodies. What takes long is left to [`LargeWork`](crate::large::LargeWork).

use bytes::Bytes;
use ibeam_core::{
    error::TurnError,
    model::TurnRequest,
    wire::{chat::ChatRequest, messages},
};
use sha2::{Digest as _, Sha256};

use super::{GatewayService, Shared};
use crate::keys::Caller;

/// What a body was decoded to.
pub(super) trait Decoded: Send + 'static {
    /// About how many bytes it has in memory.
    fn bytes(&self) -> usize;
}

impl Decoded for TurnRequest {
    fn bytes(&self) -> usize {
        self.bytes()
    }
}

impl Decoded for ChatRequest {
    fn bytes(&self) -> usize {
        self.turn.bytes()
    }
}

/// With the estimate of its tokens.
impl Decoded for (messages::MessagesRequest, u64) {
    fn bytes(&self) -> usize {
        self.0.turn.bytes()
    }
}

/// Runs work on `bytes` bytes of a caller, off the event loop if there are many.
///
/// # Errors
/// The work failed altogether.
pub(super) async fn run<S: GatewayService, T: Send + 'static>(
    shared: &Shared<S>,
    caller: &Caller,
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, TurnError> {
    shared.service.large_work().run(&caller.id, bytes, work).await
}

/// Decodes a body, and drops its bytes with the work.
///
/// # Errors
/// It cannot be understood.
pub(super) async fn body<S: GatewayService, T: Send + 'static>(
    shared: &Shared<S>,
    caller: &Caller,
    body: Bytes,
    decode: fn(&[u8]) -> Result<T, TurnError>,
) -> Result<T, TurnError> {
    run(shared, caller, body.len(), move || decode(&body)).await?
}

/// SHA-256 of a body.
///
/// # Errors
/// As [`run`].
pub(super) async fn digest<S: GatewayService>(
    shared: &Shared<S>,
    caller: &Caller,
    body: Bytes,
) -> Result<[u8; 32], TurnError> {
    run(shared, caller, body.len(), move || Sha256::digest(&body).into()).await
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use axum::body::Body;
    use http::Request;
    use tokio::time::timeout;
    use tower::ServiceExt as _;

    use crate::{
        api::{Bodies, router, tests::Fake},
        tasks::Tasks,
    };

    fn post(content: &str) -> Request<Body> {
        let body = serde_json::json!({
            "model": "auto", "messages": [{ "role": "user", "content": content }],
        });
        let request = Request::post("/v1/chat/completions").header("host", "localhost");
        request.body(body.to_string().into()).unwrap()
    }

    /// A queue of large requests would have any amount of memory otherwise.
    #[tokio::test(start_paused = true)]
    async fn request_counts_until_its_turn_has_started() {
        let mut fake = Fake { start_after: Duration::from_secs(30), ..Fake::default() };
        fake.settings.bodies = Bodies::new(100_000);
        let bodies = Arc::clone(&fake.settings.bodies);
        let router = router(Arc::new(fake));
        let large = router.clone().oneshot(post(&"x".repeat(40_000)));
        let mut large = Box::pin(large);
        assert!(timeout(Duration::from_secs(1), large.as_mut()).await.is_err());
        let held = bodies.health().bytes;
        assert!((40_000..50_000).contains(&held), "{held}");
        // The largest is evicted, although it was read completely.
        let small = || router.clone().oneshot(post(&"x".repeat(30_000)));
        let (first, second) =
            (Tasks::new().spawn("test", small()), Tasks::new().spawn("test", small()));
        assert_eq!(large.await.unwrap().status(), 503);
        for begun in [first, second] {
            assert_ne!(begun.await.unwrap().unwrap().status(), 503);
        }
        assert_eq!(bodies.health().bytes, 0);
    }
}
