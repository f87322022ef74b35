//! The binary and a real Secret Service: GNOME Keyring on a message bus of its own, and
//! libsecret's `secret-tool` to see what is in it.

use std::{
    ffi::OsStr,
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::Value;

/// How the service is started, by the bus and on the first call.
#[derive(Clone, Copy)]
enum Service {
    None,
    Unlocked,
    /// With a keyring that is not unlocked.
    Locked,
}

/// A user who is logged in, and the simulator that stands for Cursor.
struct Desk {
    home: tempfile::TempDir,
    running: Vec<Child>,
    bus: String,
    url: String,
}

impl Desk {
    fn new() -> Self {
        let home = crate::watch::folder();
        let mut desk = Self { home, running: Vec::new(), bus: String::new(), url: String::new() };
        desk.url = desk.start(&mut desk.command(crate::watch::program(), &["sim", "--any-token"]));
        desk
    }

    /// Logs in again: another bus, another service, the same home.
    fn log_in(&mut self, service: Service) {
        let home = self.home.path().to_owned();
        let services = home.join("services");
        let _ = fs::remove_dir_all(&services);
        fs::create_dir_all(&services).unwrap();
        fs::create_dir_all(home.join("run")).unwrap();
        let daemon = "gnome-keyring-daemon --foreground --components=secrets";
        let script = match service {
            Service::None => None,
            Service::Unlocked => Some(format!("printf secret | exec {daemon} --unlock")),
            Service::Locked => Some(format!("exec {daemon}")),
        };
        if let Some(script) = script {
            let script = format!("#!/bin/sh\n{script}\n");
            let program = home.join("keyring.sh");
            fs::write(&program, script).unwrap();
            let text = format!(
                "[D-BUS Service]\nName=org.freedesktop.secrets\nExec=/bin/sh {}\n",
                program.display()
            );
            fs::write(services.join("org.freedesktop.secrets.service"), text).unwrap();
        }
        let socket = home.join(format!("bus{}", self.running.len()));
        let config = format!(
            "<busconfig><type>session</type><listen>unix:path={}</listen>\
             <servicedir>{}</servicedir><policy context=\"default\">\
             <allow send_destination=\"*\" eavesdrop=\"true\"/><allow eavesdrop=\"true\"/>\
             <allow own=\"*\"/></policy></busconfig>",
            socket.display(),
            services.display()
        );
        let file = home.join("bus.conf");
        fs::write(&file, config).unwrap();
        let file = format!("--config-file={}", file.display());
        let arguments = [file.as_str(), "--nofork", "--print-address"];
        self.bus = self.start(&mut self.command("dbus-daemon", &arguments));
    }

    /// Runs for as long as the desk is there. Its first line says that it is ready.
    fn start(&mut self, command: &mut Command) -> String {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        self.running.push(child);
        line.trim().to_owned()
    }

    fn command(&self, program: impl AsRef<OsStr>, arguments: &[&str]) -> Command {
        let home = self.home.path();
        let mut command = Command::new(program);
        command.args(arguments).env_clear().env("HOME", home).stdin(Stdio::null());
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("CURSOR_API_URL", &self.url);
        command.env("XDG_RUNTIME_DIR", home.join("run"));
        if !self.bus.is_empty() {
            command.env("DBUS_SESSION_BUS_ADDRESS", &self.bus);
        }
        command
    }

    fn ibeam(&self, keep: &str, line: &str) -> Command {
        let arguments: Vec<&str> = line.split_whitespace().collect();
        let mut command = self.command(crate::watch::program(), &arguments);
        command.env("IBEAM_CREDENTIALS", keep);
        command
    }

    fn run(&self, keep: &str, line: &str) -> Output {
        self.ibeam(keep, line).output().unwrap()
    }

    /// What must go well, and what it says.
    fn done(&self, keep: &str, line: &str) -> String {
        let output = self.run(keep, line);
        assert!(output.status.success(), "{line}: {}", words(&output));
        words(&output)
    }

    /// What must not, and why it did not.
    fn refused(&self, keep: &str, line: &str) -> String {
        let output = self.run(keep, line);
        assert_eq!(output.status.code(), Some(1), "{line}: {}", words(&output));
        words(&output)
    }

    fn who(&self) -> Value {
        let output = self.run("file", "whoami --json");
        assert!(output.status.success(), "{}", words(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// What others find in the keychain.
    fn item(&self) -> Option<Value> {
        let arguments = ["lookup", "service", "ibeam", "username", "default"];
        let output = self.command("secret-tool", &arguments).output().unwrap();
        output.status.success().then(|| serde_json::from_slice(&output.stdout).unwrap())
    }

    fn access(&self) -> Option<String> {
        Some(self.item()?["access"].as_str()?.to_owned())
    }

    /// How many times the simulator was asked to.
    fn refreshes(&self) -> u64 {
        let address = self.url.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        let head =
            format!("GET /sim/stats HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let stats: Value = serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap();
        stats["refreshes"].as_u64().unwrap()
    }

    fn credentials(&self) -> PathBuf {
        self.home.path().join(".config/ibeam/credentials/default.json")
    }

    fn file(&self) -> Value {
        serde_json::from_str(&fs::read_to_string(self.credentials()).unwrap()).unwrap()
    }
}

impl Drop for Desk {
    /// The service ends with its bus.
    fn drop(&mut self) {
        for child in &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn words(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Whether any file below has the text in it.
fn somewhere(folder: &Path, text: &str) -> bool {
    fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        let here = || {
            let bytes = fs::read(&path).unwrap_or_default();
            bytes.windows(text.len()).any(|window| window == text.as_bytes())
        };
        if path.is_dir() { somewhere(&path, text) } else { path.is_file() && here() }
    })
}

#[test]
#[ignore = "needs GNOME Keyring: cargo xtask test --only keychain"]
fn real_keychain_from_login_to_logout() {
    let mut desk = Desk::new();
    desk.log_in(Service::Unlocked);

    // Stored, and visible to another program.
    let told = desk.done("keychain", "login --no-browser");
    assert!(told.contains("Signed in as auth0|user_sim"), "{told}");
    let access = desk.access().expect("libsecret finds it");
    assert_eq!(desk.file()["secrets"], "keychain");
    assert!(!somewhere(desk.home.path(), &access), "no file has it, the keyring's own included");
    assert_eq!(desk.who()["account"]["sub"], "auth0|user_sim");

    // To the file and back.
    let told = desk.done("file", "login --no-browser");
    assert!(told.contains("moved from the keychain to ibeam's file"), "{told}");
    assert_eq!(desk.item(), None);
    let access = desk.file()["access"].as_str().unwrap().to_owned();
    assert!(somewhere(desk.home.path(), &access));
    let told = desk.done("keychain", "login --no-browser");
    assert!(told.contains("moved from ibeam's file to the keychain"), "{told}");
    assert!(!somewhere(desk.home.path(), &access));
    assert!(!somewhere(desk.home.path(), &desk.access().unwrap()));

    // A new service, as after a restart, has it still.
    desk.log_in(Service::Unlocked);
    assert_eq!(desk.who()["account"]["sub"], "auth0|user_sim");

    // Out.
    let told = desk.done("file", "logout");
    assert!(told.contains("Signed out"), "{told}");
    assert!(desk.item().is_none() && !desk.credentials().exists());
    assert!(desk.done("keychain", "logout").contains("Not signed in"));
}

#[test]
#[ignore = "needs GNOME Keyring: cargo xtask test --only keychain"]
fn processes_with_an_expired_token_in_a_real_keychain_refresh_it_once() {
    let mut desk = Desk::new();
    desk.log_in(Service::Unlocked);
    desk.done("keychain", "login --no-browser");
    let claims = r#"{"sub":"auth0|user_1","iat":1700000000,"exp":1700003600,"type":"session"}"#;
    let old = format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims));
    let text = format!(r#"{{"access":"{old}","refresh":"{old}"}}"#);
    let planted = desk.home.path().join("planted");
    fs::write(&planted, text).unwrap();
    let arguments = ["clear", "service", "ibeam", "username", "default"];
    assert!(desk.command("secret-tool", &arguments).status().unwrap().success());
    let arguments = ["store", "--label=ibeam", "service", "ibeam", "username", "default"];
    let mut store = desk.command("secret-tool", &arguments);
    assert!(store.stdin(fs::File::open(planted).unwrap()).status().unwrap().success());

    let start = || {
        let mut command = desk.ibeam("keychain", "whoami --json");
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let crowd: Vec<Child> = (0..20).map(|_| start()).collect();
    for child in crowd {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", words(&output));
        let who: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(who["expires"], 4_102_444_800_u64, "all have the new one");
    }
    let item = desk.item().unwrap();
    assert_ne!(item["access"], old);
    assert_eq!(desk.refreshes(), 1);
}

#[test]
#[ignore = "needs GNOME Keyring: cargo xtask test --only keychain"]
fn unusable_keychain_is_reported_and_the_file_is_used() {
    let mut desk = Desk::new();
    let otherwise = "use a file instead: `IBEAM_CREDENTIALS=file ibeam login`";

    // Neither a bus nor a service on it: known before the browser opens.
    for service in [None, Some(Service::None)] {
        if let Some(service) = service {
            desk.log_in(service);
        }
        let told = desk.refused("keychain", "login --no-browser");
        assert!(told.contains("no keychain is available here"), "{told}");
        assert!(told.contains(otherwise) && !told.contains("loginDeepControl"), "{told}");
    }
    desk.done("file", "login --no-browser");
    assert_eq!(desk.who()["account"]["sub"], "auth0|user_sim", "and a file needs none");

    // What is in the file stays there.
    let before = fs::read(desk.credentials()).unwrap();
    desk.refused("keychain", "login --no-browser");
    assert_eq!(fs::read(desk.credentials()).unwrap(), before);

    // A keyring that is locked, where nothing can ask for its password.
    desk.log_in(Service::Unlocked);
    desk.done("keychain", "login --no-browser");
    desk.log_in(Service::Locked);
    let told = desk.refused("keychain", "whoami");
    assert!(told.contains("the keychain cannot be opened") && told.contains(otherwise), "{told}");
    let told = desk.refused("keychain", "login --no-browser");
    assert!(told.contains("the keychain cannot be opened"), "{told}");
    desk.log_in(Service::Unlocked);
    assert_eq!(desk.who()["account"]["sub"], "auth0|user_sim");
}
