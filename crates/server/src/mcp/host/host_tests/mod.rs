//! A host, and what its guests see.

mod calls;
mod client;
mod entrance;
mod messages;

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use ibeam_core::model::Part;
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};

use super::{entrance::Body, *};

/// Longer than anything takes that works.
const LIMIT: Duration = Duration::from_secs(20);

fn tools(names: &[&str]) -> Arc<[Tool]> {
    let tool = |name: &&str| Tool {
        name: (*name).to_owned(),
        description: format!("Does {name}."),
        schema: None,
    };
    names.iter().map(tool).collect()
}

fn text(id: u64, text: &str) -> HostedResult {
    HostedResult { id, content: vec![Part::Text(text.to_owned())], is_error: false }
}

/// A room, and a way in that needs no network.
struct House {
    tasks: Tasks,
    host: Host,
    entrance: Arc<HostEntrance>,
    room: Room,
}

/// A client of a room, in good standing.
#[derive(Clone)]
struct Visitor {
    entrance: Arc<HostEntrance>,
    address: HostAddress,
}

impl House {
    async fn with(names: &[&str]) -> Self {
        let tasks = Tasks::new();
        let host = Host::new(&tasks, 8);
        let room = host.open(tools(names)).await.unwrap();
        let entrance = Arc::new(HostEntrance::new(&host.rooms, host.port.get().copied().unwrap()));
        Self { tasks, host, entrance, room }
    }

    fn visitor(&self) -> Visitor {
        Visitor { entrance: Arc::clone(&self.entrance), address: self.room.address() }
    }

    fn request(&self, method: Method) -> http::request::Builder {
        self.visitor().request(method)
    }

    fn post(&self, accept: &str, session: Option<&str>, message: &Value) -> Request<Full<Bytes>> {
        self.visitor().post(accept, session, message)
    }

    async fn ask(&self, request: Request<Full<Bytes>>) -> Response<Body> {
        self.entrance.answer(request).await
    }

    async fn session(&self, version: &str) -> String {
        self.visitor().session(version).await
    }

    /// The next call, which must be there soon.
    async fn call(&mut self) -> HostedCall {
        match self.event().await {
            RoomEvent::Call(call) => call,
            RoomEvent::Dropped(id) => panic!("call {id} was dropped"),
        }
    }

    async fn event(&mut self) -> RoomEvent {
        tokio::time::timeout(LIMIT, self.room.next_call()).await.unwrap().unwrap()
    }
}

impl Visitor {
    fn request(&self, method: Method) -> http::request::Builder {
        let HostAddress { url, bearer } = &self.address;
        let rest = url.strip_prefix("http://").unwrap();
        let (authority, _) = rest.split_once('/').unwrap();
        Request::builder()
            .method(method)
            .uri(&rest[authority.len()..])
            .header(header::HOST, authority)
            .header(header::AUTHORIZATION, format!("Bearer {}", bearer.expose_secret()))
            .header(header::CONTENT_TYPE, "application/json")
    }

    fn post(&self, accept: &str, session: Option<&str>, message: &Value) -> Request<Full<Bytes>> {
        let mut request = self.request(Method::POST).header(header::ACCEPT, accept);
        if let Some(session) = session {
            request = request.header("mcp-session-id", session);
        }
        request.body(Full::from(message.to_string())).unwrap()
    }

    async fn ask(&self, request: Request<Full<Bytes>>) -> Response<Body> {
        self.entrance.answer(request).await
    }

    /// Begins a session in this version of the protocol, and gives its name.
    async fn session(&self, version: &str) -> String {
        let response = self.ask(self.post(BOTH, None, &initialize(version))).await;
        assert_eq!(response.status(), StatusCode::OK);
        let session = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        let answer = Events::of(response).message().await.unwrap();
        assert_eq!(answer["result"]["protocolVersion"], json!(version));
        assert_eq!(answer["result"]["serverInfo"]["name"], json!("ibeam"));
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        let response = self.ask(self.post(BOTH, Some(&session), &ready)).await;
        assert_eq!(response.status(), StatusCode::ACCEPTED);
        session
    }
}

const BOTH: &str = "application/json, text/event-stream";

fn initialize(version: &str) -> Value {
    json!({
        "jsonrpc": "2.0",
        "id": "first",
        "method": "initialize",
        "params": {
            "protocolVersion": version,
            "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" },
        },
    })
}

fn call(id: u64, name: &str) -> Value {
    let params = json!({ "name": name, "arguments": { "n": id } });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
}

fn list() -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" })
}

/// The events of a stream.
struct Events {
    body: Body,
    buffer: String,
    /// The id of the last event that had one.
    last_id: Option<String>,
}

impl Events {
    fn of(response: Response<Body>) -> Self {
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()[header::CONTENT_TYPE], "text/event-stream");
        Self { body: response.into_body(), buffer: String::new(), last_id: None }
    }

    /// The next message; `None` at the end of the stream.
    async fn message(&mut self) -> Option<Value> {
        self.message_within(LIMIT).await
    }

    async fn message_within(&mut self, limit: Duration) -> Option<Value> {
        loop {
            while let Some((event, rest)) = self.buffer.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.buffer = rest;
                let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
                if let Some(id) = field("id:") {
                    self.last_id = Some(id.trim().to_owned());
                }
                if let Some(data) = field("data:").map(str::trim).filter(|data| !data.is_empty()) {
                    return Some(serde_json::from_str(data).unwrap());
                }
            }
            let frame = tokio::time::timeout(limit, self.body.frame()).await.unwrap()?;
            let Ok(frame) = frame;
            self.buffer.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
        }
    }
}

async fn whole(response: Response<Body>) -> String {
    let Ok(body) = response.into_body().collect().await;
    String::from_utf8(body.to_bytes().to_vec()).unwrap()
}
