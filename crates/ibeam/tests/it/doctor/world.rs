//! A home, a backend, and the program between them.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ibeam_sim::Sim;
use serde_json::{Value, json};

use crate::{
    cli::{Home, Server},
    watch,
};

pub(super) struct World {
    pub(super) home: Home,
    sim: Server,
}

impl World {
    pub(super) fn new() -> Self {
        let home = Home::new();
        // Which versions are too old is not known since autumn, so the service has no floor.
        let floor = "version.floor=2025.06.01";
        let sim = Server::start(home.ibeam(&format!("sim --port 0 --switch {floor}")));
        Self { home, sim }
    }

    pub(super) fn path(&self) -> &Path {
        self.home.0.path()
    }

    /// Asks the simulator, with a token that it takes.
    pub(super) fn sim(&self, line: &str) -> Patient {
        self.at(&self.sim.url, line)
    }

    /// Contacts another host.
    pub(super) fn at(&self, url: &str, line: &str) -> Patient {
        let port = if line.contains("--port") { "" } else { " --port 0" };
        let patient = Patient::new(self, &format!("--api-url {url}{port} {line}"));
        patient.env("CURSOR_ACCESS_TOKEN", Sim::TOKEN)
    }

    /// A file of the home, with its folders.
    pub(super) fn put(&self, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    /// A certificate for 127.0.0.1 that is not signed by a CA, and its key.
    pub(super) fn certificate(&self) -> (PathBuf, PathBuf) {
        let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        let cert = self.put("tls/cert.pem", &made.cert.pem(), 0o644);
        let key = self.put("tls/key.pem", &made.signing_key.serialize_pem(), 0o600);
        (cert, key)
    }
}

/// An access token with these claims.
pub(super) fn token(claims: &Value) -> String {
    format!("e30.{}.{}", URL_SAFE_NO_PAD.encode(claims.to_string()), Sim::SIGNATURE)
}

/// One that says that it is good until the year 2100.
pub(super) fn stranger() -> String {
    token(&json!({ "sub": "auth0|user_1", "exp": 4_102_444_800_u64, "type": "session" }))
}

/// The program, about to look.
pub(super) struct Patient {
    command: Command,
    /// What a shell does before it becomes the program.
    before: String,
}

impl Patient {
    pub(super) fn new(world: &World, line: &str) -> Self {
        let command = world.home.ibeam(&format!("doctor {line}"));
        Self { command, before: String::new() }
    }

    pub(super) fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub(super) fn without(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    /// Under a limit of the shell's.
    pub(super) fn under(mut self, words: &str) -> Self {
        self.before = words.to_owned();
        self
    }

    /// As people see it.
    pub(super) fn page(mut self) -> Output {
        if !self.before.is_empty() {
            let mut shell = Command::new("/bin/sh");
            shell.arg("-c").arg(format!("{}; exec \"$0\" \"$@\"", self.before));
            shell.arg(self.command.get_program()).args(self.command.get_args()).env_clear();
            for (name, value) in self.command.get_envs() {
                if let Some(value) = value {
                    shell.env(name, value);
                }
            }
            watch::usual_log(&mut shell);
            self.command = shell;
        }
        self.command.output().unwrap()
    }

    pub(super) fn json(mut self) -> Value {
        self.command.arg("--json");
        let output = self.page();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            panic!("{}\n{}", text(&output.stdout), text(&output.stderr))
        });
        let expect = if report["ok"] == true { 0 } else { 1 };
        assert_eq!(output.status.code(), Some(expect), "{report:#}");
        report
    }
}
