//! MCP servers as they are met outside: children that speak on their streams, and servers
//! behind HTTP, old and new. In real time.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use axum::{
    Router,
    extract::State,
    response::{IntoResponse as _, Response},
    routing::get,
};
use http::{HeaderMap, StatusCode};
use ibeam_server::{
    config::{Config, servers::Hidden},
    mcp::{
        bridge::Bridge,
        config::{Program, ServerSpec, ServerTransport},
        servers::{Server, ServerState as Standing},
    },
    tasks::Tasks,
};
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    sync::mpsc,
    time::{Instant, sleep},
};

use crate::{mcp::Shed, watch};

/// A server in a few lines of shell. It reports what it sees of its surroundings, leaves a
/// child behind, and dies on request.
const SHELL: &str = r#"
sleep 1000 &
echo $! > "$NOTES/child"
echo started >> "$NOTES/starts"
echo "a complaint" >&2
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  say() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
  case "$line" in
    *'"initialize"'*) say '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}' ;;
    *'"tools/list"'*) say '{"tools":[{"name":"env","inputSchema":{"type":"object"}},{"name":"die","inputSchema":{"type":"object"}}]}' ;;
    *'"die"'*) exit 3 ;;
    *'"tools/call"'*) say "{\"content\":[{\"type\":\"text\",\"text\":\"given=$GIVEN kept=${IBEAM_API_KEY:-nothing}\"}]}" ;;
  esac
done
"#;

struct Desk {
    bridge: Bridge,
    tasks: Tasks,
}

impl Desk {
    fn new(way: ServerTransport) -> Self {
        watch::logs();
        let spec = ServerSpec {
            name: "s".to_owned(),
            source: PathBuf::from("test"),
            way,
            named: true,
            offer: false,
            allow: Vec::new(),
            timeout: Duration::from_secs(20),
            output: 1 << 20,
        };
        let (mut config, tasks) = (Config::default(), Tasks::new());
        config.mcp.start = Duration::from_secs(20);
        Self { bridge: Bridge::started(vec![spec], &config, &tasks), tasks }
    }

    fn server(&self) -> &Server {
        &self.bridge.servers()[0]
    }

    async fn ready(&self) {
        self.server().settled().await;
        assert!(matches!(self.server().state(), Standing::Ready), "{:?}", self.server().state());
    }

    /// Waits for something to become true.
    async fn until(&self, what: &str, mut is: impl FnMut(&Self) -> bool) {
        for _ in 0..400 {
            if is(self) {
                return;
            }
            sleep(Duration::from_millis(50)).await;
        }
        panic!("{what} did not come about: {:?}", self.server().state());
    }

    async fn end(self) {
        drop(self.bridge);
        assert_eq!(self.tasks.join_within(Duration::from_secs(15)).await, 0);
    }
}

fn shell(notes: &Path, script: &str) -> ServerTransport {
    let notes = notes.to_string_lossy().into_owned();
    let env = BTreeMap::from([
        ("GIVEN".to_owned(), Hidden::from("this".to_owned())),
        ("NOTES".to_owned(), Hidden::from(notes)),
    ]);
    let args = vec!["-c".to_owned(), script.to_owned()];
    ServerTransport::Stdio(Program { command: "sh".to_owned(), args, env, cwd: None })
}

fn lives(pid: &str) -> bool {
    // A zombie is dead.
    let status = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !status.is_empty() && !status.contains(") Z ")
}

#[tokio::test]
async fn child_ends_with_its_descendants() {
    let notes = watch::folder();
    let desk = Desk::new(shell(notes.path(), SHELL));
    desk.ready().await;
    let tools: Vec<_> = desk.server().tools().iter().map(|tool| tool.name.clone()).collect();
    assert_eq!(tools, ["env", "die"]);
    let output = desk.server().call("env", "{}").await;
    assert_eq!(output.text(), "given=this kept=nothing");
    let child = fs::read_to_string(notes.path().join("child")).unwrap();
    let child = child.trim();
    #[cfg(target_os = "linux")]
    assert!(lives(child));
    desk.end().await;
    // It was asked to end; the system may take a moment.
    for _ in 0..100 {
        if !lives(child) {
            return;
        }
        sleep(Duration::from_millis(20)).await;
    }
    panic!("its own child outlived it");
}

