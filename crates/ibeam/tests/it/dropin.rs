//! In the place of the proxy over `cursor-agent` on port 32124: its endpoints, its fields, its
//! error codes and its variables. Where ibeam differs on purpose, the test says so, and
//! `docs/migration.md` has a row for it.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    cli::Home,
    client::{Call, Said, tool},
    watch,
};

const SERVE: &str = "serve --sim --backend cli --listen 127.0.0.1:0 --listen 127.0.0.1:0";

/// The real program, with a simulated `cursor-agent` behind it. Ended with its test.
struct Gateway {
    child: Child,
    /// One for each place it listens on.
    urls: Vec<String>,
    _home: Home,
}

impl Gateway {
    /// `words` configure the simulated program.
    fn new(words: &str) -> Self {
        Self::with(words, |_, _| {})
    }

    fn with(words: &str, change: impl FnOnce(&Home, &mut Command)) -> Self {
        let home = Home::new();
        let chats = home.0.path().join("chats");
        let mut command = home.ibeam(SERVE);
        command.env("IBEAM_FAKE_AGENT", format!("home={},{words}", chats.display()));
        change(&home, &mut command);
        Self::start(home, command, 2)
    }

    fn start(home: Home, mut command: Command, places: usize) -> Self {
        // Its log is not read here, and a full pipe would stop it.
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let urls: Vec<String> = lines.take(places).map(Result::unwrap).collect();
        assert_eq!(urls.len(), places, "{urls:?}");
        Self { child, urls, _home: home }
    }

    fn get(&self, path: &str) -> (u16, Value) {
        let (status, body) = request(&self.urls[0], &format!("GET {path}"), "");
        (status, serde_json::from_str(&body).unwrap())
    }

    fn post(&self, body: &str) -> (u16, String) {
        request(&self.urls[0], "POST /v1/chat/completions", body)
    }

    fn chat(&self, body: &Value) -> (u16, Value) {
        let (status, body) = self.post(&body.to_string());
        (status, serde_json::from_str(&body).unwrap())
    }

