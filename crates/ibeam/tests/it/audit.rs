//! `ibeam audit`: prepared folders, the real command, and the commands that it gives.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::TcpListener,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;

const TOKEN: &str = "tok-7f3a-very-secret";
const HASH: &str = "5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef";

/// A home with a name that a shell must not take apart.
struct Place {
    _room: tempfile::TempDir,
    home: PathBuf,
}

impl Place {
    fn new() -> Self {
        let room = crate::watch::folder();
        // Others get as far as this.
        fs::set_permissions(room.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let home = room.path().join("it's me");
        fs::create_dir(&home).unwrap();
        Self { _room: room, home }
    }

    fn ibeam(&self, line: &str) -> Command {
        let mut command = Command::new(crate::watch::program());
        command.args(line.split_whitespace()).env_clear().env("HOME", &self.home);
        command
    }

    fn audit(&self, line: &str) -> Output {
        self.ibeam(&format!("audit {line}")).output().unwrap()
    }

    fn json(&self, line: &str) -> Value {
        let output = self.audit(&format!("--json {line}"));
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", shown(&output)))
    }

    /// A file of the home, with its folders.
    fn put(&self, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = self.home.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        self.set(name, mode);
        path
    }

    fn set(&self, name: &str, mode: u32) {
        fs::set_permissions(self.home.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }

    /// With a sign-in, a key, and everything used once.
    fn lived_in(&self) {
        let sign_in = format!(
            r#"{{"type":"oauth","access":"{TOKEN}","refresh":"{TOKEN}","expires":4102444800000,
                "account":{{"email":"me@example.com"}}}}"#
        );
        let keys = format!(
            r#"{{"version":1,"keys":[{{"name":"laptop","sha256":"{HASH}","created":1763164800}}]}}"#
        );
        self.put(".config/ibeam/credentials/default.json", &sign_in, 0o600);
        self.put(".config/ibeam/credentials/default.lock", "", 0o600);
        self.put(".config/ibeam/consent.json", r#"{"cli":1763164800}"#, 0o600);
        self.put(".config/ibeam/keys.json", &keys, 0o600);
        self.put(".config/ibeam/keys.lock", "", 0o600);
        self.put(".config/ibeam/config.toml", "api_key = \"key-very-secret\"\n", 0o600);
        self.put(".config/cursor/auth.json", "{}", 0o600);
        self.put(".local/share/opencode/auth.json", "{}", 0o644);
        self.put(".local/state/ibeam/store.db", "", 0o600);
        self.put(".local/state/ibeam/store.db-wal", "", 0o600);
        self.put(".cache/ibeam/models-x.json", "{}", 0o600);
        for folder in [".config/ibeam/credentials", ".config/ibeam", ".local/state/ibeam"] {
            self.set(folder, 0o700);
        }
    }

    /// Every path, with its content and mode.
    fn snapshot(&self) -> BTreeMap<PathBuf, (u32, u64, i64, i64)> {
        let mut out = BTreeMap::new();
        let mut folders = vec![self.home.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                let meta = fs::symlink_metadata(&path).unwrap();
                if meta.is_dir() {
                    folders.push(path.clone());
                }
                out.insert(path, (meta.mode(), meta.len(), meta.ctime(), meta.ctime_nsec()));
            }
        }
        out
    }
}

fn shown(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

fn names(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

fn line<'a>(report: &'a Value, end: &str) -> &'a Value {
    let files = report["files"].as_array().unwrap();
    let mut lines = files.iter().filter(|file| file["path"].as_str().unwrap().ends_with(end));
    let found = lines.next().unwrap_or_else(|| panic!("{end} is not listed: {report:#}"));
    assert!(lines.next().is_none(), "{end} is listed twice");
    found
}

