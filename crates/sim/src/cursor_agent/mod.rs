//! A stand-in for Cursor's CLI: the same flags, output and quirks. Tests and
//! `ibeam up --sim --backend cli` start it in place of `cursor-agent`.
//!
//! Its answers come from the simulator's assistant or from a scenario file, so the same scenario
//! gives the same answers here, under ACP and over the agent interface. It really connects to the
//! MCP servers it is given; its own tools do nothing on the machine.
//!
//! # Switches
//!
//! `IBEAM_FAKE_AGENT_HOME` is the folder where it keeps conversations and counts; by default
//! one in the user's cache. `IBEAM_FAKE_AGENT` is a comma-separated list of switches. The last
//! column is the section of the protocol notes that describes the behaviour.
//!
//! | switch | effect | section |
//! |---|---|---|
//! | `scenario=FILE` | plays this scenario | |
//! | `home=DIR` | the folder, in place of the variable | |
//! | `set:NAME=VALUE` | a switch of the simulator; those that begin with `cli.` or `acp.` are about the CLI | |
//! | `slow:100ms` | waits after each piece of text | |
//! | `not-logged-in` | not signed in | §9.5 |
//! | `usage-limit` | the plan is used up | §9.5 |
//! | `trust-prompt` | asks about the folder unless `--trust` is given, and exits with 0 | §9.5 |
//! | `no-result` | exits with 0 and without a `result` line; under ACP, never answers | §9.4 |
//! | `error-result` | a failure also has a `result` line | §9.4 |
//! | `empty` | an answer with no text in it | §9.4 |
//! | `snapshots` | every `assistant` line has all text so far, and no time stamp | §9.4 |
//! | `no-partial` | does not know `--stream-partial-output` | §9.4 |
//! | `no-thinking` | prints no thinking | §9.4 |
//! | `repeat-text` | prints every piece of text twice, as part of the answer | §9.4 |
//! | `crlf` | lines end with `\r\n` | §9.4 |
//! | `noise` | some lines are not JSON | §9.4 |
//! | `ansi` | colour codes around everything | §9.5 |
//! | `huge-line` | one line of 8 MiB | §9.4 |
//! | `split-utf8` | characters come in two pieces | §9.4 |
//! | `old-names` | `BashToolCall`, `McpToolCall`, … | §9.4 |
//! | `own-tools` | tries its own tools before those of MCP servers | §9.4 |
//! | `mcp-timeout:5s` | gives up on a call of an MCP tool | §9.6 |
//! | `ask-mcp` | under ACP, asks before it calls an MCP tool | §9.6 |
//! | `acp-ignores-mcp` | under ACP, takes MCP servers from `.cursor/mcp.json` only | §9.6 |
//! | `hang` | prints nothing more after the first line | §9.5 |
//! | `crash-after:N` | a signal ends it after N lines | §9.5 |
//! | `zombie` | leaves a process behind that holds its pipes | §9.5 |
//! | `ignore-sigterm` | only SIGKILL ends it | §9.5 |
//! | `exit-1:TEXT` | prints the text on stderr and exits with 1; takes the rest of the list | §9.5 |

mod acp;
mod args;
mod context;
mod mcp;
mod messages;
mod output;
mod permissions;
mod print;
mod state_dir;
mod switches;
mod tool_calls;
mod toolbox;
mod turn;

use std::{
    ffi::OsString,
    io::{self, BufRead as _, Read as _, Write as _},
    path::PathBuf,
    process::{ExitCode, Stdio},
};

use tokio::sync::mpsc;

use self::{
    args::{CliArgs, CliCommand},
    context::FakeAgent,
    output::{OutputHalt, OutputLines},
    print::AgentStop,
    switches::{FakeSwitch, FakeSwitches},
};

/// A version in the format of the real ones.
const VERSION: &str = "2026.01.09-231024f";
/// The longest prompt that is read.
const PROMPT_CAP: u64 = 256 * 1024 * 1024;

/// The longest line that is read, and how many lines are buffered.
const LINE_CAP: u64 = 64 * 1024 * 1024;
const LINES_CAP: usize = 16;

/// Runs the stand-in with these arguments, without the program's own name.
#[must_use]
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let outcome = prepare(args).and_then(|(fake, args)| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| AgentStop::Words(error.to_string()))?;
        runtime.block_on(run(fake, args))
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(AgentStop::Words(words)) => {
            print_error(&words);
            ExitCode::FAILURE
        }
        Err(AgentStop::Halt(OutputHalt::Gone)) => ExitCode::FAILURE,
        Err(AgentStop::Halt(OutputHalt::Crash)) => std::process::abort(),
    }
}

