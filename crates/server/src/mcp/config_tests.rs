use std::{fs, path::Path};

use super::*;
use crate::config::RawConfig;

/// Folders with files in them, which a test fills.
struct Desk {
    _folder: tempfile::TempDir,
    places: SearchPaths,
}

impl Desk {
    fn new(files: &[(&str, &str)], env: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let (home, work) = (folder.path().join("home"), folder.path().join("work"));
        fs::create_dir_all(&work).unwrap();
        let work = work.canonicalize().unwrap();
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let places = SearchPaths { folder: work, home: Some(home), env: env.collect() };
        Self { _folder: folder, places }
    }

    /// With all files of the project approved as they are.
    fn approved(self) -> Self {
        let mut approvals = self.approvals();
        for file in ProjectFile::all(&self.places, &approvals).unwrap() {
            file.approve(&mut approvals).unwrap();
        }
        self
    }

    fn approvals(&self) -> Approvals {
        Approvals::load(&self.places.config_dir().unwrap()).unwrap()
    }

    fn write(&self, path: &str, text: &str) {
        fs::write(self._folder.path().join(path), text).unwrap();
    }

    fn gather(&self, toml: &str) -> GatheredServers {
        let raw = RawConfig::from_toml(toml, Path::new("config.toml"));
        assert!(raw.problems.is_empty(), "{:?}", raw.problems);
        let settings = McpConfig {
            enabled: true,
            discover: true,
            start: Duration::ZERO,
            servers: raw.servers,
        };
        gather(&settings, &self.places)
    }
}

fn program(found: &GatheredServers, name: &str) -> ServerProgram {
    match &found.servers.iter().find(|spec| spec.name == name).unwrap().way {
        ServerTransport::Stdio(program) => program.clone(),
        other => panic!("{name} is {other:?}"),
    }
}

fn remote(found: &GatheredServers, name: &str) -> RemoteServer {
    match &found.servers.iter().find(|spec| spec.name == name).unwrap().way {
        ServerTransport::Http(remote) => remote.clone(),
        other => panic!("{name} is {other:?}"),
    }
}

fn names(found: &GatheredServers) -> Vec<&str> {
    found.servers.iter().map(|spec| spec.name.as_str()).collect()
}

#[test]
fn opencode_servers_are_read_in_both_formats() {
    let text = r#"{
      // both of them
      "mcp": {
        "local": { "type": "local", "command": ["npx", "-y", "a"], "environment": { "K": "{env:KEY}" } },
        "far": { "type": "remote", "url": "https://far.example/mcp", "headers": { "X-Key": "{env:KEY}" } },
        "off": { "type": "local", "command": ["x"], "enabled": false },
      },
      "mcpServers": { "hybrid-memory": { "command": "npx", "args": ["-y", "m"] } },
    }"#;
    let desk = Desk::new(&[("work/opencode.jsonc", text)], &[("KEY", "v")]).approved();
    let found = desk.gather("");
    assert_eq!(found.warnings, Vec::<String>::new());
    assert_eq!(names(&found), ["far", "hybrid-memory", "local"]);
    let local = program(&found, "local");
    assert_eq!(
        (local.command.as_str(), local.args),
        ("npx", vec!["-y".to_owned(), "a".to_owned()])
    );
    assert_eq!(local.env["K"].expose(), "v");
    assert_eq!(remote(&found, "far").headers()["x-key"], "v");
    assert!(found.servers.iter().all(|spec| !spec.named && !spec.offer), "none is started");
}

#[test]
fn cursor_variables_are_expanded() {
    let text = r#"{ "mcpServers": {
        "a": { "command": "${userHome}/bin/a", "args": ["${workspaceFolder}", "${other}"],
               "env": { "T": "x-${env:T}" } },
        "b": { "url": "http://127.0.0.1:1/sse", "type": "sse" } } }"#;
    let desk = Desk::new(&[("work/.cursor/mcp.json", text)], &[("T", "t")]).approved();
    let found = desk.gather("");
    assert_eq!(found.warnings, Vec::<String>::new());
    let a = program(&found, "a");
    let (home, work) = (desk.places.home.clone().unwrap(), &desk.places.folder);
    assert_eq!(a.command, home.join("bin/a").to_string_lossy());
    assert_eq!(a.args, [work.to_string_lossy().as_ref(), "${other}"]);
    assert_eq!(a.env["T"].expose(), "x-t");
    assert!(remote(&found, "b").is_sse());
}

