//! `ibeam setup` and `ibeam undo`: the program itself, with a gateway beside it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;

use crate::cli::{Home, Server};

struct Desk {
    home: Home,
    gateway: Server,
}

impl Desk {
    fn new() -> Self {
        let home = Home::new();
        let gateway = Server::start(home.ibeam("serve --sim --port 0"));
        Self { home, gateway }
    }

    /// With the flags that lead to the gateway of this desk.
    fn command(&self, line: &str) -> Command {
        let port = self.gateway.url.rsplit_once(':').unwrap().1;
        self.home.ibeam(&format!("{line} --set port={port}"))
    }

    fn run(&self, line: &str) -> Output {
        self.command(line).output().unwrap()
    }

    fn settings(&self) -> PathBuf {
        self.home.0.path().join(".claude/settings.json")
    }
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

const MINE: &str = "{\r\n\t\"theme\": \"dark\"\r\n}\r\n";

#[test]
fn client_is_set_up_tested_and_undone() {
    let desk = Desk::new();
    put(&desk.settings(), MINE);
    for (client, path) in [
        ("claude", desk.settings()),
        ("codex", desk.home.0.path().join(".codex/config.toml")),
        ("opencode", desk.home.0.path().join(".config/opencode/opencode.json")),
    ] {
        let before = fs::read(&path).ok();
        let done = desk.run(&format!("setup {client} --sim --yes"));
        let said = words(&done);
        assert!(done.status.success(), "{said}");
        assert!(said.contains("the gateway streams an answer and a tool call"), "{said}");
        assert!(said.contains(&format!("+++ {}", path.display())), "{said}");
        // The plugin of OpenCode asks for the address, and checks who is there.
        let fixed = client != "opencode";
        assert_eq!(said.contains("any other user of this machine can take that port"), fixed);
        assert_eq!(
            said.contains("`ibeam service install --sim` reserves the port"),
            fixed,
            "{said}"
        );
        let after = fs::read(&path).unwrap();
        assert_ne!(Some(&after), before.as_ref());

        let again = desk.run(&format!("setup {client} --sim --yes --json"));
        let report: Value = serde_json::from_slice(&again.stdout).unwrap();
        assert_eq!((&report["changed"], &report["verified"]), (&false.into(), &true.into()));
        assert_eq!(fs::read(&path).unwrap(), after);

        let refused = desk.run(&format!("undo {client}"));
        assert!(!refused.status.success() && words(&refused).contains("--yes"));
        assert_eq!(fs::read(&path).unwrap(), after);
        let undone = desk.run(&format!("undo {client} --yes"));
        assert!(undone.status.success(), "{}", words(&undone));
        assert!(words(&undone).contains("is as it was before"), "{}", words(&undone));
        assert_eq!(fs::read(&path).ok(), before, "{client}");
        let nothing = desk.run(&format!("undo {client}"));
        assert!(!nothing.status.success() && words(&nothing).contains("is not set up"));
    }
    assert!(!desk.home.0.path().join(".codex").exists());
    assert!(!desk.home.0.path().join(".config/opencode").exists());
}

#[test]
fn nothing_is_written_without_consent() {
    let desk = Desk::new();
    put(&desk.settings(), MINE);
    let dry = desk.run("setup claude-code --sim --dry-run");
    let diff = String::from_utf8(dry.stdout).unwrap();
    assert!(diff.contains("+\t\t\"ANTHROPIC_BASE_URL\": \"http://127.0.0.1:"), "{diff}");
    // There is no terminal to confirm on.
    let refused = desk.run("setup claude-code --sim");
    assert!(!refused.status.success());
    assert!(words(&refused).contains("--yes"), "{}", words(&refused));
    put(&desk.settings(), "{ not json");
    let refused = desk.run("setup claude-code --sim --yes");
    assert!(!refused.status.success());
    assert!(words(&refused).contains("line 1"), "{}", words(&refused));
    assert_eq!(fs::read_to_string(desk.settings()).unwrap(), "{ not json");
    // Claude Code would drop the whole file.
    put(&desk.settings(), "{\n  // mine\n  \"theme\": \"dark\"\n}\n");
    let refused = desk.run("setup claude-code --sim --yes");
    assert!(!refused.status.success());
    assert!(words(&refused).contains("plain JSON"), "{}", words(&refused));
    let unknown = desk.run("setup codex --sim --yes --model gpt-5.55");
    assert_eq!(unknown.status.code(), Some(2), "{}", words(&unknown));
    assert!(words(&unknown).contains("did you mean `gpt-5"), "{}", words(&unknown));
    assert!(!desk.home.0.path().join(".codex").exists());
    let unknown = desk.run("setup claud-code");
    assert_eq!(unknown.status.code(), Some(2));
    assert!(words(&unknown).contains("did you mean `claude-code`"), "{}", words(&unknown));
}

/// Where keys are in use, the client gets one of its own, and it is nowhere else.
#[test]
fn key_is_created_and_revoked() {
    let home = Home::new();
    let added = home.ibeam("keys add other").output().unwrap();
    let other = String::from_utf8(added.stdout).unwrap().trim().to_owned();
    let gateway = Server::start(home.ibeam("serve --sim --port 0"));
    let desk = Desk { home, gateway };
    let names = || {
        let list = desk.run("keys list --json");
        let list: Value = serde_json::from_slice(&list.stdout).unwrap();
        let names =
            list.as_array().unwrap().iter().map(|key| key["name"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    let mut setup = desk.command("setup claude-code --sim --yes");
    let done = setup.env("IBEAM_API_KEY", &other).output().unwrap();
    assert!(done.status.success(), "{}", words(&done));
    assert_eq!(names(), ["other", "claude-code"]);
    let settings: Value = serde_json::from_slice(&fs::read(desk.settings()).unwrap()).unwrap();
    let key = settings["env"]["ANTHROPIC_AUTH_TOKEN"].as_str().unwrap().to_owned();
    assert!(key.starts_with("ibk_") && key != other);
    assert!(!words(&done).contains(&key), "the diff shows the key");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::metadata(desk.settings()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    let again = setup.output().unwrap();
    assert!(words(&again).contains("already"), "{}", words(&again));
    assert_eq!(names().len(), 2);
    assert!(desk.run("undo claude-code --yes").status.success());
    assert_eq!(names(), ["other"]);
    assert!(!desk.settings().exists());
}

#[test]
fn list_shows_installed_clients() {
    let desk = Desk::new();
    put(&desk.settings(), MINE);
    let list = desk.run("setup --json");
    let list: Value = serde_json::from_slice(&list.stdout).unwrap();
    let of = |name: &str| {
        let row = list.as_array().unwrap().iter().find(|row| row["client"] == name).unwrap();
        (row["found"].as_bool().unwrap(), row["set_up"].as_bool().unwrap())
    };
    assert_eq!(of("claude-code"), (true, false));
    assert!(desk.run("setup claude-code --sim --yes --no-verify").status.success());
    let table = String::from_utf8(desk.run("setup").stdout).unwrap();
    let row = table.lines().find(|line| line.starts_with("claude-code")).unwrap();
    assert!(row.trim_end().ends_with("yes"), "{table}");
    assert!(desk.run("undo --all --yes").status.success());
    assert_eq!(fs::read_to_string(desk.settings()).unwrap(), MINE);
}

/// Only what is so is said.
#[test]
fn undo_lists_remaining_changes() {
    let desk = Desk::new();
    let codex = desk.home.0.path().join(".codex/config.toml");
    put(&codex, "model = \"o3\"\n");
    assert!(desk.run("setup codex --sim --yes --no-verify").status.success());
    let now = fs::read_to_string(&codex).unwrap();
    let own = now.lines().next().unwrap().to_owned();
    put(&codex, &now.replace(&own, "model = \"my-new\"").replace("/v1", "/v2"));
    let undone = desk.run("undo codex --yes");
    let said = words(&undone);
    assert!(undone.status.success(), "{said}");
    assert!(!said.contains("is as it was before"), "{said}");
    assert!(said.contains("kept `model`") && said.contains("it was \"o3\""), "{said}");
    assert!(said.contains("with what was changed in it since"), "{said}");
    let kept =
        said.lines().find_map(|line| line.split_once("from before `setup` is in ")).unwrap().1;
    assert_eq!(fs::read_to_string(kept).unwrap(), "model = \"o3\"\n");
    assert_eq!(fs::read_to_string(&codex).unwrap().trim(), "model = \"my-new\"");

    let pi = desk.home.0.path().join(".pi/agent/models.json");
    put(&pi, "{}\n");
    assert!(desk.run("setup pi --sim --yes --no-verify").status.success());
    fs::remove_file(&pi).unwrap();
    let undone = desk.run("undo pi --yes --json");
    let report: Value = serde_json::from_slice(&undone.stdout).unwrap();
    assert_eq!(report["files"][0]["restored"], false);
    let kept = report["files"][0]["kept"].as_str().unwrap();
    assert_eq!(fs::read_to_string(kept).unwrap(), "{}\n");
}

/// A key that goes into no file is not made.
#[test]
fn key_is_created_only_if_it_is_written() {
    let home = Home::new();
    let added = home.ibeam("keys add other").output().unwrap();
    let other = String::from_utf8(added.stdout).unwrap().trim().to_owned();
    let gateway = Server::start(home.ibeam("serve --sim --port 0"));
    let desk = Desk { home, gateway };
    for client in ["zed", "opencode"] {
        let mut setup = desk.command(&format!("setup {client} --sim --yes"));
        let done = setup.env("IBEAM_API_KEY", &other).output().unwrap();
        assert!(done.status.success(), "{}", words(&done));
    }
    let list: Value = serde_json::from_slice(&desk.run("keys list --json").stdout).unwrap();
    assert_eq!(list.as_array().unwrap().len(), 1, "{list}");
    // The command that is suggested for Zed works.
    assert!(desk.run("keys add zed").status.success());
}

/// As `ibeam setup` does, and as the README says.
#[test]
fn undo_without_a_name_lists_the_clients() {
    let desk = Desk::new();
    let listed = desk.run("undo");
    assert!(listed.status.success(), "{}", words(&listed));
    let table = String::from_utf8(listed.stdout).unwrap();
    for client in ["claude-code", "codex", "opencode"] {
        assert!(table.lines().any(|line| line.starts_with(client)), "{client}: {table}");
    }
    let json = desk.run("undo --json");
    let rows: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert!(rows.as_array().unwrap().iter().any(|row| row["client"] == "codex"), "{rows}");
}

/// One that cannot be undone keeps no other from it, and its key is not forgotten.
#[test]
fn undo_all_continues_after_a_failure() {
    let desk = Desk::new();
    let own = desk.home.0.path().join(".config/ibeam");
    for client in ["aider", "codex", "env"] {
        let done = desk.run(&format!("setup {client} --sim --yes --no-verify"));
        assert!(done.status.success(), "{}", words(&done));
    }
    assert!(own.join("env.sh").exists());
    let codex = desk.home.0.path().join(".codex/config.toml");
    put(&codex, "this is = no longer = toml");
    let all = desk.run("undo --all --yes");
    assert!(!all.status.success());
    assert!(words(&all).contains("not undone: codex"), "{}", words(&all));
    assert!(!desk.home.0.path().join(".aider.conf.yml").exists());
    assert!(!own.join("env.sh").exists());
    fs::remove_file(&codex).unwrap();
    assert!(desk.run("undo --all --yes").status.success());
    assert!(!own.exists(), "{:?}", fs::read_dir(&own).unwrap().collect::<Vec<_>>());
}

/// Without a gateway nothing is claimed about its models.
#[test]
fn models_are_unknown_without_a_gateway() {
    let home = Home::new();
    put(&home.0.path().join(".codex/config.toml"), "model = \"o3\"\n");
    let dry = home.ibeam("setup codex --sim --dry-run --set port=1").output().unwrap();
    let said = words(&dry);
    assert!(dry.status.success(), "{said}");
    assert!(said.contains("no gateway is running, so its models are unknown"), "{said}");
    assert!(!said.contains("is not in your plan"), "{said}");
    let dry = home.ibeam("setup env --sim --dry-run --set port=1").output().unwrap();
    assert!(!words(&dry).contains("not installed yet"), "{}", words(&dry));
    let shown = String::from_utf8(dry.stdout).unwrap();
    assert!(shown.contains("OPENAI_API_KEY '***'"), "{shown}");
}
