//! What requests of the Responses API count for, and where they are worked on.

use std::{
    sync::{Arc, atomic::Ordering, mpsc},
    time::Duration,
};

use axum::{Router, body::Body};
use http::Request;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use tower::ServiceExt as _;

use super::*;
use crate::{
    api::{
        Bodies,
        tests::{Fake, app, hello},
    },
    store::{ResponseLimits, Store, StoreLimits},
    tasks::Tasks,
};

const ID: &str = "resp_00000000000000000000000000000001";
const ITEM: &str = "msg_00000000000000000000000000000001_0";

/// Work on this many bytes is done off the event loop.
const LARGE: usize = 2 << 20;

fn ask(body: &Value) -> Request<Body> {
    let request = Request::post("/v1/responses").header("host", "localhost");
    request.body(body.to_string().into()).unwrap()
}

async fn status(router: &Router, body: &Value) -> u16 {
    router.clone().oneshot(ask(body)).await.unwrap().status().as_u16()
}

/// A service that has a stored response with `bytes` bytes of output.
async fn with_output(bytes: usize) -> (Router, Arc<Fake>) {
    let text = json!({ "type": "output_text", "text": "x".repeat(bytes) });
    let item = json!({ "id": ITEM, "type": "message", "role": "assistant", "content": [text] });
    let response = StoredResponse { output: json!([item]).to_string(), ..stored(ID) };
    with_responses([response]).await
}

fn stored(id: &str) -> StoredResponse {
    StoredResponse {
        id: id.to_owned(),
        previous: None,
        status: "completed".to_owned(),
        body: "{}".to_owned(),
        input: "[]".to_owned(),
        output: "[]".to_owned(),
    }
}

async fn with_responses(
    responses: impl IntoIterator<Item = StoredResponse>,
) -> (Router, Arc<Fake>) {
    let day = Duration::from_secs(24 * 3600);
    let limits = ResponseLimits { retention: day, count: 100, bytes: 64 << 20 };
    let limits = StoreLimits { retention: day, bytes: 64 << 20, responses: limits };
    let store = Store::open(None, limits, &Tasks::new()).unwrap();
    let (router, fake) = app(Fake { store, steps: hello(), ..Fake::default() });
    // A first request shows the caller.
    let hi = json!({ "model": "auto", "input": "Hi", "store": false });
    assert_eq!(status(&router, &hi).await, 200);
    let (_, meta) = fake.seen.lock().pop().unwrap();
    let scope = fake.scope(&meta.caller).await.unwrap();
    for response in responses {
        fake.store.save_response(scope, response, fake.unix_now()).await.unwrap();
    }
    (router, fake)
}

fn goes_on() -> Value {
    json!({ "model": "auto", "input": "More", "previous_response_id": ID })
}

fn names(times: usize) -> Value {
    let reference = json!({ "type": "item_reference", "id": ITEM });
    json!({ "model": "auto", "input": vec![reference; times] })
}

/// Each link of a chain may have as many as one request.
#[tokio::test]
async fn items_of_a_chain_are_limited_together() {
    const OLDER: &str = "resp_00000000000000000000000000000002";
    let list = |count: usize| {
        let item = r#"{"role":"user","content":"a"}"#;
        format!("[{}]", vec![item; count].join(","))
    };
    for (count, expected) in [(19_999, 200), (20_000, 400)] {
        let older = StoredResponse { input: list(30_000), ..stored(OLDER) };
        let previous = Some(OLDER.to_owned());
        let newer = StoredResponse { input: list(count), previous, ..stored(ID) };
        let (router, _) = with_responses([older, newer]).await;
        let answer = router.oneshot(ask(&goes_on())).await.unwrap();
        assert_eq!(answer.status().as_u16(), expected);
        if expected == 400 {
            let body = axum::body::to_bytes(answer.into_body(), 1 << 20).await.unwrap();
            let error = serde_json::from_slice::<Value>(&body).unwrap()["error"].take();
            assert!(error["message"].as_str().unwrap().contains("50000 items"), "{error}");
            assert_eq!(error["param"], "previous_response_id");
            assert_eq!(error["code"], "context_length_exceeded");
        }
    }
}

