//! The binary as people and scripts meet it: exit codes, what goes to stdout and what
//! to stderr, signals.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, Command, Output, Stdio},
};

use ibeam_sim::Sim;

use crate::watch;

pub(crate) struct Home(pub(crate) tempfile::TempDir);

impl Home {
    pub(crate) fn new() -> Self {
        Self(watch::folder())
    }

    /// Nothing of this machine's settings reaches the program.
    pub(crate) fn ibeam(&self, line: &str) -> Command {
        let mut command = Command::new(watch::program());
        command.args(line.split_whitespace()).env_clear().env("HOME", self.0.path());
        command.stdin(Stdio::null());
        command
    }

    fn run(&self, line: &str) -> Output {
        self.ibeam(line).output().unwrap()
    }

    /// Without a word more in the log than usual.
    fn run_plainly(&self, line: &str) -> Output {
        watch::usual_log(&mut self.ibeam(line)).output().unwrap()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A server that is ended with its test.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) url: String,
}

impl Server {
    pub(crate) fn start(mut command: Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("http"), "{line}");
        Self { child, url: line.trim().to_owned() }
    }

    pub(crate) fn request(&self, head: &str, body: &str) -> String {
        let address = self.url.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        let length = body.len();
        write!(
            stream,
            "{head} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        watch::heard(&answer);
        answer
    }

    /// Ends it as a service manager would; gives what it logged.
    pub(crate) fn stop(mut self) -> String {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        let mut log = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        assert!(self.child.wait().unwrap().success(), "{log}");
        log
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const HELLO: &str = r#"{"model":"auto","messages":[{"role":"user","content":"Hello"}]}"#;

#[test]
fn version_and_help_are_data() {
    let home = Home::new();
    let version = home.run("--version");
    assert!(version.status.success());
    assert_eq!(text(&version.stdout), format!("ibeam {}\n", env!("CARGO_PKG_VERSION")));
    let help = home.run("--help");
    assert!(help.status.success() && help.stderr.is_empty());
    assert!(text(&help.stdout).contains("ibeam up --sim"));
}

#[test]
fn errors_without_an_account_go_to_stderr() {
    let home = Home::new();
    for line in ["up", "serve", "models"] {
        let output = home.run(line);
        assert_eq!(output.status.code(), Some(1), "{line}");
        assert!(output.stdout.is_empty(), "{line}");
        let words = text(&output.stderr);
        assert!(words.contains("not signed in"), "{words}");
        assert!(words.contains("CURSOR_ACCESS_TOKEN") && words.contains("--sim"), "{words}");
    }
}

#[test]
fn network_listener_without_a_key_is_refused() {
    let output = Home::new().run_plainly("serve --sim --port 0 --host 0.0.0.0");
    assert_eq!(output.status.code(), Some(1));
    let words = text(&output.stderr);
    assert_eq!(words.lines().count(), 2, "{words}");
    assert!(words.contains("\nhint: create a key") && words.contains("IBEAM_API_KEY"), "{words}");
}

#[test]
fn settings_are_shown_with_their_origin_and_without_secrets() {
    let home = Home::new();
    let folder = home.0.path().join(".config/ibeam");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.toml"), "[limits]\nturns = 5\n").unwrap();
    let output = home
        .ibeam("config show --json --set clocks.turn=1h")
        .env("CURSOR_ACCESS_TOKEN", Sim::TOKEN)
        .output()
        .unwrap();
    assert!(output.status.success());
    let shown = text(&output.stdout);
    assert!(!shown.contains(Sim::TOKEN), "{shown}");
    let value: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(value["clocks.turn"]["origin"], "flag --set");
    assert_eq!(value["access_token"]["value"], "(set)");
    assert_eq!(value["access_token"]["origin"], "env CURSOR_ACCESS_TOKEN");
    assert_eq!(value["limits.turns"]["value"], 5);
    assert_eq!(value["log.json"]["value"], false);
    assert!(value["api_key"]["value"].is_null());
    assert_eq!(value["port"]["origin"], "default");
}

#[test]
fn all_problems_are_reported_at_once() {
    let output = Home::new().run("serve --sim --transport h9 --set limits.turns=0 --port x");
    // As for a flag that does not exist.
    assert_eq!(output.status.code(), Some(2));
    let words = text(&output.stderr);
    for part in ["3 settings are invalid", "transport", "limits.turns", "port"] {
        assert!(words.contains(part), "{words}");
    }
}

#[test]
fn models_are_a_table_or_json() {
    let home = Home::new();
    let table = home.run("models --sim");
    assert!(table.status.success(), "{}", text(&table.stderr));
    assert!(text(&table.stdout).starts_with("ID "));
    let json = home.run("models --sim --json");
    let value: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(value[0]["id"], "auto");
}

#[test]
fn serve_prints_its_url_and_stops_on_a_signal() {
    let home = Home::new();
    let server = Server::start(home.ibeam("serve --sim --port 0 --log-json"));
    assert!(server.request("GET /health", "").contains("\"status\":\"ok\""));
    let answer = server.request("POST /v1/chat/completions", HELLO);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let log = server.stop();
    for line in log.lines() {
        assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "{line}");
    }
    assert!(log.contains("request_id"), "{log}");
    assert!(!log.contains(Sim::TOKEN), "{log}");
}

/// Two processes and a socket between them: the real transport, with a token that
/// must not appear in any log.
#[test]
fn gateway_uses_a_separate_simulator() {
    let home = Home::new();
    let sim = Server::start(home.ibeam("sim --port 0"));
    let mut command = home.ibeam("serve --port 0 --log-level trace");
    command.env("CURSOR_API_URL", &sim.url).env("CURSOR_ACCESS_TOKEN", Sim::TOKEN);
    let gateway = Server::start(command);
    let answer = gateway.request("POST /v1/chat/completions", HELLO);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let log = gateway.stop();
    assert!(!log.contains(Sim::TOKEN), "{log}");
    assert!(!log.contains("Hello"), "{log}");
    sim.stop();
}

/// A backend that takes connections and never says a word.
fn mute_backend() -> (std::net::TcpListener, String) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    (listener, url)
}

