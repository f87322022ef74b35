//! Tools of the user's MCP servers inside a turn: what the model is offered, what is executed
//! here, and what the client gets to see of it. The servers are in this process.

use std::{path::PathBuf, sync::Arc, time::Duration};

use http::StatusCode;
use ibeam_server::{
    mcp::config::{ServerSpec, ServerTransport},
    tasks::Tasks,
};
use ibeam_sim::{Scenario, Sim, SimConfig};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream},
    sync::mpsc,
    time::{Instant, sleep},
};

use crate::lab::{Lab, Reply, Talk, chat, tools};

/// A server with tools for every case. Clones are one server.
#[derive(Clone, Default)]
pub(crate) struct Shed {
    /// The calls so far.
    calls: Arc<Mutex<Vec<String>>>,
    /// Tools beside the first ones.
    more: Arc<Mutex<Vec<&'static str>>>,
    /// What is to be sent to the client that came last.
    out: Arc<Mutex<Option<mpsc::Sender<Value>>>>,
}

const TOOLS: [&str; 5] = ["echo", "slow", "big", "fail", "secret"];

fn result(text: &str, is_error: bool) -> Value {
    json!({ "content": [{ "type": "text", "text": text }], "isError": is_error })
}

impl Shed {
    /// The answer to a message, if it has one.
    pub(crate) async fn answer(&self, message: &Value) -> Option<Value> {
        let id = message.get("id")?;
        let params = &message["params"];
        let result = match message["method"].as_str().unwrap_or_default() {
            "initialize" => json!({
                "protocolVersion": params["protocolVersion"],
                "capabilities": { "tools": { "listChanged": true } },
                "serverInfo": { "name": "shed", "version": "1" },
            }),
            "ping" => json!({}),
            "tools/list" => self.page(params),
            "tools/call" => self.call(params).await,
            other => panic!("the client asks for `{other}`"),
        };
        Some(json!({ "jsonrpc": "2.0", "id": id, "result": result }))
    }

    /// One tool a page.
    fn page(&self, params: &Value) -> Value {
        let names: Vec<&str> = TOOLS.iter().chain(self.more.lock().iter()).copied().collect();
        let at: usize = params["cursor"].as_str().map_or(0, |cursor| cursor.parse().unwrap());
        let tool = json!({
            "name": names[at],
            "description": format!("the tool {}", names[at]),
            "inputSchema": { "type": "object" },
        });
        let mut page = json!({ "tools": [tool] });
        if at + 1 < names.len() {
            page["nextCursor"] = json!((at + 1).to_string());
        }
        page
    }

    async fn call(&self, params: &Value) -> Value {
        let (name, arguments) = (params["name"].as_str().unwrap(), &params["arguments"]);
        self.calls.lock().push(format!("{name} {arguments}"));
        match name {
            "slow" => {
                sleep(Duration::from_secs(arguments["s"].as_u64().unwrap_or(5))).await;
                result("at last", false)
            }
            "big" => result(&"x".repeat(300 << 10), false),
            "fail" => result("no luck", true),
            _ => {
                let text = arguments["text"].as_str().unwrap_or_default();
                result(&format!("<{text}>"), false)
            }
        }
    }

    /// Serves one client, one message to a line. Its calls end with it.
    async fn serve(self, pipe: DuplexStream) {
        let (reader, mut writer) = tokio::io::split(pipe);
        let mut lines = BufReader::new(reader).lines();
        let (out, mut messages) = mpsc::channel(16);
        *self.out.lock() = Some(out.clone());
        let calls = Tasks::new();
        loop {
            tokio::select! {
                line = lines.next_line() => {
                    let Ok(Some(line)) = line else { break };
                    let message: Value = serde_json::from_str(&line).unwrap();
                    let (shed, out, stopped) = (self.clone(), out.clone(), calls.stopped());
                    calls.spawn("shed call", async move {
                        tokio::select! {
                            answer = shed.answer(&message) => if let Some(answer) = answer {
                                let _ = out.send(answer).await;
                            },
                            () = stopped => {}
                        }
                    });
                }
                Some(message) = messages.recv() => {
                    if writer.write_all(format!("{message}\n").as_bytes()).await.is_err() {
                        break;
                    }
                }
            }
        }
        *self.out.lock() = None;
        calls.stop();
        calls.join().await;
    }

