//! WebSockets over a real socket, for a client that none of us wrote.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use futures_util::{SinkExt as _, StreamExt as _};
use ibeam_server::{
    app::App,
    config::{Backend, Config},
    keys::KeyFile,
    server::Server,
    shutdown::Shutdown,
    tasks::Tasks,
};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use tokio::{net::TcpStream, task::JoinSet, time::timeout};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Error, Message, client::IntoClientRequest as _, protocol::frame::coding::CloseCode,
    },
};

use crate::{lab::chat, watch};

const LIMIT: Duration = Duration::from_secs(20);

/// The first run asks for a command and repeats its result; others repeat what they were sent.
const ONE: &str = r#"
    [[rule]]
    when = { nth = 1 }
    steps = [
      { exec = { arm = "mcp", args = { name = "bash", args = { command = "ls" } } } },
      { text = "It says: {result}" },
    ]
    [[rule]]
    steps = [{ text = "told anew: {history} {prompt}" }]
"#;

const ENDLESS: &str =
    "[[rule]]\nsteps = [{ text = { text = \"tick \", repeat = 100000, pace_ms = 20 } }]";

const SLOW: &str = "[[rule]]\nsteps = [{ text = { text = \"tick \", repeat = 20, pace_ms = 20 } }]";

const HELLO: &str = "[[rule]]\nsteps = [{ text = \"Hello {prompt}\" }]";

struct Gateway {
    address: SocketAddr,
    app: Arc<App>,
    shutdown: Shutdown,
    server: JoinSet<()>,
    _folder: tempfile::TempDir,
}

impl Gateway {
    async fn start(scenario: &str, change: impl FnOnce(&mut Config)) -> Self {
        let folder = watch::folder();
        let path: PathBuf = folder.path().join("scenario.toml");
        std::fs::write(&path, scenario).unwrap();
        let mut config =
            Config { backend: Backend::Sim { scenario: Some(path) }, ..Config::default() };
        config.server.listen = SocketAddr::from(([127, 0, 0, 1], 0)).into();
        change(&mut config);
        watch::logs();
        let server = Server::bind(config, &Tasks::new()).await.unwrap();
        let (address, app) = (server.address().unwrap(), Arc::clone(server.app()));
        let (shutdown, mut tasks) = (Shutdown::new(), JoinSet::new());
        tasks.spawn(server.run(shutdown.clone()));
        Self { address, app, shutdown, server: tasks, _folder: folder }
    }