fn signal(child: &Child) {
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
}

/// Reads lines until one has this in it.
fn lines_until(lines: &mut impl Iterator<Item = std::io::Result<String>>, part: &str) -> String {
    let mut seen = String::new();
    for line in lines {
        seen.push_str(&line.unwrap());
        seen.push('\n');
        if seen.contains(part) {
            return seen;
        }
    }
    panic!("no {part}: {seen}");
}

#[test]
fn up_prints_its_welcome_and_stops_while_the_list_hangs() {
    let (_listener, url) = mute_backend();
    let home = Home::new();
    let mut command = home.ibeam("up --port 0");
    watch::usual_log(&mut command)
        .env("CURSOR_API_URL", url)
        .env("CURSOR_ACCESS_TOKEN", Sim::TOKEN);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let welcome = lines_until(&mut lines, "Ctrl-C stops it");
    assert!(welcome.contains("OPENAI_BASE_URL"), "{welcome}");
    // The list is being asked for by now.
    signal(&child);
    let end = lines_until(&mut lines, "stopped");
    assert!(child.wait().unwrap().success() && !end.contains("some tasks did not end"), "{end}");
    let after: Vec<_> = lines.map(Result::unwrap).collect();
    assert!(!end.contains("models") && after.is_empty(), "{end}{after:?}");
}

#[test]
fn hanging_request_is_waited_for_until_a_second_signal() {
    let (backend, url) = mute_backend();
    let home = Home::new();
    let mut command = home.ibeam("serve --port 0 --set clocks.drain=10m");
    command.env("CURSOR_API_URL", url).env("CURSOR_ACCESS_TOKEN", Sim::TOKEN);
    let mut server = Server::start(command);
    let address = server.url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /v1/models HTTP/1.1\r\nhost: {address}\r\n\r\n").unwrap();
    let mut lines = BufReader::new(server.child.stderr.take().unwrap()).lines();
    lines_until(&mut lines, "listening");
    // Once the backend is asked, the request has arrived.
    let _asked = backend.accept().unwrap();
    signal(&server.child);
    lines_until(&mut lines, "waiting up to 600s for 1 request; Ctrl-C again stops at once");
    signal(&server.child);
    lines_until(&mut lines, "stopping at once: cancelling running requests");
    assert_eq!(server.child.wait().unwrap().code(), Some(130));
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
}

