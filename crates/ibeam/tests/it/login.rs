//! Signing in and out with the binary, against the simulator in a process of its own.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::PathBuf,
    process::{Child, ChildStderr, Command, Output, Stdio},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ibeam_sim::Sim;
use serde_json::Value;

/// A user's home, and the simulator that stands for Cursor.
struct World {
    home: tempfile::TempDir,
    sim: Child,
    url: String,
}

impl World {
    fn new(flags: &str) -> Self {
        let home = crate::watch::folder();
        let mut sim = Command::new(crate::watch::program())
            .args(format!("sim {flags}").split_whitespace())
            .env_clear()
            .env("HOME", home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut url = String::new();
        BufReader::new(sim.stdout.take().unwrap()).read_line(&mut url).unwrap();
        Self { home, sim, url: url.trim().to_owned() }
    }

    fn ibeam(&self, line: &str) -> Command {
        let mut command = Command::new(crate::watch::program());
        command.args(line.split_whitespace()).env_clear().env("HOME", self.home.path());
        command.env("CURSOR_API_URL", &self.url).stdin(Stdio::null());
        command
    }

    fn run(&self, line: &str) -> Output {
        self.ibeam(line).output().unwrap()
    }

    fn get(&self, path: &str) -> String {
        self.ask("GET", path, "")
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> String {
        let address = self.url.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
             content-length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Presses a button of the page at this path.
    fn press(&self, button: &str, path: &str) -> String {
        let (page, query) = path.split_once('?').unwrap();
        self.ask("POST", page, &format!("{query}&decision={button}"))
    }

    fn credentials(&self) -> PathBuf {
        self.home.path().join(".config/ibeam/credentials/default.json")
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.home.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.sim.kill();
        let _ = self.sim.wait();
    }
}

fn words(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A login that waits, and the path of its link.
fn waiting(world: &World, line: &str) -> (Child, BufReader<ChildStderr>, String) {
    let mut command = world.ibeam(line);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let path = link(&mut lines, &world.url);
    (child, lines, path)
}

fn link(lines: &mut BufReader<ChildStderr>, site: &str) -> String {
    let mut line = String::new();
    while !line.trim().starts_with(site) {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "no link was shown");
    }
    line.trim().strip_prefix(site).unwrap().to_owned()
}

#[test]
fn from_login_to_logout() {
    let world = World::new("");
    let login = world.run("login --no-browser");
    assert!(login.status.success(), "{}", words(&login));
    let told = words(&login);
    assert!(told.contains(&format!("{}/loginDeepControl?challenge=", world.url)), "{told}");
    assert!(told.contains("Waiting for you to sign in, 23:"), "{told}");
    assert!(told.contains("Signed in as auth0|user_sim (pro)."), "{told}");
    assert!(told.contains("Next: `ibeam up`"), "{told}");
    assert!(!told.contains('\x1b'), "plain lines where there is no terminal: {told}");
    assert!(login.stdout.is_empty());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode =
            |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&world.credentials()), 0o600);
        assert_eq!(mode(world.credentials().parent().unwrap()), 0o700);
    }

    let who = world.run("whoami --json");
    assert!(who.status.success(), "{}", words(&who));
    let who = json(&who);
    assert_eq!(who["account"]["sub"], "auth0|user_sim");
    assert_eq!(who["plan"], "pro");
    assert_eq!(who["expires"], 4_102_444_800_u64);
    assert_eq!(who["source"], "profile `default`");
    assert_eq!(who["backends"][0], "agent");
    let table = String::from_utf8(world.run("whoami").stdout).unwrap();
    assert!(table.contains("Plan      pro") && table.contains("days"), "{table}");

    let models = world.run("models");
    assert!(models.status.success(), "{}", words(&models));
    // Another profile is another account.
    let other = world.run("whoami --profile work");
    assert_eq!(other.status.code(), Some(1));
    assert!(words(&other).contains("ibeam login --profile work"), "{}", words(&other));

