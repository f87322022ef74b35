//! Tokens and keys stay where they belong: not in a log at its most talkative, not in an
//! answer, an error, a crash, a file or another process.
//!
//! The step `secrets` of `cargo xtask test` looks for them in all output of the suite.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use axum::body::Body;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http_body_util::BodyExt as _;
use ibeam_sim::Sim;

use crate::{
    cli::{Home, Server},
    watch,
};

/// Nothing of a token or a key may be seen, be it only so many characters.
const PIECE: usize = 8;

/// The logs of the libraries below as well.
const TRACE: &str = "trace,h2=trace,hyper=trace,hyper_util=trace,rustls=trace,tower=trace";

/// Not the first part of a token, which is the same for all.
fn secrets() -> [&'static str; 3] {
    let token = Sim::TOKEN.split_once('.').unwrap().1;
    let (key, client) =
        (Sim::API_KEY.strip_prefix("crsr_"), watch::CLIENT_KEY.strip_prefix("ibk_"));
    [token, key.unwrap(), client.unwrap()]
}

#[track_caller]
fn assert_silent(what: &str, text: &str) {
    for secret in secrets() {
        for at in 0..=secret.len() - PIECE {
            assert!(!text.contains(&secret[at..at + PIECE]), "{what}: {text}");
        }
    }
}

#[track_caller]
fn assert_silent_files(folder: &Path, store: &Path) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        if entry.path() == store {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            assert_silent_files(&entry.path(), store);
        } else {
            let bytes = std::fs::read(entry.path()).unwrap();
            assert_silent(&entry.path().display().to_string(), &String::from_utf8_lossy(&bytes));
        }
    }
}

/// A request as it is on the wire, and all of its answer.
fn wire(server: &Server, request: &str) -> String {
    let address = server.url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let request =
        request.replacen("\r\n", &format!("\r\nhost: {address}\r\nconnection: close\r\n"), 1);
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    watch::heard(&answer);
    answer
}

