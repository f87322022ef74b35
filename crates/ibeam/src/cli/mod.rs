//! The command line. One file per command; here is what they share.
//!
//! Data goes to stdout, messages to stderr.

mod audit;
mod browser;
mod children;
mod completions;
mod config;
mod consent;
mod doctor;
mod found;
mod keys;
mod login;
mod logout;
mod man;
mod mcp;
mod models;
mod options;
mod probe;
mod replay;
mod run;
mod screen;
mod serve;
mod service;
mod service_log;
mod setup;
mod sim;
mod start;
mod status;
mod stop;
mod undo;
mod up;
mod whoami;

use std::{
    borrow::Cow,
    ffi::OsString,
    future::Future,
    io::{self, Write as _},
    pin::Pin,
    process::ExitCode,
    time::Duration,
};

use clap::{Parser, Subcommand, builder::styling};
use ibeam_core::{
    backend::Needs,
    error::{ErrorCode, TurnError},
    redact,
};

use serde::Serialize;

use self::options::{Global, Listening, Loaded, UpstreamOptions};
use crate::{
    harden,
    instance::{DETACH, detach},
    memory, telemetry,
};
use ibeam_server::{
    auth::{LocalUser, RefusedCredential, tokens::login_command},
    config::{Backend, Config, SettingOrigin, SettingProblem},
    net,
    server::StartError,
};

const ABOUT: &str = "Your Cursor plan's models in every tool";

const LONG_ABOUT: &str = "\
Your Cursor plan's models in every tool.

ibeam is a gateway on your own machine. Clients that use the OpenAI or the Anthropic API
connect to it, and it answers with the models of your Cursor account, over the interface
that Cursor's own command line uses. That interface is unofficial: use your own account,
and respect its terms. While it runs, its page /docs lists every endpoint.";

const EXAMPLES: &str = "\
Examples:
  ibeam up --sim                        try everything, no account needed
  ibeam run claude                      run a client with the models of your plan
  ibeam login                           sign in to Cursor with your browser
  ibeam up                              answer with the models of your plan
  ibeam models                          list the models of your plan
  ibeam setup claude-code               set up a client to use it; `ibeam undo` reverts it
  ibeam keys add laptop                 create a key for one of your clients
  ibeam serve --port 0                  for scripts: prints its URL, then serves
  ibeam config show                     every setting, and where its value comes from
  ibeam audit                           who and what has access, and what is unsafe
  ibeam doctor                          find out why it does not work, and how to fix it
  ibeam probe                           ask Cursor what ibeam cannot know about your account
  ibeam service install                 start it automatically with the first request

`ibeam help <command>` shows more about a command.";

#[derive(Debug, Parser)]
#[command(
    name = "ibeam",
    version,
    about = ABOUT,
    long_about = LONG_ABOUT,
    after_help = EXAMPLES,
    arg_required_else_help = true,
    styles = STYLES,
    max_term_width = 100
)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: IbeamCommand,
}

#[derive(Debug, Subcommand)]
enum IbeamCommand {
    /// Start the gateway and show how to use it
    Up(up::Up),
    /// Start the gateway for scripts and services
    Serve(serve::Serve),
    /// Run a client or any other program with the gateway
    Run(run::RunCommand),
    /// Start the gateway in the background, or use the running one
    Start(start::StartCommand),
    /// Stop the background gateway
    Stop(stop::StopCommand),
    /// List the running gateways
    Status(status::StatusCommand),
    /// Start only the simulator of Cursor's backend
    Sim(sim::SimCommand),
    /// Sign in to Cursor
    Login(login::LoginCommand),
    /// Sign out of Cursor
    Logout(logout::Logout),
    /// Show who is signed in
    Whoami(whoami::Whoami),
    /// List the models of your plan
    Models(models::ModelsCommand),
    /// Create, list and revoke keys for your clients
    Keys(keys::KeysCommand),
    /// Set up a client to use this gateway
    Setup(setup::SetupCommand),
    /// Undo a client's setup
    Undo(undo::Undo),
    /// List your MCP servers and their tools, and call one
    Mcp(mcp::McpCommand),
    /// Show who and what has access, and what is unsafe
    Audit(audit::Audit),
    /// Find out what is wrong and how to fix it
    Doctor(doctor::Doctor),
    /// Ask Cursor what only your account can settle, and go by the answers
    Probe(probe::Probe),
    /// Show step by step what happened in a recorded turn
    Replay(replay::ReplayCommand),
    /// Show the settings
    Config(config::ConfigCommand),
    /// Run the gateway as a system service
    Service(service::ServiceCommand),
    /// Print a completion script for your shell
    Completions(completions::Completions),
    /// Print the manual page, or write one for each command
    Man(man::ManCommand),
    /// Start this program again, detached from its parent
    #[command(name = DETACH, hide = true, disable_help_flag = true)]
    Detach {
        /// Its arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Stand in for Cursor's CLI, for tests and for `--sim`
    #[command(hide = true, disable_help_flag = true)]
    FakeCursorAgent {
        /// As `cursor-agent` takes them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
}

/// The error of a command: what went wrong, and what helps.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
struct Refusal {
    message: String,
    hints: Vec<String>,
    code: u8,
}

/// What clap exits with when a flag is wrong.
const USAGE: u8 = 2;

/// What a shell says of a program that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

impl Refusal {
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hints: Vec::new(), code: 1 }
    }

