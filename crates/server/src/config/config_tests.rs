use std::time::Duration;

use secrecy::ExposeSecret as _;

use super::*;

fn env(pairs: &[(&str, &str)]) -> Env {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn flags(pairs: &[&str]) -> RawConfig {
    let mut raw = RawConfig::default();
    for pair in pairs {
        raw.set_pair(pair);
    }
    raw
}

fn file(text: &str) -> RawConfig {
    RawConfig::from_toml(text, Path::new("config.toml"))
}

fn problems(resolution: &Resolution) -> Vec<String> {
    resolution.problems.iter().map(ToString::to_string).collect()
}

#[test]
fn defaults_are_valid_and_as_documented() {
    let resolution = resolve(&RawConfig::default(), None);
    assert_eq!(problems(&resolution), Vec::<String>::new());
    let config = resolution.config;
    assert_eq!(config.server.listen.to_string(), "127.0.0.1:18741");
    assert_eq!(config.upstream.api.name(), "api2.cursor.sh");
    assert!(
        config.upstream.privacy
            && config.account.access_token.is_none()
            && config.access.api_key.is_none()
    );
    assert_eq!(config.upstream.client_version, DEFAULT_CLIENT_VERSION);
    let clocks = config.clocks;
    assert_eq!(clocks.connect, Duration::from_secs(10));
    assert_eq!(clocks.no_frame, Duration::from_secs(45));
    assert_eq!(clocks.heartbeats_only, Duration::from_secs(600));
    assert_eq!(clocks.turn, Duration::from_secs(1800));
    assert_eq!(clocks.heartbeat, Duration::from_secs(5));
    assert_eq!(clocks.cancel_grace, Duration::from_secs(2));
    assert_eq!(config.limits.body, 64 << 20);
    assert_eq!((config.limits.turns, config.limits.turns_per_key), (32, 32));
    assert_eq!((config.limits.reserve, config.limits.connections), (8, 4096));
    assert!(config.server.tls.is_none() && config.access.keys_file.is_none());
    let sessions = config.sessions;
    assert!(sessions.reuse);
    assert_eq!(sessions.ttl, Duration::from_secs(15 * 60));
    assert_eq!((sessions.max_parked, sessions.parked_bytes), (10_000, 512 << 20));
    assert_eq!((sessions.buffer, sessions.replay), (1 << 20, Duration::from_secs(5 * 60)));
    assert_eq!(config.tools, ToolsConfig { max_repeat: 2, native: true, result_bytes: 1 << 20 });
    assert_eq!((config.store.path.as_deref(), config.store.file()), (None, None));
    assert_eq!(config.store.retention, Duration::from_secs(7 * 24 * 3600));
    assert!(config.store.enabled && config.store.bytes == 1 << 30);
    // Each parked turn has a stream.
    let limits = config.limits;
    assert!(limits.upstream_connections * limits.upstream_streams >= sessions.max_parked);
    assert_eq!(config.retry, Backoff::default());
    assert_eq!(config.models.cache_ttl, Duration::from_secs(300));
    assert_eq!(config.models.unknown, UnknownName::Refuse);
    assert_eq!(config.allow, AllowConfig::default());
    // Every setting is shown once.
    let mut names: Vec<_> = resolution.shown.iter().map(|shown| shown.name).collect();
    names.sort_unstable();
    let mut all: Vec<_> = SettingKey::ALL.iter().map(|key| key.row().name).collect();
    all.sort_unstable();
    assert_eq!(names, all);
}

#[test]
fn flags_beat_environment_beats_file_beats_default() {
    let raw = flags(&["port=1"])
        .or(RawConfig::from_env(&env(&[("PORT", "2"), ("HOST", "127.0.0.2")])))
        .or(file("port = 3\nhost = '127.0.0.3'\ntransport = 'h1'"));
    let resolution = resolve(&raw, None);
    assert_eq!(problems(&resolution), Vec::<String>::new());
    assert_eq!(resolution.config.server.listen.to_string(), "127.0.0.2:1");
    assert_eq!(resolution.config.upstream.transport, Transport::H1);
    let origin = |name: &str| {
        resolution.shown.iter().find(|shown| shown.name == name).unwrap().origin.clone()
    };
    assert_eq!(origin("port"), "flag --set");
    assert_eq!(origin("host"), "env HOST");
    assert_eq!(origin("transport"), "file config.toml");
    assert_eq!(origin("limits.turns"), "default");
}

#[test]
fn own_variable_of_a_setting_beats_its_older_name() {
    let raw = RawConfig::from_env(&env(&[
        ("IBEAM_CLOCKS_TURN", "2m"),
        ("CURSOR_REQUEST_TIMEOUT_MS", "5000"),
        ("IBEAM_LIMITS_BODY", "1MiB"),
    ]));
    let config = resolve(&raw, None).config;
    assert_eq!(config.clocks.turn, Duration::from_secs(120));
    assert_eq!(config.limits.body, 1 << 20);
}

#[test]
fn variables_of_older_programs_still_work() {
    let raw = RawConfig::from_env(&env(&[
        ("PORT", "8080"),
        ("CURSOR_AUTH_TOKEN", "Bearer abc"),
        ("CURSOR_DEBUG", "1"),
        ("CURSOR_TIMING", "1"),
        ("CURSOR_LOG_JSON", "true"),
        ("CURSOR_PRIVACY_MODE", "0"),
        ("CURSOR_CLIENT_VERSION", "2026.01.28-fd13201"),
        ("CURSOR_MODEL_CACHE_TTL_MS", "1500"),
        ("CURSOR_REQUEST_TIMEOUT_MS", "120000"),
        ("CURSOR_MAX_RETRIES", "1"),
        ("CURSOR_RETRY_BASE_DELAY_MS", "1000"),
        ("CURSOR_RETRY_MAX_DELAY_MS", "30000"),
        ("CURSOR_MAX_BLOBS", "7"),
        ("CURSOR_MAX_BLOB_SIZE", "10485760"),
        ("CURSOR_API_URL", "http://127.0.0.1:9999/"),
        ("CURSOR_SESSION_REUSE", "0"),
        ("CURSOR_SESSION_TIMEOUT_MS", "60000"),
        ("CURSOR_MAX_SESSIONS", "0"),
        ("TOOL_LOOP_MAX_REPEAT", "0"),
        ("CURSOR_VALIDATE_SHELL", "1"),
        ("CURSOR_SHELL_TIMEOUT_MS", ""),
    ]));
    let resolution = resolve(&raw, None);
    assert_eq!(problems(&resolution), Vec::<String>::new());
    let warnings: Vec<String> = resolution.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        ["`CURSOR_VALIDATE_SHELL` has no effect: ibeam never runs a shell command \
          (from env CURSOR_VALIDATE_SHELL)"]
    );
    let config = resolution.config;
    assert_eq!(config.account.access_token.unwrap().expose_secret(), "abc");
    assert_eq!(
        config.log,
        LogConfig { filter: "debug".to_owned(), json: true, timing: true, file: None }
    );
    assert!(!config.upstream.privacy);
    assert_eq!(config.upstream.client_version, "cli-2026.01.28-fd13201");
    assert_eq!(config.models.cache_ttl, Duration::from_millis(1500));
    assert_eq!(config.clocks.turn, Duration::from_secs(120));
    assert_eq!(config.retry.retries, 1);
    assert_eq!(config.retry.base, Duration::from_secs(1));
    assert_eq!(config.retry.cap, Duration::from_secs(30));
    assert_eq!((config.limits.blobs, config.limits.blob_size), (7, 10 << 20));
    assert_eq!((config.upstream.api.name(), config.upstream.api.port()), ("127.0.0.1", 9999));
    assert!(!config.sessions.reuse);
    assert_eq!(config.sessions.ttl, Duration::from_secs(60));
    assert_eq!(config.sessions.max_parked, 0);
    assert_eq!(config.tools.max_repeat, 0);
}

