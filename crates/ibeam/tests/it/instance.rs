//! Gateways that find each other: the one in the background, and the clients that are
//! started with it.

use std::{
    fs::{self, File},
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    process::{Command, Output, Stdio},
    sync::{Arc, Mutex},
};

use serde_json::Value;

use crate::{
    cli::{Home, Server},
    watch,
};

/// A user whose gateways end with the test.
pub(crate) struct User(pub(crate) Home);

impl User {
    pub(crate) fn new() -> Self {
        Self(Home::new())
    }

    pub(crate) fn ibeam(&self, line: &str) -> Command {
        let mut command = self.0.ibeam(line);
        command.env("IBEAM_PORT", "0").env("PATH", self.path());
        command
    }

    pub(crate) fn run(&self, line: &str) -> Output {
        self.ibeam(line).output().unwrap()
    }

    pub(crate) fn json(&self, line: &str) -> Value {
        json(&self.run(line))
    }

    /// Programs of the user's own come first.
    fn path(&self) -> String {
        format!("{}:/usr/bin:/bin", self.0.0.path().join("bin").display())
    }

    pub(crate) fn program(&self, name: &str, script: &str) {
        let path = self.0.0.path().join("bin").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn state(&self) -> PathBuf {
        self.0.0.path().join(".local/state/ibeam")
    }

    /// The files of gateways with this ending.
    fn files(&self, ending: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.state().join("instances")).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        let own = |path: &PathBuf| path.file_name().is_some_and(|name| name != "start.lock");
        paths.filter(|path| own(path) && path.extension().is_some_and(|it| it == ending)).collect()
    }

    /// Waits until the system has let go of their locks.
    pub(crate) fn all_end(&self) {
        for lock in self.files("lock") {
            match File::open(lock) {
                Ok(file) => file.lock_shared().unwrap(),
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound),
            }
        }
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let _ = self.ibeam("stop --all").output();
    }
}

pub(crate) fn json(output: &Output) -> Value {
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    if let Some(key) = json["key"].as_str() {
        watch::secret(key.strip_prefix("ibi_").unwrap());
    }
    json
}