    /// A server of this name that offers `allow`.
    pub(crate) fn spec(&self, name: &str, allow: &[&str]) -> ServerSpec {
        let shed = self.clone();
        let pipe = move || {
            let (near, far) = tokio::io::duplex(64 << 10);
            Tasks::new().spawn("shed", shed.clone().serve(far));
            near
        };
        ServerSpec {
            name: name.to_owned(),
            source: PathBuf::from("test"),
            way: ServerTransport::Memory(Arc::new(pipe)),
            named: true,
            offer: !allow.is_empty(),
            allow: allow.iter().map(|tool| (*tool).to_owned()).collect(),
            timeout: Duration::from_secs(60),
            output: 256 << 10,
        }
    }

    fn calls(&self) -> Vec<String> {
        self.calls.lock().clone()
    }
}

fn exec(name: &str, args: &str) -> String {
    format!("{{ arm = \"mcp\", args = {{ name = \"{name}\", args = {args} }} }}")
}

fn lab(steps: &str, servers: Vec<ServerSpec>) -> Lab {
    let scenario = format!("[[rule]]\nsteps = [{steps}]");
    let sim = Sim::new(SimConfig::scenario(Scenario::from_toml(&scenario).unwrap()));
    Lab::bridged(sim, |_| {}, servers)
}

fn usage(reply: &Reply) -> Value {
    let chunks = reply.chunks();
    chunks.iter().rev().find(|chunk| chunk["usage"].is_object()).unwrap()["usage"].clone()
}