#[test]
fn credential_storage_is_a_file_unless_a_keychain_is_built_in() {
    let keep = |pairs: &[(&str, &str)]| {
        let resolution = resolve(&RawConfig::from_env(&env(pairs)), None);
        (resolution.config.account.credentials, problems(&resolution).concat())
    };
    assert_eq!(keep(&[]), (CredentialStorage::File, String::new()));
    assert_eq!(keep(&[("IBEAM_CREDENTIALS", "file")]), (CredentialStorage::File, String::new()));
    let (chosen, problem) = keep(&[("IBEAM_CREDENTIALS", "keychain")]);
    if cfg!(feature = "keychain") {
        assert_eq!((chosen, problem.as_str()), (CredentialStorage::Keychain, ""));
    } else {
        assert_eq!(chosen, CredentialStorage::File);
        assert!(problem.contains("cargo build --release --features keychain"), "{problem}");
    }
    let (_, problem) = keep(&[("IBEAM_CREDENTIALS", "pocket")]);
    assert!(problem.contains("`credentials` must be `file` or `keychain`"), "{problem}");
}

#[test]
fn a_profile_is_named_by_flag_environment_or_file() {
    let profile = |flag: &[&str], env_pairs: &[(&str, &str)], text: &str| {
        let raw = flags(flag).or(RawConfig::from_env(&env(env_pairs))).or(file(text));
        let resolution = resolve(&raw, None);
        (resolution.config.account.profile.to_string(), problems(&resolution))
    };
    let named = ("IBEAM_PROFILE", "env");
    let text = "profile = 'file'";
    let chosen = |name: &str| (name.to_owned(), Vec::<String>::new());
    assert_eq!(profile(&["profile=flag"], &[named], text), chosen("flag"));
    assert_eq!(profile(&[], &[named], text), chosen("env"));
    assert_eq!(profile(&[], &[], text), chosen("file"));
    assert_eq!(profile(&[], &[], ""), chosen("default"));
    let (_, bad) = profile(&["profile=../x"], &[], "");
    let expect = "`profile` may only contain `a` to `z`, `0` to `9`, `-` and `_`, and must begin \
                  with a letter or digit: `../x` (from flag --set)";
    assert_eq!(bad, [expect]);
}