#[test]
fn new_machine_has_no_problem_and_no_file_is_created() {
    let place = Place::new();
    let output = place.audit("");
    let text = shown(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(output.stderr.is_empty() && text.ends_with("No problems found.\n"), "{text}");
    for words in [
        "127.0.0.1:18741",
        "https://api2.cursor.sh",
        "https://cursor.com",
        "ibeam runs no tool",
        "store.db",
        "keys.json",
        "config.toml",
        "not signed in",
    ] {
        assert!(text.contains(words), "{words} is missing: {text}");
    }
    assert!(!text.contains('\u{1b}'), "colours are for terminals");
    assert_eq!(place.snapshot(), BTreeMap::new());
}

#[test]
fn audit_shows_no_secret_and_changes_nothing() {
    let place = Place::new();
    place.lived_in();
    let before = place.snapshot();
    let backend = TcpListener::bind("127.0.0.1:0").unwrap();
    backend.set_nonblocking(true).unwrap();
    let url = format!("--api-url http://{}", backend.local_addr().unwrap());
    let page = place.audit(&url);
    assert_eq!(page.status.code(), Some(0), "{}", shown(&page));
    let report = place.json(&url);
    assert_eq!(place.snapshot(), before);
    assert!(backend.accept().is_err(), "an audit calls nobody");

    for text in [shown(&page), report.to_string()] {
        for secret in [TOKEN, HASH, "key-very-secret"] {
            assert!(!text.contains(secret), "{text}");
        }
        for words in ["laptop", "me@example.com", "profile `default`", "ibeam/config.toml"] {
            assert!(text.contains(words), "{words} is missing: {text}");
        }
    }
    assert_eq!(report["keys"]["count"], 1);
    assert_eq!(report["keys"]["list"][0]["created"], 1_763_164_800);
    assert_eq!(report["credential"]["expires"], 4_102_444_800_u64);
    assert_eq!(report["credential"]["renewable"], true);
    assert_eq!(report["listener"]["key_needed"], true);
    assert_eq!(line(&report, "credentials/default.json")["mode"], "0600");
    assert_eq!(line(&report, "credentials/default.json")["owner"], "you");
    assert_eq!(line(&report, ".config/cursor/auth.json")["consent"], true);
    assert_eq!(line(&report, "opencode/auth.json")["consent"], false);
    assert_eq!(line(&report, "keys.json")["consent"], Value::Null);
}

#[test]
fn json_report_has_stable_fields() {
    let place = Place::new();
    place.lived_in();
    place.set(".config/ibeam/keys.json", 0o640);
    let report = place.json("");
    let expect = [
        (
            "",
            "version ok problems notes listener keys credential backend hosts allowed cursor_agent files",
        ),
        ("/problems/0", "what fix"),
        (
            "/listener",
            "address also unix local tls key_needed open_paths hosts any_address origins",
        ),
        ("/keys", "setting count list"),
        ("/credential", "source profile email sub expires renewable unused"),
        ("/hosts/0", "origin by purpose proxy"),
        ("/allowed", "web_search web_fetch native_tools mcp"),
        ("/files/0", "path what purpose there mode owner consent problem"),
    ];
    for (at, fields) in expect {
        let value = report.pointer(at).unwrap_or_else(|| panic!("{at}: {report:#}"));
        assert_eq!(names(value), fields.split(' ').collect(), "{at}");
    }
    assert_eq!(report["ok"], false);
    assert_eq!(report["backend"], "agent");
    assert_eq!(line(&report, "keys.json")["problem"], report["problems"][0]);
}

/// Each thing that may go wrong with a file: found, and fixed by the command that is
/// given.
#[test]
fn suggested_commands_fix_exposed_files() {
    let place = Place::new();
    place.lived_in();
    assert_eq!(place.audit("").status.code(), Some(0));
    for (name, mode) in [
        (".config/ibeam/credentials/default.json", 0o644),
        (".config/ibeam/credentials/default.lock", 0o666),
        (".config/ibeam/credentials", 0o755),
        (".config/ibeam/consent.json", 0o604),
        (".config/ibeam/keys.json", 0o640),
        (".config/ibeam/keys.lock", 0o606),
        (".config/ibeam/config.toml", 0o644),
        (".config/ibeam", 0o777),
        (".config", 0o777),
        (".local/state/ibeam/store.db", 0o644),
        (".local/state/ibeam/store.db-wal", 0o644),
        (".local/state/ibeam", 0o707),
        (".cache/ibeam/models-x.json", 0o646),
        (".config/cursor/auth.json", 0o644),
    ] {
        let usual = fs::metadata(place.home.join(name)).unwrap().permissions();
        place.set(name, mode);
        let output = place.audit("");
        let text = shown(&output);
        assert_eq!(output.status.code(), Some(1), "{name}: {text}");
        assert!(text.contains("problem: other users can "), "{name}: {text}");
        let fix = text.lines().find_map(|line| line.trim().strip_prefix("fix: "));
        let fix = fix.unwrap_or_else(|| panic!("{name}: {text}"));
        assert!(fix.starts_with("chmod ") && fix.contains(r"it'\''s me"), "{fix}");
        assert!(Command::new("sh").args(["-c", fix]).status().unwrap().success(), "{fix}");
        let output = place.audit("");
        assert_eq!(output.status.code(), Some(0), "{name} after {fix}: {}", shown(&output));
        fs::set_permissions(place.home.join(name), usual).unwrap();
    }
}

#[test]
fn symbolic_link_in_place_of_a_sign_in_is_found() {
    let place = Place::new();
    place.lived_in();
    let path = place.home.join(".config/ibeam/credentials/default.json");
    fs::rename(&path, place.home.join("elsewhere.json")).unwrap();
    std::os::unix::fs::symlink(place.home.join("elsewhere.json"), &path).unwrap();
    let output = place.audit("");
    assert_eq!(output.status.code(), Some(1));
    assert!(shown(&output).contains("is a symbolic link"), "{}", shown(&output));
}

#[test]
fn listener_is_judged_before_it_is_opened() {
    let place = Place::new();
    let output = place.audit("--host 0.0.0.0");
    assert_eq!(output.status.code(), Some(1));
    assert!(shown(&output).contains("fix: ibeam keys add NAME"), "{}", shown(&output));
    assert!(place.ibeam("keys add laptop").output().unwrap().status.success());
    let report = place.json("--host 0.0.0.0 --set hosts=box.lan");
    assert_eq!(report["ok"], true, "{report:#}");
    assert_eq!(report["listener"]["hosts"][2], "box.lan");
    assert_eq!(report["listener"]["address"], "0.0.0.0:18741");

    let folder = crate::watch::folder();
    let pem = |name: &str, mode: u32| {
        let path = folder.path().join(name);
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path.display().to_string()
    };
    let tls = format!("--tls-cert {} --tls-key {}", pem("c.pem", 0o644), pem("k.pem", 0o644));
    let report = place.json(&tls);
    assert_eq!(report["listener"]["tls"], true);
    let fix = report["problems"][0]["fix"].as_str().unwrap();
    assert!(fix.starts_with("chmod g-w,o-rwx ") && fix.ends_with("k.pem"), "{fix}");

    let socket = folder.path().join("ibeam.sock");
    let report = place.json(&format!("--listen unix:{} --sim", socket.display()));
    assert_eq!((&report["listener"]["unix"], &report["ok"]), (&true.into(), &true.into()));
    assert_eq!(line(&report, "ibeam.sock")["there"], false);
    assert_eq!((&report["backend"], &report["hosts"]), (&"sim".into(), &Value::Array(vec![])));
}

#[test]
fn proxy_is_named_without_its_password() {
    let place = Place::new();
    let mut command = place.ibeam("audit");
    let output = command.env("HTTPS_PROXY", "http://me:hunter2@proxy.test:3128").output().unwrap();
    let text = shown(&output);
    assert!(text.contains("through http://proxy.test:3128") && !text.contains("hunter2"), "{text}");
}

#[test]
fn secret_on_the_command_line_is_refused() {
    let place = Place::new();
    let output = place.ibeam("audit --set access_token=very-secret").output().unwrap();
    let text = shown(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("IBEAM_ACCESS_TOKEN") && !text.contains("very-secret"), "{text}");
    assert!(!Path::new(&place.home).join(".config").exists());
}

/// It is shown, and not started.
#[test]
fn cursor_cli_is_shown_with_its_permissions() {
    let place = Place::new();
    let agent = place.put(".local/bin/cursor-agent", "#!/bin/sh\n: > \"$HOME/ran\"\n", 0o755);
    let report = place.json("--backend cli");
    let child = &report["cursor_agent"];
    assert_eq!(child["program"], agent.display().to_string(), "{report}");
    assert_eq!((&child["own_tools"], &child["children"]), (&false.into(), &8.into()));
    assert_eq!(report["backend"], "cli");
    // It calls Cursor, and has its own sign-in.
    assert_eq!(report["hosts"].as_array().unwrap().len(), 0, "{report}");
    assert_eq!(report["credential"]["source"], "`cursor-agent` itself");
    assert!(!place.home.join("ran").exists());
    let page = place.audit("--backend acp --set cursor_agent.own_tools=true");
    let page = String::from_utf8(page.stdout).unwrap();
    assert!(page.contains("on: it may run commands") && page.contains("note"), "{page}");
    // There is no sign-in here, so that it would be asked.
    assert_eq!(place.json("")["cursor_agent"]["program"], child["program"]);
    assert!(place.json("--backend agent")["cursor_agent"].is_null());
    assert!(place.json("--sim")["cursor_agent"].is_null());
    assert_eq!(place.json("--sim --backend cli")["cursor_agent"]["simulated"], true);
}

#[test]
fn unusable_program_is_a_problem() {
    let place = Place::new();
    let text = place.put("cursor-agent", "no program", 0o644);
    let mut command = place.ibeam("audit --json --backend cli");
    let output = command.env("CURSOR_AGENT_BIN", text).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", shown(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let problem = &report["problems"][0];
    assert!(problem["what"].as_str().unwrap().contains("`cursor_agent.bin`"), "{report}");
}
