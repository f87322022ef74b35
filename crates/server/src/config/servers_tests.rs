use super::*;

fn read(text: &str) -> RawConfig {
    RawConfig::from_toml(text, Path::new("config.toml"))
}

fn problems(text: &str) -> Vec<String> {
    read(text).problems.iter().map(ToString::to_string).collect()
}

#[test]
fn mcp_server_table_is_read() {
    let raw = read(
        r#"
        [mcp]
        enabled = true
        [mcp.servers.files]
        command = "npx"
        args = ["-y", "server-filesystem", "."]
        env = { TOKEN = "shh" }
        cwd = "/srv"
        use = "offer"
        allow = ["read_file", "list_*"]
        timeout = "5s"
        output = "1KiB"
        [mcp.servers.far]
        url = "https://mcp.example/mcp"
        headers = { Authorization = "Bearer ${FAR}" }
        "#,
    );
    assert!(raw.problems.is_empty(), "{:?}", raw.problems);
    let files = &raw.servers["files"];
    assert_eq!(files.command.as_deref(), Some("npx"));
    assert_eq!(files.args, ["-y", "server-filesystem", "."]);
    assert_eq!(files.env["TOKEN"].expose(), "shh");
    assert!(files.offer && files.holds_secret());
    assert_eq!((files.timeout, files.output), (Duration::from_secs(5), 1024));
    let far = &raw.servers["far"];
    assert!(!far.offer && !far.holds_secret(), "a variable's name is not a secret");
    assert_eq!((far.timeout, far.output), (CALL_TIMEOUT, CALL_OUTPUT));
}

#[test]
fn hidden_text_is_not_printed() {
    let raw = read("[mcp.servers.a]\ncommand = \"x\"\nenv = { TOKEN = \"hunter2\" }");
    assert!(!format!("{raw:?}").contains("hunter2"));
}

#[test]
fn problems_of_a_server_name_their_setting() {
    for (text, told) in [
        (
            "[mcp.servers.a]\ncomand = \"x\"",
            "`mcp.servers.a.comand` is not a setting of a server; did you mean `command`?",
        ),
        ("[mcp.servers.a]\nuse = \"maybe\"", "`mcp.servers.a.use` must be"),
        ("[mcp.servers.a]\nargs = \"x\"", "`mcp.servers.a.args` must be a list"),
        ("[mcp.servers.a]\nenv = { A = 1 }", "`mcp.servers.a.env.A` must be text"),
        (
            "[mcp.servers.a]\ncommand = \"x\"\nuse = \"offer\"",
            "`mcp.servers.a.allow` must list the tools",
        ),
        ("[mcp.servers.a]\ncommand = \"x\"\nurl = \"y\"", "`mcp.servers.a.url` cannot be combined"),
        ("[mcp.servers.a]\ntimeout = \"soon\"", "`mcp.servers.a.timeout`"),
        ("[mcp.servers]\na = 1", "`mcp.servers.a` must be a table"),
        ("[mcp]\nservers = 1", "`mcp.servers` must be tables"),
        ("[mcp]\nenable = true", "`mcp.enable` is not a setting; did you mean `mcp.enabled`?"),
    ] {
        let problems = problems(text);
        assert!(problems.iter().any(|problem| problem.starts_with(told)), "{told}: {problems:?}");
    }
}

#[test]
fn mcp_server_count_is_limited() {
    let text: String =
        (0..=MAX_SERVERS).map(|n| format!("[mcp.servers.s{n}]\nurl = \"x\"\n")).collect();
    let raw = read(&text);
    assert_eq!(raw.servers.len(), MAX_SERVERS);
    assert_eq!(raw.problems.len(), 1);
}