pub(crate) fn words(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The status of `/v1/models` for a client with this key.
fn models(url: &str, key: &str) -> u16 {
    let address = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("host: {address}\r\nauthorization: Bearer {key}\r\nconnection: close");
    write!(stream, "GET /v1/models HTTP/1.1\r\n{head}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    watch::heard(&answer);
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

fn kill(signal: &str, pid: &Value) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}

#[test]
fn gateway_is_started_found_and_stopped() {
    let user = User::new();
    let none = user.run("status");
    assert_eq!(none.status.code(), Some(1));
    assert!(words(&none).contains("ibeam start"), "{}", words(&none));
    assert_eq!(user.run("stop").status.code(), Some(0));

    let first = user.json("start --sim --json");
    assert_eq!(first["started"], true);
    assert_eq!((&first["sim"], &first["authenticated"]), (&true.into(), &true.into()));
    assert_eq!(first["version"], env!("CARGO_PKG_VERSION"));
    let second = user.json("start --sim --json");
    assert_eq!(second["started"], false);
    for same in ["url", "key", "pid", "backend", "profile"] {
        assert_eq!(first[same], second[same], "{same}");
    }
    assert_eq!(models(first["url"].as_str().unwrap(), first["key"].as_str().unwrap()), 200);

    let status = user.json("status --json");
    assert_eq!(status[0]["pid"], first["pid"]);
    assert_eq!(status[0]["shared"], true);
    assert!(!status.to_string().contains("ibi_"), "{status}");
    for ending in ["json", "lock"] {
        let [path] = user.files(ending).try_into().unwrap();
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let mode = fs::metadata(user.state().join("gateway.log")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let audit = String::from_utf8(user.run("audit").stdout).unwrap();
    assert!(audit.contains("gateway.log") && audit.contains("/instances"), "{audit}");

    let stopped = user.run("stop");
    assert!(words(&stopped).contains("Stopped http://127.0.0.1:"), "{}", words(&stopped));
    assert_eq!(user.run("status").status.code(), Some(1));
    assert!(user.files("json").is_empty() && user.files("lock").is_empty());
}

#[test]
fn ten_simultaneous_starts_make_one_gateway() {
    let user = User::new();
    let starting: Vec<_> = (0..10)
        .map(|_| user.ibeam("start --sim --json").stdout(Stdio::piped()).spawn().unwrap())
        .collect();
    let started: Vec<Value> =
        starting.into_iter().map(|child| json(&child.wait_with_output().unwrap())).collect();
    assert_eq!(started.iter().filter(|one| one["started"] == true).count(), 1);
    assert!(started.iter().all(|one| one["pid"] == started[0]["pid"]), "{started:?}");
    assert_eq!(user.json("status --json").as_array().unwrap().len(), 1);
}

/// Other keys stay valid, and an unknown one is refused.
#[test]
fn instance_key_is_accepted_where_keys_are_required() {
    let user = User::new();
    let start =
        || user.ibeam("start --sim --json").env("IBEAM_API_KEY", watch::CLIENT_KEY).output();
    let running = json(&start().unwrap());
    let url = running["url"].as_str().unwrap();
    let key = running["key"].as_str().unwrap();
    assert_eq!(models(url, key), 200);
    assert_eq!(models(url, watch::CLIENT_KEY), 200);
    assert_eq!(models(url, "ibi_0123456789abcdef"), 401);
    #[cfg(target_os = "linux")]
    {
        let line = fs::read(format!("/proc/{}/cmdline", running["pid"])).unwrap();
        let line = String::from_utf8(line).unwrap();
        assert!(line.contains("serve") && !line.contains("ibi_"), "{line}");
        assert!(!line.contains(watch::CLIENT_KEY), "{line}");
    }
    let log = fs::read_to_string(user.state().join("gateway.log")).unwrap();
    assert!(log.contains("listening on"), "{log}");
    assert!(!log.contains(key.strip_prefix("ibi_").unwrap()), "{log}");
}

/// A program that answers as a gateway would, and keeps what it gets.
fn stranger(listener: TcpListener, heard: Arc<Mutex<String>>) {
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = Vec::new();
            let mut byte = [0];
            while !request.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
                request.push(byte[0]);
            }
            heard.lock().unwrap().push_str(&String::from_utf8_lossy(&request));
            let body = serde_json::json!({
                "name": "ibeam", "version": env!("CARGO_PKG_VERSION"), "auth": "authenticated",
                "backend": "sim", "sessions": { "active": 0, "parked": 0 },
                "uptime_seconds": 1, "data": [],
            });
            let proof = "0".repeat(64);
            let head = format!("HTTP/1.0 200 OK\r\nx-ibeam-proof: {proof}\r\n\r\n");
            let _ = write!(stream, "{head}{body}");
        }
    });
}

/// A gateway has ended, another user has its port, and what says where it was is still there:
/// nothing is sent to that port but a challenge, and another gateway is used.
#[test]
fn foreign_program_on_the_port_gets_no_key_and_no_prompt() {
    let user = User::new();
    user.json("start --sim --json");
    let record = user.files("json").pop().unwrap();
    let mut record: Value = serde_json::from_slice(&fs::read(record).unwrap()).unwrap();
    assert_eq!(user.run("stop").status.code(), Some(0));
    user.all_end();

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = format!("http://{}", listener.local_addr().unwrap());
    let heard = Arc::new(Mutex::new(String::new()));
    stranger(listener, Arc::clone(&heard));
    record["url"] = taken.clone().into();
    let path = user.state().join("instances/0123456789abcdef.json");
    fs::write(&path, record.to_string()).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let lock = File::create(path.with_extension("lock")).unwrap();
    lock.lock().unwrap();

    let started = user.run("start --sim --json");
    let said = words(&started);
    assert!(said.contains(&format!("the program at {taken} is not your gateway")), "{said}");
    let new = json(&started);
    assert_eq!((new["started"].clone(), new["url"] == taken.as_str()), (true.into(), false));
    user.program("client", "echo $OPENAI_BASE_URL");
    let ran = user.run("run --sim client");
    let url = String::from_utf8(ran.stdout.clone()).unwrap();
    assert!(url.starts_with(new["url"].as_str().unwrap()), "{url} {}", words(&ran));

    let heard = heard.lock().unwrap();
    let key = record["key"].as_str().unwrap();
    assert!(heard.contains("GET /health ") && heard.contains("x-ibeam-challenge: "), "{heard}");
    assert!(!heard.contains(key) && !heard.to_lowercase().contains("authorization"), "{heard}");
    assert!(!heard.contains("POST"), "{heard}");
}