#[test]
fn store_path_defaults_to_the_state_folder() {
    let shown = |resolution: &Resolution| {
        let path = resolution.shown.iter().find(|shown| shown.name == "store.path").unwrap();
        (path.value.clone(), path.origin.clone())
    };
    let machine = load(RawConfig::default(), &env(&[]), None);
    let path = machine.config.store.file().unwrap();
    assert!(path.is_absolute() && path.ends_with("ibeam/store.db"), "{path:?}");
    assert_eq!(shown(&machine), (path.to_str().unwrap().to_owned(), "default".to_owned()));

    let named = load(flags(&["store.path=/x/y.db"]), &env(&[]), None);
    assert_eq!(named.config.store.file(), Some(Path::new("/x/y.db")));
    assert_eq!(shown(&named).1, "flag --set");

    let keys = machine.config.access.keys_file.unwrap();
    assert!(keys.is_absolute() && keys.ends_with("ibeam/keys.json"), "{keys:?}");

    let off = load(RawConfig::default(), &env(&[("IBEAM_STORE_ENABLED", "off")]), None);
    assert_eq!(off.config.store.file(), None);
}

#[test]
fn every_problem_is_reported_at_once_with_its_origin() {
    let raw = flags(&["limits.turns=0", "nonsense", "limits.turnz=3"])
        .or(RawConfig::from_env(&env(&[
            ("PORT", "eighty"),
            ("CURSOR_API_URL", "http://example.com"),
            ("IBEAM_CLOCKS_KEEP_ALIVE", "0"),
        ])))
        .or(file(
            "transport = 'h3'\nclock.turn = '1m'\nallow = { web_search = 'maybe' }\n\
             cors_origins = ['http://ok', 'nope/']\nca_file = 'no/such/file.pem'",
        ));
    let resolution = resolve(&raw, None);
    let mut reported = problems(&resolution);
    reported.sort();
    let expect = [
        "`allow.web_search` must be `true` or `false`: `maybe` (from file config.toml)",
        "`api_url` is plain http to another machine, which would show your token to the network: \
         `http://example.com` (from env CURSOR_API_URL)",
        "`ca_file` is not a file: `no/such/file.pem` (from file config.toml)",
        "`clock.turn` is not a setting; did you mean `clocks.turn`? (from file config.toml)",
        "`clocks.keep_alive` must be more than zero: `0` (from env IBEAM_CLOCKS_KEEP_ALIVE)",
        "`cors_origins` has `nope/`, which is not an origin such as `https://host` \
         (from file config.toml)",
        "`limits.turns` must be at least 1: `0` (from flag --set)",
        "`limits.turnz` is not a setting; did you mean `limits.turns`? (from flag --set)",
        "`nonsense` must have the form KEY=VALUE (from flag --set)",
        "`port` is not a valid port (0-65535): `eighty` (from env PORT)",
        "`transport` must be `auto`, `h2` or `h1`: `h3` (from file config.toml)",
    ];
    assert_eq!(reported, expect);
}

