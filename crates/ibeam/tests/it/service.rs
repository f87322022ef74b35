//! The program as a service: sockets that were opened before it ran, what it tells the
//! manager, and the commands that install it.

use std::{
    fs,
    io::Read as _,
    net::{SocketAddr, TcpListener, TcpStream},
    os::{
        fd::OwnedFd,
        unix::{
            fs::PermissionsExt as _,
            net::{UnixDatagram, UnixListener, UnixStream},
        },
    },
    path::Path,
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

use tokio::io::unix::AsyncFd;

use crate::{cli::Home, watch};

const PATIENCE: Duration = Duration::from_secs(30);
const STEP: Duration = Duration::from_millis(10);

/// What systemd does, as a shell can do it: the socket is file 3, and its variables name the
/// process that the shell becomes.
const HAND_OVER: &str = "LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=ibeam.socket \
                         exec \"$0\" \"$@\" 3<&0 0</dev/null";

fn handed(home: &Home, socket: impl Into<OwnedFd>, line: &str) -> Command {
    let mut command = Command::new("sh");
    command.arg("-c").arg(HAND_OVER).arg(watch::program()).args(line.split_whitespace());
    command.env_clear().env("HOME", home.0.path()).env("PATH", "/usr/bin:/bin");
    command.stdin(Stdio::from(socket.into())).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Ended with its test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn request(mut stream: impl std::io::Write, host: &str) {
    let body = r#"{"model":"auto","messages":[{"role":"user","content":"Hello"}]}"#;
    write!(
        stream,
        "POST /v1/chat/completions HTTP/1.0\r\nhost: {host}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
}

fn answer(mut stream: impl std::io::Read) -> String {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    watch::heard(&answer);
    answer
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The client is there first; the settings name another port, which is left alone.
#[test]
fn client_that_connected_before_the_start_is_answered() {
    let home = Home::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let client = connect(address);
    request(&client, &address.to_string());
    let notified = home.0.path().join("notify");
    let manager = UnixDatagram::bind(&notified).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut command = handed(&home, listener, "serve --sim --port 1");
    let mut child = Ended(command.env("NOTIFY_SOCKET", &notified).spawn().unwrap());
    let answered = answer(client);
    assert!(
        answered.starts_with("HTTP/1.0 200") && answered.contains("chat.completion"),
        "{answered}"
    );
    let heard = || {
        let mut bytes = [0; 4096];
        let length = manager.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    };
    assert_eq!(heard(), format!("READY=1\nSTATUS=listening on http://{address}"));
    let id = child.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    assert!(heard().starts_with("STOPPING=1\n"));
    assert!(child.0.wait().unwrap().success());
    let mut printed = String::new();
    child.0.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
    assert_eq!(printed.trim(), format!("http://{address}"));
}

#[test]
fn passed_unix_socket_is_served_and_not_removed() {
    let home = Home::new();
    let path = home.0.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    let open = listener.try_clone().unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    let output = handed(&home, open, "serve --sim").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(words(&output).contains("SocketMode=0600"), "{}", words(&output));

    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let client = UnixStream::connect(&path).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    request(&client, "localhost");
    let mut child = Ended(handed(&home, listener, "serve --sim").spawn().unwrap());
    assert!(answer(client).starts_with("HTTP/1.0 200"));
    let id = child.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    assert!(child.0.wait().unwrap().success());
    assert!(path.exists(), "whoever made it removes it");
}

/// Before its first request a service has no record, but no second one is started
/// beside it.
#[test]
fn waiting_service_is_started() {
    let home = Home::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let port = address.port();
    let mut start = home.ibeam(&format!("start --sim --json --set port={port}"));
    let start = start.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // As the system does: at the first client, whom it leaves to the program.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        #[expect(deprecated, reason = "the socket is our own, and nobody else closes it")]
        let clients = AsyncFd::new(listener.try_clone().unwrap()).unwrap();
        let first = tokio::time::timeout(PATIENCE, clients.readable()).await;
        assert!(first.expect("nobody came").is_ok());
    });
    let child = Ended(handed(&home, listener, "serve --sim").spawn().unwrap());
    let output = start.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", words(&output));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    watch::secret(found["key"].as_str().unwrap().strip_prefix("ibi_").unwrap());
    assert_eq!(found["url"], format!("http://{address}"));
    assert_eq!((&found["started"], &found["pid"]), (&false.into(), &child.0.id().into()));
    let setup = home.ibeam(&format!("setup codex --sim --yes --set port={port}")).output().unwrap();
    assert!(setup.status.success(), "{}", words(&setup));
    let text = fs::read_to_string(home.0.path().join(".codex/config.toml")).unwrap();
    assert!(text.contains(&format!("http://{address}/v1")), "{text}");
    let status = home.ibeam("status --json").output().unwrap();
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(status.as_array().unwrap().len(), 1);
}

/// The rules for addresses in the settings hold for those of sockets.
#[test]
fn socket_that_others_can_reach_needs_a_key() {
    let home = Home::new();
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let address = listener.local_addr().unwrap();
    let again = listener.try_clone().unwrap();
    let output = handed(&home, again, "serve --sim").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = words(&output);
    assert!(
        said.contains(&format!("refusing to listen on {address} without an API key")),
        "{said}"
    );

    let mut command = handed(&home, listener, "serve --sim");
    let mut child = Ended(command.env("IBEAM_API_KEY", watch::CLIENT_KEY).spawn().unwrap());
    let client = connect(SocketAddr::from(([127, 0, 0, 1], address.port())));
    request(&client, &format!("127.0.0.1:{}", address.port()));
    assert!(answer(client).starts_with("HTTP/1.0 401"));
    child.0.kill().unwrap();
}

#[test]
fn unusable_sockets_are_refused() {
    let home = Home::new();
    // One client, as with `Accept=yes`, instead of the listener.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let output = handed(&home, client, "serve --sim").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(words(&output).contains("does not listen"), "{}", words(&output));
    let datagrams = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let output = handed(&home, datagrams, "serve --sim").output().unwrap();
    assert!(words(&output).contains("cannot be served"), "{}", words(&output));
    let file = fs::File::open("/dev/null").unwrap();
    let output = handed(&home, file, "serve --sim").output().unwrap();
    assert!(words(&output).contains("not a socket"), "{}", words(&output));
}

/// What was meant for the process before us is none of our business.
#[test]
fn sockets_of_another_process_are_left_alone() {
    let home = Home::new();
    let mut command = home.ibeam("serve --sim --port 0");
    command.env("LISTEN_PID", "1").env("LISTEN_FDS", "1");
    let server = crate::cli::Server::start(command);
    assert!(server.request("GET /health", "").contains("200 OK"));
}

/// A child must not believe that the socket is its own.
#[test]
fn children_do_not_inherit_the_sockets() {
    let home = Home::new();
    let (script, seen) = (home.0.path().join("cursor-agent"), home.0.path().join("seen"));
    let text = format!("#!/bin/sh\n(env; ls -l /proc/$$/fd) >> {}\nexit 1\n", seen.display());
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let inode =
        fs::read_link(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&listener)));
    let inode = inode.unwrap().display().to_string();
    let mut command = handed(&home, listener, "serve --backend cli --unattended");
    let _child = Ended(command.env("CURSOR_AGENT_BIN", &script).spawn().unwrap());
    let client = connect(address);
    request(&client, &address.to_string());
    assert!(answer(client).starts_with("HTTP/1.0 "));
    let seen = fs::read_to_string(seen).unwrap();
    assert!(seen.contains("IBEAM_RUN="), "{seen}");
    assert!(!seen.contains("LISTEN_") && !seen.contains(&inode), "{seen}");
}

