use std::ffi::OsString;

use super::{CliArgs, CliCommand, CliMode, PrintFormat};

fn parse(words: &[&str]) -> Result<CliArgs, String> {
    CliArgs::parse(words.iter().map(OsString::from))
}

#[test]
fn arguments_of_a_known_proxy_are_accepted() {
    let args = parse(&[
        "--print",
        "--approve-mcps",
        "--trust",
        "--mode",
        "ask",
        "--workspace=/tmp/x",
        "--model",
        "auto",
        "--stream-partial-output",
        "--output-format",
        "stream-json",
        "--resume",
        "abc",
        "say",
        "hello",
    ])
    .unwrap();
    assert_eq!(args.command, CliCommand::Agent);
    assert!(args.print && args.partial && args.trust && args.approve_mcps);
    assert_eq!(args.format, PrintFormat::StreamJson);
    assert_eq!(args.mode, CliMode::Ask);
    assert_eq!(args.workspace.as_deref(), Some("/tmp/x"));
    assert_eq!(args.resume, Some(Some("abc".to_owned())));
    assert_eq!(args.words, ["say", "hello"]);
}

#[test]
fn root_options_may_precede_a_subcommand() {
    let args = parse(&["--trust", "-m", "auto", "acp"]).unwrap();
    assert_eq!((args.command, args.trust), (CliCommand::Acp, true));
    assert_eq!(parse(&["status", "--format", "json"]).unwrap().command, CliCommand::Status);
    assert_eq!(parse(&["-v"]).unwrap().command, CliCommand::Version);
    assert_eq!(parse(&["-p", "--continue"]).unwrap().resume, Some(None));
}

#[test]
fn unknown_options_are_refused() {
    assert_eq!(parse(&["--frob"]).unwrap_err(), "error: unknown option '--frob'");
    assert!(parse(&["--model"]).unwrap_err().contains("argument missing"));
    assert!(parse(&["--output-format", "xml"]).unwrap_err().contains("Allowed choices"));
    assert!(parse(&["--mode", "agent"]).unwrap_err().contains("plan, ask"));
}

#[test]
fn word_after_double_dash_is_not_a_command() {
    let args = parse(&["-p", "--", "login"]).unwrap();
    assert_eq!((args.command, args.words), (CliCommand::Agent, vec!["login".to_owned()]));
}