/// Good and bad requests with secrets in each part of them, then a crash.
#[test]
#[cfg(unix)]
fn trace_logs_have_no_secret() {
    let home = Home::new();
    let sim = Server::start(home.ibeam("sim --port 0"));
    let mut command =
        home.ibeam("serve --port 0 --set log.debug=true --set log.timing=true --log-level");
    command.arg(TRACE).env("CURSOR_API_URL", &sim.url).current_dir(home.0.path());
    command.env("CURSOR_ACCESS_TOKEN", Sim::TOKEN).env("IBEAM_API_KEY", watch::CLIENT_KEY);
    let mut gateway = Server::start(command);
    let mut errors = gateway.child.stderr.take().unwrap();
    let log = std::thread::spawn(move || {
        let mut log = String::new();
        errors.read_to_string(&mut log).unwrap();
        log
    });

    let (token, key) = (Sim::TOKEN, watch::CLIENT_KEY);
    let get = |path: &str, headers: &str| format!("GET {path} HTTP/1.1\r\n{headers}\r\n");
    let post = |body: &str| {
        let length = body.len();
        format!(
            "POST /v1/chat/completions HTTP/1.1\r\nx-api-key: {key}\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        )
    };
    let bearer = format!("authorization: Bearer {key}\r\n");
    for (request, status) in [
        (get("/health", ""), 200),
        (get("/", &bearer), 200),
        (get("/v1/models", &bearer), 200),
        (get("/v1/models", ""), 401),
        (get("/v1/models", &format!("x-api-key: {token}\r\n")), 401),
        (get("/v1/models", &format!("authorization: Bearer {}\r\n", Sim::API_KEY)), 401),
        (get("/v1/models", &format!("authorization: {key}\r\n")), 401),
        (get(&format!("/v1/models?api_key={key}&token={token}"), ""), 401),
        (get(&format!("/v1/{key}/{token}"), &bearer), 404),
        (get("/health", &format!("cookie: WorkosCursorSessionToken=user_1%3A%3A{token}\r\n")), 200),
        (post(r#"{"model":"auto","messages":[{"role":"user","content":"Hello"}]}"#), 200),
        (post(&format!(r#"{{"model":"{token}","messages":[]}}"#)), 400),
        (post(&format!(r#"{{"model":"auto","messages":"{key}"}}"#)), 400),
        (post(&format!(r#"{{"{token}"#)), 400),
    ] {
        let answer = wire(&gateway, &request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{status}: {request}\n{answer}");
        assert_silent(&request, &answer);
    }

    let id = gateway.child.id().to_string();
    assert!(Command::new("kill").args(["-ABRT", &id]).status().unwrap().success());
    assert!(!gateway.child.wait().unwrap().success());
    let log = log.join().unwrap();
    assert!(log.contains("TRACE") && log.contains("frame="), "h2 tells of its frames: {log}");
    assert_silent("log", &log);
    assert_silent_files(home.0.path(), Path::new(""));
    sim.stop();
}

#[test]
fn commands_print_no_secret() {
    let home = Home::new();
    let sim = Server::start(home.ibeam("sim --port 0"));
    let run = |line: &str, env: &[(&str, &str)]| {
        let mut command = home.ibeam(line);
        command.args(["--log-level", TRACE]).env("CURSOR_API_URL", &sim.url);
        let output = command.envs(env.iter().copied()).output().unwrap();
        let text = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        assert_silent(line, &text.concat());
        (output.status.success(), text.concat())
    };
    let env = [
        ("CURSOR_ACCESS_TOKEN", Sim::TOKEN),
        ("CURSOR_API_KEY", Sim::API_KEY),
        ("IBEAM_API_KEY", watch::CLIENT_KEY),
    ];
    for line in ["login --no-browser", "whoami --json", "whoami", "models", "config show"] {
        let (good, text) = run(line, &[]);
        assert!(good, "{line}: {text}");
        if line.starts_with("login") {
            continue;
        }
        for env in env {
            let (good, text) = run(line, &[env]);
            assert!(good, "{line}: {text}");
        }
    }
    let store = home.0.path().join(".config/ibeam/credentials");
    let kept = std::fs::read_to_string(store.join("default.json")).unwrap();
    assert!(kept.contains(Sim::SIGNATURE), "the watch sees a token: {kept}");
    assert_silent_files(home.0.path(), &store);
    // A sign-in that is not good, one that is broken, and none.
    std::fs::write(store.join("default.json"), kept.replace(Sim::SIGNATURE, Sim::API_KEY)).unwrap();
    run("models", &[]);
    run("whoami", &[]);
    std::fs::write(store.join("default.json"), &kept[..kept.len() - 2]).unwrap();
    assert!(!run("whoami", &[]).0);
    assert!(run("logout", &[]).0);
    sim.stop();
}

/// It needs the link, and none of what else is in the environment.
#[test]
#[cfg(target_os = "linux")]
fn browser_gets_the_link_and_no_secret() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = Home::new();
    let sim = Server::start(home.ibeam("sim --port 0 --login-page"));
    let browser = home.0.path().join("xdg-open");
    // Moved at the end: what is there is whole.
    let script =
        "#!/bin/sh\ncd \"$HOME\"\necho \"$@\" > opening\nenv >> opening\nmv opening opened\n";
    std::fs::write(&browser, script).unwrap();
    std::fs::set_permissions(&browser, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", home.0.path().display());
    let mut command = home.ibeam("login");
    command.env("CURSOR_API_URL", &sim.url).env("PATH", path).env("DISPLAY", ":0");
    command.env("CURSOR_ACCESS_TOKEN", Sim::TOKEN).env("CURSOR_AUTH_TOKEN", Sim::TOKEN);
    command.env("CURSOR_API_KEY", Sim::API_KEY).env("IBEAM_API_KEY", watch::CLIENT_KEY);
    let mut login = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let opened = home.0.path().join("opened");
    while !opened.exists() {
        assert!(login.try_wait().unwrap().is_none(), "nothing was opened");
        std::thread::yield_now();
    }
    login.kill().unwrap();
    login.wait().unwrap();
    let opened = std::fs::read_to_string(opened).unwrap();
    assert!(opened.contains("challenge=") && opened.contains("PATH="), "{opened}");
    assert!(!opened.contains("verifier"), "{opened}");
    assert_silent("the browser", &opened);
    sim.stop();
}

/// The watch's own test: each of these must be found.
#[tokio::test]
#[ignore = "leaks on purpose: cargo xtask test --only secrets"]
async fn leak_in_every_channel() {
    assert!(watch::record().is_some(), "nobody watches");
    let [token, key, client] = secrets();
    println!("{token}");
    assert!(std::panic::catch_unwind(|| panic!("{key}")).is_err());

    watch::logs();
    let hex: String = token.bytes().map(|byte| format!("{byte:02x}")).collect();
    tracing::trace!(target: "ibeam::planted", "{hex}");
    tracing::info!(target: "library", "Bearer {client}");

    let mut answer = http::Response::new(Body::from(token.chars().rev().collect::<String>()));
    answer.headers_mut().insert("x-planted", key.parse().unwrap());
    watch::hearing(answer).into_body().collect().await.unwrap();

    let home = Home::new();
    let half = &client[client.len() / 2..];
    let shown = home.ibeam(&format!("config show --set store.path=/{half}")).output().unwrap();
    assert!(shown.status.success());
    let encoded = STANDARD.encode(key);
    let refused = home.ibeam(&format!("models --sim --scenario /{encoded}")).output().unwrap();
    assert!(!refused.status.success());
    std::fs::write(home.0.path().join("planted"), &token[..token.len() / 2]).unwrap();
}