    /// All that is wrong with the settings, below one line that says so.
    fn settings(line: &str, problems: &[SettingProblem]) -> Self {
        let mut refusal = Self::new(line);
        for problem in problems {
            refusal.message.push_str(&format!("\n  {problem}"));
        }
        if problems.iter().any(|problem| matches!(problem.origin, SettingOrigin::Flag(_))) {
            refusal.code = USAGE;
        }
        refusal
    }

    /// The error of a command that cannot use its settings.
    fn invalid(problems: &[SettingProblem]) -> Self {
        let line = match problems.len() {
            1 => "1 setting is invalid".to_owned(),
            n => format!("{n} settings are invalid"),
        };
        Self::settings(&line, problems).hint("`ibeam config show` prints every setting")
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
}

/// Runs the program; the return value is its exit code.
#[must_use]
pub fn main() -> ExitCode {
    harden::harden();
    let cli = Cli::parse();
    let outcome = run(cli);
    telemetry::flush();
    match outcome {
        Ok(code) => code,
        Err(error) => {
            report(&error);
            error.downcast_ref::<Refusal>().map_or(ExitCode::FAILURE, |r| ExitCode::from(r.code))
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let Cli { global, command } = cli;
    match command {
        IbeamCommand::Up(up) => up.run(&global),
        IbeamCommand::Serve(serve) => serve.run(&global),
        IbeamCommand::Run(run) => run.run(&global),
        IbeamCommand::Start(start) => start.run(&global),
        IbeamCommand::Stop(stop) => stop.run(&global),
        IbeamCommand::Status(status) => status.run(),
        IbeamCommand::Detach { args } => Ok(detach(&args).map(|()| ExitCode::SUCCESS)?),
        IbeamCommand::Sim(sim) => sim.run(&global),
        IbeamCommand::Login(login) => login.run(&global),
        IbeamCommand::Logout(logout) => logout.run(&global),
        IbeamCommand::Whoami(whoami) => whoami.run(&global),
        IbeamCommand::Models(models) => models.run(&global).map(|()| ExitCode::SUCCESS),
        IbeamCommand::Keys(keys) => keys.run(&global).map(|()| ExitCode::SUCCESS),
        IbeamCommand::Setup(setup) => setup.run(&global),
        IbeamCommand::Undo(undo) => undo.run(&global),
        IbeamCommand::Mcp(mcp) => mcp.run(&global),
        IbeamCommand::Audit(audit) => audit.run(&global),
        IbeamCommand::Doctor(doctor) => doctor.run(&global),
        IbeamCommand::Probe(probe) => probe.run(&global),
        IbeamCommand::Replay(replay) => replay.run(),
        IbeamCommand::Config(config) => config.run(&global).map(|()| ExitCode::SUCCESS),
        IbeamCommand::Service(service) => service.run(&global),
        IbeamCommand::Completions(completions) => completions.run().map(|()| ExitCode::SUCCESS),
        IbeamCommand::Man(man) => man.run().map(|()| ExitCode::SUCCESS),
        IbeamCommand::FakeCursorAgent { args } => Ok(ibeam_sim::cursor_agent::main(args)),
    }
}

/// How long a thread for blocking work waits for more. Work goes to the thread that has waited
/// longest, so with a longer time all threads of a burst would stay, each with memory of its own.
const IDLE_THREAD: Duration = Duration::from_millis(50);

/// Runs a command's asynchronous part to its end.
fn block_on<T>(future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    // One type of future, so that the runtime's loop is not compiled for each command.
    let future: Pin<Box<dyn Future<Output = anyhow::Result<T>> + '_>> = Box::pin(future);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_keep_alive(IDLE_THREAD)
        .on_thread_park(memory::on_idle)
        .build()?;
    let result = runtime.block_on(future);
    // What still runs was asked to stop and waited for.
    runtime.shutdown_background();
    result
}

/// Refuses to continue without an account where one is needed. If no backend was chosen and
/// Cursor's API has no sign-in, the CLI's is used.
fn require_account(config: &mut Config) -> anyhow::Result<()> {
    if config.backend != Backend::Cursor {
        return Ok(());
    }
    if config.uses_cursor_agent() {
        return children::require_account(config);
    }
    if config.account.access_token.is_some() {
        return Ok(());
    }
    let here = LocalUser::of(config)?;
    let discovery = here.discover()?;
    match discovery.found {
        Some(_) => Ok(()),
        None if children::instead(config).is_some() => {
            config.named_backend = Some(Needs::CursorAgent.default_backend());
            Ok(())
        }
        None => Err(not_signed_in(&here, &discovery.refused).into()),
    }
}

/// The error without a sign-in, given the ones that were found and may not be used.
fn not_signed_in(here: &LocalUser, refused: &[RefusedCredential]) -> Refusal {
    let mut refusal = Refusal::new("you are not signed in to Cursor")
        .hint(format!("run `{}`", login_command(here.profile())));
    for refused in refused {
        refusal = refusal.hint(refused.to_string());
    }
    refusal
        .hint("or sign in to Cursor's CLI, if you have it: `ibeam login --backend cli`")
        .hint("or set CURSOR_ACCESS_TOKEN or CURSOR_API_KEY")
        .hint("or try everything without an account: `ibeam up --sim`")
}

fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    print(&serde_json::to_string_pretty(value)?)
}

/// Writes a line of data to stdout. A closed pipe is not an error.
fn print(text: &str) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(anyhow::Error::new(error).context("cannot write to stdout"))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// A message for the user. A failure to write it is ignored.
fn say(text: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}

/// What the user can do about a failure of the backend.
fn advice(error: &TurnError) -> Option<&'static str> {
    match error.code {
        // The message itself names the command, which depends on where the token is from.
        ErrorCode::ClientOutdated => Some("set a newer `client_version`"),
        ErrorCode::Unavailable | ErrorCode::UpstreamClosed | ErrorCode::Timeout => {
            Some("try again later; `ibeam up --sim` works without Cursor")
        }
        _ => None,
    }
}

fn report(error: &anyhow::Error) {
    let (red, cyan, end) = (STYLES.get_error(), STYLES.get_literal(), styling::Reset);
    let text = redact::text(&net::chain(error.as_ref())).trim_end().to_owned();
    say(&format!("{red}error{end}: {text}"));
    let hints = match error.downcast_ref::<Refusal>() {
        Some(refusal) => refusal.hints.clone(),
        None => hint(error).into_iter().map(Cow::into_owned).collect(),
    };
    for hint in hints {
        say(&format!("{cyan}hint{end}: {hint}"));
    }
}

fn hint(error: &anyhow::Error) -> Option<Cow<'static, str>> {
    if let Some(error) = error.downcast_ref::<StartError>() {
        return error.hint();
    }
    if error.downcast_ref::<ibeam_sim::ScenarioError>().is_some() {
        return Some("without `--scenario`, the built-in assistant answers".into());
    }
    error.downcast_ref::<TurnError>().and_then(advice).map(Cow::Borrowed)
}

const STYLES: styling::Styles = styling::Styles::styled()
    .header(styling::AnsiColor::Green.on_default().bold())
    .usage(styling::AnsiColor::Green.on_default().bold())
    .literal(styling::AnsiColor::Cyan.on_default().bold())
    .placeholder(styling::AnsiColor::Cyan.on_default())
    .error(styling::AnsiColor::Red.on_default().bold());

#[cfg(test)]
#[path = "cli_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "docs_tests.rs"]
mod docs_tests;