    let logout = world.run("logout");
    assert!(logout.status.success() && words(&logout).contains("Signed out"));
    assert!(!world.credentials().exists());
    let who = world.run("whoami --json");
    assert_eq!(who.status.code(), Some(1));
    assert_eq!(json(&who)["signed_in"], false);
    assert!(words(&who).contains("run `ibeam login`"), "{}", words(&who));
    let up = world.run("up --port 0");
    assert_eq!(up.status.code(), Some(1), "there is nobody to ask");
    assert!(words(&up).contains("run `ibeam login`"), "{}", words(&up));
    assert!(words(&world.run("logout")).contains("Not signed in"));
}

#[test]
fn the_page_completes_the_login() {
    let world = World::new("--login-page");
    let (child, _lines, path) = waiting(&world, "login --no-browser --json");
    assert!(world.get(&path).contains("wants to sign in"));
    assert!(world.press("allow", &path).contains("Signed in to the simulator"));
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    // For programs: one event a line, the link before anything else.
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert_eq!(lines[0]["event"], "link");
    assert_eq!(lines[0]["url"], format!("{}{path}", world.url));
    assert!(lines[0]["expires_in"].as_u64().is_some_and(|seconds| seconds > 1300), "{text}");
    assert_eq!(lines[1]["event"], "signed_in");
    assert_eq!(lines[1]["account"]["account"]["sub"], "auth0|user_sim");
}

#[test]
fn api_key_signs_in_and_is_never_printed() {
    let world = World::new("");
    let with = |key: &str| {
        let mut command = world.ibeam("login --api-key-stdin");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(key.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    };
    let wrong = with("crsr_wrong\n");
    assert_eq!(wrong.status.code(), Some(1));
    let told = words(&wrong);
    assert!(told.contains("error: Cursor rejected this API key"), "{told}");
    assert!(!told.contains("crsr_wrong") && !world.credentials().exists(), "{told}");
    let empty = with("");
    assert!(words(&empty).contains("standard input holds no API key"), "{}", words(&empty));

    let right = with(&format!("{}\n", Sim::API_KEY));
    assert!(right.status.success(), "{}", words(&right));
    let told = words(&right);
    assert!(told.contains("Signed in as auth0|user_sim") && !told.contains(Sim::API_KEY), "{told}");
    let kept: Value = serde_json::from_slice(&std::fs::read(world.credentials()).unwrap()).unwrap();
    assert_eq!(kept["apiKey"], Sim::API_KEY);
    assert!(kept["access"].is_string());
    assert!(world.run("models").status.success());
}

#[test]
fn refused_or_expired_login_has_a_hint() {
    let world = World::new("--login-page");
    let (mut child, mut lines, path) = waiting(&world, "login --no-browser");
    assert!(world.press("deny", &path).contains("Refused"));
    let mut told = String::new();
    lines.read_to_string(&mut told).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(told.contains("error: Cursor does not allow this sign-in: Your team does"), "{told}");
    assert!(told.contains("hint: ask the administrator"), "{told}");

    let late = world.run("login --no-browser --profile work --set clocks.login=1500ms");
    assert_eq!(late.status.code(), Some(1));
    let told = words(&late);
    assert!(told.contains("Waiting for you to sign in, 0:02 left."), "{told}");
    assert!(told.contains("error: the sign-in was not completed in time"), "{told}");
    assert!(told.contains("hint: run `ibeam login --profile work` again"), "{told}");
    assert!(!world.credentials().parent().unwrap().exists(), "nothing was kept");
}

#[cfg(unix)]
#[test]
fn interrupted_login_leaves_nothing_behind() {
    let world = World::new("--login-page");
    let (mut child, mut lines, _) = waiting(&world, "login --no-browser");
    let mut line = String::new();
    while !line.contains("Waiting") {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0);
    }
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("the sign-in was stopped"), "{rest}");
    assert!(!world.credentials().exists());
}

