//! A small MCP server, written for these tests alone: it answers with JSON or with a stream
//! of events, and notes what it is asked.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::Arc,
};

use parking_lot::Mutex;
use serde_json::{Value, json};

pub(super) struct McpServer {
    pub(super) url: String,
    heard: Arc<Mutex<Vec<String>>>,
}

impl McpServer {
    /// Serves for as long as the test runs.
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp/x", listener.local_addr().unwrap());
        let heard = Arc::<Mutex<Vec<String>>>::default();
        let notes = Arc::clone(&heard);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let notes = Arc::clone(&notes);
                std::thread::spawn(move || answer(&stream, &notes));
            }
        });
        Self { url, heard }
    }

    /// The methods it was asked for.
    pub(super) fn heard(&self) -> Vec<String> {
        self.heard.lock().clone()
    }
}

fn answer(stream: &TcpStream, heard: &Mutex<Vec<String>>) {
    let mut input = BufReader::new(stream);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        input.read_line(&mut line).unwrap();
        if line.trim().is_empty() {
            break;
        }
        head.push(line.trim().to_ascii_lowercase());
    }
    let header = |name: &str| {
        let line = head.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        line.unwrap_or_default().to_owned()
    };
    assert_eq!(header("authorization"), "bearer open-sesame");
    assert!(head[0].contains(" /mcp/x "), "{head:?}");
    let mut body = vec![0; header("content-length").parse().unwrap_or(0)];
    input.read_exact(&mut body).unwrap();
    if head[0].starts_with("delete") {
        heard.lock().push("DELETE".to_owned());
        return send(stream, "200 OK", "text/plain", "");
    }
    let message: Value = serde_json::from_slice(&body).unwrap();
    let method = message["method"].as_str().unwrap().to_owned();
    heard.lock().push(method.clone());
    if method != "initialize" {
        assert_eq!(header("mcp-session-id"), "session-1");
        assert_eq!(header("mcp-protocol-version"), "2025-06-18");
    }
    let id = &message["id"];
    let reply = |result: Value| json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string();
    match method.as_str() {
        "initialize" => {
            let result = json!({
                "protocolVersion": "2025-06-18", "capabilities": { "tools": {} },
                "serverInfo": { "name": "test", "version": "1" },
            });
            let kind = "application/json\r\nmcp-session-id: session-1";
            send(stream, "200 OK", kind, &reply(result));
        }
        "tools/list" => {
            let schema =
                json!({ "type": "object", "properties": { "text": { "type": "string" } } });
            let tool =
                |name: &str| json!({ "name": name, "description": "", "inputSchema": schema });
            // In two pages.
            let result = if message["params"]["cursor"] == "more" {
                json!({ "tools": [tool("never")] })
            } else {
                json!({ "tools": [tool("echo")], "nextCursor": "more" })
            };
            send(stream, "200 OK", "application/json", &reply(result));
        }
        "tools/call" if message["params"]["name"] == "never" => {
            // Until the other side has enough of it.
            let _ = input.read(&mut [0]);
        }
        "tools/call" => {
            let token = &message["params"]["_meta"]["progressToken"];
            assert!(token.is_number(), "{message}");
            let progress = json!({
                "jsonrpc": "2.0", "method": "notifications/progress",
                "params": { "progressToken": token, "progress": 1 },
            });
            let text =
                format!("you said {}", message["params"]["arguments"]["text"].as_str().unwrap());
            let result = reply(json!({ "content": [{ "type": "text", "text": text }] }));
            let events = format!("data: {progress}\n\nevent: message\ndata: {result}\n\n");
            send(stream, "200 OK", "text/event-stream", &events);
        }
        _ => send(stream, "202 Accepted", "text/plain", ""),
    }
}

fn send(mut stream: &TcpStream, status: &str, kind: &str, body: &str) {
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n{body}"
    );
    stream.write_all(answer.as_bytes()).unwrap();
}