#[test]
fn invalid_config_file_is_reported_by_line_and_not_quoted() {
    let raw = file("port = 1\naccess_token = \"eyJsecret\nhost = 3\n");
    let text = problems(&resolve(&raw, None)).join("\n");
    assert!(text.starts_with("config.toml:2: "), "{text}");
    assert!(!text.contains("eyJsecret"), "{text}");
}

#[test]
fn listen_replaces_host_and_port() {
    let rows = [
        ("0.0.0.0:80", "0.0.0.0:80"),
        ("[::1]:80", "[::1]:80"),
        ("localhost:80", "127.0.0.1:80"),
        (":81", "127.0.0.1:81"),
        ("82", "127.0.0.1:82"),
        ("unix:/run/ibeam.sock", "unix:/run/ibeam.sock"),
    ];
    for (given, expect) in rows {
        let raw =
            flags(&[&format!("listen={given}")]).or(RawConfig::from_env(&env(&[("PORT", "5")])));
        let resolution = resolve(&raw, None);
        assert_eq!(problems(&resolution), Vec::<String>::new(), "{given}");
        assert_eq!(resolution.config.server.listen.to_string(), expect, "{given}");
    }
}

#[test]
fn several_listen_addresses_are_allowed() {
    let both = resolve(&flags(&["listen=18741, :32124"]), None);
    assert_eq!(problems(&both), Vec::<String>::new());
    let places: Vec<_> = both.config.places().map(ToString::to_string).collect();
    assert_eq!(places, ["127.0.0.1:18741", "127.0.0.1:32124"]);
    assert!(both.config.exposed().is_none());
    let one_is_open = resolve(&flags(&["listen=:1,0.0.0.0:2"]), None).config;
    assert!(one_is_open.check_serving(false).unwrap_err().to_string().contains("0.0.0.0:2"));
    let twice = resolve(&flags(&["listen=:1,127.0.0.1:1"]), None);
    assert!(problems(&twice)[0].contains("twice"), "{:?}", problems(&twice));
    assert!(resolve(&flags(&["listen=:0,:0"]), None).problems.is_empty());
}

#[test]
fn listening_beyond_this_machine_needs_a_key() {
    let check = |pairs: &[&str]| resolve(&flags(pairs), None).config.check_serving(false);
    assert!(check(&["host=127.0.0.1"]).is_ok());
    assert!(check(&["host=::1"]).is_ok());
    assert!(check(&["host=0.0.0.0"]).unwrap_err().to_string().contains("without an API key"));
    assert!(check(&["host=192.168.0.7"]).is_err());
    let keyed = flags(&["host=0.0.0.0"]).or(RawConfig::from_env(&env(&[("IBEAM_API_KEY", "k")])));
    assert!(resolve(&keyed, None).config.check_serving(false).is_ok());
    assert!(check(&["listen=unix:/run/ibeam.sock"]).is_ok());
    let open = resolve(&flags(&["host=0.0.0.0"]), None).config;
    assert!(open.check_serving(true).is_ok());
}

#[test]
fn weak_points_are_reported() {
    let weak = |pairs: &[&str], key: Option<&str>, needed: bool| {
        let env = env(&key.map(|key| ("IBEAM_API_KEY", key)).into_iter().collect::<Vec<_>>());
        let raw = flags(pairs).or(RawConfig::from_env(&env));
        resolve(&raw, None).config.weak_points(needed).len()
    };
    assert_eq!(weak(&["host=0.0.0.0"], Some("short"), true), 1);
    assert_eq!(weak(&["host=0.0.0.0"], Some("sixteen letters!"), true), 0);
    assert_eq!(weak(&[], Some("short"), true), 0, "on this machine it keeps pages out");
    assert_eq!(weak(&["cors_origins=*"], None, false), 1);
    assert_eq!(weak(&["cors_origins=*"], None, true), 0);
}

