//! Calls: they wait, are answered, taken back, and end with their room. Here without HTTP,
//! so that the clock can be turned.

use parking_lot::Mutex;
use rmcp::{
    ClientHandler, RoleClient, ServiceError, ServiceExt as _,
    model::{
        CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest, ErrorCode,
        ProgressNotificationParam,
    },
    service::{NotificationContext, PeerRequestOptions, RunningService},
};
use tokio::time::{Instant, sleep};

use super::*;
use crate::mcp::host::{handler, handler::Offer, room::CALLS};

/// Notes when it hears of progress.
#[derive(Clone, Default)]
pub(super) struct Caller(pub(super) Arc<Mutex<Vec<(Instant, f64)>>>);

impl ClientHandler for Caller {
    async fn on_progress(
        &self,
        progress: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.0.lock().push((Instant::now(), progress.progress));
    }
}

type Client = RunningService<RoleClient, Caller>;

/// A client of the library that sits in the room.
async fn guest(house: &House) -> Client {
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let server = house.tasks.spawn("test", Offer(Arc::clone(&house.room.inside)).serve(ours));
    let client = Caller::default().serve(theirs).await.unwrap();
    let server = server.await.unwrap().unwrap();
    house.tasks.spawn("test", server.waiting());
    client
}

pub(super) fn params(name: &'static str, n: u64) -> CallToolRequestParams {
    let arguments = json!({ "n": n });
    CallToolRequestParams::new(name).with_arguments(arguments.as_object().cloned().unwrap())
}

pub(super) fn said(result: &CallToolResult) -> &str {
    &result.content[0].as_text().unwrap().text
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_as_long_as_it_takes_and_tells_so() {
    let mut house = House::with(&["ask"]).await;
    let client = guest(&house).await;
    let began = Instant::now();
    let hours = Duration::from_secs(2 * 3600 + 1);
    let answered = async {
        let call = house.call().await;
        assert_eq!(
            call,
            HostedCall { id: 1, name: "ask".to_owned(), arguments: r#"{"n":7}"#.to_owned() }
        );
        sleep(hours).await;
        house.room.answer(text(1, "yes"));
    };
    let (result, ()) = tokio::join!(client.call_tool(params("ask", 7)), answered);
    let result = result.unwrap();
    assert_eq!((said(&result), result.is_error), ("yes", Some(false)));
    assert!(began.elapsed() >= hours);
    let heard = client.service().0.lock().clone();
    assert_eq!(heard.len(), 2 * 3600 / 5);
    for (index, (when, progress)) in heard.iter().enumerate() {
        let due = handler::PROGRESS * u32::try_from(index + 1).unwrap();
        let late = *when - (began + due);
        assert!(late < Duration::from_millis(200), "{index}: {late:?}");
        assert!((progress - due.as_secs_f64()).abs() < 0.2, "{index}: {progress}");
    }
}

#[tokio::test]
async fn exactly_the_tools_of_the_room_are_there() {
    let house = House::with(&["a", "b"]).await;
    assert!(!house.room.seen());
    let client = guest(&house).await;
    assert!(!house.room.seen(), "it has not looked yet");
    let listed = client.list_all_tools().await.unwrap();
    let names: Vec<_> = listed.iter().map(|tool| tool.name.as_ref()).collect();
    assert_eq!(names, ["a", "b"]);
    assert!(house.room.seen());
    let Err(ServiceError::McpError(error)) = client.call_tool(params("c", 1)).await else {
        panic!("there is no such tool");
    };
    assert_eq!(
        (error.code, error.message.as_ref()),
        (ErrorCode::INVALID_PARAMS, "unknown tool: c")
    );
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_taken_back_is_dropped() {
    let mut house = House::with(&["a"]).await;
    let client = guest(&house).await;
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(params("a", 1)));
    let options = PeerRequestOptions::no_options();
    let handle = client.send_cancellable_request(request, options).await.unwrap();
    assert_eq!(house.call().await.id, 1);
    handle.cancel(Some("not needed".to_owned())).await.unwrap();
    assert_eq!(house.event().await, RoomEvent::Dropped(1));
    // An answer that is late harms nobody.
    house.room.answer(text(1, "late"));
    let answered = async {
        assert_eq!(house.call().await.id, 2);
        house.room.answer(text(2, "next"));
    };
    let (result, ()) = tokio::join!(client.call_tool(params("a", 2)), answered);
    assert_eq!(said(&result.unwrap()), "next");
}

#[tokio::test]
async fn sixty_four_calls_wait_at_once_and_one_more_is_refused() {
    let mut house = House::with(&["a"]).await;
    let client = guest(&house).await;
    let all =
        futures_util::future::join_all((0..CALLS as u64).map(|n| client.call_tool(params("a", n))));
    let answers = async {
        let mut calls = Vec::new();
        for _ in 0..CALLS {
            calls.push(house.call().await);
        }
        let refused = client.call_tool(params("a", 99)).await.unwrap();
        assert_eq!(refused.is_error, Some(true));
        assert!(said(&refused).contains("64 calls wait already"), "{}", said(&refused));
        // In whatever order.
        for call in calls.iter().rev() {
            house.room.answer(text(call.id, &call.arguments));
        }
    };
    let (results, ()) = tokio::join!(all, answers);
    for (n, result) in results.into_iter().enumerate() {
        assert_eq!(said(&result.unwrap()), format!(r#"{{"n":{n}}}"#));
    }
    let again = async {
        let call = house.call().await;
        house.room.answer(text(call.id, "room again"));
    };
    let (result, ()) = tokio::join!(client.call_tool(params("a", 1)), again);
    assert_eq!(said(&result.unwrap()), "room again");
}

/// If nobody listens to the room, calls wait, and nothing is forgotten.
#[tokio::test(start_paused = true)]
async fn what_nobody_hears_is_bounded_and_kept() {
    let mut house = House::with(&["a"]).await;
    let client = guest(&house).await;
    for n in 0..CALLS as u64 {
        let given_up =
            tokio::time::timeout(Duration::from_secs(1), client.call_tool_once(params("a", n)));
        assert!(given_up.await.is_err());
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
async fn a_room_that_is_dropped_ends_its_calls() {
    let mut house = House::with(&["a"]).await;
    let client = guest(&house).await;
    let (one, two) = (client.call_tool(params("a", 1)), client.call_tool(params("a", 2)));
    let House { room, tasks, host, .. } = {
        let closing = async {
            house.call().await;
            house.call().await;
            // Not the house: it has the door.
            let other = house.host.open(tools(&["b"])).await.unwrap();
            drop(std::mem::replace(&mut house.room, other));
        };
        let (one, two, ()) = tokio::join!(one, two, closing);
        for result in [one, two, client.call_tool(params("a", 3)).await] {
            let Err(ServiceError::McpError(error)) = result else { panic!("{result:?}") };
            assert_eq!(error.message, "the conversation that offered this tool is over");
        }
        house
    };
    assert_eq!(host.rooms.0.lock().len(), 1);
    drop((room, client));
    tasks.stop();
    assert_eq!(tasks.join_within(LIMIT).await, 0);
}
