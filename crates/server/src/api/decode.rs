//! Reading what a request says. A large body takes a while: that is done beside the event
//! loop, so that streams that run are not held up, and for a few of them at a time.

use std::sync::Arc;

use bytes::Bytes;
use ibeam_core::{
    error::{ErrorCode, TurnError},
    model::TurnRequest,
    wire::{chat::ChatRequest, messages, responses},
};
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;

use super::{Service, Shared};

/// What is not larger takes less than some milliseconds, and is read where it is.
const LARGE: usize = 1 << 20;

/// How many large ones are worked on at once.
const AT_ONCE: usize = 2;

/// The right to work on a large body.
#[derive(Clone, Debug)]
pub(super) struct Permits(Arc<Semaphore>);

impl Default for Permits {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(AT_ONCE)))
    }
}

/// What a body was decoded to.
pub(super) trait Decoded: Send + 'static {
    fn turn(&self) -> &TurnRequest;
}

impl Decoded for TurnRequest {
    fn turn(&self) -> &TurnRequest {
        self
    }
}

impl Decoded for ChatRequest {
    fn turn(&self) -> &TurnRequest {
        &self.turn
    }
}

impl Decoded for messages::Request {
    fn turn(&self) -> &TurnRequest {
        &self.turn
    }
}

impl Decoded for responses::Request {
    fn turn(&self) -> &TurnRequest {
        &self.turn
    }
}

/// Runs work on `bytes` bytes, off the event loop if they are many.
///
/// # Errors
/// The work failed altogether.
pub(super) async fn run<S: Service, T: Send + 'static>(
    shared: &Shared<S>,
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, TurnError> {
    if bytes <= LARGE {
        return Ok(work());
    }
    let failed = || TurnError::new(ErrorCode::Internal, "the request body could not be read");
    // A client that leaves while it waits here costs nothing more.
    let permit = Arc::clone(&shared.decoding.0).acquire_owned().await.map_err(|_| failed())?;
    let done = shared.service.tasks().spawn_blocking(move || {
        let done = work();
        drop(permit);
        done
    });
    done.await.map_err(|error| failed().cause(error.to_string()))
}

/// Decodes a body. Its bytes are let go with the work.
///
/// # Errors
/// It cannot be understood.
pub(super) async fn body<S: Service, T: Send + 'static>(
    shared: &Shared<S>,
    body: Bytes,
    decode: fn(&[u8]) -> Result<T, TurnError>,
) -> Result<T, TurnError> {
    run(shared, body.len(), move || decode(&body)).await?
}

/// SHA-256 of a body.
///
/// # Errors
/// As [`run`].
pub(super) async fn digest<S: Service>(
    shared: &Shared<S>,
    body: Bytes,
) -> Result<[u8; 32], TurnError> {
    run(shared, body.len(), move || Sha256::digest(&body).into()).await
}

#[cfg(test)]
mod tests {
    use std::{
        sync::mpsc,
        thread::{self, ThreadId},
        time::Duration,
    };

    use axum::body::Body;
    use http::Request;
    use tokio::time::timeout;
    use tower::ServiceExt as _;

    use super::*;
    use crate::{
        api::{Bodies, guard::Rules, responses::Room, router, tests::Fake},
        tasks::Tasks,
    };

    fn shared() -> Shared<Fake> {
        let service = Arc::new(Fake::default());
        let rules = Arc::new(Rules::new(&service.settings));
        let decoding = Permits::default();
        let (background, remembered) = (Arc::default(), Room::default());
        Shared { service, rules, background, remembered, decoding }
    }

    async fn place(shared: &Shared<Fake>, bytes: usize) -> ThreadId {
        run(shared, bytes, || thread::current().id()).await.unwrap()
    }

    #[tokio::test]
    async fn large_bodies_are_read_beside_the_event_loop_and_few_at_once() {
        let shared = shared();
        let here = thread::current().id();
        assert_eq!(place(&shared, LARGE).await, here);
        assert_ne!(place(&shared, LARGE + 1).await, here);

        let (ends, ended): (Vec<_>, Vec<_>) = (0..AT_ONCE).map(|_| mpsc::channel::<()>()).unzip();
        let busy = ended.into_iter().map(|ended| {
            let shared = shared.clone();
            Tasks::new().spawn("test", async move {
                run(&shared, LARGE + 1, move || ended.recv().is_err()).await
            })
        });
        let busy: Vec<_> = busy.collect();
        while shared.decoding.0.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(place(&shared, LARGE).await, here, "small ones do not wait");
        let next = place(&shared, LARGE + 1);
        assert!(timeout(Duration::from_millis(1), next).await.is_err(), "there are only two");
        drop(ends);
        for work in busy {
            assert!(work.await.unwrap().unwrap());
        }
        assert_ne!(place(&shared, LARGE + 1).await, here);
    }

    fn post(content: &str) -> Request<Body> {
        let body = serde_json::json!({
            "model": "auto", "messages": [{ "role": "user", "content": content }],
        });
        let request = Request::post("/v1/chat/completions").header("host", "localhost");
        request.body(body.to_string().into()).unwrap()
    }

    /// A queue of large requests would have any amount of memory otherwise.
    #[tokio::test(start_paused = true)]
    async fn a_request_counts_until_its_turn_has_begun() {
        let mut fake = Fake { start_after: Duration::from_secs(30), ..Fake::default() };
        fake.settings.bodies = Bodies::new(100_000);
        let bodies = Arc::clone(&fake.settings.bodies);
        let router = router(Arc::new(fake));
        let large = router.clone().oneshot(post(&"x".repeat(40_000)));
        let mut large = Box::pin(large);
        assert!(timeout(Duration::from_secs(1), large.as_mut()).await.is_err());
        let held = bodies.health().bytes;
        assert!((40_000..50_000).contains(&held), "{held}");
        // The largest gives way, though it has come in.
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