    async fn open(&self, path: &str, headers: &[(&'static str, &str)]) -> Result<Socket, Error> {
        let mut request = format!("ws://{}{path}", self.address).into_client_request()?;
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (socket, _) = tokio_tungstenite::client_async(request, stream).await?;
        Ok(Socket(socket))
    }

    async fn responses(&self) -> Socket {
        self.open("/v1/responses", &[]).await.unwrap()
    }

    async fn chat(&self) -> Socket {
        self.open("/v1/chat/completions", &[]).await.unwrap()
    }

    /// The status that a handshake is refused with.
    async fn refused(&self, path: &str, headers: &[(&'static str, &str)]) -> u16 {
        match self.open(path, headers).await {
            Err(Error::Http(response)) => {
                watch::heard(response.body().as_deref().unwrap_or_default());
                response.status().as_u16()
            }
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("it was let in"),
        }
    }

    async fn stopped(mut self) {
        let ended = timeout(LIMIT, self.server.join_next()).await;
        assert!(matches!(ended, Ok(Some(Ok(())))), "the server does not stop");
    }
}

struct Socket(WebSocketStream<TcpStream>);

impl Socket {
    async fn send(&mut self, message: &Value) {
        self.0.send(Message::text(message.to_string())).await.unwrap();
    }

    /// The next message that is not a ping.
    async fn hear(&mut self) -> Message {
        loop {
            let message = timeout(LIMIT, self.0.next()).await.unwrap().unwrap().unwrap();
            if let Message::Text(text) = &message {
                watch::heard(text.as_bytes());
            }
            if !matches!(message, Message::Ping(_) | Message::Pong(_)) {
                return message;
            }
        }
    }

    async fn json(&mut self) -> Value {
        let message = self.hear().await;
        serde_json::from_str(message.to_text().unwrap()).unwrap()
    }

    /// Messages up to the one that this is true of.
    async fn until(&mut self, last: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut all = Vec::new();
        loop {
            all.push(self.json().await);
            if last(all.last().unwrap()) {
                return all;
            }
        }
    }

    /// Asks for a response, and gives it when it is complete.
    async fn respond(&mut self, body: &Value) -> Value {
        let mut message = body.clone();
        message["type"] = json!("response.create");
        self.send(&message).await;
        let events = self.until(|event| event["type"] == "response.completed").await;
        assert_eq!(events[0]["type"], "response.created");
        for (number, event) in events.iter().enumerate() {
            assert_eq!(event["sequence_number"], number);
        }
        events.last().unwrap()["response"].clone()
    }

    async fn chat(&mut self, text: &str) -> Vec<Value> {
        self.send(&chat(text, true)).await;
        self.until(|chunk| chunk["object"] == "chat.completion.done").await
    }

    async fn closed(&mut self) -> CloseCode {
        match self.hear().await {
            Message::Close(Some(frame)) => frame.code,
            other => panic!("{other:?}"),
        }
    }
}

fn said(chunks: &[Value]) -> String {
    chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect()
}

/// As Codex does: nothing is to be kept, the connection is warmed up with everything that
/// is known, and each request only says what is new.
#[tokio::test]
async fn connection_remembers_unstored_responses() {
    let gateway = Gateway::start(ONE, |_| {}).await;
    let mut socket = gateway.responses().await;
    let body = json!({
        "model": "auto", "store": false, "stream": true, "instructions": "Be brief.",
        "tools": [{ "type": "function", "name": "bash", "parameters": { "type": "object" } }],
    });
    let with = |input: Value, previous: &Value| {
        let mut body = body.clone();
        body["input"] = input;
        body["previous_response_id"] = previous.clone();
        body
    };
    let mut warm = with(json!([{ "role": "user", "content": "context" }]), &Value::Null);
    warm["generate"] = json!(false);
    let warm = socket.respond(&warm).await;
    assert_eq!(warm["output"], json!([]));
    assert_eq!(gateway.app.sessions().parked, 0, "nobody was asked anything");

    let question = with(json!([{ "role": "user", "content": "look" }]), &warm["id"]);
    let first = socket.respond(&question).await;
    let call = &first["output"][0];
    assert_eq!(call["type"], "function_call", "{first}");
    socket.send(&json!({ "type": "response.processed", "response_id": first["id"] })).await;
    let output = json!([
        { "type": "function_call_output", "call_id": call["call_id"], "output": "a file" },
    ]);
    let second = socket.respond(&with(output.clone(), &first["id"])).await;
    assert_eq!(second["output"][0]["content"][0]["text"], "It says: a file", "{second}");

    // Another connection knows nothing of it.
    let mut other = gateway.responses().await;
    let mut message = with(output, &first["id"]);
    message["type"] = json!("response.create");
    other.send(&message).await;
    let error = other.json().await;
    assert_eq!((&error["type"], &error["status"]), (&json!("error"), &json!(400)), "{error}");
    assert_eq!(error["error"]["code"], "previous_response_not_found");
    // And continues.
    let fresh = with(json!("hi"), &Value::Null);
    let third = other.respond(&fresh).await;
    let told = third["output"][0]["content"][0]["text"].as_str().unwrap();
    assert!(told.contains("told anew") && !told.contains("look"), "{told}");
}

#[tokio::test]
async fn stored_responses_are_found_from_any_connection() {
    let gateway = Gateway::start(HELLO, |_| {}).await;
    let mut socket = gateway.responses().await;
    let first = socket.respond(&json!({ "model": "auto", "input": "one" })).await;
    drop(socket);
    let mut socket = gateway.responses().await;
    let second = json!({ "model": "auto", "input": "two", "previous_response_id": first["id"] });
    assert_eq!(socket.respond(&second).await["previous_response_id"], first["id"]);
}

#[tokio::test]
async fn invalid_messages_get_errors() {
    let gateway = Gateway::start(HELLO, |_| {}).await;
    let mut socket = gateway.responses().await;
    for (message, code) in [
        (json!({ "model": "auto", "input": "hi" }), "invalid_value"),
        (json!({ "type": "response.append", "input": [] }), "invalid_value"),
        (json!([1]), "invalid_json"),
        (
            json!({ "type": "response.create", "input": "hi", "stream_id": "s" }),
            "unsupported_parameter",
        ),
        (
            json!({ "type": "response.create", "model": "no-such-model", "input": "x" }),
            "model_not_found",
        ),
        (
            json!({ "type": "response.create", "model": "auto", "input": "x", "background": true }),
            "unsupported_parameter",
        ),
    ] {
        socket.send(&message).await;
        let error = socket.json().await;
        assert_eq!((&error["type"], &error["error"]["code"]), (&json!("error"), &json!(code)));
        assert_eq!(error["status"], 400);
    }
    socket.respond(&json!({ "model": "auto", "input": "hi" })).await;
}

/// There are no headers for it.
#[tokio::test]
async fn failures_have_retry_after() {
    let busy = "[[rule]]\nrefuse = { status = 429, retry_after = 17 }";
    let gateway = Gateway::start(busy, |_| {}).await;
    let mut socket = gateway.chat().await;
    socket.send(&chat("hi", true)).await;
    let error = socket.json().await;
    assert_eq!(error["error"]["status"], 429, "{error}");
    assert_eq!(error["headers"], json!({ "retry-after": "17" }), "{error}");
    let mut socket = gateway.responses().await;
    socket.send(&json!({ "type": "response.create", "model": "auto", "input": "hi" })).await;
    assert!(socket.json().await["headers"]["retry-after"].is_string());
}

#[tokio::test]
async fn chat_matches_its_event_stream() {
    let gateway = Gateway::start(HELLO, |_| {}).await;
    let mut socket = gateway.chat().await;
    for word in ["one", "two"] {
        let chunks = socket.chat(word).await;
        let (done, chunks) = chunks.split_last().unwrap();
        assert_eq!(*done, json!({ "object": "chat.completion.done" }));
        assert_eq!(said(chunks), format!("Hello {word}"));
        assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
        assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "stop");
    }
    socket.send(&json!({ "model": "auto", "messages": [] })).await;
    assert_eq!(socket.json().await["error"]["code"], "missing_messages");
    // Two at once are answered one after the other.
    socket.send(&chat("three", true)).await;
    socket.send(&chat("four", true)).await;
    for word in ["three", "four"] {
        let chunks = socket.until(|chunk| chunk["object"] == "chat.completion.done").await;
        assert_eq!(said(&chunks), format!("Hello {word}"));
    }
}

#[tokio::test]
async fn closing_the_connection_cancels_the_turn() {
    let short = |config: &mut Config| config.clocks.cancel_grace = Duration::from_millis(20);
    for close in [true, false] {
        let gateway = Gateway::start(ENDLESS, short).await;
        let mut socket = gateway.chat().await;
        socket.send(&chat("go", true)).await;
        socket.until(|chunk| chunk["choices"][0]["delta"]["content"] == "tick ").await;
        if close {
            socket.0.close(None).await.unwrap();
        }
        drop(socket);
        let left = async {
            while gateway.app.sessions().cancelled == 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(LIMIT, left).await.expect("the turn goes on");
    }
}

/// It is closed, and not only its turn ended: what waits for such a client takes up memory.
#[tokio::test]
async fn websocket_client_that_does_not_read_is_disconnected() {
    // More than the system takes for a client that reads nothing.
    let text = "x".repeat(4096);
    let flood = format!("[[rule]]\nsteps = [{{ text = {{ text = \"{text}\", repeat = 8000 }} }}]");
    let gateway = Gateway::start(&flood, |config| {
        config.clocks.client_stall = Duration::from_secs(1);
        config.clocks.cancel_grace = Duration::from_millis(20);
    })
    .await;
    let mut socket = gateway.chat().await;
    socket.send(&chat("go", true)).await;
    let ended = async {
        while gateway.app.sessions().cancelled == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(LIMIT, ended).await.expect("the turn goes on");
    // It may still read what was on its way, and then comes the end of the connection.
    let mut read = 0;
    let closed = async {
        while let Some(Ok(message)) = socket.0.next().await {
            read += message.len();
        }
    };
    timeout(LIMIT, closed).await.expect("the connection is still open");
    assert!(read < 8000 * 4096, "{read}");
}

/// There is no CORS for WebSockets: what keeps web pages out is the check of the origin.
#[tokio::test]
async fn upgrades_are_authorised_like_requests() {
    let gateway = Gateway::start(HELLO, |config| {
        config.access.api_key = Some(watch::CLIENT_KEY.into());
        config.access.cors_origins = vec!["https://app.example".to_owned()];
    })
    .await;
    let key = ("x-api-key", watch::CLIENT_KEY);
    for path in ["/v1/responses", "/v1/chat/completions", "/responses", "/chat/completions"] {
        assert_eq!(gateway.refused(path, &[]).await, 401);
        assert_eq!(gateway.refused(path, &[("x-api-key", "wrong")]).await, 401);
        for origin in ["https://evil.example", "null"] {
            assert_eq!(gateway.refused(path, &[key, ("origin", origin)]).await, 403);
        }
        assert_eq!(gateway.refused(path, &[key, ("host", "evil.example")]).await, 403);
        gateway.open(path, &[key]).await.unwrap();
        gateway.open(path, &[key, ("origin", "https://app.example")]).await.unwrap();
        let own = format!("http://{}", gateway.address);
        gateway.open(path, &[key, ("origin", &own)]).await.unwrap();
    }
    assert_eq!(gateway.refused("/v1/models", &[key]).await, 200);
}

#[tokio::test]
async fn a_revoked_key_is_refused_on_an_open_connection() {
    let folder = watch::folder();
    let path = folder.path().join("keys.json");
    let keys = KeyFile::at(&path);
    let key = keys.add("laptop", None, 0).unwrap();
    watch::secret(key.expose_secret());
    // Without any key access would be open.
    watch::secret(keys.add("other", None, 0).unwrap().expose_secret());
    let gateway =
        Gateway::start(HELLO, |config| config.access.keys_file = Some(path.clone())).await;
    let key = [("x-api-key", key.expose_secret())];
    let mut socket = gateway.open("/v1/chat/completions", &key).await.unwrap();
    assert_eq!(said(&socket.chat("one").await), "Hello one");
    keys.revoke("laptop").unwrap();
    let refused = async {
        loop {
            socket.send(&chat("two", true)).await;
            let ended = |chunk: &Value| {
                chunk.get("error").is_some() || chunk["object"] == "chat.completion.done"
            };
            let last = socket.until(ended).await.pop().unwrap();
            if last["error"]["code"] == "invalid_api_key" {
                return;
            }
        }
    };
    timeout(LIMIT, refused).await.expect("a revoked key still works");
}

#[tokio::test]
async fn switched_off_they_are_426() {
    let gateway = Gateway::start(HELLO, |config| config.server.websocket = false).await;
    for path in ["/v1/responses", "/v1/chat/completions"] {
        assert_eq!(gateway.refused(path, &[]).await, 426);
    }
}

#[tokio::test]
async fn too_large_message_gets_an_error() {
    let gateway = Gateway::start(HELLO, |config| config.limits.body = 4096).await;
    let mut socket = gateway.responses().await;
    socket.respond(&json!({ "model": "auto", "input": "small" })).await;
    socket.send(&json!({ "type": "response.create", "input": "x".repeat(5000) })).await;
    let error = socket.json().await;
    assert_eq!(
        (&error["status"], &error["error"]["code"]),
        (&json!(413), &json!("request_too_large"))
    );
    assert_eq!(socket.closed().await, CloseCode::Size);

    let mut socket = gateway.chat().await;
    socket.0.send(Message::binary(vec![1, 2, 3])).await.unwrap();
    assert_eq!(socket.closed().await, CloseCode::Unsupported);
}

#[tokio::test]
async fn idle_connections_are_closed() {
    let idle = |config: &mut Config| config.clocks.websocket_idle = Duration::from_millis(50);
    let gateway = Gateway::start(HELLO, idle).await;
    assert_eq!(gateway.chat().await.closed().await, CloseCode::Normal);

    let gateway = Gateway::start(HELLO, |config| config.limits.connections = 1).await;
    let mut first = gateway.chat().await;
    assert_eq!(said(&first.chat("one").await), "Hello one");
    let mut second = gateway.chat().await;
    assert_eq!(first.closed().await, CloseCode::Away);
    assert_eq!(said(&second.chat("two").await), "Hello two");
}

#[tokio::test]
async fn shutdown_closes_open_sockets() {
    let gateway = Gateway::start(SLOW, |_| {}).await;
    let (mut idle, mut busy) = (gateway.responses().await, gateway.chat().await);
    busy.send(&chat("go", true)).await;
    let first = busy.until(|chunk| chunk["choices"][0]["delta"]["content"] == "tick ").await;
    gateway.shutdown.drain();
    assert_eq!(idle.closed().await, CloseCode::Away);
    let rest = busy.until(|chunk| chunk["object"] == "chat.completion.done").await;
    assert_eq!(format!("{}{}", said(&first), said(&rest)).trim(), "tick ".repeat(20).trim());
    assert_eq!(busy.closed().await, CloseCode::Away);
    gateway.stopped().await;
}

#[tokio::test]
async fn second_signal_ends_running_answers() {
    let gateway = Gateway::start(ENDLESS, |_| {}).await;
    let mut socket = gateway.responses().await;
    socket.send(&json!({ "type": "response.create", "model": "auto", "input": "go" })).await;
    socket.until(|event| event["type"] == "response.output_text.delta").await;
    gateway.shutdown.drain();
    gateway.shutdown.abort();
    let events = socket.until(|event| event["type"] == "response.failed").await;
    let error = &events.last().unwrap()["response"]["error"];
    assert_eq!(error["code"], "server_error", "{error}");
    gateway.stopped().await;
}