#[test]
fn tls_needs_both_files_and_a_port() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let (cert, key) = (
        format!("tls_cert={}", file.path().display()),
        format!("tls_key={}", file.path().display()),
    );
    let both = resolve(&flags(&[&cert, &key]), None);
    assert_eq!(problems(&both), Vec::<String>::new());
    assert_eq!(both.config.server.tls.unwrap().key, file.path());
    for (pairs, word) in [
        (vec![cert.as_str()], "needs `tls_key`"),
        (vec![key.as_str()], "needs `tls_cert`"),
        (vec![&cert, &key, "listen=unix:/x"], "has no effect on a Unix socket"),
        (vec![&cert, "tls_key=/no/such/file"], "is not a file"),
        (vec!["listen=unix:"], "has no path"),
    ] {
        let text = problems(&resolve(&flags(&pairs), None)).join("\n");
        assert!(text.contains(word), "{pairs:?}: {text}");
    }
    assert!(resolve(&RawConfig::default(), None).config.server.tls.is_none());
}

#[test]
fn secrets_are_never_shown() {
    let secrets = |access_token| {
        let api_key = ("IBEAM_API_KEY", "key-very-secret");
        RawConfig::from_env(&env(&[("IBEAM_ACCESS_TOKEN", access_token), api_key]))
    };
    let raw = secrets("tok-very-secret");
    let resolution = resolve(&raw, None);
    let all = format!("{raw:?} {resolution:?}");
    assert!(!all.contains("very-secret"), "{all}");
    let bad = resolve(&secrets("two very-secret words"), None);
    assert_eq!(bad.problems.len(), 1);
    assert!(!format!("{bad:?}").contains("very-secret"));
}

#[test]
fn secrets_are_refused_on_the_command_line() {
    for key in SettingKey::ALL.iter().filter(|key| key.row().secret) {
        let raw = flags(&[&format!("{}=very-secret", key.row().name)]);
        let resolution = resolve(&raw, None);
        let [problem] = resolution.problems.as_slice() else { panic!("{resolution:?}") };
        assert!(problem.text.contains(&key.env_name()), "{problem}");
        assert!(matches!(problem.origin, SettingOrigin::Flag(_)), "{problem}");
        assert!(raw.get(*key).is_none() && !format!("{raw:?}{problem}").contains("very-secret"));
    }
}

#[test]
fn mistyped_variable_is_reported() {
    let raw = RawConfig::from_env(&env(&[
        ("IBEAM_CLOCKS_TURNS", "1m"),
        ("IBEAM_CONFIG", "x"),
        ("IBEAM_APIKEY", "x"),
    ]));
    let warnings: Vec<String> = raw.warnings.iter().map(|w| w.text.clone()).collect();
    assert_eq!(
        warnings,
        [
            "is not a setting; did you mean `IBEAM_API_KEY`?",
            "is not a setting; did you mean `IBEAM_CLOCKS_TURN`?"
        ]
    );
}

#[test]
fn client_version_comes_from_the_installed_cli() {
    let home = tempfile::tempdir().unwrap();
    let versions = home.path().join(".local/share/cursor-agent/versions");
    for name in ["2026.09.02-fa0c06e", "2026.10.01-e373342", "tmp", "9999", "2026.1.1-x"] {
        std::fs::create_dir_all(versions.join(name)).unwrap();
    }
    let resolution = resolve(&RawConfig::default(), Some(home.path()));
    assert_eq!(resolution.config.upstream.client_version, "cli-2026.10.01-e373342");
    let shown = resolution.shown.iter().find(|shown| shown.name == "client_version").unwrap();
    assert_eq!(shown.origin, "installed CLI");
}

