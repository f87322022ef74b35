//! A project's MCP file, before and after its user approved it.

use std::{fs, process::Output};

use serde_json::{Value, json};

use crate::{cli::Home, watch};

/// Leaves a note that it ran, and speaks no MCP.
const SCRIPT: &str = "touch \"$NOTE\"; exit 1";

struct Project {
    home: Home,
    folder: tempfile::TempDir,
}

impl Project {
    fn new() -> Self {
        let (home, folder) = (Home::new(), watch::folder());
        let settings = home.0.path().join(".config/ibeam");
        fs::create_dir_all(&settings).unwrap();
        let text = "[mcp]\nenabled = true\ndiscover = true\n[mcp.servers.m]\n";
        fs::write(settings.join("config.toml"), text).unwrap();
        let project = Self { home, folder };
        project.write("sh");
        project
    }

    fn write(&self, command: &str) {
        let env = json!({ "NOTE": self.folder.path().join("ran") });
        let server = json!({ "command": command, "args": ["-c", SCRIPT], "env": env });
        let text = json!({ "mcpServers": { "m": server } }).to_string();
        fs::write(self.folder.path().join(".mcp.json"), text).unwrap();
    }

    fn run(&self, line: &str) -> Output {
        let mut command = self.home.ibeam(line);
        command.env("PATH", "/usr/bin:/bin").current_dir(self.folder.path());
        command.output().unwrap()
    }

    fn ran(&self) -> bool {
        self.folder.path().join("ran").exists()
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn unapproved_project_file_starts_nothing() {
    let project = Project::new();
    let unapproved = |project: &Project| {
        for line in ["mcp list", "mcp tools", "mcp tools m", "mcp call m x"] {
            let output = project.run(line);
            assert!(said(&output).contains("ibeam mcp approve "), "{line}: {}", said(&output));
            assert!(!project.ran(), "{line}");
        }
        let list = project.run("mcp list --json");
        let list: Value = serde_json::from_slice(&list.stdout).unwrap();
        assert_eq!((&list[0]["name"], &list[0]["state"]), (&json!("m"), &json!("unapproved")));
        let report = project.run("doctor --offline --sim --json");
        let report: Value = serde_json::from_slice(&report.stdout).unwrap();
        let is = |line: &&Value| line["code"] == "mcp_unapproved";
        let line = report["checks"].as_array().unwrap().iter().find(is).unwrap();
        assert!(line["fix"].as_str().unwrap().starts_with("ibeam mcp approve /"), "{line}");
        assert!(!project.ran());
    };
    unapproved(&project);

    let asked = project.run("mcp approve");
    assert!(!asked.status.success(), "without a terminal the answer is no");
    assert!(said(&asked).contains("\"command\": \"sh\""), "{}", said(&asked));
    assert!(said(&asked).contains("exit 1"), "{}", said(&asked));
    unapproved(&project);

    assert!(project.run("mcp approve --yes").status.success());
    project.run("mcp tools m");
    assert!(project.ran(), "approved and named");

    fs::remove_file(project.folder.path().join("ran")).unwrap();
    project.write("/bin/sh");
    unapproved(&project);
    assert!(project.run("mcp approve .mcp.json -y").status.success());
    project.run("mcp tools m");
    assert!(project.ran());
}