/// Serves ACP in this process, for tests: lines go in and come out, `words` are the switches of
/// `IBEAM_FAKE_AGENT`.
///
/// # Errors
/// What the program would write to stderr before it exits with 1.
pub async fn serve_acp(
    words: &str,
    home: PathBuf,
    input: mpsc::Receiver<Vec<u8>>,
    output: Box<dyn io::Write + Send>,
) -> Result<(), String> {
    let fake = FakeAgent::new(FakeSwitches::parse(words)?, home)?;
    let lines = OutputLines::new(output, &fake.switches);
    match acp::serve(fake, &CliArgs::default(), input, lines).await {
        Ok(()) => Ok(()),
        Err(AgentStop::Words(words)) => Err(words),
        Err(AgentStop::Halt(halt)) => Err(format!("{halt:?}")),
    }
}

fn prepare(args: impl IntoIterator<Item = OsString>) -> Result<(FakeAgent, CliArgs), AgentStop> {
    let mut args = CliArgs::parse(args).map_err(AgentStop::Words)?;
    let env = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let key = || env("CURSOR_API_KEY").or_else(|| env("CURSOR_AUTH_TOKEN"));
    args.api_key = args.api_key.or_else(key);
    let switches = FakeSwitches::parse(&env("IBEAM_FAKE_AGENT").unwrap_or_default())?;
    let home = switches.home.clone().or_else(|| env("IBEAM_FAKE_AGENT_HOME").map(PathBuf::from));
    // Not in a folder that another user could create first, to read conversations.
    let cache = || {
        let home = || Some(PathBuf::from(env("HOME")?).join(".cache"));
        env("XDG_CACHE_HOME").map(PathBuf::from).or_else(home)
    };
    let home = home.or_else(|| Some(cache()?.join("ibeam").join("fake-agent")));
    let home = home.unwrap_or_else(|| std::env::temp_dir().join("ibeam-fake-agent"));
    Ok((FakeAgent::new(switches, home)?, args))
}

async fn run(fake: FakeAgent, args: CliArgs) -> Result<(), AgentStop> {
    let mut lines = OutputLines::new(Box::new(io::stdout()), &fake.switches);
    let key = args.api_key.as_deref();
    let text = match args.command {
        CliCommand::Agent => return agent(&fake, &args, &mut lines).await,
        CliCommand::Acp => return serve(fake, &args, lines).await,
        CliCommand::Version => format!("{VERSION}\n"),
        CliCommand::Help => messages::HELP.to_owned(),
        CliCommand::Models if !fake.signed_in(key) => {
            return Err(messages::NOT_LOGGED_IN.to_owned().into());
        }
        CliCommand::Models => messages::models(),
        CliCommand::Status => messages::status(&fake, key, args.json_status),
        CliCommand::About => messages::about(&fake, key),
        CliCommand::Ls => messages::chats(&fake),
        CliCommand::Login | CliCommand::Logout => {
            let on = args.command == CliCommand::Login;
            fake.home.sign(on).map_err(|error| error.to_string())?;
            if on { messages::status(&fake, key, false) } else { "Logged out\n".to_owned() }
        }
        CliCommand::CreateChat => {
            let id = fake.home.new_id().map_err(|error| error.to_string())?;
            let chat = state_dir::StoredChat { id: id.clone(), ..state_dir::StoredChat::default() };
            fake.home.keep(&chat).map_err(|error| error.to_string())?;
            format!("{id}\n")
        }
        CliCommand::Mcp => servers(&fake, &args).await?,
        CliCommand::Update => "Already up to date\n".to_owned(),
    };
    lines.text(&coloured(&fake, &text))?;
    Ok(())
}

/// Answers a prompt from the command line, or else from stdin.
async fn agent(fake: &FakeAgent, args: &CliArgs, lines: &mut OutputLines) -> Result<(), AgentStop> {
    let _sigterm = apply_process_switches(fake)?;
    if !fake.signed_in(args.api_key.as_deref()) {
        return Err(messages::NOT_LOGGED_IN.to_owned().into());
    }
    if fake.switches.has(&FakeSwitch::TrustPrompt) && !args.trust {
        return Ok(lines.text(messages::TRUST_PROMPT)?);
    }
    let mut prompt = args.words.join(" ");
    if prompt.is_empty() {
        let read = io::stdin().lock().take(PROMPT_CAP).read_to_string(&mut prompt);
        read.map_err(|error| error.to_string())?;
    }
    if prompt.trim().is_empty() {
        return Err("Error: No prompt provided for print mode".to_owned().into());
    }
    print::print(fake, args, prompt, lines).await
}