/// The tool that systemd has for it, where it is installed.
#[test]
fn systemd_socket_activate_works() {
    let tool = Path::new("/usr/bin/systemd-socket-activate");
    if !tool.exists() {
        eprintln!("not run: systemd-socket-activate is not installed");
        return;
    }
    let home = Home::new();
    // It takes no port of the system's choice.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut command = Command::new(tool);
    command.args(["--listen", &address.to_string(), "--setenv"]);
    command.arg(format!("HOME={}", home.0.path().display())).arg(watch::program());
    command.args(["serve", "--sim", "--port", "1"]);
    command.env("HOME", home.0.path()).stdout(Stdio::null()).stderr(Stdio::null());
    let _child = Ended(command.spawn().unwrap());
    let steps = PATIENCE.as_millis() / STEP.as_millis();
    let client = (0..steps).find_map(|_| {
        let client = TcpStream::connect(address).ok();
        if client.is_none() {
            pause();
        }
        client
    });
    let client = client.expect("it listens");
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    request(&client, &address.to_string());
    assert!(answer(client).starts_with("HTTP/1.0 200"));
}

#[expect(clippy::disallowed_methods, reason = "another process has no clock of ours")]
fn pause() {
    std::thread::sleep(STEP);
}

/// Starting it again and again would not help; clients get an error that says what does.
#[test]
fn service_without_an_account_reports_it_to_clients() {
    let home = Home::new();
    let server = crate::cli::Server::start(home.ibeam("serve --unattended --port 0"));
    let body = r#"{"model":"auto","messages":[{"role":"user","content":"Hello"}]}"#;
    let answer = server.request("POST /v1/chat/completions", body);
    assert!(answer.contains("not_authenticated") && answer.contains("ibeam login"), "{answer}");
    let log = server.stop();
    assert!(log.contains("you are not signed in to Cursor; run `ibeam login`"), "{log}");
}

