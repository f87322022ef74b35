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
use ibeam::{
    config::{Config, servers::Hidden},
    mcp::{
        bridge::Bridge,
        config::{Program, ServerSpec, Way},
        servers::{Server, State as Standing},
    },
    tasks::Tasks,
};
use rmcp::transport::{
    StreamableHttpServerConfig, StreamableHttpService,
    streamable_http_server::session::local::LocalSessionManager,
};
use tokio::{net::TcpListener, sync::mpsc, time::sleep};

use crate::{mcp::Shed, watch};

/// A server in a few lines of shell. It tells what it sees of its surroundings, leaves a
/// child behind, and dies when it is told to.
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
    fn new(way: Way) -> Self {
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

fn shell(notes: &Path, script: &str) -> Way {
    let notes = notes.to_string_lossy().into_owned();
    let env = BTreeMap::from([
        ("GIVEN".to_owned(), Hidden::from("this".to_owned())),
        ("NOTES".to_owned(), Hidden::from(notes)),
    ]);
    let args = vec!["-c".to_owned(), script.to_owned()];
    Way::Stdio(Program { command: "sh".to_owned(), args, env, cwd: None })
}

fn lives(pid: &str) -> bool {
    // A zombie that nobody has reaped yet is dead.
    let status = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !status.is_empty() && !status.contains(") Z ")
}

#[tokio::test]
async fn a_child_works_and_goes_with_all_that_is_under_it() {
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
    // It was told to go; the system may take a moment.
    for _ in 0..100 {
        if !lives(child) {
            return;
        }
        sleep(Duration::from_millis(20)).await;
    }
    panic!("its own child outlived it");
}

#[tokio::test]
async fn a_child_that_dies_is_started_again() {
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
async fn what_a_child_complains_of_is_told() {
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
    let desk = Desk::new(Way::Stdio(program));
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

fn remote(url: &str, key: Option<&str>) -> Way {
    let headers = key.map(|key| ("X-Key".to_owned(), Hidden::from(key.to_owned())));
    let remote = ibeam::mcp::Remote::new(url, headers.into_iter().collect(), false).unwrap();
    Way::Http(remote)
}

/// A server of the official library, behind a key.
fn modern() -> Router {
    let shed = Shed::default();
    let service: StreamableHttpService<Shed, LocalSessionManager> = StreamableHttpService::new(
        move || Ok(shed.clone()),
        Arc::default(),
        StreamableHttpServerConfig::default(),
    );
    let guard = async |headers: HeaderMap,
                       request: axum::extract::Request,
                       next: axum::middleware::Next| {
        if headers.get("x-key").is_some_and(|key| key == "open sesame") {
            next.run(request).await
        } else {
            StatusCode::UNAUTHORIZED.into_response()
        }
    };
    Router::new().nest_service("/mcp", service).layer(axum::middleware::from_fn(guard))
}

#[tokio::test]
async fn streamable_http_works() {
    let url = serve(modern()).await;
    let desk = Desk::new(remote(&format!("{url}/mcp"), Some("open sesame")));
    desk.ready().await;
    assert_eq!(desk.server().tools().len(), 5);
    let output = desk.server().call("echo", "{\"text\":\"over http\"}").await;
    assert_eq!(output.text(), "<over http>");
    let failed = desk.server().call("fail", "{}").await;
    assert!(failed.is_error && failed.text() == "no luck");
    let bad = desk.server().call("echo", "[1]").await;
    assert!(bad.is_error && bad.text().contains("no JSON object"), "{}", bad.text());
    desk.end().await;
}

#[tokio::test]
async fn who_needs_a_key_says_so() {
    let url = serve(modern()).await;
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
async fn the_older_transport_is_found_by_itself() {
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