#[test]
fn claude_code_variables_have_defaults() {
    let text = r#"{ "mcpServers": {
        "a": { "command": "${BIN:-node}", "args": ["${A}"] },
        "b": { "command": "x", "env": { "K": "${MISSING}" } } } }"#;
    let desk = Desk::new(&[("work/.mcp.json", text)], &[("A", "${B}")]).approved();
    let found = desk.gather("");
    let a = program(&found, "a");
    assert_eq!((a.command.as_str(), a.args), ("node", vec!["${B}".to_owned()]));
    assert_eq!(names(&found), ["a"]);
    let [warning] = &found.warnings[..] else { panic!("{:?}", found.warnings) };
    assert!(
        warning.contains(".mcp.json: mcpServers.b: env.K: needs the variable `MISSING`"),
        "{warning}"
    );
}

#[test]
fn invalid_file_is_reported_and_the_others_are_used() {
    let good = r#"{ "mcpServers": { "good": { "command": "g" }, "bad": { "args": [1] } } }"#;
    let desk = Desk::new(
        &[
            ("work/opencode.json", "{\n  \"mcp\": oops\n}"),
            ("home/.cursor/mcp.json", good),
            ("work/.mcp.json", "[]"),
        ],
        &[],
    );
    let found = desk.gather("");
    assert_eq!(names(&found), ["good"]);
    let all = found.warnings.join("\n");
    assert!(all.contains("opencode.json: is not valid JSON at line 2"), "{all}");
    assert!(all.contains("mcpServers.bad: has neither `command` nor `url`"), "{all}");
}

