//! The stand-in for Cursor's CLI under ACP, in the types of `agent-client-protocol-schema`:
//! all that it says is read in them and written again, and nothing of it may be missing
//! then. What Cursor has beyond the protocol is named here.

use std::{
    io::{self, Write},
    sync::Arc,
};

use agent_client_protocol_schema::v1::{
    AuthenticateResponse, InitializeResponse, ListSessionsResponse, LoadSessionResponse,
    NewSessionResponse, PromptResponse, RequestPermissionRequest, SessionNotification,
    SetSessionConfigOptionResponse, SetSessionModeResponse,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// Fields of Cursor's that the protocol does not have.
const CURSORS: &[&str] = &["models"];

/// What their types leave out when it is the default.
fn is_default(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text == "other" || text == "pending",
        Value::Array(list) => list.is_empty(),
        Value::Object(table) => table.values().all(is_default),
        _ => false,
    }
}

/// Whether all of this is in that.
fn missing(ours: &Value, theirs: &Value, path: &str) -> Vec<String> {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => ours
            .iter()
            .filter(|(key, _)| !CURSORS.contains(&key.as_str()))
            .flat_map(|(key, value)| match theirs.get(key) {
                Some(other) => missing(value, other, &format!("{path}.{key}")),
                None if is_default(value) => Vec::new(),
                None => vec![format!("{path}.{key}")],
            })
            .collect(),
        (Value::Array(ours), Value::Array(theirs)) if ours.len() == theirs.len() => {
            let pairs = ours.iter().zip(theirs).enumerate();
            pairs.flat_map(|(at, (a, b))| missing(a, b, &format!("{path}[{at}]"))).collect()
        }
        (ours, theirs) if ours == theirs => Vec::new(),
        _ => vec![format!("{path}: {ours} became {theirs}")],
    }
}

fn whole<T: Serialize + DeserializeOwned>(ours: &Value) -> T {
    let theirs: T = serde_json::from_value(ours.clone()).unwrap_or_else(|e| panic!("{e}: {ours}"));
    let again = serde_json::to_value(&theirs).unwrap();
    assert_eq!(missing(ours, &again, ""), Vec::<String>::new(), "{ours}");
    theirs
}

/// Lines on their way out of the agent.
struct Pipe(mpsc::Sender<Vec<u8>>, Vec<u8>);

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.1.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let line = std::mem::take(&mut self.1);
        self.0.try_send(line).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

struct Client {
    to_agent: mpsc::Sender<Vec<u8>>,
    from_agent: mpsc::Receiver<Vec<u8>>,
    id: u64,
}

impl Client {
    async fn say(&self, message: &Value) {
        self.to_agent.send(format!("{message}\n").into_bytes()).await.unwrap();
    }

    /// The result of a request. Everything before it is checked on the way.
    async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.id += 1;
        let id = self.id;
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        loop {
            let line = self.from_agent.recv().await.unwrap();
            let message: Value = serde_json::from_slice(&line).unwrap();
            match message["method"].as_str() {
                Some("session/update") => drop(whole::<SessionNotification>(&message["params"])),
                Some("session/request_permission") => {
                    whole::<RequestPermissionRequest>(&message["params"]);
                    let outcome = json!({ "outcome": "selected", "optionId": "allow-once" });
                    let result = json!({ "outcome": outcome });
                    let id = &message["id"];
                    self.say(&json!({ "jsonrpc": "2.0", "id": id, "result": result })).await;
                }
                Some(other) => panic!("{other}"),
                None if message["id"] == id => return message["result"].clone(),
                None => panic!("{message}"),
            }
        }
    }
}

#[tokio::test]
async fn all_messages_of_the_stand_in_are_acp() {
    let folder = std::env::temp_dir().join(format!("ibeam-acp-agent-{}", std::process::id()));
    let (to_agent, input) = mpsc::channel(16);
    let (tx, from_agent) = mpsc::channel(4096);
    let home = folder.clone();
    let agent = async move {
        let pipe = Box::new(Pipe(tx, Vec::new()));
        ibeam_sim::cursor_agent::serve_acp("own-tools,ask-mcp", home, input, pipe).await
    };
    let client = async {
        let mut client = Client { to_agent, from_agent, id: 0 };
        let hello = client.ask("initialize", json!({ "protocolVersion": 1 })).await;
        whole::<InitializeResponse>(&hello);
        let done = client.ask("authenticate", json!({ "methodId": "cursor_login" })).await;
        whole::<AuthenticateResponse>(&done);
        let place = json!({ "cwd": std::env::temp_dir(), "mcpServers": [] });
        let opened = client.ask("session/new", place).await;
        let session = whole::<NewSessionResponse>(&opened).session_id;
        let session: Arc<str> = serde_json::to_value(session).unwrap().as_str().unwrap().into();
        for text in ["hello", "run `ls`", "read the file a.txt"] {
            let prompt = json!([{ "type": "text", "text": text }]);
            let params = json!({ "sessionId": &*session, "prompt": prompt });
            whole::<PromptResponse>(&client.ask("session/prompt", params).await);
        }
        let mode = json!({ "sessionId": &*session, "modeId": "ask" });
        whole::<SetSessionModeResponse>(&client.ask("session/set_mode", mode).await);
        let model = json!({ "sessionId": &*session, "configId": "model", "value": "default[]" });
        let options = client.ask("session/set_config_option", model).await;
        whole::<SetSessionConfigOptionResponse>(&options);
        whole::<ListSessionsResponse>(&client.ask("session/list", json!({})).await);
        let params = json!({
            "sessionId": &*session, "cwd": std::env::temp_dir(), "mcpServers": [],
        });
        whole::<LoadSessionResponse>(&client.ask("session/load", params).await);
    };
    let (served, ()) = tokio::join!(agent, client);
    served.unwrap();
    std::fs::remove_dir_all(folder).unwrap();
}
