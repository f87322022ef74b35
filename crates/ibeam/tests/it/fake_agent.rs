//! The stand-in for Cursor's CLI, as the driver starts it: a hidden command of the program.

mod mcp;
#[cfg(unix)]
mod worker;

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Output, Stdio},
};

use serde_json::{Value, json};

use self::mcp::McpServer;
use crate::watch;

const STREAM: &[&str] = &[
    "--print",
    "--output-format",
    "stream-json",
    "--stream-partial-output",
    "--trust",
    "--approve-mcps",
];

struct Fake {
    folder: tempfile::TempDir,
}

impl Fake {
    fn new() -> Self {
        let folder = watch::folder();
        std::fs::create_dir_all(folder.path().join("work/.cursor")).unwrap();
        Self { folder }
    }

    fn workspace(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    fn file(&self, name: &str, value: &Value) {
        std::fs::write(self.workspace().join(".cursor").join(name), value.to_string()).unwrap();
    }

    fn command(&self, words: &str, args: &[&str]) -> Command {
        let mut command = Command::new(watch::program());
        command.arg("fake-cursor-agent").args(args).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("IBEAM_FAKE_AGENT_HOME", self.folder.path().join("home"));
        // Its output would stay open for half a minute; `words` can switch that on.
        command.env("IBEAM_FAKE_AGENT", format!("set:cli.worker_stdout=off,{words}"));
        command.current_dir(self.workspace());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs it to its end, with this on stdin.
    fn run(&self, words: &str, args: &[&str], input: &str) -> Output {
        let mut child = self.command(words, args).spawn().unwrap();
        // It may end before it has read anything.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        child.wait_with_output().unwrap()
    }

    fn stream(&self, words: &str, input: &str) -> (Output, String) {
        let output = self.run(words, STREAM, input);
        let shape = shape(&text(&output.stdout));
        (output, shape)
    }

    fn serve(&self, name: &str, server: &McpServer) {
        let headers = json!({ "Authorization": "Bearer open-sesame" });
        let entry = json!({ "url": server.url, "headers": headers });
        self.file("mcp.json", &json!({ "mcpServers": { name: entry } }));
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn objects(stdout: &str) -> Vec<Value> {
    stdout.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// What kinds of lines there are, one after the other; the same ones in a row count once.
fn shape(stdout: &str) -> String {
    let mut kinds: Vec<String> = Vec::new();
    for line in stdout.lines() {
        let kind = match serde_json::from_str::<Value>(line) {
            Err(_) => "noise".to_owned(),
            Ok(line) => {
                let word = |name: &str| line[name].as_str().unwrap_or_default();
                let stamped = line.get("timestamp_ms").is_some();
                match (word("type"), line.get("model_call_id").is_some()) {
                    ("assistant", true) => "flush".to_owned(),
                    ("assistant", false) if stamped => "delta".to_owned(),
                    ("assistant", false) => "whole".to_owned(),
                    ("tool_call", _) => {
                        let tool = line["tool_call"].as_object().unwrap().keys().next().unwrap();
                        format!("{tool}:{}", word("subtype"))
                    }
                    ("thinking", _) => format!("thinking:{}", word("subtype")),
                    (kind, _) => kind.to_owned(),
                }
            }
        };
        if kinds.last() != Some(&kind) {
            kinds.push(kind);
        }
    }
    kinds.join(" ")
}

fn last(stdout: &str) -> Value {
    objects(stdout).pop().unwrap()
}

#[test]
fn a_plain_answer_has_every_kind_of_line() {
    let fake = Fake::new();
    let (output, shape) = fake.stream("", "hello there");
    assert_eq!(
        shape, "system user thinking:delta thinking:completed delta whole result",
        "{output:?}"
    );
    assert_eq!(output.status.code(), Some(0));
    let lines = objects(&text(&output.stdout));
    let session = lines[0]["session_id"].as_str().unwrap();
    assert_eq!(lines[0]["model"], "Auto");
    assert!(lines.iter().all(|line| line["session_id"] == session));
    let result = lines.last().unwrap();
    let answer = "I understand: hello there This is the simulator speaking.";
    assert_eq!(result["result"], answer);
    assert_eq!(result["is_error"], false);
    assert!(result["usage"]["outputTokens"].as_u64().unwrap() > 0);
    let whole = &lines[lines.len() - 2]["message"]["content"][0]["text"];
    assert_eq!(whole, answer);
}

#[test]
fn each_quirk_has_its_own_transcript() {
    let fake = Fake::new();
    let usual = "system user thinking:delta thinking:completed delta whole result";
    let noisy = "noise system user thinking:delta noise thinking:delta";
    let cases = [
        ("crlf", usual),
        ("split-utf8", usual),
        ("no-result", "system user thinking:delta thinking:completed delta whole"),
        ("no-partial", "system user thinking:delta thinking:completed whole result"),
        ("snapshots", "system user thinking:delta thinking:completed whole result"),
        ("no-thinking", "system user delta whole result"),
        ("empty", "system user result"),
        ("huge-line", "system debug user thinking:delta thinking:completed delta whole result"),
        ("crash-after:3", "system user thinking:delta"),
    ];
    for (words, want) in cases {
        let (output, shape) = fake.stream(words, "hello über");
        assert_eq!(shape, want, "{words}: {}", text(&output.stderr));
    }
    let (_, shape) = fake.stream("noise", "hello");
    assert!(shape.starts_with(noisy), "{shape}");
    let (output, _) = fake.stream("repeat-text", "hello");
    assert!(text(&output.stdout).contains("I unI under"), "{output:?}");
}

#[test]
fn snapshots_have_the_whole_answer() {
    let fake = Fake::new();
    let (output, _) = fake.stream("snapshots", "hello");
    let lines = objects(&text(&output.stdout));
    let texts = lines.iter().filter(|line| line["type"] == "assistant");
    let texts: Vec<_> =
        texts.map(|line| line["message"]["content"][0]["text"].as_str().unwrap()).collect();
    assert!(texts.len() > 3);
    assert!(texts.windows(2).all(|pair| pair[1].starts_with(pair[0])), "{texts:?}");
}

#[test]
fn failures_are_printed_to_stderr() {
    let fake = Fake::new();
    let cases: [(&str, &[&str], &str, &str); 7] = [
        ("not-logged-in", STREAM, "not logged in", ""),
        ("usage-limit", STREAM, "hit your usage limit", "system user"),
        ("exit-1:fetch failed, ECONNREFUSED", STREAM, "ECONNREFUSED", "system user"),
        (
            "",
            &["-p", "--model", "nope"],
            "Cannot use this model: nope. Available models: auto,",
            "",
        ),
        ("set:cli.resume_unknown=error", &["-p", "--resume", "1234"], "chat 1234 not found", ""),
        ("", &["-p", "--frobnicate"], "unknown option '--frobnicate'", ""),
        ("frobnicate", STREAM, "unknown switch `frobnicate`", ""),
    ];
    for (words, args, said, lines) in cases {
        let output = fake.run(words, args, "hello");
        assert_eq!(output.status.code(), Some(1), "{words} {args:?}");
        let stderr = text(&output.stderr);
        assert!(stderr.contains(said), "{words} {args:?}: {stderr}");
        assert_eq!(shape(&text(&output.stdout)), lines, "{words} {args:?}");
    }
}

#[test]
fn crash_ends_with_a_signal() {
    let output = Fake::new().run("crash-after:2", STREAM, "hello");
    assert_eq!(output.status.code(), None);
}

#[test]
fn untrusted_folder_needs_confirmation() {
    let fake = Fake::new();
    let output = fake.run("trust-prompt", &["-p"], "hello");
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).contains("Do you trust the contents of this directory?"));
    let output = fake.run("trust-prompt", &["-p", "--trust"], "hello");
    assert!(text(&output.stdout).contains("I understand: hello"));
}

#[test]
fn text_and_json_output_contain_only_the_answer() {
    let fake = Fake::new();
    let output = fake.run("", &["-p", "hello", "there"], "");
    let answer = "I understand: hello there This is the simulator speaking.";
    assert_eq!(text(&output.stdout), format!("{answer}\n"));
    let output = fake.run("", &["-p", "--output-format", "json", "hello", "there"], "");
    assert_eq!(last(&text(&output.stdout))["result"], answer);
    assert_eq!(text(&output.stdout).lines().count(), 1);
}

#[test]
fn conversation_is_resumed_by_its_id() {
    let fake = Fake::new();
    let (output, _) = fake.stream("", "my cat is called Tom");
    let session = last(&text(&output.stdout))["session_id"].as_str().unwrap().to_owned();
    for how in [vec!["--resume", &session], vec!["--continue"]] {
        let args: Vec<&str> = STREAM.iter().copied().chain(how).collect();
        let output = fake.run("", &args, "what did I say?");
        let result = last(&text(&output.stdout));
        assert_eq!(result["session_id"], session);
        assert!(result["result"].as_str().unwrap().contains("my cat is called Tom"), "{result}");
    }
    // The same conversation written into a prompt is understood as well.
    let told = "<system>\nBe brief.\n</system>\n\n<conversation>\n<user>\nmy dog is Rex\n</user>\n\
                <assistant>\nNice.\n</assistant>\n</conversation>\n\nwhat did I say?";
    let (output, _) = fake.stream("", told);
    assert_eq!(last(&text(&output.stdout))["result"], "Earlier you said:\n- my dog is Rex");
}

#[test]
fn other_commands_answer() {
    let fake = Fake::new();
    let said = |args: &[&str]| text(&fake.run("", args, "").stdout);
    assert!(said(&["--version"]).starts_with("20"));
    assert!(said(&["-h"]).starts_with("Usage: cursor-agent"));
    assert!(said(&["status"]).contains("Logged in as"));
    assert!(said(&["models"]).contains("auto - Auto (current)\n"));
    assert!(said(&["about"]).contains("CLI Version"));
    said(&["logout"]);
    assert_eq!(said(&["status"]), "Not logged in\n");
    let status: Value = serde_json::from_str(&said(&["status", "--format", "json"])).unwrap();
    assert_eq!(status["isAuthenticated"], false);
    said(&["login"]);
    let chat = said(&["create-chat"]);
    let output = fake.run("", &["-p", "--resume", chat.trim(), "hello"], "");
    assert_eq!(output.status.code(), Some(0));
    let output = fake.run("ansi", &["models"], "");
    assert!(text(&output.stdout).contains("\x1b[0m"));
}

#[test]
fn tools_of_an_mcp_server_are_really_called() {
    let fake = Fake::new();
    let server = McpServer::start();
    fake.serve("ibeam", &server);
    let (output, shape) = fake.stream("", "call the tool echo with {\"text\":\"abc\"}");
    assert_eq!(
        shape,
        "system user thinking:delta thinking:completed mcpToolCall:started \
         mcpToolCall:completed delta whole result",
        "{output:?}"
    );
    let lines = objects(&text(&output.stdout));
    let done =
        lines.iter().find(|line| line["subtype"] == "completed" && line["call_id"].is_string());
    let call = &done.unwrap()["tool_call"]["mcpToolCall"];
    assert_eq!(call["args"]["toolName"], "echo");
    assert_eq!(call["args"]["providerIdentifier"], "ibeam");
    assert_eq!(call["args"]["args"], json!({ "text": "abc" }));
    assert_eq!(call["result"]["success"]["content"][0]["text"]["text"], "you said abc");
    assert!(lines.last().unwrap()["result"].as_str().unwrap().contains("you said abc"));
    assert_eq!(
        server.heard(),
        [
            "initialize",
            "notifications/initialized",
            "tools/list",
            "tools/list",
            "tools/call",
            "DELETE"
        ]
    );
}

#[test]
fn unapproved_servers_are_not_loaded() {
    let fake = Fake::new();
    let server = McpServer::start();
    fake.serve("ibeam", &server);
    let output = fake.run("", &["-p", "which tools do you have?"], "");
    assert_eq!(text(&output.stdout), "My tools are: \n");
    assert!(server.heard().is_empty());
    let output = fake.run("", &["-p", "--approve-mcps", "which tools do you have?"], "");
    assert_eq!(text(&output.stdout), "My tools are: echo, never\n");
}

#[test]
fn slow_call_times_out() {
    let fake = Fake::new();
    let server = McpServer::start();
    fake.serve("ibeam", &server);
    let (output, _) = fake.stream("mcp-timeout:200ms", "call the tool never");
    let answer = last(&text(&output.stdout));
    assert!(answer["result"].as_str().unwrap().contains("Request timed out"), "{answer}");
    assert!(server.heard().contains(&"notifications/cancelled".to_owned()));
}

#[test]
fn own_tools_are_refused_or_simulated() {
    let fake = Fake::new();
    let (output, shape) = fake.stream("own-tools", "run `rm -rf x`");
    assert!(shape.contains("shellToolCall:started shellToolCall:completed"), "{output:?}");
    assert!(text(&output.stdout).contains("rejected by the user's permissions"));
    let args: Vec<&str> = STREAM.iter().copied().chain(["--force"]).collect();
    let output = fake.run("own-tools,old-names", &args, "run `ls`");
    let stdout = text(&output.stdout);
    assert!(shape_has(&stdout, "BashToolCall:completed"), "{stdout}");
    assert!(stdout.contains("pretended to run: ls"));
    fake.file("cli.json", &json!({ "permissions": { "deny": ["Shell(*)"] } }));
    let output = fake.run("own-tools", &args, "run `ls`");
    assert!(text(&output.stdout).contains("rejected by the user's permissions"));
}

fn shape_has(stdout: &str, part: &str) -> bool {
    shape(stdout).split(' ').any(|kind| kind == part)
}

#[test]
fn scenario_answers_as_in_the_simulator() {
    let fake = Fake::new();
    let file = fake.folder.path().join("scenario.toml");
    let scenario = r#"
        [[rule]]
        times = 1
        steps = [{ error = { code = "unavailable", message = "try again" } }]

        [[rule]]
        steps = [
            { thinking = "hm" }, { text = "first " },
            { exec = { arm = "mcp", args = { name = "echo", args = { text = "x" } } } },
            { text = "then {result}" }, { usage = { input = 11, output = 7 } },
        ]
    "#;
    std::fs::write(&file, scenario).unwrap();
    let server = McpServer::start();
    fake.serve("ibeam", &server);
    let words = format!("scenario={}", file.display());
    let (output, shape) = fake.stream(&words, "go");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(shape, "system user");
    assert!(text(&output.stderr).contains("try again"), "{output:?}");
    let (output, shape) = fake.stream(&words, "go");
    assert_eq!(
        shape,
        "system user thinking:delta thinking:completed delta flush mcpToolCall:started \
         mcpToolCall:completed delta whole result",
        "{output:?}"
    );
    let result = last(&text(&output.stdout));
    assert_eq!(result["result"], "first then you said x");
    assert_eq!(result["usage"]["inputTokens"], 11);
    assert_eq!(result["usage"]["outputTokens"], 7);
}

// === ACP ===

struct Acp {
    child: Child,
    lines: BufReader<ChildStdout>,
    id: u64,
}

impl Acp {
    fn start(fake: &Fake, words: &str) -> Self {
        let mut child = fake.command(words, &["--trust", "acp"]).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines, id: 0 }
    }

    fn say(&mut self, message: &Value) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    fn ask(&mut self, method: &str, params: &Value) -> u64 {
        self.id += 1;
        let id = self.id;
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// The answer to a request, and all messages before it. Permissions are answered as configured.
    fn until(&mut self, id: u64, option: &str) -> (Value, Vec<Value>) {
        let mut before = Vec::new();
        loop {
            let message = self.hear();
            if message["method"] == "session/request_permission" {
                let outcome = json!({ "outcome": "selected", "optionId": option });
                let answer = json!({ "outcome": outcome });
                self.say(&json!({ "jsonrpc": "2.0", "id": message["id"], "result": answer }));
                before.push(message);
            } else if message["id"] == id {
                return (message, before);
            } else {
                before.push(message["params"]["update"].clone());
            }
        }
    }

    fn call(&mut self, method: &str, params: &Value) -> Value {
        let id = self.ask(method, params);
        self.until(id, "allow-once").0
    }

    fn session(&mut self, cwd: &Path, servers: &Value) -> String {
        self.call("initialize", &json!({ "protocolVersion": 1 }));
        self.call("authenticate", &json!({ "methodId": "cursor_login" }));
        let answer = self.call("session/new", &json!({ "cwd": cwd, "mcpServers": servers }));
        answer["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    fn prompt(&mut self, session: &str, text: &str) -> u64 {
        let prompt = json!([{ "type": "text", "text": text }]);
        self.ask("session/prompt", &json!({ "sessionId": session, "prompt": prompt }))
    }
}

impl Drop for Acp {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn said(updates: &[Value], kind: &str) -> String {
    let chunks = updates.iter().filter(|update| update["sessionUpdate"] == kind);
    chunks.filter_map(|update| update["content"]["text"].as_str()).collect()
}

#[test]
fn acp_answers_keeps_and_loads_sessions() {
    let fake = Fake::new();
    let mut acp = Acp::start(&fake, "");
    let session = acp.session(&fake.workspace(), &json!([]));
    let id = acp.prompt(&session, "my cat is called Tom");
    let (answer, updates) = acp.until(id, "");
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    let text = said(&updates, "agent_message_chunk");
    assert_eq!(text, "I understand: my cat is called Tom This is the simulator speaking.");
    assert!(!said(&updates, "agent_thought_chunk").is_empty());
    let model =
        json!({ "sessionId": session, "configId": "model", "value": "composer-2[fast=true]" });
    let answer = acp.call("session/set_config_option", &model);
    let options = answer["result"]["configOptions"].as_array().unwrap();
    assert!(options.iter().any(|option| option["currentValue"] == "composer-2[fast=true]"));
    drop(acp);

    let mut acp = Acp::start(&fake, "");
    acp.call("initialize", &json!({ "protocolVersion": 1 }));
    let listed = acp.call("session/list", &json!({}));
    assert_eq!(listed["result"]["sessions"][0]["sessionId"], session);
    let load = json!({ "sessionId": session, "cwd": fake.workspace(), "mcpServers": [] });
    let id = acp.ask("session/load", &load);
    let (answer, updates) = acp.until(id, "");
    assert_eq!(answer["result"]["modes"]["currentModeId"], "agent");
    assert_eq!(said(&updates, "user_message_chunk"), "my cat is called Tom");
    let id = acp.prompt(&session, "what did I say?");
    let (_, updates) = acp.until(id, "");
    assert!(said(&updates, "agent_message_chunk").contains("my cat is called Tom"));

    let answer = acp.call("session/prompt", &json!({ "sessionId": "nope", "prompt": [] }));
    assert_eq!(answer["error"]["code"], -32002);
    assert_eq!(acp.call("session/frob", &json!({}))["error"]["code"], -32601);
    let models = acp.call("cursor/list_available_models", &json!({}));
    assert!(models["result"]["models"].as_array().unwrap().len() > 5);
}

#[test]
fn acp_calls_the_tools_of_the_session() {
    let fake = Fake::new();
    let server = McpServer::start();
    let headers = json!([{ "name": "Authorization", "value": "Bearer open-sesame" }]);
    let servers =
        json!([{ "type": "http", "name": "ibeam", "url": server.url, "headers": headers }]);
    let mut acp = Acp::start(&fake, "ask-mcp");
    let session = acp.session(&fake.workspace(), &servers);
    let id = acp.prompt(&session, "call the tool echo with {\"text\":\"abc\"}");
    let (answer, updates) = acp.until(id, "allow-once");
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    let asked = updates.iter().any(|update| update["method"] == "session/request_permission");
    assert!(asked, "{updates:?}");
    assert!(said(&updates, "agent_message_chunk").contains("you said abc"));
    let call = updates.iter().find(|update| update["sessionUpdate"] == "tool_call").unwrap();
    assert_eq!(call["rawInput"]["toolName"], "echo");
    let id = acp.prompt(&session, "call the tool echo with {\"text\":\"abc\"}");
    let (_, updates) = acp.until(id, "reject-once");
    assert!(updates.iter().any(|update| update["status"] == "failed"), "{updates:?}");
    drop(acp);

    // An early build does not look at the list of the session.
    let mut acp = Acp::start(&fake, "acp-ignores-mcp");
    let session = acp.session(&fake.workspace(), &servers);
    let id = acp.prompt(&session, "which tools do you have?");
    let (_, updates) = acp.until(id, "");
    assert_eq!(said(&updates, "agent_message_chunk"), "My tools are: ");
}

#[test]
fn acp_can_be_cancelled_and_can_fail() {
    let fake = Fake::new();
    let mut acp = Acp::start(&fake, "hang");
    let session = acp.session(&fake.workspace(), &json!([]));
    let id = acp.prompt(&session, "hello");
    // The order of lines is the order in which they are heard.
    acp.call("session/list", &json!({}));
    let params = json!({ "sessionId": session });
    acp.say(&json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": params }));
    let (answer, _) = acp.until(id, "");
    assert_eq!(answer["result"]["stopReason"], "cancelled");
    drop(acp);

    let mut acp = Acp::start(&fake, "usage-limit");
    let session = acp.session(&fake.workspace(), &json!([]));
    let id = acp.prompt(&session, "hello");
    let (answer, _) = acp.until(id, "");
    assert_eq!(answer["error"]["code"], -32000);
    assert!(answer["error"]["message"].as_str().unwrap().contains("usage limit"));
    drop(acp);

    let mut acp = Acp::start(&fake, "not-logged-in");
    let answer = acp.call("authenticate", &json!({ "methodId": "cursor_login" }));
    assert_eq!(answer["error"]["code"], -32001);
}
