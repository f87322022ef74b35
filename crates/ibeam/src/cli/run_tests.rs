use super::*;

#[test]
fn folder_placeholder_is_replaced() {
    let launch = Launch {
        program: "claude",
        args: vec!["--settings".into(), "{files}/settings.json".into()],
        env: vec![("CONFIG".to_owned(), "{files}".to_owned())],
        without: vec!["ANTHROPIC_API_KEY"],
        files: vec![("settings.json".to_owned(), "{}".to_owned())],
    };
    let folder = written(&launch.files).unwrap();
    let client = clients::named("claude").unwrap();
    let found = LaunchedClient { client, program: PathBuf::from("/bin/claude") };
    let command = found.command(&launch, folder.path());
    let place = folder.path().to_str().unwrap();
    let args: Vec<_> = command.get_args().map(|arg| arg.to_str().unwrap()).collect();
    assert_eq!(args, ["--settings", &format!("{place}/settings.json")]);
    let variables: Vec<_> = command.get_envs().collect();
    assert!(variables.contains(&(OsStr::new("CONFIG"), Some(OsStr::new(place)))));
    assert!(variables.contains(&(OsStr::new("ANTHROPIC_API_KEY"), None)));
    assert_eq!(std::fs::read_to_string(folder.path().join("settings.json")).unwrap(), "{}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(folder.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}

#[test]
fn programs_that_cannot_be_run_are_reported() {
    let machine = UserMachine::made_up(
        clients::System::Linux,
        &[("PATH", "/usr/bin")],
        &[],
        &["/usr/bin/env", "/usr/bin/python"],
    );
    let of = |name: &str| LaunchedClient::of(OsStr::new(name), &machine);
    let refused = |name: &str| {
        let error = of(name).err().unwrap();
        let refusal = error.downcast::<Refusal>().unwrap();
        format!("{}; {}", refusal.message, refusal.hints.join("; "))
    };
    let text = refused("claude");
    assert!(text.contains("not installed") && text.contains("npm install"), "{text}");
    let text = refused("clod");
    assert!(text.contains("`clod` is neither a client") && text.contains("claude-code"), "{text}");
    assert_eq!(of("python").unwrap().program, Path::new("/usr/bin/python"));
    assert_eq!(of("./mine.sh").unwrap().program, Path::new("./mine.sh"));
    assert_eq!(of("env").unwrap().program, Path::new("/usr/bin/env"));
}