/// It has no parent to end with it, and a session of its own: what ends a terminal does not end it.
#[cfg(target_os = "linux")]
#[test]
fn gateway_outlives_the_program_that_started_it() {
    let user = User::new();
    let running = user.json("start --sim --json");
    let stat = |pid: &str| fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let session = |stat: &str| {
        let fields: Vec<String> =
            stat.rsplit_once(") ").unwrap().1.split(' ').map(str::to_owned).collect();
        fields[3].clone()
    };
    let (its, ours) = (stat(&running["pid"].to_string()), stat("self"));
    assert_ne!(session(&its), session(&ours));
    let home = fs::canonicalize(user.0.0.path()).unwrap();
    // Only where the system lets us look: the process is closed to others.
    if let Ok(folder) = fs::read_link(format!("/proc/{}/cwd", running["pid"])) {
        assert_eq!(folder, home);
    }
}

#[test]
fn the_files_of_a_killed_gateway_are_ignored() {
    let user = User::new();
    let killed = user.json("start --sim --json");
    kill("-KILL", &killed["pid"]);
    user.all_end();
    assert_eq!(user.run("status").status.code(), Some(1));
    let next = user.json("start --sim --json");
    assert_eq!(next["started"], true);
    assert_ne!(next["key"], killed["key"]);
    assert_eq!(user.files("json").len(), 1);
}

#[test]
fn failed_start_shows_the_last_output() {
    let user = User::new();
    let keys = user.0.0.path().join("keys.json");
    fs::write(&keys, "nonsense").unwrap();
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o600)).unwrap();
    let failed = user.ibeam("start --sim --json").env("IBEAM_KEYS_FILE", &keys).output().unwrap();
    assert_eq!(failed.status.code(), Some(1));
    assert!(failed.stdout.is_empty());
    let words = words(&failed);
    assert!(words.contains("the gateway did not start"), "{words}");
    assert!(words.contains("keys.json is not a key file"), "{words}");
    assert_eq!(user.run("status").status.code(), Some(1));
}

#[test]
fn a_gateway_starts_without_a_sign_in() {
    let user = User::new();
    let running = user.json("start --json");
    assert_eq!(running["authenticated"], false);
    assert_eq!(running["sim"], false);
    let again = user.run("start");
    assert!(again.status.success());
    assert!(words(&again).contains("ibeam login"), "{}", words(&again));
    // The simulator is another gateway.
    let sim = user.json("start --sim --json");
    assert_eq!(sim["started"], true);
    assert_eq!(user.json("status --json").as_array().unwrap().len(), 2);
    assert_eq!(user.json("start --profile work --json")["profile"], "work");
    assert!(user.run("stop --profile work").status.success());
    assert_eq!(user.json("status --json").as_array().unwrap().len(), 2);
}

#[test]
fn gateway_started_by_serve_is_found() {
    let user = User::new();
    let mut server = Server::start(user.ibeam("serve --sim"));
    let found = user.json("start --sim --json");
    assert_eq!(found["started"], false);
    assert_eq!(found["url"], server.url);
    assert_eq!(models(&server.url, found["key"].as_str().unwrap()), 200);
    // It is not in the background, and stays.
    let nothing = user.run("stop");
    assert!(words(&nothing).contains("in the background"), "{}", words(&nothing));
    assert_eq!(user.json("status --json")[0]["shared"], false);
    assert!(user.run("stop --all").status.success());
    assert!(server.child.wait().unwrap().success());
    assert!(user.files("json").is_empty());
}

/// Another program could not call it with only its URL.
#[test]
fn unix_sockets_are_not_recorded() {
    let user = User::new();
    let socket = user.0.0.path().join("ibeam.sock");
    let mut serve = user.ibeam(&format!("serve --sim --listen unix:{}", socket.display()));
    let mut child = serve.stdout(Stdio::piped()).spawn().unwrap();
    let mut first = [0];
    child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    assert_eq!(user.run("status").status.code(), Some(1));
    kill("-TERM", &child.id().into());
    assert!(child.wait().unwrap().success());
}

