//! The gateway's own client against the host, over HTTP and TCP. (What others' clients make
//! of it is in `interop/mcp-host`.)

use std::path::PathBuf;

use ibeam_core::mcp::client::CallOutcome;
use serde_json::value::to_raw_value;

use super::*;
use crate::{
    config::servers::Hidden,
    mcp::{
        Remote,
        client::{self, Client},
        config::{ServerSpec, ServerTransport},
        http::Web,
    },
    net::tls::Tls,
};

async fn connect(house: &House, bearer: &str) -> Result<Client, String> {
    let key = ("Authorization".to_owned(), Hidden::from(format!("Bearer {bearer}")));
    let remote = Remote::new(&house.room.address().url, vec![key], false).unwrap();
    let spec = ServerSpec {
        name: "host".to_owned(),
        source: PathBuf::new(),
        way: ServerTransport::Http(remote),
        named: true,
        offer: false,
        allow: Vec::new(),
        timeout: LIMIT,
        output: 1 << 20,
    };
    let web = Web { tls: Arc::new(Tls::new(None)), connect: LIMIT, tasks: house.tasks.clone() };
    client::connect(&spec, &web).await
}

async fn call_tool(client: &Client, name: &str, n: u64) -> Result<CallOutcome, String> {
    let arguments = to_raw_value(&json!({ "n": n })).unwrap();
    client::call(&client.peer, name, &arguments).await
}

#[tokio::test]
async fn a_round_trip() {
    let mut house = House::with(&["a", "b"]).await;
    let bearer = house.room.address().bearer.expose_secret().to_owned();
    let client = connect(&house, &bearer).await.unwrap();
    assert_eq!(client.list_tools("host").await.unwrap().len(), 2);
    assert!(house.room.seen() && client.answers(LIMIT).await);
    let answered = async {
        let asked = house.call().await;
        assert_eq!((asked.name.as_str(), asked.arguments.as_str()), ("b", r#"{"n":3}"#));
        house.room.answer(text(asked.id, "three"));
    };
    let (result, ()) = tokio::join!(call_tool(&client, "b", 3), answered);
    assert_eq!(result.unwrap().content, [Part::Text("three".to_owned())]);
    assert_eq!(call_tool(&client, "c", 1).await.unwrap_err(), "unknown tool: c");
    let given_up = tokio::select! {
        _ = call_tool(&client, "a", 4) => panic!("it was not answered"),
        asked = house.call() => asked,
    };
    assert_eq!(house.event().await, RoomEvent::Dropped(given_up.id));
    // Its session ends with it.
    drop(client);
    while house.host.rooms.0.lock().values().any(|served| served.sessions() > 0) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn the_wrong_bearer_does_not_connect() {
    let house = House::with(&["a", "b"]).await;
    let refused = connect(&house, "wrong").await.err().unwrap();
    assert!(refused.contains("authorization"), "{refused}");
    assert!(!house.room.seen());
}
