use super::*;
use crate::config::RawConfig;

/// Folders with files in them, which a test fills.
struct Desk {
    _folder: tempfile::TempDir,
    places: Places,
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
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let places = Places { folder: work, home: Some(home), env: env.collect() };
        Self { _folder: folder, places }
    }

    fn gather(&self, toml: &str) -> Gathered {
        let raw = RawConfig::from_toml(toml, Path::new("config.toml"));
        assert!(raw.problems.is_empty(), "{:?}", raw.problems);
        let settings =
            Mcp { enabled: true, discover: true, start: Duration::ZERO, servers: raw.servers };
        gather(&settings, &self.places)
    }
}

fn program(found: &Gathered, name: &str) -> Program {
    match &found.servers.iter().find(|spec| spec.name == name).unwrap().way {
        Way::Stdio(program) => program.clone(),
        other => panic!("{name} is {other:?}"),
    }
}

fn remote(found: &Gathered, name: &str) -> Remote {
    match &found.servers.iter().find(|spec| spec.name == name).unwrap().way {
        Way::Http(remote) => remote.clone(),
        other => panic!("{name} is {other:?}"),
    }
}

fn names(found: &Gathered) -> Vec<&str> {
    found.servers.iter().map(|spec| spec.name.as_str()).collect()
}

#[test]
fn opencode_has_two_ways_to_say_it() {
    let text = r#"{
      // both of them
      "mcp": {
        "local": { "type": "local", "command": ["npx", "-y", "a"], "environment": { "K": "{env:KEY}" } },
        "far": { "type": "remote", "url": "https://far.example/mcp", "headers": { "X-Key": "{env:KEY}" } },
        "off": { "type": "local", "command": ["x"], "enabled": false },
      },
      "mcpServers": { "hybrid-memory": { "command": "npx", "args": ["-y", "m"] } },
    }"#;
    let desk = Desk::new(&[("work/opencode.jsonc", text)], &[("KEY", "v")]);
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
    assert!(found.servers.iter().all(|spec| !spec.named && !spec.offer), "nothing by itself");
}

#[test]
fn cursor_has_variables_of_its_own() {
    let text = r#"{ "mcpServers": {
        "a": { "command": "${userHome}/bin/a", "args": ["${workspaceFolder}", "${other}"],
               "env": { "T": "x-${env:T}" } },
        "b": { "url": "http://127.0.0.1:1/sse", "type": "sse" } } }"#;
    let desk = Desk::new(&[("work/.cursor/mcp.json", text)], &[("T", "t")]);
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
fn claude_code_has_defaults() {
    let text = r#"{ "mcpServers": {
        "a": { "command": "${BIN:-node}", "args": ["${A}"] },
        "b": { "command": "x", "env": { "K": "${MISSING}" } } } }"#;
    let desk = Desk::new(&[("work/.mcp.json", text)], &[("A", "${B}")]);
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
fn a_broken_file_is_named_and_the_others_work() {
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
    assert!(all.contains("opencode.json: is no JSON at line 2"), "{all}");
    assert!(all.contains("mcpServers.bad: has neither `command` nor `url`"), "{all}");
}

#[test]
fn the_users_own_file_wins_over_the_folders() {
    let server =
        |command: &str| format!(r#"{{ "mcpServers": {{ "m": {{ "command": "{command}" }} }} }}"#);
    let (own, folder) = (server("trusted"), server("cloned"));
    let desk = Desk::new(&[("home/.claude.json", &own), ("work/.mcp.json", &folder)], &[]);
    assert_eq!(program(&desk.gather(""), "m").command, "trusted");
}

#[test]
fn naming_a_server_lets_it_start() {
    let text = r#"{ "mcpServers": { "m": { "command": "c" }, "n": { "command": "d" } } }"#;
    let desk = Desk::new(&[("work/.mcp.json", text)], &[("T", "token")]);
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
fn without_discover_no_other_file_is_read() {
    let desk = Desk::new(&[("work/.mcp.json", "broken")], &[]);
    let found = gather(&Mcp::default(), &desk.places);
    assert!(found.servers.is_empty() && found.warnings.is_empty());
}

#[test]
fn a_url_that_would_show_a_secret_is_refused() {
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
        let headers =
            if header { vec![("X".to_owned(), Hidden::from("v".to_owned()))] } else { Vec::new() };
        assert_eq!(Remote::new(url, headers, false).is_ok(), good, "{url}");
    }
    let reserved = vec![("Mcp-Session-Id".to_owned(), Hidden::from("v".to_owned()))];
    assert!(Remote::new("https://x.test/", reserved, false).is_err());
}

#[test]
fn patterns() {
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