#[test]
fn named_file_must_exist_and_the_default_one_may_be_missing() {
    let none = load(RawConfig::default(), &env(&[("IBEAM_CONFIG", "no/such.toml")]), None);
    assert_eq!(none.problems.len(), 1);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.toml");
    std::fs::write(&path, "port = 5\n[clocks]\nturn = 90\n").unwrap();
    let some = load(RawConfig::default(), &env(&[]), Some(&path));
    assert_eq!(problems(&some), Vec::<String>::new());
    assert_eq!(some.config.server.listen.to_string(), "127.0.0.1:5");
    assert_eq!(some.config.clocks.turn, Duration::from_secs(90));
}

#[test]
fn values_are_parsed_in_every_notation() {
    assert_eq!(parse::duration("1.5s"), Ok(Duration::from_millis(1500)));
    assert_eq!(parse::duration("2 h"), Ok(Duration::from_secs(7200)));
    assert_eq!(parse::duration("3min"), Ok(Duration::from_secs(180)));
    assert_eq!(parse::duration("7d"), Ok(Duration::from_secs(604_800)));
    for bad in ["", "s", "-1s", "1w", "inf", "1e400"] {
        assert!(parse::duration(bad).is_err(), "{bad}");
    }
    assert_eq!(parse::size("10485760"), Ok(10 << 20));
    assert_eq!(parse::size("2 GiB"), Ok(2 << 30));
    for bad in ["", "MiB", "-1", "1TB", "99999999999999999999"] {
        assert!(parse::size(bad).is_err(), "{bad}");
    }
    assert_eq!(parse::list(" a, ,b "), ["a", "b"]);
}

/// The line of a setting in `docs/configuration.md`.
fn documented(key: SettingKey) -> String {
    let row = key.row();
    let older: Vec<String> = row.env.iter().map(|(name, _)| format!("`{name}`")).collect();
    let default = if row.default.is_empty() { String::new() } else { format!("`{}`", row.default) };
    format!("| `{}` | {default} | {} | {} |", row.name, row.help, older.join(", "))
}

#[test]
fn documentation_lists_every_setting() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let text = std::fs::read_to_string(path).unwrap();
    let missing: Vec<String> = SettingKey::ALL
        .iter()
        .map(|key| documented(*key))
        .filter(|line| !text.contains(line.as_str()))
        .collect();
    assert!(missing.is_empty(), "docs/configuration.md lacks:\n{}", missing.join("\n"));
    for (name, _) in key::INERT {
        assert!(text.contains(name), "docs/configuration.md lacks {name}");
    }
}

#[test]
fn invalid_log_level_does_not_silence_the_log() {
    let level = |text: &str| resolve(&flags(&[&format!("log.level={text}")]), None);
    for good in ["info", "WARN", "off", "info,ibeam_server::driver=debug", "ibeam=trace"] {
        assert_eq!(problems(&level(good)), Vec::<String>::new(), "{good}");
    }
    for bad in ["loud", "info,loud", "ibeam::driver", "verbose=1=2"] {
        let text = problems(&level(bad)).join("\n");
        assert!(text.contains("`debug`") && text.contains(bad), "{text}");
    }
}

#[test]
fn suggestions_differ_by_a_slip_only() {
    for (slip, meant) in
        [("prot", "port"), ("log.lvel", "log.level"), ("limit.turns", "limits.turns")]
    {
        assert_eq!(SettingKey::close_to(slip).unwrap().row().name, meant);
    }
    for other in ["x", "model", "limits.foo", "temperature", "clocks.nap"] {
        assert_eq!(SettingKey::close_to(other), None, "{other}");
    }
}

#[test]
fn values_for_scripts_are_typed() {
    let raw =
        flags(&["privacy_mode=off", "allowed_hosts=a,b", "limits.turns=many", "clocks.turn=60"]);
    let shown = resolve(&raw, None).shown;
    let json = |name: &str| shown.iter().find(|shown| shown.name == name).unwrap().json();
    assert_eq!(json("port"), 18741);
    assert_eq!(json("privacy_mode"), false);
    assert_eq!(json("allowed_hosts"), serde_json::json!(["a", "b"]));
    assert_eq!(json("limits.turns"), "many");
    assert_eq!(json("clocks.turn"), "60");
    assert_eq!(json("access_token"), serde_json::Value::Null);
}