async fn serve(fake: FakeAgent, args: &CliArgs, lines: OutputLines) -> Result<(), AgentStop> {
    let _sigterm = apply_process_switches(&fake)?;
    let (tx, input) = mpsc::channel(LINES_CAP);
    // A thread of its own: a read of stdin may never end, and nothing waits for it.
    std::thread::spawn(move || {
        let mut stdin = io::stdin().lock();
        loop {
            let mut line = Vec::new();
            let read = (&mut stdin).take(LINE_CAP).read_until(b'\n', &mut line);
            if !matches!(read, Ok(1..)) || tx.blocking_send(line).is_err() {
                return;
            }
        }
    });
    acp::serve(fake, args, input, lines).await
}

/// `mcp list` and `mcp list-tools NAME`.
async fn servers(fake: &FakeAgent, args: &CliArgs) -> Result<String, AgentStop> {
    let folder = workspace(args)?;
    let known = mcp::from_workspace(&folder)?;
    let mut words = args.words.iter().map(String::as_str);
    match (words.next(), words.next()) {
        (Some("list") | None, _) => {
            Ok(known.iter().map(|server| format!("{}: configured\n", server.name())).collect())
        }
        (Some("list-tools"), Some(name)) => {
            let chosen: Vec<_> = known.into_iter().filter(|server| server.name() == name).collect();
            let (open, failed) = fake.connect(&chosen).await;
            if let Some(words) = failed.into_iter().next() {
                return Err(words.into());
            }
            let offers = open.iter().flat_map(|(_, offers)| offers);
            Ok(offers.map(|offer| format!("{}\n", offer.name)).collect())
        }
        (Some("enable" | "login"), Some(name)) => {
            let chosen = known.iter().filter(|server| server.name() == name);
            let keys = chosen.map(|server| server.approval_key(&folder)).collect();
            fake.home.approve(keys).map_err(|error| error.to_string())?;
            Ok(format!("{name}: enabled\n"))
        }
        _ => Err("error: unknown command".to_owned().into()),
    }
}

/// The folder it works in.
///
/// # Errors
/// It does not exist.
fn workspace(args: &CliArgs) -> Result<PathBuf, String> {
    let folder = match &args.workspace {
        Some(folder) => PathBuf::from(folder),
        None => std::env::current_dir().map_err(|error| error.to_string())?,
    };
    folder.canonicalize().map_err(|error| format!("Error: {}: {error}", folder.display()))
}

/// Applies the switches that are about the process itself.
#[cfg(unix)]
fn apply_process_switches(fake: &FakeAgent) -> Result<impl Sized + use<>, String> {
    use tokio::signal::unix::{SignalKind, signal};
    if fake.behaviour.cli_worker_stdout {
        // A worker in the same process group, with our stdout.
        std::process::Command::new("sleep")
            .arg("30")
            .stdin(Stdio::null())
            .spawn()
            .map_err(|error| format!("sleep: {error}"))?;
    }
    if fake.switches.has(&FakeSwitch::Zombie) {
        // In its own session, and with our stdout and stderr.
        std::process::Command::new("setsid")
            .args(["sleep", "60"])
            .stdin(Stdio::null())
            .spawn()
            .map_err(|error| format!("setsid: {error}"))?;
    }
    let ignore = fake.switches.has(&FakeSwitch::IgnoreSigterm);
    ignore.then(|| signal(SignalKind::terminate())).transpose().map_err(|error| error.to_string())
}

#[cfg(not(unix))]
fn apply_process_switches(fake: &FakeAgent) -> Result<impl Sized + use<>, String> {
    let unix = [FakeSwitch::Zombie, FakeSwitch::IgnoreSigterm];
    match unix.iter().any(|switch| fake.switches.has(switch)) {
        true => Err("IBEAM_FAKE_AGENT: `zombie` and `ignore-sigterm` work on Unix only".to_owned()),
        false => Ok(()),
    }
}

fn coloured(fake: &FakeAgent, text: &str) -> String {
    if !fake.switches.has(&FakeSwitch::Ansi) {
        return text.to_owned();
    }
    text.lines().map(|line| format!("\x1b[2K\x1b[1;32m{line}\x1b[0m\n")).collect()
}

/// Prints a warning on stderr.
fn warn(fake: &FakeAgent, words: &str) {
    print_error(coloured(fake, words).trim_end());
}

/// An error while writing it is ignored: nothing else can report it.
fn print_error(words: &str) {
    let _ = writeln!(io::stderr().lock(), "{words}");
}
