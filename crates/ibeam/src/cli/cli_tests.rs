use clap::CommandFactory as _;

use super::*;
use ibeam_server::config::SettingKey;

fn parse(line: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(line.split(' '))
}

#[test]
fn command_definition_is_valid() {
    Cli::command().debug_assert();
}

#[test]
fn commands_of_the_readme_parse() {
    for line in [
        "ibeam up",
        "ibeam up --sim",
        "ibeam up --sim --port 0 --scenario a.toml",
        "ibeam serve --sim --bootstrap 6s --native-tools --keep-blobs",
        "ibeam serve --listen 127.0.0.1:1 --log-json",
        "ibeam --log-level debug serve --set clocks.turn=1h --set limits.turns=2",
        "ibeam sim --port 9100",
        "ibeam sim --bootstrap 500ms --native-tools --keep-blobs",
        "ibeam sim --port 9100 --tls-cert a --tls-key b",
        "ibeam models --json",
        "ibeam models --aliases --sim",
        "ibeam config show --json",
        "ibeam login --no-browser --json",
        "ibeam login --use cli",
        "ibeam login --profile work",
        "ibeam logout --profile work",
        "ibeam whoami --json",
        "ibeam sim --login-page --token-lifetime 10m",
        "ibeam serve --listen unix:/run/ibeam.sock",
        "ibeam up --host 0.0.0.0 --tls-cert a --tls-key b",
        "ibeam keys add laptop --limit 4 --json",
        "ibeam keys list --json",
        "ibeam keys revoke laptop",
        "ibeam service install --dry-run --backend cli --port 8080 --profile work",
        "ibeam service uninstall --force",
        "ibeam service status --json",
        "ibeam service logs -f -n 20",
        "ibeam completions zsh",
        "ibeam man --dir a",
        "ibeam serve --unattended --log-file a",
    ] {
        assert!(parse(line).is_ok(), "{line}: {}", parse(line).unwrap_err());
    }
    for line in [
        "ibeam",
        "ibeam up --scenario a",
        "ibeam sim --tls-cert a",
        "ibeam sim --bootstrap soon",
        "ibeam up --native-tools",
        "ibeam login --use nonsense",
        "ibeam login now",
        "ibeam up --tls-cert a",
        "ibeam keys",
        "ibeam keys add",
        "ibeam keys add a --limit 0",
        "ibeam up --listen :1 --port 2",
        "ibeam serve --host ::1 --listen :1",
    ] {
        assert!(parse(line).is_err(), "{line}");
    }
}

#[test]
fn flags_reach_the_settings() {
    let Ok(Cli { global, command: IbeamCommand::Serve(_) }) =
        parse("ibeam serve --set limits.turns=2 --log-level debug")
    else {
        panic!("parsed as something else");
    };
    let raw = global.raw();
    assert_eq!(raw.get(SettingKey::LimitTurns).unwrap().text.as_str(), "2");
    assert_eq!(
        raw.get(SettingKey::LogLevel).unwrap().origin,
        SettingOrigin::Flag("--log-level".to_owned())
    );
    let listening = Listening { port: Some("1".to_owned()), ..Listening::default() };
    // `--port` also counts when the environment has a whole `listen`.
    assert_eq!(listening.raw().get(SettingKey::Listen).unwrap().text.as_str(), "");
}

/// A service is started with the options that it was installed with.
#[test]
fn options_are_passed_on_unchanged() {
    #[derive(Debug, Parser)]
    struct All {
        #[command(flatten)]
        global: Global,
        #[command(flatten)]
        listening: Listening,
        #[command(flatten)]
        upstream: UpstreamOptions,
    }
    for line in [
        "x --listen 127.0.0.1:1 --listen unix:/s --tls-cert /a --tls-key /b --cors-origin http://a \
         --cors-origin http://b --idle-exit 5m --allow-web-search --allow-web-fetch --sim \
         --scenario /c --bootstrap 6s --native-tools --keep-blobs \
         --switch preset=autumn --switch cli.worker_stdout=off --backend cli --workspace /w \
         --api-url http://c --transport h2 --ca-file /d --config /e --profile me --set a=b \
         --set c=-d --log-level debug --log-json --log-file /f",
        "x --host ::1 --port 0",
        "x",
    ] {
        let given = All::try_parse_from(line.split_whitespace()).unwrap();
        let words = [given.global.args(), given.listening.args(), given.upstream.args()].concat();
        let again = std::iter::once("x".into()).chain(words);
        let again = All::try_parse_from(again).unwrap();
        assert_eq!(format!("{again:?}"), format!("{given:?}"));
    }
    // It runs elsewhere.
    let given = All::try_parse_from(["x", "--config", "a.toml"]).unwrap();
    let here = std::env::current_dir().unwrap().join("a.toml");
    assert_eq!(given.global.args(), [format!("--config={}", here.display()).as_str()]);
}

#[test]
fn missing_sign_in_suggests_commands() {
    let home = std::path::Path::new("/nowhere");
    let here = LocalUser::with(ibeam_server::config::Env::new(), home, "work".parse().unwrap());
    let hints = not_signed_in(&here, &[]).hints.concat();
    for way in ["ibeam login --profile work", "CURSOR_ACCESS_TOKEN", "CURSOR_API_KEY", "--sim"] {
        assert!(hints.contains(way), "{hints}");
    }
    let mut config = Config { backend: Backend::Sim { scenario: None }, ..Config::default() };
    assert!(require_account(&mut config).is_ok());
}

#[test]
fn help_shows_examples_and_no_jargon() {
    let help = Cli::command().render_long_help().to_string();
    assert!(help.contains("ibeam up --sim"), "{help}");
    assert!(help.contains("unofficial"), "{help}");
}

#[test]
fn cause_is_printed_once() {
    let toml = "[[rule]]\nwhen = 3";
    let error = anyhow::Error::new(ibeam_sim::Scenario::from_toml(toml).unwrap_err());
    let text = net::chain(error.context("cannot use the scenario").as_ref());
    assert_eq!(text.matches("when = 3").count(), 1, "{text}");
}
