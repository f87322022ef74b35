//! Calls: they wait, are answered or cancelled, and end with their room. Without a network, so that
//! the clock can be turned.

use futures_util::future::join_all;
use tokio::time::{Instant, sleep};

use super::*;
use crate::mcp::host::{call::PROGRESS, room::CALLS};

/// A client with a session in the room.
struct Guest {
    visitor: Visitor,
    session: String,
}

/// A call that was sent.
struct Waits {
    events: Events,
    /// When progress was heard of, and what it said.
    heard: Vec<(Instant, f64)>,
}

impl Waits {
    async fn answer(&mut self) -> Value {
        loop {
            // Longer than any call here takes.
            let message = self.events.message_within(Duration::from_secs(86400)).await.unwrap();
            if message["method"] != json!("notifications/progress") {
                return message;
            }
            self.heard.push((Instant::now(), message["params"]["progress"].as_f64().unwrap()));
        }
    }
}

impl Guest {
    async fn of(house: &House) -> Self {
        let visitor = house.visitor();
        Self { session: visitor.session("2025-11-25").await, visitor }
    }

    async fn send(&self, message: &Value) -> Response<HostBody> {
        self.visitor.ask(self.visitor.post(BOTH, Some(&self.session), message)).await
    }

    /// A call that wants to hear of progress.
    async fn begin(&self, name: &str, n: u64) -> Waits {
        let mut message = call(n, name);
        message["params"]["_meta"] = json!({ "progressToken": n });
        Waits { events: Events::of(self.send(&message).await), heard: Vec::new() }
    }

    async fn call(&self, name: &str, n: u64) -> Value {
        self.begin(name, n).await.answer().await
    }

    async fn cancel(&self, n: u64) {
        let params = json!({ "requestId": n, "reason": "not needed" });
        let cancel =
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
        assert_eq!(self.send(&cancel).await.status(), StatusCode::ACCEPTED);
    }
}

fn said(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

#[tokio::test(start_paused = true)]
async fn call_waits_for_its_result_and_reports_progress() {
    let mut house = House::with(&["ask"]).await;
    let guest = Guest::of(&house).await;
    let began = Instant::now();
    let hours = Duration::from_secs(2 * 3600 + 1);
    let mut waits = guest.begin("ask", 7).await;
    let answered = async {
        let asked = house.call().await;
        assert_eq!(
            asked,
            HostedCall { id: 1, name: "ask".to_owned(), arguments: r#"{"n":7}"#.to_owned() }
        );
        sleep(hours).await;
        house.room.answer(text(1, "yes"));
    };
    let (answer, ()) = tokio::join!(waits.answer(), answered);
    assert_eq!((said(&answer), &answer["result"]["isError"]), ("yes", &json!(false)));
    assert!(began.elapsed() >= hours);
    assert_eq!(waits.heard.len(), 2 * 3600 / 5);
    for (index, (when, progress)) in waits.heard.iter().enumerate() {
        let due = PROGRESS * u32::try_from(index + 1).unwrap();
        let late = *when - (began + due);
        assert!(late < Duration::from_millis(200), "{index}: {late:?}");
        assert!((progress - due.as_secs_f64()).abs() < 0.2, "{index}: {progress}");
    }
}

#[tokio::test]
async fn room_offers_exactly_its_tools() {
    let house = House::with(&["a", "b"]).await;
    assert!(!house.room.seen());
    let guest = Guest::of(&house).await;
    assert!(!house.room.seen(), "it has not looked yet");
    let listed = Events::of(guest.send(&list()).await).message().await.unwrap();
    let tools = listed["result"]["tools"].as_array().unwrap();
    let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["a", "b"]);
    assert!(house.room.seen());
    let answer = guest.call("c", 1).await;
    assert_eq!(answer["error"], json!({ "code": -32602, "message": "unknown tool: c" }));
}

#[tokio::test(start_paused = true)]
async fn cancelled_call_is_dropped() {
    let mut house = House::with(&["a"]).await;
    let guest = Guest::of(&house).await;
    let mut waits = guest.begin("a", 1).await;
    assert_eq!(house.call().await.id, 1);
    guest.cancel(1).await;
    assert_eq!(house.event().await, RoomEvent::Dropped(1));
    assert_eq!(waits.events.message().await, None, "its stream ends without an answer");
    // An answer that is late has no effect.
    house.room.answer(text(1, "late"));
    let answered = async {
        assert_eq!(house.call().await.id, 2);
        house.room.answer(text(2, "next"));
    };
    let (answer, ()) = tokio::join!(guest.call("a", 2), answered);
    assert_eq!(said(&answer), "next");
}

#[tokio::test]
async fn call_beyond_sixty_four_is_refused() {
    let mut house = House::with(&["a"]).await;
    let guest = Guest::of(&house).await;
    let all = join_all((0..CALLS as u64).map(|n| guest.call("a", n)));
    let answers = async {
        let mut calls = Vec::new();
        for _ in 0..CALLS {
            calls.push(house.call().await);
        }
        let refused = guest.call("a", 99).await;
        assert_eq!(refused["result"]["isError"], json!(true));
        assert!(said(&refused).contains("64 calls are already waiting"), "{refused}");
        // In whatever order.
        for call in calls.iter().rev() {
            house.room.answer(text(call.id, &call.arguments));
        }
    };
    let (results, ()) = tokio::join!(all, answers);
    for (n, result) in results.into_iter().enumerate() {
        assert_eq!(said(&result), format!(r#"{{"n":{n}}}"#));
    }
    let again = async {
        let call = house.call().await;
        house.room.answer(text(call.id, "room again"));
    };
    let (result, ()) = tokio::join!(guest.call("a", 1), again);
    assert_eq!(said(&result), "room again");
}

/// If nothing listens to the room, calls wait, and none is forgotten.
#[tokio::test(start_paused = true)]
async fn unread_calls_are_bounded_and_kept() {
    let mut house = House::with(&["a"]).await;
    let guest = Guest::of(&house).await;
    for n in 0..CALLS as u64 {
        let mut waits = guest.begin("a", n).await;
        assert!(tokio::time::timeout(Duration::from_secs(1), waits.answer()).await.is_err());
        guest.cancel(n).await;
    }
    let mut events = Vec::new();
    for _ in 0..2 * CALLS {
        events.push(house.event().await);
    }
    for id in 1..=CALLS as u64 {
        let called =
            events.iter().position(|event| matches!(event, RoomEvent::Call(call) if call.id == id));
        let dropped = events.iter().position(|event| *event == RoomEvent::Dropped(id));
        assert!(called.unwrap() < dropped.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_room_ends_its_calls() {
    let mut house = House::with(&["a"]).await;
    let guest = Guest::of(&house).await;
    let (mut one, mut two) = (guest.begin("a", 1).await, guest.begin("a", 2).await);
    house.call().await;
    house.call().await;
    // Not the house: it has the way in.
    let other = house.host.open(tools(&["b"])).await.unwrap();
    drop(std::mem::replace(&mut house.room, other));
    for waits in [&mut one, &mut two] {
        let answer = waits.answer().await;
        assert_eq!(
            answer["error"]["message"],
            json!("the conversation that offered this tool is over")
        );
    }
    assert_eq!(guest.send(&call(3, "a")).await.status(), StatusCode::NOT_FOUND);
    assert_eq!(house.host.rooms.0.lock().len(), 1);
    let House { room, tasks, .. } = house;
    drop(room);
    tasks.stop();
    assert_eq!(tasks.join_within(LIMIT).await, 0);
}