#[test]
fn up_prints_the_number_of_models() {
    let home = Home::new();
    let mut command = home.ibeam("up --sim --port 0");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    lines_until(&mut lines, "models are ready; `ibeam models --sim` lists them");
    signal(&child);
    lines_until(&mut lines, "stopped");
    assert!(child.wait().unwrap().success());
}

#[test]
fn invalid_log_level_is_refused() {
    let home = Home::new();
    let flag = home.run("serve --sim --port 0 --log-level loud");
    assert_eq!(flag.status.code(), Some(2));
    assert!(text(&flag.stderr).contains("`loud`"), "{}", text(&flag.stderr));
    let env = home.ibeam("models --sim").env("CURSOR_LOG_LEVEL", "loud").output().unwrap();
    assert_eq!(env.status.code(), Some(1));
    assert!(text(&env.stderr).contains("`debug`"), "{}", text(&env.stderr));
}

#[test]
fn a_taken_port_is_one_error_and_one_hint() {
    let (listener, _) = mute_backend();
    let port = listener.local_addr().unwrap().port();
    for command in ["serve --sim", "sim"] {
        let output = Home::new().run_plainly(&format!("{command} --port {port}"));
        assert_eq!(output.status.code(), Some(1));
        let words = text(&output.stderr);
        assert_eq!(words.lines().count(), 2, "{words}");
        let error = format!("error: cannot listen on 127.0.0.1:{port}: Address already in use");
        assert!(words.starts_with(&error), "{words}");
        assert!(words.contains("\nhint: ") && words.contains("`--port`"), "{words}");
    }
}

#[test]
fn a_broken_scenario_is_quoted_once() {
    let home = Home::new();
    let path = home.0.path().join("bad.toml");
    std::fs::write(&path, "[[rule]]\nwhen = 3\n").unwrap();
    for command in ["serve --sim --port 0", "sim", "models --sim"] {
        let output = home.run(&format!("{command} --scenario {}", path.display()));
        assert_eq!(output.status.code(), Some(1));
        let words = text(&output.stderr);
        assert_eq!(words.matches("when = 3").count(), 1, "{words}");
        assert_eq!(words.matches("bad.toml").count(), 1, "{words}");
    }
}

#[test]
fn failed_model_list_is_one_error() {
    let home = Home::new();
    let sim = Server::start(home.ibeam("sim --port 0"));
    let mut command = home.ibeam("models");
    command.env("CURSOR_API_URL", &sim.url).env("CURSOR_ACCESS_TOKEN", "not-this-one");
    let output = watch::usual_log(&mut command).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let words = text(&output.stderr);
    assert!(words.starts_with("error: ") && words.contains("access token"), "{words}");
    assert_eq!(words.lines().count(), 1, "{words}");
}

#[test]
#[cfg(target_os = "linux")]
fn unwritable_stdout_is_an_error_and_a_closed_one_is_not() {
    let home = Home::new();
    for line in ["models --sim", "config show", "sim --token", "serve --sim --port 0"] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = home.ibeam(line).stdout(full).stderr(Stdio::piped()).output().unwrap();
        let words = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{line}: {words}");
        assert!(words.contains("error: cannot write to stdout"), "{line}: {words}");
    }
    for line in ["models --sim", "config show"] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = home.ibeam(line);
        let output = watch::usual_log(&mut command).stdout(writer).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
    }
}

#[test]
fn error_in_a_broken_file_has_its_line() {
    let home = Home::new();
    let path = home.0.path().join("bad.toml");
    std::fs::write(&path, "port = \n").unwrap();
    let output = home.run(&format!("serve --sim --config {}", path.display()));
    assert_eq!(output.status.code(), Some(1));
    let words = text(&output.stderr);
    assert!(words.contains("bad.toml:1: "), "{words}");
}