#[tokio::test]
async fn dead_child_is_restarted() {
    let notes = watch::folder();
    let desk = Desk::new(shell(notes.path(), SHELL));
    desk.ready().await;
    let output = desk.server().call("die", "{}").await;
    assert!(output.is_error, "{output:?}");
    desk.until("a second start", |_| {
        let starts = fs::read_to_string(notes.path().join("starts")).unwrap_or_default();
        starts.lines().count() == 2
    })
    .await;
    desk.until("a server that is ready", |desk| matches!(desk.server().state(), Standing::Ready))
        .await;
    assert_eq!(desk.server().call("env", "{}").await.text(), "given=this kept=nothing");
    desk.end().await;
}

#[tokio::test]
async fn stderr_of_a_child_is_reported() {
    let notes = watch::folder();
    for (script, told) in [
        ("echo 'cannot find my keys' >&2; exit 1", "cannot find my keys"),
        ("exec /nonexistent/program", "nonexistent"),
    ] {
        let desk = Desk::new(shell(notes.path(), script));
        desk.server().settled().await;
        let Standing::Down(why) = desk.server().state() else { panic!("{script}") };
        assert!(why.contains(told), "{why}");
        assert!(desk.server().call("env", "{}").await.text().contains("the server is down"));
        desk.end().await;
    }
    let program = Program {
        command: "no-such-program".to_owned(),
        args: Vec::new(),
        env: BTreeMap::new(),
        cwd: None,
    };
    let desk = Desk::new(ServerTransport::Stdio(program));
    desk.server().settled().await;
    let Standing::Down(why) = desk.server().state() else { panic!() };
    assert!(why.starts_with("`no-such-program` cannot be started"), "{why}");
    desk.end().await;
}