#[test]
fn idle_gateway_stops() {
    let user = User::new();
    let running = user.json("start --sim --idle-exit 2s --json");
    assert_eq!(running["started"], true);
    user.all_end();
    assert_eq!(user.run("status").status.code(), Some(1));
    let log = fs::read_to_string(user.state().join("gateway.log")).unwrap();
    assert!(log.contains("no requests for 2s") && log.contains("stopped"), "{log}");
}

/// As it is after an update of the program.
#[test]
fn older_idle_gateway_is_replaced() {
    let user = User::new();
    let old = user.json("start --sim --json");
    let [path] = user.files("json").try_into().unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let ours = format!("\"version\":\"{}\"", env!("CARGO_PKG_VERSION"));
    fs::write(&path, text.replace(&ours, "\"version\":\"0.0.1\"")).unwrap();
    let status = user.run("status");
    assert!(words(&status).contains("It is version 0.0.1"), "{}", words(&status));
    let new = user.json("start --sim --json");
    assert_eq!(new["started"], true);
    assert_ne!(new["pid"], old["pid"]);
    assert_eq!(user.json("status --json").as_array().unwrap().len(), 1);
}

/// A client that sits at its prompt has its key, and the new one would have another.
#[test]
fn older_gateway_in_use_stays() {
    let user = User::new();
    let old = user.json("start --sim --json");
    let [path] = user.files("json").try_into().unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let ours = format!("\"version\":\"{}\"", env!("CARGO_PKG_VERSION"));
    fs::write(&path, text.replace(&ours, "\"version\":\"0.0.1\"")).unwrap();
    let held = File::open(&path).unwrap();
    held.lock_shared().unwrap();
    let found = user.json("start --sim --json");
    assert_eq!((&found["started"], &found["pid"]), (&false.into(), &old["pid"]));
    drop(held);
    assert_eq!(user.json("start --sim --json")["started"], true);
}

#[test]
fn one_of_several_gateways_is_stopped() {
    let user = User::new();
    let real = user.json("start --json");
    let sim = user.json("start --sim --json");
    let work = user.json("start --sim --profile work --json");
    let server = Server::start(user.ibeam("serve --sim --profile other"));
    let left = || {
        let status = user.run("status --json");
        let status: Value = serde_json::from_slice(&status.stdout).unwrap();
        let mut pids: Vec<u64> =
            status.as_array().unwrap().iter().map(|one| one["pid"].as_u64().unwrap()).collect();
        pids.sort_unstable();
        pids
    };
    let pids = |mut pids: Vec<u64>| {
        pids.sort_unstable();
        pids
    };
    let [real_pid, work_pid] = [&real, &work].map(|one| one["pid"].as_u64().unwrap());
    let none = user.run("stop 1");
    assert_eq!(none.status.code(), Some(1));
    assert!(words(&none).contains("ibeam status"), "{}", words(&none));
    assert!(user.run(&format!("stop {}", sim["url"].as_str().unwrap())).status.success());
    assert_eq!(left(), pids(vec![real_pid, work_pid, server.child.id().into()]));
    assert!(user.run("stop --sim").status.success());
    assert_eq!(left(), pids(vec![real_pid, server.child.id().into()]));
    // By name also one that is not in the background.
    assert!(user.run(&format!("stop {}", server.child.id())).status.success());
    assert_eq!(left(), [real_pid]);
}

#[test]
fn up_lists_the_installed_clients() {
    let user = User::new();
    user.program("claude", "exit 0");
    let mut command = user.ibeam("up --sim");
    let mut child = watch::usual_log(&mut command).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = child.stderr.take().unwrap();
    let mut text = String::new();
    let mut byte = [0];
    while !text.contains("ibeam run --sim claude\n") {
        assert_eq!(stderr.read(&mut byte).unwrap(), 1, "{text}");
        text.push(char::from(byte[0]));
    }
    assert!(text.contains("Claude Code  ibeam setup claude-code"), "{text}");
    assert_eq!(user.json("status --json")[0]["pid"], child.id());
    kill("-TERM", &child.id().into());
    stderr.read_to_string(&mut text).unwrap();
    assert!(child.wait().unwrap().success());
}
