//! ibeam executes nothing: the real binary is led through every tool that the backend may
//! ask for, with arguments that would do harm, while the kernel's side is written down.
//!
//! `cargo xtask test --only strace` runs this; it needs the program of that name.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::TcpListener,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::{
    cli::{Home, Server},
    client::{ask, tool},
    trace::{OPTIONS, Rules, problems},
};

/// The messages as they are on the wire; every arm in there must be in our table.
const PROTO: &str = include_str!("../../../proto/proto/agent/v1/exec.proto");
const MARKER: &str = "evil-4d1c7b";
/// In seconds.
const LIMIT: &str = "120";

/// What the backend asks for would change these, if it were done.
struct Victim {
    folder: PathBuf,
    before: BTreeMap<PathBuf, String>,
    page: TcpListener,
}

impl Victim {
    fn new(room: &Path) -> Self {
        let folder = room.join(MARKER);
        fs::create_dir(&folder).unwrap();
        for arm in arms_of_the_wire() {
            fs::write(folder.join(&arm), format!("kept by {arm}\n")).unwrap();
        }
        let page = TcpListener::bind("127.0.0.1:0").unwrap();
        page.set_nonblocking(true).unwrap();
        Self { before: contents(&folder), folder, page }
    }

    fn assert_untouched(&self) {
        assert_eq!(contents(&self.folder), self.before);
        let visit = self.page.accept();
        assert!(visit.is_err(), "somebody fetched a page: {visit:?}");
    }
}

fn contents(folder: &Path) -> BTreeMap<PathBuf, String> {
    let read = |path: PathBuf| (path.clone(), fs::read_to_string(path).unwrap());
    fs::read_dir(folder).unwrap().map(|entry| read(entry.unwrap().path())).collect()
}

/// The exec arms by their names in a scenario.
fn arms_of_the_wire() -> BTreeSet<String> {
    let (_, message) = PROTO.split_once("message ExecServerMessage {").unwrap();
    let (_, arms) = message.split_once("oneof message {").unwrap();
    let (arms, _) = arms.split_once('}').unwrap();
    let names = arms.lines().filter_map(|line| line.split_whitespace().nth(1));
    names.map(|name| name.strip_suffix("_args").unwrap_or(name).to_owned()).collect()
}

/// A request for each arm that would do harm, if it were done.
fn requests(victim: &Victim) -> BTreeMap<&'static str, Value> {
    let at = |arm: &str| victim.folder.join(arm).display().to_string();
    let page = format!("http://{}/{MARKER}", victim.page.local_addr().unwrap());
    let shell = |arm: &str| {
        let command = format!("rm -rf {} && touch {}", at(arm), at(&format!("{arm}-ran")));
        json!({ "command": command, "working_directory": victim.folder })
    };
    let file = |arm: &str| json!({ "path": at(arm) });
    BTreeMap::from([
        ("shell", shell("shell")),
        ("shell_stream", shell("shell_stream")),
        ("write", json!({ "path": at("write"), "file_text": "overwritten" })),
        ("delete", file("delete")),
        ("grep", json!({ "pattern": "kept", "path": at("grep"), "glob": "*" })),
        ("read", file("read")),
        ("ls", json!({ "path": victim.folder })),
        ("diagnostics", file("diagnostics")),
        ("request_context", json!({ "read_only_plugin_cache_root": at("request_context") })),
        ("mcp", json!({ "name": format!("tool-{MARKER}") })),
        ("background_shell_spawn", shell("background_shell_spawn")),
        ("list_mcp_resources_exec", json!({ "server": at("list_mcp_resources_exec") })),
        (
            "read_mcp_resource_exec",
            json!({ "server": "files", "uri": format!("file://{}", at("read_mcp_resource_exec")),
                    "download_path": at("downloaded") }),
        ),
        ("fetch", json!({ "url": page })),
        ("record_screen", json!({ "mode": 1, "save_as_filename": at("recording") })),
        ("computer_use", json!({})),
        ("write_shell_stdin", json!({ "shell_id": 1, "chars": "rm -rf .\n" })),
        ("execute_hook", json!({ "request": { "pre_tool_use": {} } })),
        ("subagent", json!({ "subagent_type": "shell", "prompt": at("subagent") })),
        ("redacted_read", file("redacted_read")),
        ("force_background_shell", json!({ "tool_call_id": MARKER })),
        ("force_background_subagent", json!({ "tool_call_id": MARKER })),
        ("mcp_state_exec", json!({ "server_identifiers": [at("mcp_state_exec")] })),
        ("subagent_await", json!({ "agent_id": MARKER, "timeout_ms": 1 })),
        ("smart_mode_classifier", json!({ "target": { "action": at("smart_mode_classifier") } })),
        ("canvas_diagnostics", file("canvas_diagnostics")),
        ("shell_allowlist_precheck", shell("shell_allowlist_precheck")),
        ("mcp_allowlist_precheck", json!({ "provider_identifier": MARKER, "tool_name": "x" })),
        ("web_fetch_allowlist_precheck", json!({ "url": page })),
        ("git_diff_request", json!({ "cwd": victim.folder, "ref": "HEAD" })),
        ("pi_read", file("pi_read")),
        ("pi_bash", json!({ "command": format!("touch {}", at("pi_bash-ran")) })),
        (
            "pi_edit",
            json!({ "path": at("pi_edit"), "edits": [{ "old_text": "kept", "new_text": "lost" }] }),
        ),
        ("pi_write", json!({ "path": at("pi_write"), "content": "overwritten" })),
        ("pi_grep", json!({ "pattern": "kept", "path": at("pi_grep") })),
        ("pi_find", json!({ "pattern": "*", "path": victim.folder })),
        ("pi_ls", json!({ "path": at("pi_ls") })),
        ("mini_swe_agent_bash", shell("mini_swe_agent_bash")),
        ("conversation_search", json!({ "query": MARKER })),
        ("agent_store_conflict", json!({ "advance": true })),
    ])
}

