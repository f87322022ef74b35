use serde_json::{Value, json};

use super::*;

async fn sent(queue: &mut OutgoingQueue) -> Value {
    let message = match queue.recv().await.unwrap() {
        Outgoing::Request { message, .. } | Outgoing::Note(message) => message,
    };
    serde_json::from_slice(&message).unwrap()
}

#[tokio::test]
async fn answer_reaches_its_caller() {
    let (peer, mut queue) = ServerPeer::new();
    let answered = async {
        let asked = sent(&mut queue).await;
        peer.receive(json!({ "id": asked["id"], "result": { "a": 1 } }).to_string().as_bytes());
    };
    let (result, ()) = tokio::join!(peer.request(McpRequest::Ping), answered);
    assert_eq!(result.unwrap().get(), r#"{"a":1}"#);
    let refused = async {
        let asked = sent(&mut queue).await;
        let error = json!({ "code": -1, "message": "no" });
        peer.receive(json!({ "id": asked["id"], "error": error }).to_string().as_bytes());
    };
    let (result, ()) = tokio::join!(peer.request(McpRequest::Ping), refused);
    assert_eq!(result.unwrap_err().to_string(), "no");
}

#[tokio::test]
async fn dropped_caller_cancels_its_request() {
    let (peer, mut queue) = ServerPeer::new();
    let asked = tokio::select! {
        _ = peer.request(McpRequest::Ping) => panic!("it was not answered"),
        asked = queue.recv() => asked.unwrap(),
    };
    let Outgoing::Request { id, gone, .. } = asked else { panic!() };
    assert!(gone.is_cancelled() && !peer.is_waiting(id));
    let cancelled = sent(&mut queue).await;
    assert_eq!(cancelled["method"], "notifications/cancelled");
    assert_eq!(cancelled["params"]["requestId"], json!(id));
}

#[tokio::test]
async fn closed_connection_fails_all_waiting_requests() {
    let (peer, mut queue) = ServerPeer::new();
    let closing = peer.closing();
    let end = async {
        sent(&mut queue).await;
        drop(closing);
    };
    let (result, ()) = tokio::join!(peer.request(McpRequest::Ping), end);
    assert_eq!(result.unwrap_err(), RequestFailure::Closed);
    assert_eq!(peer.request(McpRequest::Ping).await.unwrap_err(), RequestFailure::Closed);
    peer.over().await;
}

#[tokio::test]
async fn lost_message_fails_only_its_request() {
    let (peer, mut queue) = ServerPeer::new();
    let lost = async {
        let asked = sent(&mut queue).await;
        peer.fail(asked["id"].as_u64().unwrap(), "HTTP status 500");
    };
    let (result, ()) = tokio::join!(peer.request(McpRequest::Ping), lost);
    assert_eq!(result.unwrap_err().to_string(), "HTTP status 500");
    assert!(!peer.0.over.is_cancelled());
}

#[tokio::test]
async fn server_initiated_messages_are_handled() {
    let (peer, mut queue) = ServerPeer::new();
    peer.receive(br#"{"id":"s","method":"ping"}"#);
    assert_eq!(sent(&mut queue).await, json!({ "jsonrpc": "2.0", "id": "s", "result": {} }));
    peer.receive(br#"{"method":"notifications/tools/list_changed"}"#);
    peer.changed().await;
    // More than there is room for is dropped, not waited for.
    for _ in 0..2 * QUEUE {
        peer.receive(br#"{"id":"s","method":"ping"}"#);
    }
}

#[tokio::test]
async fn handshake_is_request_response_and_notification() {
    let (peer, mut queue) = ServerPeer::new();
    let server = async {
        let asked = sent(&mut queue).await;
        assert_eq!(asked["method"], "initialize");
        let result = json!({ "protocolVersion": "2025-06-18", "capabilities": { "tools": {} } });
        peer.receive(json!({ "id": asked["id"], "result": result }).to_string().as_bytes());
        assert_eq!(sent(&mut queue).await["method"], "notifications/initialized");
    };
    let (greeting, ()) = tokio::join!(peer.greet(), server);
    assert_eq!(greeting.unwrap(), ServerGreeting { version: "2025-06-18".to_owned(), tools: true });
}