#[test]
fn user_file_takes_precedence_over_the_project_file() {
    let server =
        |command: &str| format!(r#"{{ "mcpServers": {{ "m": {{ "command": "{command}" }} }} }}"#);
    let (own, folder) = (server("trusted"), server("cloned"));
    let desk = Desk::new(&[("home/.claude.json", &own), ("work/.mcp.json", &folder)], &[]);
    assert_eq!(program(&desk.approved().gather(""), "m").command, "trusted");
}

#[test]
fn unusable_user_entry_reserves_its_name() {
    let folder = r#"{ "mcpServers": { "m": { "command": "cloned" } } }"#;
    for (entry, why) in [
        (r#"{ "command": "trusted", "disabled": true }"#, "m: is switched off in"),
        (r#"{ "command": "trusted", "enabled": false }"#, "m: is switched off in"),
        (r#"{ "command": "trusted", "args": ["${MISSING}"] }"#, "m: its entry in"),
        (r#"{ "args": [] }"#, "m: its entry in"),
        ("null", "m: its entry in"),
    ] {
        let own = format!(r#"{{ "mcpServers": {{ "m": {entry} }} }}"#);
        let desk = Desk::new(&[("home/.claude.json", &own), ("work/.mcp.json", folder)], &[]);
        let found = desk.approved().gather("[mcp.servers.m]\nuse = \"offer\"\nallow = [\"*\"]");
        assert_eq!(names(&found), Vec::<&str>::new(), "{entry}");
        assert!(found.warnings.join("\n").contains(why), "{entry}: {:?}", found.warnings);
    }
}

#[test]
fn project_file_is_not_used_when_a_user_file_is_invalid() {
    let folder = r#"{ "mcpServers": { "m": { "command": "cloned" } } }"#;
    for own in ["{ oops", r#"{ "mcpServers": [] }"#] {
        let desk = Desk::new(&[("home/.claude.json", own), ("work/.mcp.json", folder)], &[]);
        let found = desk.approved().gather("[mcp.servers.m]");
        assert_eq!(names(&found), Vec::<&str>::new());
        let all = found.warnings.join("\n");
        assert!(all.contains(".mcp.json: is not used, because"), "{all}");
    }
}

#[test]
fn project_file_is_used_only_with_the_approved_content() {
    let server =
        |command: &str| format!(r#"{{ "mcpServers": {{ "m": {{ "command": "{command}" }} }} }}"#);
    let desk = Desk::new(&[("work/.mcp.json", &server("first"))], &[]);
    let named = "[mcp.servers.m]\nuse = \"offer\"\nallow = [\"*\"]";
    let refused = |desk: &Desk| {
        let found = desk.gather(named);
        assert_eq!(names(&found), Vec::<&str>::new());
        let path = desk.places.folder.join(".mcp.json");
        assert_eq!(found.unapproved[0].path, path);
        let all = found.warnings.join("\n");
        assert!(all.contains("its MCP servers (m) are not started"), "{all}");
        assert!(all.contains("`ibeam mcp approve /"), "{all}");
        assert!(all.contains("mcp.servers.m: is in"), "{all}");
    };
    refused(&desk);

    let desk = desk.approved();
    let found = desk.gather(named);
    assert_eq!(program(&found, "m").command, "first");
    assert_eq!((found.unapproved, found.warnings), (Vec::new(), Vec::new()));

    desk.write("work/.mcp.json", &server("second"));
    refused(&desk);
    // What was approved before is good again, and nothing else.
    desk.write("work/.mcp.json", &server("first"));
    assert_eq!(program(&desk.gather(named), "m").command, "first");
    desk.write("work/.mcp.json", &format!("{} ", server("first")));
    refused(&desk);
}

#[test]
fn approval_covers_one_folder() {
    let text = r#"{ "mcpServers": { "m": { "command": "./run" } } }"#;
    let desk = Desk::new(&[("work/.mcp.json", text), ("other/.mcp.json", text)], &[]).approved();
    assert_eq!(names(&desk.gather("")), ["m"]);
    let folder = desk._folder.path().join("other");
    let elsewhere = SearchPaths { folder, ..desk.places.clone() };
    let settings = McpConfig { discover: true, ..McpConfig::default() };
    let found = gather(&settings, &elsewhere);
    assert_eq!((names(&found).len(), found.unapproved.len()), (0, 1));
}

#[test]
fn named_project_file_is_the_discovered_one() {
    let text = r#"{ "mcpServers": { "m": { "command": "c" } } }"#;
    for name in [".mcp.json", ".cursor/mcp.json"] {
        let desk = Desk::new(&[(&format!("work/{name}"), text)], &[]);
        let mut approvals = desk.approvals();
        let path = desk.places.folder.join(name);
        let file = ProjectFile::named(&path, &approvals).unwrap().unwrap();
        file.approve(&mut approvals).unwrap();
        assert_eq!(names(&desk.gather("")), ["m"], "{name}");
        let other = desk.places.folder.join("mcp.json");
        assert!(ProjectFile::named(&other, &approvals).unwrap_err().contains("must be one of"));
    }
}

#[test]
fn project_entry_is_shown_completely() {
    let text = "{ \"mcpServers\": { \"m\": { \"command\": \"sh\", \"args\": [\"-c\", \
                \"\u{202e}evil \\u001b[2K\"], \"env\": { \"LD_PRELOAD\": \"./x.so\" } } } }";
    let desk = Desk::new(&[("work/.mcp.json", text)], &[]);
    let files = ProjectFile::all(&desk.places, &desk.approvals()).unwrap();
    let (name, shown) = &files[0].servers[0];
    assert_eq!(name, "m");
    for part in ["\\u{202e}evil \\u001b[2K", "\"LD_PRELOAD\": \"./x.so\"", "\"-c\""] {
        assert!(shown.contains(part), "{shown}");
    }
    assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{shown}");
}

#[cfg(unix)]
#[test]
fn approvals_that_others_could_write_are_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let text = r#"{ "mcpServers": { "m": { "command": "c" } } }"#;
    let desk = Desk::new(&[("work/.mcp.json", text)], &[]).approved();
    let folder = desk.places.config_dir().unwrap();
    let file = Approvals::none(&folder).path().to_path_buf();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&file), mode(&folder)), (0o600, 0o700));
    for (path, open, closed) in [(&folder, 0o777, 0o700), (&file, 0o644, 0o600)] {
        fs::set_permissions(path, fs::Permissions::from_mode(open)).unwrap();
        assert_eq!(names(&desk.gather("")), Vec::<&str>::new());
        fs::set_permissions(path, fs::Permissions::from_mode(closed)).unwrap();
        assert_eq!(names(&desk.gather("")), ["m"]);
    }
}

#[test]
fn named_server_is_started() {
    let text = r#"{ "mcpServers": { "m": { "command": "c" }, "n": { "command": "d" } } }"#;
    let desk = Desk::new(&[("work/.mcp.json", text)], &[("T", "token")]).approved();
    let found = desk.gather(
        "[mcp.servers.m]\nuse = \"offer\"\nallow = [\"read_*\"]\n\
         [mcp.servers.own]\nurl = \"https://own.example/x\"\nheaders = { A = \"Bearer ${T}\" }\n\
         [mcp.servers.gone]\nuse = \"list\"",
    );
    let spec = |name: &str| found.servers.iter().find(|spec| spec.name == name).unwrap();
    assert!(spec("m").named && spec("m").offers("read_file") && !spec("m").offers("write"));
    assert!(!spec("n").named && !spec("n").offers("anything"));
    assert_eq!(remote(&found, "own").headers()["a"], "Bearer token");
    assert!(found.warnings[0].contains("mcp.servers.gone: has neither"), "{:?}", found.warnings);
}

#[test]
fn foreign_files_are_read_only_with_discover() {
    let desk = Desk::new(&[("work/.mcp.json", "broken")], &[]);
    let found = gather(&McpConfig::default(), &desk.places);
    assert!(found.servers.is_empty() && found.warnings.is_empty());
}

#[test]
fn plain_http_url_with_headers_is_refused() {
    for (url, header, good) in [
        ("https://far.example/mcp", true, true),
        ("http://127.0.0.1:3000/mcp", true, true),
        ("http://localhost/mcp", true, true),
        ("http://far.example/mcp", false, true),
        ("http://far.example/mcp", true, false),
        ("ftp://far.example", false, false),
        ("https://user:pw@far.example/", false, false),
        ("not a url", false, false),
    ] {
        let headers = if header {
            vec![("X".to_owned(), HiddenText::from("v".to_owned()))]
        } else {
            Vec::new()
        };
        assert_eq!(RemoteServer::new(url, headers, false).is_ok(), good, "{url}");
    }
    let reserved = vec![("Mcp-Session-Id".to_owned(), HiddenText::from("v".to_owned()))];
    assert!(RemoteServer::new("https://x.test/", reserved, false).is_err());
}

#[test]
fn allow_patterns_match_tool_names() {
    for (pattern, name, good) in [
        ("*", "", true),
        ("*", "a", true),
        ("a", "a", true),
        ("a", "ab", false),
        ("a*", "ab", true),
        ("*b", "ab", true),
        ("a*c*e", "abcde", true),
        ("a*c*e", "abde", false),
        ("*a*", "b", false),
        ("ab*b", "ab", false),
    ] {
        assert_eq!(fits(pattern, name), good, "{pattern} {name}");
    }
}

/// Opening a pipe or a terminal would wait for the other end.
#[cfg(unix)]
#[test]
fn non_regular_config_file_is_not_opened() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(".mcp.json");
    std::os::unix::fs::symlink("/dev/null", &path).unwrap();
    let read = sources::ConfigFile::read(&path, entry::ConfigStyle::Claude);
    assert_eq!(read.map(|_| ()), Err("is not a regular file".to_owned()));
}