#[tokio::test(start_paused = true)]
async fn chain_of_bridged_calls_is_one_answer() {
    let shed = Shed::default();
    let steps = format!(
        "{{ text = \"One. \" }}, {{ exec = {} }}, {{ text = \"Two. \" }}, {{ exec = {} }}, \
         {{ text = \"Done: {{result}}\" }}",
        exec("mcp__shed__echo", "{ text = \"a\" }"),
        exec("mcp__shed__echo", "{ text = \"b\" }"),
    );
    let lab = lab(&steps, vec![shed.spec("shed", &["echo"])]);
    let mut body = chat("go", true);
    body["stream_options"] = json!({ "include_usage": true });
    let reply = lab.post(body.to_string()).await;
    assert_eq!(reply.text(), "One. Two. Done: <b>", "{}", reply.body);
    assert_eq!(reply.finish_reason().as_deref(), Some("stop"));
    assert!(reply.calls().is_empty() && !reply.body.contains("mcp__"), "{}", reply.body);
    assert_eq!(shed.calls(), ["echo {\"text\":\"a\"}", "echo {\"text\":\"b\"}"]);
    // Three runs of the model read the question.
    let plain = Lab::scenario("[[rule]]\nsteps = [{ text = \"One. \" }]");
    let one = plain.post(body.to_string()).await;
    let (all, one) = (usage(&reply), usage(&one));
    let input = |usage: &Value| usage["prompt_tokens"].as_u64().unwrap();
    assert!(input(&all) > 2 * input(&one), "{all} {one}");
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn unstreamed_answer_continues_after_bridged_calls() {
    let shed = Shed::default();
    let steps = format!(
        "{{ exec = {} }}, {{ text = \"It is {{result}}\" }}",
        exec("mcp__shed__echo", "{ text = \"a\" }")
    );
    let lab = lab(&steps, vec![shed.spec("shed", &["*"])]);
    assert_eq!(lab.ask("go").await, "It is <a>");
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn calls_of_one_batch_run_side_by_side() {
    let shed = Shed::default();
    let slow = exec("mcp__shed__slow", "{ s = 5 }");
    let other = exec("mcp__shed__slow", "{ s = 4 }");
    let steps = format!("{{ execs = [{slow}, {other}] }}, {{ text = \"both\" }}");
    let lab = lab(&steps, vec![shed.spec("shed", &["slow"])]);
    let began = Instant::now();
    let reply = lab.stream("go").await;
    assert_eq!(reply.text(), "both", "{}", reply.body);
    assert!(began.elapsed() < Duration::from_secs(7), "{:?}", began.elapsed());
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn the_client_gets_only_its_own_calls() {
    let shed = Shed::default();
    let steps = format!(
        "{{ execs = [{}, {}] }}, {{ text = \"They say: {{result}}\" }}",
        exec("mcp__shed__slow", "{ s = 30 }"),
        exec("bash", "{ command = \"ls\" }"),
    );
    let lab = lab(&steps, vec![shed.spec("shed", &["slow"])]);
    let mut talk = Talk::new("go");
    let began = Instant::now();
    let reply = talk.ask(&lab).await;
    assert_eq!(reply.finish_reason().as_deref(), Some("tool_calls"));
    let call = reply.call();
    assert_eq!(call.name, "bash");
    assert!(began.elapsed() < Duration::from_secs(5), "the client need not wait");
    talk.result(&call, "files");
    let reply = talk.ask(&lab).await;
    assert!(reply.text().starts_with("They say: "), "{}", reply.body);
    assert_eq!(reply.finish_reason().as_deref(), Some("stop"));
    let waited = began.elapsed();
    assert!(waited >= Duration::from_secs(30) && waited < Duration::from_secs(40), "{waited:?}");
    // Both results reached the same run.
    assert_eq!((lab.sim.stats().runs_started, lab.fates().resumed), (1, 1));
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn client_that_sends_only_new_messages_works() {
    let shed = Shed::default();
    let steps = format!(
        "{{ execs = [{}, {}] }}, {{ text = \"They say: {{result}}\" }}",
        exec("mcp__shed__echo", "{ text = \"ours\" }"),
        exec("bash", "{ command = \"ls\" }"),
    );
    let lab = lab(&steps, vec![shed.spec("shed", &["echo"])]);
    let mut talk = Talk::new("go");
    let call = talk.ask(&lab).await.call();
    talk.forget_past();
    talk.result(&call, "files");
    let reply = talk.ask(&lab).await;
    assert!(reply.text().starts_with("They say: "), "{}", reply.body);
    assert_eq!(lab.sim.stats().runs_started, 1);
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn slow_tool_times_out() {
    let shed = Shed::default();
    let steps = format!(
        "{{ exec = {} }}, {{ text = \"{{result}}\" }}",
        exec("mcp__shed__slow", "{ s = 600 }")
    );
    let mut spec = shed.spec("shed", &["slow"]);
    spec.timeout = Duration::from_secs(7);
    let lab = lab(&steps, vec![spec]);
    let began = Instant::now();
    let reply = lab.stream("go").await;
    assert!(reply.text().contains("not return a result within 7 s"), "{}", reply.body);
    assert!(began.elapsed() < Duration::from_secs(10));
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn output_is_cut_with_a_note() {
    let shed = Shed::default();
    let steps = format!(
        "{{ exec = {} }}, {{ text = \"{{result}}\" }}",
        exec("mcp__shed__big", "{ n = 1 }")
    );
    // The simulator repeats less than the default limit.
    let mut spec = shed.spec("shed", &["big"]);
    spec.output = 64 << 10;
    let lab = lab(&steps, vec![spec]);
    let text = lab.stream("go").await.text();
    assert!(text.contains("it had 307200 bytes, and 65536 are passed on"), "{}", text.len());
    assert!(text.len() < 66_000, "{}", text.len());
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn loop_guard_covers_bridged_calls() {
    let shed = Shed::default();
    let step = format!("{{ exec = {} }},", exec("mcp__shed__fail", "{ n = 1 }"));
    let lab = lab(&step.repeat(9), vec![shed.spec("shed", &["fail"])]);
    let reply = lab.stream("go").await;
    assert_eq!(reply.error().as_deref(), Some("tool_loop"), "{}", reply.body);
    assert!(shed.calls().len() < 9, "{:?}", shed.calls());
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn bridged_calls_per_turn_are_limited() {
    let shed = Shed::default();
    let step = |n: usize| {
        format!("{{ exec = {} }},", exec("mcp__shed__echo", &format!("{{ text = \"{n}\" }}")))
    };
    let steps: String = (0..60).map(step).collect();
    let lab = lab(&steps, vec![shed.spec("shed", &["echo"])]);
    let reply = lab.stream("go").await;
    assert_eq!(reply.error().as_deref(), Some("tool_loop"), "{}", reply.body);
    assert_eq!(shed.calls().len(), 50);
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn only_what_is_allowed_is_offered() {
    let shed = Shed::default();
    // The simulator calls it anyway, but the tool is unknown.
    let steps = format!(
        "{{ exec = {} }}, {{ text = \"{{result}}\" }}",
        exec("mcp__shed__secret", "{ n = 1 }")
    );
    let lab = lab(&steps, vec![shed.spec("shed", &["echo"]), shed.spec("listed", &[])]);
    let reply = lab.stream("go").await;
    assert!(shed.calls().is_empty(), "{} {:?}", reply.body, shed.calls());
    assert!(reply.calls().is_empty());
    // All are listed even so.
    let list = lab.get("/v1/tools").await.json();
    assert_eq!(list["mcp"], json!({ "servers": 2, "tools": 10 }));
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn client_tool_wins_over_a_bridged_one() {
    let shed = Shed::default();
    let steps = format!(
        "{{ exec = {} }}, {{ text = \"{{result}}\" }}",
        exec("mcp__shed__echo", "{ text = \"a\" }")
    );
    let lab = lab(&steps, vec![shed.spec("shed", &["*"])]);
    let mut talk = Talk::new("go");
    talk.body["tools"] = tools(&["mcp__shed__echo"]);
    let call = talk.ask(&lab).await.call();
    assert_eq!(call.name, "mcp__shed__echo");
    talk.result(&call, "mine");
    assert_eq!(talk.ask(&lab).await.text(), "mine");
    assert!(shed.calls().is_empty());
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn disconnected_client_ends_the_call() {
    let shed = Shed::default();
    let steps =
        format!("{{ exec = {} }}, {{ text = \"x\" }}", exec("mcp__shed__slow", "{ s = 50 }"));
    let lab = lab(&steps, vec![shed.spec("shed", &["slow"])]);
    let response = lab.open(chat("go", true).to_string()).await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(shed.calls().len(), 1);
    drop(response);
    let began = Instant::now();
    lab.assert_clean().await;
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn shutdown_does_not_wait_for_a_tool() {
    let shed = Shed::default();
    let steps =
        format!("{{ exec = {} }}, {{ text = \"x\" }}", exec("mcp__shed__slow", "{ s = 50 }"));
    let lab = lab(&steps, vec![shed.spec("shed", &["slow"])]);
    let response = lab.open(chat("go", true).to_string()).await;
    sleep(Duration::from_secs(1)).await;
    lab.app.stop_turns();
    let reply = Reply::read(response).await;
    assert_eq!(reply.error().as_deref(), Some("unavailable"), "{}", reply.body);
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn tools_and_health_have_the_known_shape() {
    let shed = Shed::default();
    let lab = lab("{ text = \"x\" }", vec![shed.spec("shed", &["echo"])]);
    lab.app.bridge().settled().await;
    let health = lab.get("/health").await.json();
    assert_eq!(health["mcp"], json!({ "enabled": true, "servers": 1, "tools": 5 }));
    let reply = lab.get("/v1/tools").await;
    assert_eq!(reply.status, StatusCode::OK);
    let list = reply.json();
    assert_eq!(list["object"], "list");
    assert_eq!(list["mcp"], json!({ "servers": 1, "tools": 5 }));
    assert_eq!(
        list["data"][1],
        json!({
            "id": "mcp__shed__echo",
            "name": "echo",
            "server": "shed",
            "description": "the tool echo",
            "inputSchema": { "type": "object" },
        })
    );
    // Off by default.
    let plain = Lab::new();
    let health = plain.get("/health").await.json();
    assert_eq!(health["mcp"], json!({ "enabled": false, "servers": 0, "tools": 0 }));
    assert_eq!(plain.get("/v1/tools").await.json()["data"], json!([]));
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn changed_tool_list_is_read_again() {
    let shed = Shed::default();
    let lab = lab("{ text = \"x\" }", vec![shed.spec("shed", &["*"])]);
    lab.app.bridge().settled().await;
    shed.more.lock().push("late");
    let out = shed.out.lock().clone().unwrap();
    let changed = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
    out.send(changed).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    let list = lab.get("/v1/tools").await.json();
    assert_eq!(list["mcp"]["tools"], 6);
    assert!(list.to_string().contains("mcp__shed__late"));
    drop(out);
    lab.assert_gone().await;
}