    /// What is at this path, once it is like this.
    #[expect(clippy::disallowed_methods, reason = "another process has no clock of ours")]
    fn until(&self, path: &str, is: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..1000 {
            let (status, value) = self.get(path);
            assert_eq!(status, 200, "{value}");
            if is(&value) {
                return value;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("{path} stays {:?}", self.get(path));
    }

    /// Its `/health`, once it says this about the sign-in.
    fn health(&self, auth: &str) -> Value {
        self.until("/health", |health| health["auth"] == auth)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// HTTP/1.0, so that the body is not cut into chunks.
fn request(url: &str, head: &str, body: &str) -> (u16, String) {
    let address = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    write!(
        stream,
        "{head} HTTP/1.0\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    watch::heard(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

fn asking(model: &str, text: &str) -> Value {
    json!({ "model": model, "messages": [{ "role": "user", "content": text }] })
}

/// The chunks of a stream, which must have ended well.
fn chunks(body: &str) -> Vec<Value> {
    let mut data: Vec<&str> = body.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    assert_eq!(data.pop(), Some("[DONE]"), "{body}");
    data.into_iter().map(|chunk| serde_json::from_str(chunk).unwrap()).collect()
}

/// All that the deltas say in one field, one after the other.
fn told(chunks: &[Value], field: &str) -> String {
    chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"][field].as_str()).collect()
}

/// What went wrong, by the four fields that it always had.
fn error(answer: &(u16, Value)) -> (u16, &str, &str) {
    let (status, body) = answer;
    let error = &body["error"];
    assert!(error["message"].as_str().is_some_and(|text| !text.is_empty()), "{body}");
    assert_eq!(error["status"], *status, "{body}");
    (*status, error["type"].as_str().unwrap(), error["code"].as_str().unwrap())
}

const INVALID: &str = "invalid_request_error";

#[test]
fn both_ports_report_their_health() {
    let gateway = Gateway::new("");
    let health = gateway.health("authenticated");
    assert_eq!(health["status"], "ok");
    assert_eq!(health["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(health["mcp"], json!({ "enabled": false, "servers": 0, "tools": 0 }));
    for url in &gateway.urls {
        let (status, body) = request(url, "GET /health", "");
        assert_eq!(status, 200, "{url}: {body}");
    }
    assert_ne!(gateway.urls[0], gateway.urls[1]);
}

#[test]
fn models_have_all_their_fields() {
    let gateway = Gateway::new("");
    let (status, list) = gateway.get("/v1/models");
    assert_eq!((status, &list["object"]), (200, &json!("list")), "{list}");
    let models = list["data"].as_array().unwrap();
    assert_eq!((&models[0]["id"], &models[0]["name"]), (&json!("auto"), &json!("Auto")));
    for model in models {
        assert!(model["id"].is_string() && model["name"].is_string(), "{model}");
        assert_eq!(model["object"], "model");
        assert!(model["created"].as_u64().is_some_and(|at| at > 1_000_000_000), "{model}");
        // It said `cursor` for all of them. On purpose: here it is who made the model.
        assert!(model["owned_by"].as_str().is_some_and(|owner| !owner.is_empty()), "{model}");
    }
    assert_eq!(models[0]["owned_by"], "cursor");
}

#[test]
fn stream_has_text_thoughts_and_an_ending() {
    let gateway = Gateway::new("");
    let body = json!({
        "model": "auto", "stream": true, "temperature": 0.5, "max_tokens": 500,
        "messages": [{ "role": "system", "content": "You are helpful." },
                     { "role": "user", "content": "Hello" }],
    });
    let (status, stream) = gateway.post(&body.to_string());
    assert_eq!(status, 200, "{stream}");
    let chunks = chunks(&stream);
    for chunk in &chunks {
        assert_eq!(chunk["id"], chunks[0]["id"]);
        assert_eq!(chunk["object"], "chat.completion.chunk");
        assert!(chunk["created"].is_u64(), "{chunk}");
        assert_eq!(chunk["model"], "auto");
        assert_eq!(chunk["choices"][0]["index"], 0);
        assert!(chunk["choices"][0].get("finish_reason").is_some(), "{chunk}");
    }
    // On purpose: it began with `cursor-proxy-`.
    assert!(chunks[0]["id"].as_str().unwrap().starts_with("chatcmpl-"));
    assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "stop");
    let text = "I understand: Hello This is the simulator speaking.";
    assert_eq!(told(&chunks, "content"), text);
    let thoughts = told(&chunks, "reasoning_content");
    assert!(!thoughts.is_empty());
    // The same in one piece, which its code never gave.
    let (status, whole) = gateway.chat(&asking("auto", "Hello"));
    assert_eq!(status, 200, "{whole}");
    let message = &whole["choices"][0]["message"];
    assert_eq!(
        (&message["content"], &message["reasoning_content"]),
        (&json!(text), &json!(thoughts))
    );
}

#[test]
fn client_tools_are_called_and_results_are_accepted() {
    let gateway = Gateway::new("");
    let mut body = asking("auto", "call get_weather for Oslo");
    body["tools"] = json!([tool("get_weather", &["city"])]);
    body["stream"] = json!(true);
    let (status, stream) = gateway.post(&body.to_string());
    assert_eq!(status, 200, "{stream}");
    let all = chunks(&stream);
    let first = all.iter().find_map(|chunk| chunk["choices"][0]["delta"].get("tool_calls"));
    let first = &first.unwrap()[0];
    assert_eq!((&first["index"], &first["type"]), (&json!(0), &json!("function")));
    assert_eq!(first["function"]["name"], "get_weather");
    assert!(first["id"].is_string());
    let said = Said::read(&format!("\r\n\r\n{stream}"));
    assert_eq!((said.calls.len(), said.finish.as_str()), (1, "tool_calls"));
    assert_eq!(said.calls[0].arguments, r#"{"city":"Oslo"}"#);
    let messages = body["messages"].as_array_mut().unwrap();
    messages.extend([said.message(), said.calls[0].result("7 degrees and rain")]);
    let (status, stream) = gateway.post(&body.to_string());
    assert_eq!(status, 200, "{stream}");
    assert!(told(&chunks(&stream), "content").contains("7 degrees and rain"), "{stream}");
}

/// A conversation that the other proxy began: its ids mean nothing here.
#[test]
fn results_of_another_proxys_calls_are_accepted() {
    let gateway = Gateway::new("");
    let call = Call {
        id: "call_123".to_owned(),
        name: "bash".to_owned(),
        arguments: r#"{"command":"ls"}"#.to_owned(),
    };
    let made = Said { calls: vec![call.clone()], ..Said::default() };
    let mut body = asking("auto", "run `ls`");
    body["tools"] = json!([tool("bash", &["command"])]);
    let messages = body["messages"].as_array_mut().unwrap();
    messages.extend([made.message(), call.result("notes.txt")]);
    let (status, answer) = gateway.chat(&body);
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["choices"][0]["finish_reason"], "stop", "{answer}");
    let text = answer["choices"][0]["message"]["content"].as_str().unwrap();
    assert!(text.contains("notes.txt"), "{text}");
}

#[test]
fn invalid_requests_get_their_codes() {
    let gateway = Gateway::new("");
    for (body, code) in [
        ("{", "invalid_json"),
        (r#"{"model":"auto"}"#, "missing_messages"),
        (r#"{"model":"auto","messages":[]}"#, "missing_messages"),
        (&asking("no-such-model", "hi").to_string(), "model_not_found"),
    ] {
        let (status, answer) = gateway.post(body);
        let answer = (status, serde_json::from_str(&answer).unwrap());
        assert_eq!(error(&answer), (400, INVALID, code), "{body}");
    }
}

#[test]
fn errors_of_the_program_get_their_codes() {
    for (words, want) in [
        ("not-logged-in", (401, "authentication_error", "not_authenticated")),
        ("exit-1:Error: rate limit", (429, "rate_limit_error", "quota_exceeded")),
        ("exit-1:unknown model", (400, INVALID, "model_not_found")),
        // On purpose: it said `quota_exceeded` here, too. A plan that is used up is not worth
        // another try, and SDKs tell that by OpenAI's own code.
        ("usage-limit", (429, "rate_limit_error", "insufficient_quota")),
        // On purpose: it said 500 and `server_error`. The fault is not the gateway's.
        ("exit-1:something odd", (502, "server_error", "upstream_error")),
    ] {
        let gateway = Gateway::new(words);
        let answer = gateway.chat(&asking("auto", "hi"));
        assert_eq!(error(&answer), want, "{words}: {}", answer.1);
    }
    let gateway = Gateway::new("not-logged-in");
    gateway.health("not_authenticated");
}

const LOOP: &str = r#"
    [[rule]]
    steps = [
      { exec = { arm = "mcp", args = { name = "bash", args = { command = "ls" } } } },
      { exec = { arm = "mcp", args = { name = "bash", args = { command = "ls" } } } },
      { exec = { arm = "mcp", args = { name = "bash", args = { command = "ls" } } } },
      { exec = { arm = "mcp", args = { name = "bash", args = { command = "ls" } } } },
      { text = "done" },
    ]
"#;

/// How many equal calls the client gets to see, and what comes then.
fn calls_in_a_loop(limit: Option<&str>) -> (usize, u16, Value) {
    let folder = watch::folder();
    let scenario = folder.path().join("loop.toml");
    fs::write(&scenario, LOOP).unwrap();
    let words = format!("scenario={}", scenario.display());
    let gateway = Gateway::with(&words, |_, command| {
        if let Some(limit) = limit {
            command.env("TOOL_LOOP_MAX_REPEAT", limit);
        }
    });
    let mut body = asking("auto", "go");
    body["tools"] = json!([tool("bash", &["command"])]);
    for seen in 0.. {
        let (status, answer) = gateway.chat(&body);
        let said = match status {
            200 => Said::read(&format!("\r\n\r\n{answer}")),
            _ => return (seen, status, answer),
        };
        if said.calls.is_empty() {
            return (seen, status, answer);
        }
        let messages = body["messages"].as_array_mut().unwrap();
        messages.extend([said.message(), said.calls[0].result("nothing")]);
    }
    panic!("there is always another call");
}

#[test]
fn loop_guard_follows_its_variable() {
    let (calls, status, answer) = calls_in_a_loop(None);
    assert_eq!((calls, error(&(status, answer)).2), (2, "tool_loop"));
    let (calls, status, answer) = calls_in_a_loop(Some("3"));
    assert_eq!((calls, error(&(status, answer)).2), (3, "tool_loop"));
    let (calls, status, answer) = calls_in_a_loop(Some("0"));
    assert_eq!((calls, status), (4, 200), "{answer}");
}

/// A program of the test's own in place of `cursor-agent`.
fn program(home: &Home, status: &str) -> PathBuf {
    let path = home.0.path().join("cursor-agent");
    let script = format!(
        "#!/bin/sh\ncase \"$1\" in\n--version) echo 2026.01.09-231024f;;\n\
         models) echo 'auto - Auto';;\nstatus) {status};;\n*) exit 1;;\nesac\n"
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn over_program(status: &str, change: impl FnOnce(&mut Command)) -> Gateway {
    let home = Home::new();
    let mut command = home.ibeam("serve --backend cli --listen 127.0.0.1:0");
    command.env("CURSOR_AGENT_BIN", program(&home, status)).env("PATH", "/usr/bin:/bin");
    change(&mut command);
    Gateway::start(home, command, 1)
}

#[test]
fn sign_in_check_timeout_follows_its_variable() {
    let gateway = over_program("sleep 60", |command| {
        command.env("CURSOR_ACP_AUTH_CHECK_TIMEOUT", "300");
    });
    let answer = gateway.chat(&asking("auto", "hi"));
    // On purpose: it said 401. That it did not answer is no word about who is signed in.
    assert_eq!(error(&answer), (504, "server_error", "timeout"), "{}", answer.1);
    assert!(answer.1["error"]["message"].as_str().unwrap().contains("300 ms"), "{}", answer.1);
}

/// Signed in when the gateway starts, which it insists on, and out from then on.
const ONCE: &str = "if [ -e \"$HOME/asked\" ]; then echo 'Not logged in'; \
                    else : > \"$HOME/asked\"; echo '✓ Logged in as me@example.com'; fi";

#[test]
fn models_are_checked_before_the_sign_in() {
    let gateway = over_program(ONCE, |_| {});
    gateway.health("not_authenticated");
    let (status, models) = gateway.get("/v1/models");
    assert_eq!((status, &models["data"][0]["id"]), (200, &json!("auto")), "{models}");
    let answer = gateway.chat(&asking("no-such-model", "hi"));
    assert_eq!(error(&answer), (400, INVALID, "model_not_found"));
    let answer = gateway.chat(&asking("auto", "hi"));
    assert_eq!(error(&answer), (401, "authentication_error", "not_authenticated"));
    assert!(answer.1["error"]["message"].as_str().unwrap().contains("login"), "{}", answer.1);
}

/// An MCP server in a few lines of shell.
const MEMORY: &str = r#"
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  say() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
  case "$line" in
    *'"initialize"'*) say '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"m","version":"1"}}' ;;
    *'"tools/list"'*) say '{"tools":[{"name":"memory_stats","description":"Get memory statistics","inputSchema":{"type":"object","properties":{}}}]}' ;;
  esac
done
"#;

/// The server is in `opencode.json`, as it was. On purpose: it is started only if the user's
/// own settings say so, too.
#[test]
fn tools_of_mcp_servers_are_listed_with_all_their_fields() {
    let gateway = Gateway::with("", |home, command| {
        let home = home.0.path();
        let put = |name: &str, text: &str| {
            fs::create_dir_all(home.join(name).parent().unwrap()).unwrap();
            fs::write(home.join(name), text).unwrap();
        };
        put("memory.sh", MEMORY);
        let server = json!({ "command": "/bin/sh", "args": [home.join("memory.sh")] });
        let servers = json!({ "mcpServers": { "hybrid-memory": server } });
        put(".config/opencode/opencode.json", &servers.to_string());
        let settings = "[mcp]\nenabled = true\ndiscover = true\n[mcp.servers.hybrid-memory]\n";
        put(".config/ibeam/config.toml", settings);
        command.env("PATH", "/usr/bin:/bin").current_dir(home);
    });
    let list = gateway.until("/v1/tools", |list| list["mcp"]["servers"] == 1);
    let tool = json!({
        "id": "mcp__hybrid-memory__memory_stats", "name": "memory_stats", "server": "hybrid-memory",
        "description": "Get memory statistics",
        "inputSchema": { "type": "object", "properties": {} },
    });
    let counts = json!({ "servers": 1, "tools": 1 });
    assert_eq!(list, json!({ "object": "list", "data": [tool], "mcp": counts }));
    let health = json!({ "enabled": true, "servers": 1, "tools": 1 });
    assert_eq!(gateway.get("/health").1["mcp"], health);
}

/// The prompt of `cursor-agent --print` is text. That is not the model's fault.
#[test]
fn image_refusal_names_the_backend() {
    let gateway = Gateway::new("");
    let pixel = "data:image/png;base64,iVBORw0KGgo=";
    let mut body = asking("auto", "");
    body["messages"][0]["content"] = json!([
        { "type": "text", "text": "What is this?" },
        { "type": "image_url", "image_url": { "url": pixel } },
    ]);
    let answer = gateway.chat(&body);
    assert_eq!(error(&answer), (400, INVALID, "invalid_value"));
    assert!(answer.1["error"]["message"].as_str().unwrap().contains("`cli`"), "{}", answer.1);
}

#[test]
fn port_and_host_are_respected() {
    let home = Home::new();
    let mut command = home.ibeam("serve --sim --backend cli");
    command.env("PORT", "0").env("HOST", "127.0.0.1");
    let gateway = Gateway::start(home, command, 1);
    let port = gateway.urls[0].strip_prefix("http://127.0.0.1:").unwrap();
    assert!(!["0", "18741", "32124"].contains(&port), "{port}");
    assert_eq!(gateway.get("/health").0, 200);
    // On purpose: it needed nothing more than this to be open to the whole network.
    let home = Home::new();
    let mut command = home.ibeam("serve --sim --backend cli");
    let refused = command.env("PORT", "0").env("HOST", "0.0.0.0").output().unwrap();
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && words.contains("key"), "{words}");
}
