//! The program with a simulated backend, in a home folder of its own.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    cli::Home,
    client::{Incoming, Said, get, send_to},
};

/// What is to happen soon has this long, on a machine with other things to do.
const SOON: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backend {
    Agent,
    Cli,
    Acp,
}

impl Backend {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Cli => "cli",
            Self::Acp => "acp",
        }
    }
}

pub(crate) struct Gateway {
    pub(crate) backend: Backend,
    home: Home,
    /// For the stand-in of the CLI, besides the scenario.
    words: &'static str,
    /// How long a process waits for its next turn, over ACP.
    idle: &'static str,
    child: Child,
    pub(crate) url: String,
    starts: usize,
}

/// An answer that came whole.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Gateway {
    /// Plays this scenario (TOML).
    pub(crate) fn start(backend: Backend, scenario: &str) -> Self {
        Self::start_with(backend, scenario, "")
    }

    /// The same, with words for the stand-in of the CLI.
    pub(crate) fn start_with(backend: Backend, scenario: &str, words: &'static str) -> Self {
        // Not for long: nothing is to be left at the end.
        Self::new(backend, scenario, words, "2s")
    }

    /// One whose processes stay when they have nothing to do, where the backend has such.
    pub(crate) fn start_lasting(backend: Backend) -> Self {
        Self::new(backend, "", "", "1h")
    }

    fn new(backend: Backend, scenario: &str, words: &'static str, idle: &'static str) -> Self {
        let home = Home::new();
        fs::write(home.0.path().join("scenario.toml"), scenario).unwrap();
        let (child, url) = launch(&home, backend, words, idle, 0);
        Self { backend, home, words, idle, child, url, starts: 1 }
    }

    /// The same, but what is started has another backend.
    pub(crate) fn kill_and_restart_as(&mut self, backend: Backend) {
        self.backend = backend;
        self.kill_and_restart();
    }

    /// Ends it as the kernel does when memory is short, and starts another in its place.
    pub(crate) fn kill_and_restart(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        (self.child, self.url) =
            launch(&self.home, self.backend, self.words, self.idle, self.starts);
        self.starts += 1;
    }

    pub(crate) fn send(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> Incoming {
        send_to(&self.url, path, headers, body)
    }

    pub(crate) fn chat(&self, body: &Value) -> Incoming {
        self.send("/v1/chat/completions", &[], body)
    }

    pub(crate) fn post(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> Reply {
        Reply::read(&self.send(path, headers, body).rest())
    }

    /// A chat that must go well.
    pub(crate) fn ask(&self, body: &Value) -> Said {
        let text = self.chat(body).rest();
        assert!(text.starts_with("HTTP/1.0 200"), "{text}\n{}", self.log());
        Said::read(&text)
    }

    /// All that was logged since the first start.
    pub(crate) fn log(&self) -> String {
        let read = |at| fs::read_to_string(log_path(&self.home, at)).unwrap();
        (0..self.starts).map(read).collect()
    }

    /// How often the backend was asked for an answer: a stream to Cursor, a process of the CLI
    /// or a prompt to one.
    pub(crate) fn runs(&self) -> usize {
        let log = self.log();
        let opened = ["opening an upstream stream", "trying upstream again"];
        let runs = log.lines().filter(|line| opened.iter().any(|part| line.contains(part))).count();
        if self.backend != Backend::Agent {
            // Its own count of turns says the same.
            let counts = fs::read_to_string(self.fake_home().join("counts.json")).unwrap();
            let counts: Value = serde_json::from_str(&counts).unwrap();
            assert_eq!(counts["runs"], runs, "{log}");
        }
        runs
    }

    /// Waits until no turn is under way, and what turns had is gone.
    pub(crate) fn assert_idle(&self) {
        soon("a turn is left", || {
            let health = self.health();
            let sessions = &health["sessions"];
            sessions["active"] == 0 && sessions["parked"] == 0
        });
        soon("a process is left", || self.processes().is_empty());
        soon("a folder is left", || self.folders().is_empty());
    }

    pub(crate) fn health(&self) -> Value {
        let answer = get(&self.url, "/health");
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    }

    /// Processes of the CLI that were started by this gateway or one before it.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let home = self.home.0.path().to_str().unwrap();
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            // One that has just ended has none.
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line);
            if line.contains("fake-cursor-agent") && line.contains(home) {
                found.push(id);
            }
        }
        found
    }

    /// Where the stand-in of the CLI keeps its files.
    pub(crate) fn fake_home(&self) -> PathBuf {
        self.home.0.path().join("fake")
    }

    /// The folders that these work in.
    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        let entries = |folder: PathBuf| {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).filter(|path| path.is_dir())
        };
        entries(self.home.0.path().join(".cache/ibeam/runs")).flat_map(entries).collect()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // In order, so that no process of the CLI outlives the test.
        let id = self.child.id().to_string();
        let _ = std::process::Command::new("kill").args(["-TERM", &id]).status();
        let since = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && since.elapsed() < SOON {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Reply {
    pub(crate) fn read(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.body))
    }

    /// The objects of a stream of events.
    pub(crate) fn events(&self) -> Vec<Value> {
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        let objects = data.filter(|data| *data != "[DONE]");
        objects.map(|data| serde_json::from_str(data).unwrap()).collect()
    }
}

fn launch(home: &Home, backend: Backend, words: &str, idle: &str, start: usize) -> (Child, String) {
    let folder = home.0.path();
    let mut command = home.ibeam("serve --sim --port 0 --log-level debug");
    command.args(["--backend", backend.name(), "--scenario"]).arg(folder.join("scenario.toml"));
    command.args(["--set", "cursor_agent.warm=0", "--set", &format!("cursor_agent.idle={idle}")]);
    // As with the real CLI, ibeam looks there for its chats.
    command.env("IBEAM_FAKE_AGENT_HOME", folder.join("fake"));
    command.env("IBEAM_FAKE_AGENT", words).stdout(Stdio::piped());
    command.stderr(File::create(log_path(home, start)).unwrap());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("http"), "{line}");
    (child, line.trim().to_owned())
}

fn log_path(home: &Home, start: usize) -> PathBuf {
    home.0.path().join(format!("log-{start}"))
}

/// Waits until it is so.
pub(crate) fn soon(otherwise: &str, mut so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !so() {
        assert!(since.elapsed() < SOON, "{otherwise}");
        std::thread::sleep(Duration::from_millis(25));
    }
}

pub(crate) fn user(text: &str) -> Value {
    json!({ "role": "user", "content": text })
}

/// A request of these messages, without tools.
pub(crate) fn plain(messages: &[Value], stream: bool) -> Value {
    json!({ "model": "auto", "stream": stream, "messages": messages })
}