/// One run through all arms, those that no schema knows included, then all at once.
fn scenario(victim: &Victim) -> Value {
    let requests = requests(victim);
    let exec = |(arm, args): (&&str, &Value)| json!({ "arm": arm, "args": args });
    let mut steps: Vec<Value> =
        requests.iter().map(|request| json!({ "exec": exec(request) })).collect();
    let hex: String = MARKER.bytes().map(|byte| format!("{byte:02x}")).collect();
    for field in [6, 12, 13, 24, 39, 77] {
        let payload = format!("0a{:02x}{hex}", MARKER.len());
        steps.push(json!({ "unknown_exec": { "field": field, "hex": payload } }));
    }
    steps.push(json!({ "text": "one by one" }));
    let all: Vec<Value> = requests.iter().map(exec).collect();
    let together = json!([{ "execs": all }, { "text": "all at once" }]);
    json!({ "rule": [
        { "when": { "contains": "one by one" }, "steps": steps },
        { "when": { "contains": "all at once" }, "steps": together },
    ] })
}

/// What OpenCode offers, as far as it can be asked for.
fn tools() -> Vec<Value> {
    [
        ("bash", &["command", "description?", "workdir?"][..]),
        ("read", &["filePath", "offset?", "limit?"]),
        ("write", &["filePath", "content"]),
        ("edit", &["filePath", "oldString", "newString", "replaceAll?"]),
        ("list", &["path?"]),
        ("glob", &["pattern", "path?"]),
        ("grep", &["pattern", "path?", "include?"]),
        ("webfetch", &["url", "format?"]),
        ("task", &["prompt", "description", "subagent_type"]),
    ]
    .into_iter()
    .map(|(name, properties)| tool(name, properties))
    .collect()
}

/// The gateway under strace, both in a process group that ends with the test.
struct Traced {
    server: Server,
    trace: PathBuf,
}

impl Traced {
    fn start(room: &Path, own: &Path, scenario: &Path) -> Self {
        let trace = room.join("trace");
        // Whatever hangs, hangs no longer than this.
        let mut command = Command::new("timeout");
        command.args(["--signal=KILL", LIMIT, "strace"]).args(OPTIONS).arg(&trace);
        command.arg(env!("CARGO_BIN_EXE_ibeam"));
        // Its log is not read, and a full pipe would stop it.
        command.args(["serve", "--sim", "--port", "0", "--log-level", "error", "--scenario"]);
        command.arg(scenario);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap());
        command.env("HOME", room.join("home")).current_dir(room.join("home"));
        for kind in ["CONFIG", "CACHE", "DATA", "STATE"] {
            command.env(format!("XDG_{kind}_HOME"), own.join(kind.to_lowercase()));
        }
        command.process_group(0);
        Self { server: Server::start(command), trace }
    }

    fn signal(&self, name: &str) {
        let group = format!("-{}", self.server.child.id());
        Command::new("kill").args(["-s", name, "--", &group]).status().unwrap();
    }

    /// Ends the gateway, which ends strace, and gives what strace wrote.
    fn finish(mut self) -> String {
        self.signal("TERM");
        self.server.child.wait().unwrap();
        fs::read_to_string(&self.trace).unwrap()
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        if let Ok(None) = self.server.child.try_wait() {
            self.signal("KILL");
        }
    }
}