/// Serves on a port of this machine.
async fn serve(router: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    Tasks::new().spawn("remote", async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

fn remote(url: &str, key: Option<&str>) -> ServerTransport {
    let headers = key.map(|key| ("X-Key".to_owned(), Hidden::from(key.to_owned())));
    let remote = ibeam_server::mcp::Remote::new(url, headers.into_iter().collect(), false).unwrap();
    ServerTransport::Http(remote)
}

/// A server behind streamable HTTP and a key. Clones are one server.
#[derive(Clone, Default)]
struct Modern {
    shed: Shed,
    now: Arc<parking_lot::Mutex<Sessions>>,
}

#[derive(Default)]
struct Sessions {
    begun: u32,
    /// The one that is known now.
    open: Option<String>,
    /// All requests, in short.
    log: Vec<String>,
    /// The answer to a call that has to be fetched.
    kept: Option<Value>,
}

const SESSION: &str = "mcp-session-id";
const EVENTS: [(&str, &str); 1] = [("content-type", "text/event-stream")];

fn event(id: u32, message: &Value) -> String {
    format!(": hello\nid: e{id}\nevent: message\ndata: {message}\n\n")
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap())
}

impl Modern {
    fn router(&self) -> Router {
        let handlers = axum::routing::post(Self::post)
            .get(async |State(this): State<Self>, headers: HeaderMap| this.get(&headers))
            .delete(async |State(this): State<Self>, headers: HeaderMap| this.delete(&headers));
        Router::new().route("/mcp", handlers).with_state(self.clone())
    }

    /// Whether a request is let in and names the open session, and what it gets if not.
    fn check(&self, what: &str, headers: &HeaderMap) -> Result<(), StatusCode> {
        if header(headers, "x-key") != Some("open sesame") {
            return Err(StatusCode::UNAUTHORIZED);
        }
        let mut now = self.now.lock();
        let version = header(headers, "mcp-protocol-version").unwrap_or("no version");
        now.log.push(format!("{what}, {version}"));
        let named = header(headers, SESSION);
        if what == "POST initialize" || named == now.open.as_deref() {
            Ok(())
        } else {
            Err(StatusCode::NOT_FOUND)
        }
    }

    async fn post(State(this): State<Self>, headers: HeaderMap, body: String) -> Response {
        let message: Value = serde_json::from_str(&body).unwrap();
        let method = message["method"].as_str().unwrap_or("answer").to_owned();
        assert_eq!(header(&headers, "accept"), Some("application/json, text/event-stream"));
        if let Err(refused) = this.check(&format!("POST {method}"), &headers) {
            return refused.into_response();
        }
        let Some(answer) = this.shed.answer(&message).await else {
            // As some servers do; there is nothing to wait for.
            return axum::Json(json!({})).into_response();
        };
        let tool = message["params"]["name"].as_str().unwrap_or_default();
        match (method.as_str(), tool) {
            ("initialize", _) => {
                let mut now = this.now.lock();
                now.begun += 1;
                let name = format!("session {}", now.begun);
                now.open = Some(name.clone());
                ([(SESSION, name)], axum::Json(answer)).into_response()
            }
            // The answer has to be fetched with the id of the event.
            ("tools/call", "secret") => {
                this.now.lock().kept = Some(answer);
                (EVENTS, "id: e7\nretry: 200\ndata:\n\n").into_response()
            }
            ("tools/call", _) => {
                let progress = json!({ "jsonrpc": "2.0", "method": "notifications/progress" });
                let ping = json!({ "jsonrpc": "2.0", "id": "p", "method": "ping" });
                let events = [event(1, &progress), event(2, &ping), event(3, &answer)];
                (EVENTS, events.concat()).into_response()
            }
            _ => axum::Json(answer).into_response(),
        }
    }

    fn get(&self, headers: &HeaderMap) -> Response {
        let last = header(headers, "last-event-id").unwrap_or("nothing").to_owned();
        if let Err(refused) = self.check(&format!("GET after {last}"), headers) {
            return refused.into_response();
        }
        let mut now = self.now.lock();
        match now.kept.take_if(|_| last == "e7") {
            Some(answer) => (EVENTS, event(8, &answer)).into_response(),
            None => StatusCode::METHOD_NOT_ALLOWED.into_response(),
        }
    }

    fn delete(&self, headers: &HeaderMap) -> StatusCode {
        self.check("DELETE", headers).err().unwrap_or(StatusCode::OK)
    }

    fn saw(&self, what: &str) -> usize {
        self.now.lock().log.iter().filter(|line| line.starts_with(what)).count()
    }
}

#[tokio::test]
async fn streamable_http_works() {
    let modern = Modern::default();
    let url = serve(modern.router()).await;
    let desk = Desk::new(remote(&format!("{url}/mcp"), Some("open sesame")));
    desk.ready().await;
    assert_eq!(desk.server().tools().len(), 5);
    let output = desk.server().call("echo", "{\"text\":\"over http\"}").await;
    assert_eq!(output.text(), "<over http>");
    let failed = desk.server().call("fail", "{}").await;
    assert!(failed.is_error && failed.text() == "no luck");
    let bad = desk.server().call("echo", "[1]").await;
    assert!(bad.is_error && bad.text().contains("not a JSON object"), "{}", bad.text());
    // Its own stream was asked for, and its question answered.
    desk.until("an answer", |_| modern.saw("POST answer, 2025-11-25") > 0).await;
    assert_eq!(modern.saw("GET after nothing, 2025-11-25"), 1);
    assert_eq!(modern.saw("POST initialize, no version"), 1);
    assert_eq!(modern.saw("POST notifications/initialized, 2025-11-25"), 1);
    desk.end().await;
    assert_eq!(modern.saw("DELETE, 2025-11-25"), 1, "{:?}", modern.now.lock().log);
}

#[tokio::test]
async fn a_stream_that_is_closed_is_resumed() {
    let modern = Modern::default();
    let url = serve(modern.router()).await;
    let desk = Desk::new(remote(&format!("{url}/mcp"), Some("open sesame")));
    desk.ready().await;
    let began = Instant::now();
    let output = desk.server().call("secret", "{\"text\":\"later\"}").await;
    assert_eq!(output.text(), "<later>");
    assert!(began.elapsed() >= Duration::from_millis(200), "the server said when to come back");
    assert_eq!(modern.saw("GET after e7, 2025-11-25"), 1);
    desk.end().await;
}

#[tokio::test]
async fn forgotten_session_is_started_again() {
    let modern = Modern::default();
    let url = serve(modern.router()).await;
    let desk = Desk::new(remote(&format!("{url}/mcp"), Some("open sesame")));
    desk.ready().await;
    modern.now.lock().open = None;
    let output = desk.server().call("echo", "{\"text\":\"again\"}").await;
    assert_eq!(output.text(), "<again>");
    assert_eq!(modern.saw("POST initialize"), 2);
    assert_eq!(modern.saw("POST notifications/initialized"), 2);
    assert!(matches!(desk.server().state(), Standing::Ready));
    desk.end().await;
}

#[tokio::test]
async fn timed_out_call_is_cancelled() {
    let modern = Modern::default();
    let url = serve(modern.router()).await;
    let desk = Desk::new(remote(&format!("{url}/mcp"), Some("open sesame")));
    desk.ready().await;
    tokio::select! {
        _ = desk.server().call("slow", "{\"s\":600}") => panic!("it was not answered"),
        () = desk.until("a call", |_| modern.saw("POST tools/call") > 0) => {}
    }
    desk.until("a cancellation", |_| modern.saw("POST notifications/cancelled") > 0).await;
    desk.end().await;
}

#[tokio::test]
async fn server_that_needs_a_key_is_reported() {
    let url = serve(Modern::default().router()).await;
    let desk = Desk::new(remote(&format!("{url}/mcp"), None));
    desk.server().settled().await;
    let Standing::Down(why) = desk.server().state() else { panic!() };
    assert!(why.contains("authorization"), "{why}");
    desk.end().await;
}

/// The older transport by hand: everything that is said comes on one stream.
type Voice = Arc<parking_lot::Mutex<Option<mpsc::Sender<String>>>>;

async fn old_stream(State(voice): State<Voice>) -> Response {
    let (sender, mut lines) = mpsc::channel::<String>(16);
    sender.send("event: endpoint\ndata: /message?session=1\n\n".to_owned()).await.unwrap();
    *voice.lock() = Some(sender);
    let stream = futures_util::stream::poll_fn(move |cx| {
        lines.poll_recv(cx).map(|line| line.map(Ok::<_, std::io::Error>))
    });
    ([("content-type", "text/event-stream")], axum::body::Body::from_stream(stream)).into_response()
}

async fn old_message(State(voice): State<Voice>, body: String) -> StatusCode {
    let message: serde_json::Value = serde_json::from_str(&body).unwrap();
    let result = match message["method"].as_str().unwrap_or_default() {
        "initialize" => serde_json::json!({
            "protocolVersion": "2024-11-05",
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "old", "version": "1" },
        }),
        "tools/list" => serde_json::json!({
            "tools": [{ "name": "hello", "inputSchema": { "type": "object" } }],
        }),
        "tools/call" => serde_json::json!({ "content": [{ "type": "text", "text": "hello" }] }),
        _ => return StatusCode::ACCEPTED,
    };
    let answer = serde_json::json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
    let voice = voice.lock().clone().unwrap();
    voice.send(format!("event: message\ndata: {answer}\n\n")).await.unwrap();
    StatusCode::ACCEPTED
}

#[tokio::test]
async fn older_transport_is_detected() {
    let router = Router::new()
        .route("/sse", get(old_stream))
        .route("/message", axum::routing::post(old_message))
        .with_state(Voice::default());
    let url = serve(router).await;
    let desk = Desk::new(remote(&format!("{url}/sse"), None));
    desk.ready().await;
    assert_eq!(desk.server().call("hello", "").await.text(), "hello");
    desk.end().await;
}