#[test]
fn log_file_gets_the_log_lines() {
    let home = Home::new();
    let file = home.0.path().join("logs/ibeam.log");
    let line = format!("serve --sim --port 0 --log-file {}", file.display());
    let log = crate::cli::Server::start(home.ibeam(&line)).stop();
    assert_eq!(log, "");
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("listening on http://127.0.0.1:") && text.contains("stopped"), "{text}");
    // Also why it did not start.
    let line = format!("serve --port 0 --log-file {}", file.display());
    assert_eq!(home.ibeam(&line).output().unwrap().status.code(), Some(1));
    assert!(fs::read_to_string(&file).unwrap().contains("ERROR you are not signed in"));
}

#[test]
fn dry_run_changes_nothing() {
    let home = Home::new();
    let mut command =
        home.ibeam("service install --dry-run --sim --port 4711 --set limits.turns=3");
    command.env("CURSOR_ACCESS_TOKEN", ibeam_sim::Sim::TOKEN).env("PATH", "/usr/bin:/bin");
    let output = command.output().unwrap();
    let (units, said) = (String::from_utf8(output.stdout.clone()).unwrap(), words(&output));
    assert!(output.status.success(), "{said}");
    assert!(units.contains("ListenStream=127.0.0.1:4711\n"), "{units}");
    let command = "serve --unattended --set=limits.turns=3 --port=4711 --idle-exit=30m --sim\n";
    assert!(units.contains(command), "{units}");
    assert!(units.contains("Environment=PATH=/usr/bin:/bin\n"), "{units}");
    assert!(
        said.contains("Would write ") && said.contains("systemctl --user daemon-reload"),
        "{said}"
    );
    assert!(said.contains("CURSOR_ACCESS_TOKEN is set here"), "{said}");
    assert!(!units.contains(ibeam_sim::Sim::TOKEN) && !said.contains(ibeam_sim::Sim::TOKEN));
    assert_eq!(fs::read_dir(home.0.path()).unwrap().count(), 0);
}

/// As in a container, or in a shell of another user's session.
#[test]
fn missing_manager_suggests_alternatives() {
    let home = Home::new();
    let empty = home.0.path().join("bin");
    fs::create_dir(&empty).unwrap();
    let mut command = home.ibeam("service install --sim --port 4711");
    let output = command.env("PATH", &empty).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = words(&output);
    assert!(said.contains("systemd does not manage user services here"), "{said}");
    assert!(said.contains("hint: or start it yourself"), "{said}");
    assert!(!home.0.path().join(".config").exists());
    let output = home.ibeam("service status").env("PATH", &empty).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("not installed"));
}

#[test]
fn unusable_settings_are_refused_before_writing() {
    let home = Home::new();
    for (line, why) in [
        ("service install --sim --port 0", "a fixed port"),
        ("service install --sim --listen unix:here.sock", "the absolute path"),
        ("service install --sim --host 0.0.0.0", "without an API key"),
        ("service install --sim --port x", "not a valid port"),
    ] {
        let output = home.ibeam(line).arg("--dry-run").output().unwrap();
        assert!(!output.status.success(), "{line}");
        assert!(words(&output).contains(why), "{line}: {}", words(&output));
    }
}
