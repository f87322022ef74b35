//! The protocol on the wire, in all its versions: with sessions, without, as a stream and
//! in one piece.

use super::*;
use crate::mcp::host::{feed::KEEP_ALIVE, served};

const WITH_SESSIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];

#[tokio::test]
async fn session_works_in_every_version_with_sessions() {
    for version in WITH_SESSIONS {
        let mut house = House::with(&["a"]).await;
        let session = house.session(version).await;
        let mut listed = Events::of(house.ask(house.post(BOTH, Some(&session), &list())).await);
        let listed = listed.message().await.unwrap();
        assert_eq!(
            listed["result"],
            json!({ "tools": [{ "name": "a", "description": "Does a.", "inputSchema": { "type": "object" } }] })
        );
        let mut events =
            Events::of(house.ask(house.post(BOTH, Some(&session), &call(7, "a"))).await);
        let asked = house.call().await;
        assert_eq!(asked.arguments, r#"{"n":7}"#);
        house.room.answer(text(asked.id, "done"));
        let answer = events.message().await.unwrap();
        assert_eq!(answer["id"], json!(7));
        assert_eq!(answer["result"]["content"], json!([{ "type": "text", "text": "done" }]));
        assert_eq!(events.message().await, None, "the stream ends with the answer");
    }
}

fn without_session(house: &House, method: Method, session: &str) -> Request<Full<Bytes>> {
    let request = house.request(method).header(header::ACCEPT, "text/event-stream");
    request.header("mcp-session-id", session).body(Full::default()).unwrap()
}

#[tokio::test]
async fn session_has_its_own_stream_and_can_be_deleted() {
    let mut house = House::with(&["a"]).await;
    let session = house.session("2025-06-18").await;
    let stream = house.ask(without_session(&house, Method::GET, &session)).await;
    let mut stream = Events::of(stream);
    let mut waits = Events::of(house.ask(house.post(BOTH, Some(&session), &call(1, "a"))).await);
    let asked = house.call().await;
    let ended = house.ask(without_session(&house, Method::DELETE, &session)).await;
    assert_eq!(ended.status(), StatusCode::ACCEPTED);
    assert_eq!(stream.message().await, None);
    assert_eq!(waits.message().await, None);
    assert_eq!(house.event().await, RoomEvent::Dropped(asked.id));
    let gone = house.ask(house.post(BOTH, Some(&session), &list())).await;
    assert_eq!(gone.status(), StatusCode::NOT_FOUND);
    let unknown = house.ask(without_session(&house, Method::GET, "unknown")).await;
    assert_eq!(unknown.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn cancellation_in_a_session_drops_the_call() {
    let mut house = House::with(&["a"]).await;
    let session = house.session("2025-06-18").await;
    let waits = Events::of(house.ask(house.post(BOTH, Some(&session), &call(5, "a"))).await);
    let asked = house.call().await;
    let params = json!({ "requestId": 5, "reason": "enough" });
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
    let response = house.ask(house.post(BOTH, Some(&session), &cancel)).await;
    assert_eq!(response.status(), StatusCode::ACCEPTED);
    assert_eq!(house.event().await, RoomEvent::Dropped(asked.id));
    drop(waits);
}

/// The client lost its connection, not its interest.
#[tokio::test]
async fn stream_of_a_session_can_be_resumed() {
    let mut house = House::with(&["a"]).await;
    let session = house.session("2025-11-25").await;
    let mut lost = Events::of(house.ask(house.post(BOTH, Some(&session), &call(3, "a"))).await);
    let asked = house.call().await;
    // The first event has nothing but the name under which to come back.
    while lost.last_id.is_none() {
        let Ok(frame) = lost.body.frame().await.unwrap();
        let text = std::str::from_utf8(frame.data_ref().unwrap()).unwrap().to_owned();
        lost.last_id =
            text.lines().find_map(|line| line.strip_prefix("id:")).map(|id| id.trim().to_owned());
    }
    let last = lost.last_id.take().unwrap();
    drop(lost);
    let mut again = without_session(&house, Method::GET, &session);
    again.headers_mut().insert("last-event-id", last.parse().unwrap());
    let mut rest = Events::of(house.ask(again).await);
    house.room.answer(text(asked.id, "still here"));
    let answer = rest.message().await.unwrap();
    assert_eq!(answer["result"]["content"][0]["text"], json!("still here"));
}

#[tokio::test]
async fn request_without_a_session_is_answered() {
    let mut house = House::with(&["a"]).await;
    for accept in [BOTH, "text/event-stream"] {
        let mut events = Events::of(house.ask(house.post(accept, None, &call(2, "a"))).await);
        let asked = house.call().await;
        house.room.answer(text(asked.id, "alone"));
        let answer = events.message().await.unwrap();
        assert_eq!(answer["result"]["content"][0]["text"], json!("alone"));
        assert_eq!(events.message().await, None);
    }
    // Others read JSON only, and then nothing may come before the answer.
    let mut with_token = call(2, "a");
    with_token["params"]["_meta"] = json!({ "progressToken": "t" });
    for accept in ["application/json", "*/*"] {
        let request = house.post(accept, None, &with_token);
        let entrance =
            HostEntrance::new(&house.host.rooms, house.host.port.get().copied().unwrap());
        let answered = async {
            let asked = house.call().await;
            house.room.answer(text(asked.id, "whole"));
        };
        let (response, ()) = tokio::join!(entrance.answer(request), answered);
        assert_eq!(response.headers()[header::CONTENT_TYPE], "application/json");
        let answer: Value = serde_json::from_str(&whole(response).await).unwrap();
        assert_eq!(answer["result"]["content"][0]["text"], json!("whole"));
    }
    let begun = house.ask(house.post("application/json", None, &initialize("2025-06-18"))).await;
    assert!(!begun.headers().contains_key("mcp-session-id"));
    let begun: Value = serde_json::from_str(&whole(begun).await).unwrap();
    assert_eq!(begun["result"]["protocolVersion"], json!("2025-06-18"));
    let page = house.ask(house.post("text/html", None, &list())).await;
    assert_eq!(page.status(), StatusCode::NOT_ACCEPTABLE);
}

/// Long enough for several words of progress, if there were any.
#[tokio::test(start_paused = true)]
async fn json_answer_has_no_progress() {
    let mut house = House::with(&["a"]).await;
    let mut asks = call(2, "a");
    asks["params"]["_meta"] = json!({ "progressToken": "t" });
    let request = house.post("application/json", None, &asks);
    let entrance = HostEntrance::new(&house.host.rooms, house.host.port.get().copied().unwrap());
    let answered = async {
        let asked = house.call().await;
        tokio::time::sleep(Duration::from_secs(600)).await;
        house.room.answer(text(asked.id, "at last"));
    };
    let (response, ()) = tokio::join!(entrance.answer(request), answered);
    assert_eq!(response.headers()[header::CONTENT_TYPE], "application/json");
    assert!(whole(response).await.contains("at last"));
}

#[tokio::test]
async fn closed_connection_without_a_session_drops_the_call() {
    let mut house = House::with(&["a"]).await;
    let events = Events::of(house.ask(house.post(BOTH, None, &call(1, "a"))).await);
    assert_eq!(house.call().await.id, 1);
    drop(events);
    assert_eq!(house.event().await, RoomEvent::Dropped(1));
    // Also one that has not got its head yet.
    let request = house.post("application/json", None, &call(2, "a"));
    let entrance = HostEntrance::new(&house.host.rooms, house.host.port.get().copied().unwrap());
    tokio::select! {
        _ = entrance.answer(request) => panic!("the call was not answered"),
        asked = house.call() => assert_eq!(asked.id, 2),
    }
    assert_eq!(house.event().await, RoomEvent::Dropped(2));
}

/// What the newest version has in every request instead of a session.
fn newest(house: &House, mut message: Value, name: Option<&str>) -> Request<Full<Bytes>> {
    const VERSION: &str = "2026-07-28";
    message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(VERSION);
    message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    message["params"]["_meta"]["io.modelcontextprotocol/clientInfo"] =
        json!({ "name": "test", "version": "1" });
    let mut request = house.post(BOTH, None, &message);
    let headers = request.headers_mut();
    headers.insert("mcp-protocol-version", VERSION.parse().unwrap());
    headers.insert("mcp-method", message["method"].as_str().unwrap().parse().unwrap());
    if let Some(name) = name {
        headers.insert("mcp-name", name.parse().unwrap());
    }
    request
}

#[tokio::test]
async fn newest_version_has_no_sessions() {
    let mut house = House::with(&["a"]).await;
    let discover = json!({ "jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {} });
    let found =
        Events::of(house.ask(newest(&house, discover, None)).await).message().await.unwrap();
    let versions = found["result"]["supportedVersions"].as_array().unwrap().clone();
    for version in WITH_SESSIONS.into_iter().chain(["2026-07-28"]) {
        assert!(versions.contains(&json!(version)), "{version} in {versions:?}");
    }
    let mut lists = list();
    lists["params"] = json!({});
    let listed = Events::of(house.ask(newest(&house, lists, None)).await).message().await.unwrap();
    assert_eq!(listed["result"]["tools"][0]["name"], json!("a"));
    let request = newest(&house, call(4, "a"), Some("a"));
    let entrance = HostEntrance::new(&house.host.rooms, house.host.port.get().copied().unwrap());
    let answered = async {
        let asked = house.call().await;
        house.room.answer(text(asked.id, "new"));
    };
    let (response, ()) = tokio::join!(entrance.answer(request), answered);
    let answer = Events::of(response).message().await.unwrap();
    assert_eq!(answer["result"]["content"][0]["text"], json!("new"));
}

#[tokio::test(start_paused = true)]
async fn newest_version_keeps_the_stream_alive() {
    let mut house = House::with(&["a"]).await;
    let began = tokio::time::Instant::now();
    let response = house.ask(newest(&house, call(4, "a"), Some("a"))).await;
    assert_eq!(began.elapsed(), Duration::ZERO, "the head does not wait for the tool");
    let mut events = Events::of(response);
    let asked = house.call().await;
    for _ in 0..20 {
        let Ok(frame) = events.body.frame().await.unwrap();
        assert_eq!(frame.into_data().unwrap(), ":\n\n");
    }
    assert_eq!(began.elapsed(), 20 * KEEP_ALIVE);
    house.room.answer(text(asked.id, "at last"));
    let answer = events.message().await.unwrap();
    assert_eq!(answer["result"]["content"][0]["text"], json!("at last"));
    assert_eq!(events.message().await, None);

    // And a caller that hangs up is noticed there too.
    let response = house.ask(newest(&house, call(5, "a"), Some("a"))).await;
    let asked = house.call().await;
    drop(response);
    assert_eq!(house.event().await, RoomEvent::Dropped(asked.id));
}

#[tokio::test]
async fn closing_a_room_answers_its_waiting_calls() {
    let mut house = House::with(&["a"]).await;
    let session = house.session("2025-06-18").await;
    let mut stream = Events::of(house.ask(without_session(&house, Method::GET, &session)).await);
    let mut in_session =
        Events::of(house.ask(house.post(BOTH, Some(&session), &call(1, "a"))).await);
    let mut alone = Events::of(house.ask(house.post(BOTH, None, &call(2, "a"))).await);
    let (one, two) = (house.call().await, house.call().await);
    assert_ne!(one.id, two.id);
    let again = house.post(BOTH, Some(&session), &list());
    let other = house.host.open(tools(&["b"])).await.unwrap();
    drop(std::mem::replace(&mut house.room, other));
    for events in [&mut in_session, &mut alone] {
        let last = events.message().await.unwrap();
        assert_eq!(
            last["error"]["message"],
            json!("the conversation that offered this tool is over")
        );
        assert_eq!(events.message().await, None);
    }
    drop((in_session, alone));
    assert_eq!(stream.message().await, None);
    assert_eq!(house.ask(again).await.status(), StatusCode::NOT_FOUND);
    // The task of the other room, and the listener.
    while house.tasks.len() > 2 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn session_count_is_limited() {
    let house = House::with(&["a"]).await;
    for _ in 0..served::SESSIONS {
        house.session("2025-06-18").await;
    }
    let more = house.ask(house.post(BOTH, None, &initialize("2025-06-18"))).await;
    assert_eq!(more.status(), StatusCode::TOO_MANY_REQUESTS);
}

#[tokio::test]
async fn invalid_message_is_refused() {
    let house = House::with(&["a"]).await;
    for (message, expected) in [
        ("{", StatusCode::UNSUPPORTED_MEDIA_TYPE),
        ("[]", StatusCode::UNSUPPORTED_MEDIA_TYPE),
        (r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, StatusCode::ACCEPTED),
    ] {
        let request = house.request(Method::POST).header(header::ACCEPT, BOTH);
        let response = house.ask(request.body(Full::from(message)).unwrap()).await;
        assert_eq!(response.status(), expected, "{message}");
    }
    let mut plain = house.post(BOTH, None, &list());
    plain.headers_mut().insert(header::CONTENT_TYPE, "text/plain".parse().unwrap());
    assert_eq!(house.ask(plain).await.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
    let put = house.ask(house.request(Method::PUT).body(Full::default()).unwrap()).await;
    assert_eq!(put.status(), StatusCode::METHOD_NOT_ALLOWED);
}

/// The newest body of a stream is the one that is read.
#[tokio::test]
async fn resumed_stream_ends_its_first_reader() {
    let mut house = House::with(&["a"]).await;
    let session = house.session("2025-11-25").await;
    let mut first = Events::of(house.ask(house.post(BOTH, Some(&session), &call(3, "a"))).await);
    let asked = house.call().await;
    let mut again = without_session(&house, Method::GET, &session);
    again.headers_mut().insert("last-event-id", "0/0".parse().unwrap());
    let mut second = Events::of(house.ask(again).await);
    assert_eq!(first.message().await, None);
    house.room.answer(text(asked.id, "here"));
    assert_eq!(second.message().await.unwrap()["id"], json!(3));
    assert_eq!(second.message().await, None);
    // An answer that was given, or was never there, is an empty stream, not an error.
    for last in ["1/0", "0/99", "what"] {
        let mut late = without_session(&house, Method::GET, &session);
        late.headers_mut().insert("last-event-id", last.parse().unwrap());
        assert_eq!(Events::of(house.ask(late).await).message().await, None, "{last}");
    }
}

#[tokio::test]
async fn requests_about_sessions_are_checked() {
    let house = House::with(&["a"]).await;
    let session = house.session("2025-11-25").await;
    let version = |method: Method, version: &str| {
        let mut request = without_session(&house, method, &session);
        request.headers_mut().insert("mcp-protocol-version", version.parse().unwrap());
        request
    };
    for method in [Method::GET, Method::DELETE] {
        let unknown = house.ask(version(method.clone(), "1999-01-01")).await;
        assert_eq!(unknown.status(), StatusCode::BAD_REQUEST);
        let newest = house.ask(version(method.clone(), "2026-07-28")).await;
        assert_eq!(newest.status(), StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(newest.headers()[header::ALLOW], "POST");
        let mut nameless = without_session(&house, method, &session);
        nameless.headers_mut().remove("mcp-session-id");
        assert_eq!(house.ask(nameless).await.status(), StatusCode::BAD_REQUEST);
    }
    let mut page = without_session(&house, Method::GET, &session);
    page.headers_mut().insert(header::ACCEPT, "text/html".parse().unwrap());
    assert_eq!(house.ask(page).await.status(), StatusCode::NOT_ACCEPTABLE);
    let half = house.post("text/event-stream", Some(&session), &list());
    assert_eq!(house.ask(half).await.status(), StatusCode::NOT_ACCEPTABLE);
    let response = json!({ "jsonrpc": "2.0", "id": 1, "result": {} });
    let inside = house.ask(house.post(BOTH, Some(&session), &response)).await;
    assert_eq!(inside.status(), StatusCode::ACCEPTED);
    let outside = house.ask(house.post(BOTH, None, &response)).await;
    assert_eq!(outside.status(), StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn errors_of_the_newest_version_have_a_status() {
    let house = House::with(&["a"]).await;
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping", "params": {} });
    let gone = house.ask(newest(&house, ping, None)).await;
    assert_eq!(gone.status(), StatusCode::NOT_FOUND);
    assert_eq!(gone.headers()[header::CONTENT_TYPE], "application/json");
    let mut lists = list();
    lists["params"] = json!({});
    let mut wrong = newest(&house, lists, None);
    wrong.headers_mut().insert("mcp-method", "tools/call".parse().unwrap());
    let refused = house.ask(wrong).await;
    assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
    let refused: Value = serde_json::from_str(&whole(refused).await).unwrap();
    assert_eq!(refused["error"]["code"], json!(-32020));
}