/// Sends the question and, for as long as tools are called, results. Returns the names of the tools
/// that were called.
fn converse(url: &str, question: &str, tools: &[Value]) -> Vec<String> {
    let mut messages = vec![json!({ "role": "user", "content": question })];
    let mut called = Vec::new();
    for _ in 0..100 {
        let mut body = json!({ "model": "auto", "stream": true, "messages": messages });
        if !tools.is_empty() {
            body["tools"] = tools.into();
        }
        let said = ask(url, &[], &body);
        if said.finish != "tool_calls" {
            assert_eq!((said.finish.as_str(), said.text.as_str()), ("stop", question));
            return called;
        }
        messages.push(said.message());
        for call in &said.calls {
            messages.push(call.result(&format!("{} is done", call.name)));
            called.push(call.name.clone());
        }
    }
    panic!("no end: {called:?}");
}

#[test]
fn the_table_has_every_arm() {
    let room = tempfile::tempdir().unwrap();
    let victim = Victim::new(room.path());
    let known: BTreeSet<String> = requests(&victim).keys().map(|arm| (*arm).to_owned()).collect();
    assert_eq!(known, arms_of_the_wire());
    let text = scenario(&victim).to_string();
    ibeam_sim::Scenario::from_json(&text).unwrap();
}

/// A program that does what ibeam must not do: the watch sees it here, on this machine.
#[test]
#[ignore = "needs strace: cargo xtask test --only strace"]
fn trace_of_an_acting_program_has_problems() {
    let room = tempfile::tempdir().unwrap();
    let victim = Victim::new(room.path());
    let trace = room.path().join("trace");
    let script = format!("cat {0}/read; rm {0}/delete; : > {0}/new", victim.folder.display());
    let mut command = Command::new("strace");
    command.args(OPTIONS).arg(&trace).args(["sh", "-c", &script]).stdout(Stdio::null());
    assert!(command.status().unwrap().success());
    let rules = Rules { own: &room.path().join("own"), given: &[], marker: MARKER };
    let found = problems(&fs::read_to_string(&trace).unwrap(), &rules);
    for why in ["a new pro", "a change", "a look", "a name from the backend"] {
        assert!(found.iter().any(|problem| problem.starts_with(why)), "{why}: {found:?}");
    }
    assert_ne!(contents(&victim.folder), victim.before);
}

#[test]
#[ignore = "needs strace: cargo xtask test --only strace"]
fn no_exec_arm_starts_a_program_or_touches_a_file() {
    let home = Home::new();
    let room = home.0.path().canonicalize().unwrap();
    let (own, given) = (room.join("own"), room.join("scenario.json"));
    for folder in [&own, &room.join("home")] {
        fs::create_dir(folder).unwrap();
    }
    let victim = Victim::new(&room);
    fs::write(&given, scenario(&victim).to_string()).unwrap();
    let traced = Traced::start(&room, &own, &given);
    let url = traced.server.url.clone();

    assert_eq!(converse(&url, "one by one", &[]), Vec::<String>::new());
    assert_eq!(converse(&url, "all at once", &[]), Vec::<String>::new());
    // The client has tools of the same kind: it does the work, and ibeam does not.
    for question in ["one by one", "all at once"] {
        let called: BTreeSet<_> = converse(&url, question, &tools()).into_iter().collect();
        for name in ["bash", "read", "write", "edit", "list", "grep", "webfetch"] {
            assert!(called.contains(name), "{name} was not asked for: {called:?}");
        }
    }

    let trace = traced.finish();
    victim.assert_untouched();
    let versions = room.join("home/.local/share/cursor-agent/versions");
    let rules = Rules { own: &own, given: &[&given, &versions], marker: MARKER };
    let found = problems(&trace, &rules);
    assert!(found.is_empty(), "{} problems:\n{}", found.len(), found.join("\n"));
    println!("{} system calls, none of them out of place", trace.lines().count());
}