#[test]
fn the_sign_in_of_another_program_needs_consent_once() {
    let world = World::new("");
    let token = Sim::TOKEN;
    let theirs = format!(r#"{{"accessToken":"{token}","refreshToken":"{token}"}}"#);
    world.write(".config/cursor/auth.json", &theirs);
    let who = world.run("whoami");
    assert_eq!(who.status.code(), Some(1));
    assert!(words(&who).contains("ibeam login --use cli"), "{}", words(&who));

    let login = world.run("login --use cli");
    assert!(login.status.success(), "{}", words(&login));
    assert!(words(&login).contains("Signed in as auth0|user_sim"), "{}", words(&login));
    let who = json(&world.run("whoami --json"));
    assert!(who["source"].as_str().unwrap().starts_with("Cursor CLI"), "{who}");
    assert!(!world.credentials().exists(), "it is read where it is");
    let ide = world.run("login --use ide");
    assert_eq!(ide.status.code(), Some(1), "it has nothing to offer, whatever goes before it");
    world.write(
        ".local/share/opencode/auth.json",
        &format!(
            r#"{{"cursor":{{"type":"oauth","access":"{token}","refresh":"{token}","expires":0}}}}"#
        ),
    );
    let second = world.run("login --use opencode");
    let said = words(&second);
    assert!(second.status.success() && said.contains("Cursor CLI"), "{said}");
    assert!(said.contains("takes precedence"), "{said}");

    assert!(words(&world.run("logout")).contains("no longer reads"));
    assert_eq!(world.run("whoami").status.code(), Some(1));
    let path = world.home.path().join(".config/cursor/auth.json");
    assert_eq!(std::fs::read_to_string(path).unwrap(), theirs, "never written");
    let ide = world.run("login --use ide");
    assert_eq!(ide.status.code(), Some(1));
    assert!(words(&ide).contains("not signed in to the Cursor IDE"), "{}", words(&ide));
    assert_eq!(world.run("login --use nonsense").status.code(), Some(2));
}

#[test]
fn an_api_key_is_exchanged() {
    let world = World::new("");
    let who = world.ibeam("whoami --json").env("CURSOR_API_KEY", Sim::API_KEY).output();
    let who = who.unwrap();
    assert!(who.status.success(), "{}", words(&who));
    assert_eq!(json(&who)["source"], "CURSOR_API_KEY");
    let bad = world.ibeam("whoami").env("CURSOR_API_KEY", "crsr_not_this_one").output().unwrap();
    assert_eq!(bad.status.code(), Some(1));
    assert!(words(&bad).contains("refused the API key"), "{}", words(&bad));
    assert!(!words(&bad).contains("crsr_not_this_one"));
}

#[test]
fn fifty_processes_with_an_expired_token_refresh_it_once() {
    let world = World::new("--any-token");
    let claims = r#"{"sub":"auth0|user_1","iat":1700000000,"exp":1700003600,"type":"session"}"#;
    let old = format!("e30.{}.{}", URL_SAFE_NO_PAD.encode(claims), Sim::SIGNATURE);
    let text = format!(r#"{{"type":"oauth","access":"{old}","refresh":"{old}"}}"#);
    world.write(".config/ibeam/credentials/default.json", &text);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let path = world.credentials();
        let only_me = |path: &std::path::Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        only_me(&path, 0o600);
        only_me(path.parent().unwrap(), 0o700);
    }
    let start = || {
        let mut command = world.ibeam("whoami --json");
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let crowd: Vec<Child> = (0..50).map(|_| start()).collect();
    for child in crowd {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", words(&output));
        assert_eq!(json(&output)["expires"], 4_102_444_800_u64, "all have the new one");
    }
    let stats = world.get("/sim/stats");
    let stats: Value = serde_json::from_str(stats.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    assert_eq!(stats["refreshes"], 1, "{stats}");
}
