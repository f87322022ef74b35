//! Requests over a WebSocket, to a scripted service and without a real socket.

use std::pin::Pin;

use axum::Router;
use futures_util::{SinkExt as _, StreamExt as _};
use hyper::{server::conn::http1, service::service_fn};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Message, protocol::Role},
};
use tower::ServiceExt as _;

use super::*;
use crate::{
    api::{
        Bodies, ClientConnection, KeylessPermit, router,
        tests::{Fake, hello},
    },
    tasks::Tasks,
};

const START: Duration = Duration::from_secs(30);
const SECOND: Duration = Duration::from_secs(1);

/// A connection that the server has no wishes about.
struct Idle;

impl ClientConnection for Idle {
    fn showed_key(&self, _: &crate::keys::Caller) {}

    fn begin(&self) -> Box<dyn Send> {
        Box::new(())
    }

    fn asked_to_leave(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::pending())
    }

    fn keyless(&self) -> Pin<Box<dyn Future<Output = Option<KeylessPermit>> + Send>> {
        Box::pin(std::future::ready(None))
    }
}

struct Socket(WebSocketStream<DuplexStream>);

impl Socket {
    async fn open(router: &Router, path: &str) -> Self {
        let (mut client, server) = duplex(1 << 20);
        let router = router.clone();
        let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(ConnectionHandle(Arc::new(Idle)));
            router.clone().oneshot(request)
        });
        let connection =
            http1::Builder::new().serve_connection(TokioIo::new(server), service).with_upgrades();
        Tasks::new().spawn("test", async move { connection.await.unwrap() });
        let head = format!(
            "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\n\
             upgrade: websocket\r\nsec-websocket-version: 13\r\n\
             sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        client.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            answer.push(client.read_u8().await.unwrap());
        }
        assert!(answer.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&answer));
        Self(WebSocketStream::from_raw_socket(client, Role::Client, None).await)
    }

    async fn send(&mut self, message: &Value) {
        self.0.send(Message::text(message.to_string())).await.unwrap();
    }

    async fn next(&mut self) -> Message {
        self.0.next().await.unwrap().unwrap()
    }

    async fn json(&mut self) -> Value {
        serde_json::from_str(self.next().await.to_text().unwrap()).unwrap()
    }
}

fn chat(bytes: usize) -> Value {
    json!({ "model": "auto", "messages": [{ "role": "user", "content": "x".repeat(bytes) }] })
}

fn response(bytes: usize) -> Value {
    json!({ "type": "response.create", "model": "auto", "store": false, "input": "x".repeat(bytes) })
}

/// A router with turns that start slowly, and the memory for its bodies.
fn slow_to_start() -> (Router, Arc<Bodies>) {
    let mut fake = Fake { start_after: START, steps: hello(), ..Fake::default() };
    fake.settings.bodies = Bodies::new(100_000);
    let bodies = Arc::clone(&fake.settings.bodies);
    (router(Arc::new(fake)), bodies)
}

/// Time stands still while anything can be done: afterwards all of it is done.
async fn settled() {
    sleep(SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn message_counts_until_its_turn_has_started() {
    for (path, message, expected) in [
        ("/v1/chat/completions", chat(40_000), 40_000..50_000),
        // What was said is in the turn, and as the connection remembers it.
        ("/v1/responses", response(40_000), 80_000..90_000),
    ] {
        let (router, bodies) = slow_to_start();
        let mut socket = Socket::open(&router, path).await;
        socket.send(&message).await;
        settled().await;
        let held = bodies.health().bytes;
        assert!(expected.contains(&held), "{path}: {held}");
        sleep(START).await;
        assert_eq!(bodies.health().bytes, 0, "{path}");
        assert!(socket.json().await["error"].is_null());
    }
}

#[tokio::test(start_paused = true)]
async fn message_that_waits_for_a_permit_can_be_evicted() {
    let (router, bodies) = slow_to_start();
    let mut socket = Socket::open(&router, "/v1/chat/completions").await;
    socket.send(&chat(40_000)).await;
    settled().await;
    let (mut first, mut second) = (bodies.begin([8; 32]), bodies.begin([9; 32]));
    first.grow(35_000).unwrap();
    second.grow(35_000).unwrap();
    let failure = socket.json().await;
    assert_eq!(failure["error"]["status"], 503, "{failure}");
    assert_eq!(bodies.health().bytes, 70_000);
    drop((first, second));
    // The connection serves the next request.
    socket.send(&chat(10)).await;
    assert_eq!(socket.json().await["object"], "chat.completion.chunk");
}

#[tokio::test(start_paused = true)]
async fn queued_message_can_be_evicted() {
    let (router, bodies) = slow_to_start();
    let mut socket = Socket::open(&router, "/v1/chat/completions").await;
    socket.send(&chat(40_000)).await;
    settled().await;
    socket.send(&chat(45_000)).await;
    settled().await;
    let held = bodies.health().bytes;
    assert!((85_000..95_000).contains(&held), "{held}");
    let mut other = bodies.begin([9; 32]);
    other.grow(30_000).unwrap();
    settled().await;
    let held = bodies.health().bytes;
    assert!((70_000..80_000).contains(&held), "{held}");
    // The first is answered, and then the client learns what became of the second.
    while socket.json().await["object"] != "chat.completion.done" {}
    let failure = socket.json().await;
    assert_eq!(failure["error"]["status"], 503, "{failure}");
    assert!(socket.next().await.is_close());
}