/// Items that no turn knows wait for a turn too.
#[tokio::test(start_paused = true)]
async fn stored_input_counts_until_the_turn_has_started() {
    for (store, keep_responses, expected) in [
        (true, true, 40_000..45_000),
        // A response that is not stored keeps no input.
        (false, true, 1..5_000),
        (true, false, 1..5_000),
    ] {
        let mut fake = Fake { start_after: Duration::from_secs(30), ..Fake::default() };
        fake.settings.bodies = Bodies::new(100_000);
        fake.settings.keep_responses = keep_responses;
        let bodies = Arc::clone(&fake.settings.bodies);
        let (router, _) = app(fake);
        let junk = json!({ "type": "junk", "x": "x".repeat(40_000) });
        let input = json!([junk, { "role": "user", "content": "hi" }]);
        let body = json!({ "model": "auto", "store": store, "input": input });
        let mut waiting = Box::pin(router.oneshot(ask(&body)));
        assert!(timeout(Duration::from_secs(1), waiting.as_mut()).await.is_err());
        let held = bodies.health().bytes;
        assert!(expected.contains(&held), "{held} for {store} and {keep_responses}");
        drop(waiting);
        assert_eq!(bodies.health().bytes, 0);
    }
}

/// A request of a few bytes can continue a long conversation.
#[tokio::test]
async fn loaded_previous_items_count_towards_memory() {
    for body in [goes_on(), names(1)] {
        let (router, fake) = with_output(LARGE).await;
        let bodies = &fake.settings.bodies;
        // Nothing large is decoded until then.
        let (ends, ended): (Vec<_>, Vec<_>) = (0..2).map(|_| mpsc::channel::<()>()).unzip();
        for ended in ended {
            let large = fake.large_work.clone();
            let work = async move { large.run(&[9; 32], LARGE, move || ended.recv()).await };
            Tasks::new().spawn("test", work);
        }
        while fake.large_work.done.load(Ordering::Relaxed) < 2 {
            sleep(Duration::from_millis(1)).await;
        }
        let router = router.clone();
        let running = Tasks::new().spawn("test", async move { status(&router, &body).await });
        let counted = async {
            while bodies.health().bytes < LARGE as u64 {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(Duration::from_secs(10), counted).await.expect("it counts");
        drop(ends);
        assert_eq!(running.await.unwrap(), 200);
        assert_eq!(bodies.health().bytes, 0);
    }
}

/// Any number of small requests would have any amount of memory otherwise.
#[tokio::test]
async fn loading_of_previous_items_is_limited() {
    let (router, fake) = with_output(10).await;
    let mut held = Vec::new();
    while let Ok(permit) = timeout(Duration::ZERO, fake.large_work.load(&[9; 32])).await {
        held.push(permit);
    }
    assert_eq!(held.len(), 4);
    for body in [goes_on(), names(1)] {
        let waits = status(&router, &body);
        assert!(timeout(Duration::from_millis(100), waits).await.is_err(), "{body}");
    }
    assert_eq!(status(&router, &json!({ "model": "auto", "input": "Hi" })).await, 200);
    let (first, second) = (goes_on(), names(1));
    let waits = async { (status(&router, &first).await, status(&router, &second).await) };
    let mut waits = std::pin::pin!(waits);
    assert!(timeout(Duration::from_millis(1), waits.as_mut()).await.is_err());
    held.pop();
    assert_eq!(waits.await, (200, 200), "one permit does for both, one after the other");
}

#[tokio::test]
async fn repeated_references_count_as_large_work() {
    let done = |fake: &Fake| fake.large_work.done.load(Ordering::Relaxed);
    let (router, fake) = with_output(LARGE / 20).await;
    assert_eq!(status(&router, &names(1)).await, 200);
    assert_eq!(done(&fake), 0);
    assert_eq!(status(&router, &names(20)).await, 200);
    assert_eq!(done(&fake), 1);
    // A list of items is read there as well.
    let (router, fake) = with_output(LARGE).await;
    assert_eq!(status(&router, &names(1)).await, 200);
    assert_eq!(done(&fake), 2);
}
